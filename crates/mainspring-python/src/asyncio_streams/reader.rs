//! `Reader`: the state of a stream's reader, in the attributes that asyncio defines.
//!
//! A `Reader` borrows nothing: Python code that runs meanwhile may change every attribute.

use super::classes::StreamClasses;
use crate::names::{Names, names};
use crate::python::instance_dict::InstanceDict;
use crate::python::object::Obj;
use crate::python::stream_buffer::StreamBuffer;
use pyo3::exceptions::{PyAttributeError, PyNotImplementedError};
use pyo3::prelude::*;
use pyo3::types::PyString;

/// The number of attributes of an unmodified reader, outside debug mode.
const ATTRIBUTES: usize = 8;

/// See the module comment.
pub struct Reader<'py> {
    py: Python<'py>,
    pub names: &'static Names,
    attributes: InstanceDict,
}

impl<'py> Reader<'py> {
    /// `None` if the object is not a reader of our class, or if a method was replaced in the class or on the instance.
    #[inline]
    pub fn of(py: Python<'py>, object: &Obj) -> PyResult<Option<Self>> {
        if !StreamClasses::get(py)?.reader.is_native(py, object)? {
            return Ok(None);
        }
        let reader = Reader { py, names: names(py)?, attributes: InstanceDict::of(py, object)? };
        let has_replaced_method =
            reader.attributes.len() > ATTRIBUTES && reader.has_method_on_instance(reader.names)?;
        Ok((!has_replaced_method).then_some(reader))
    }

    /// Whether one of the methods that native code replaces is an attribute of the instance.
    #[cold]
    fn has_method_on_instance(&self, names: &Names) -> PyResult<bool> {
        let methods = [
            &names._maybe_resume_transport,
            &names._wait_for_data,
            &names._wakeup_waiter,
            &names.exception,
            &names.feed_data,
            &names.read,
            &names.readexactly,
            &names.readline,
            &names.readuntil,
        ];
        for method in methods {
            if self.attributes.contains(self.py, method)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// An attribute; `AttributeError` if Python code has deleted it.
    #[inline]
    fn get(&self, name: &Py<PyString>) -> PyResult<Obj> {
        self.attributes.get(self.py, name)?.ok_or_else(|| missing(self.py, name))
    }

    #[inline]
    fn set(&self, name: &Py<PyString>, value: &Obj) -> PyResult<()> {
        self.attributes.set(self.py, name, value)
    }

    #[inline]
    fn is_true(&self, name: &Py<PyString>) -> PyResult<bool> {
        self.get(name)?.is_true(self.py)
    }

    /// `None` if the buffer is not a plain `bytearray`.
    #[inline]
    pub fn buffer(&self) -> PyResult<Option<StreamBuffer>> {
        Ok(StreamBuffer::from_exact(self.get(&self.names._buffer)?))
    }

    /// `None` if the limit is not an `int` of usual size.
    #[inline]
    pub fn limit(&self) -> PyResult<Option<usize>> {
        Ok(self.get(&self.names._limit)?.to_usize(self.py).ok())
    }

    #[inline]
    pub fn has_exception(&self) -> PyResult<bool> {
        Ok(!self.get(&self.names._exception)?.is_none())
    }

    #[inline]
    pub fn is_at_eof(&self) -> PyResult<bool> {
        self.is_true(&self.names._eof)
    }

    /// The next `count` bytes. The transport resumes reading if it was paused and the rest is within the limit.
    #[inline]
    pub fn take(&self, buffer: &StreamBuffer, count: usize) -> PyResult<Obj> {
        let taken = buffer.take(self.py, count)?;
        if self.is_true(&self.names._paused)? {
            self.resume_if_below_limit(buffer.len())?;
        }
        Ok(taken.into())
    }

    /// Called if reading is paused.
    #[cold]
    pub fn resume_if_below_limit(&self, buffered: usize) -> PyResult<()> {
        // The limit can be a number of any type.
        let limit = self.get(&self.names._limit)?;
        if Obj::int(self.py, buffered)?.bind(self.py).le(limit.bind(self.py))? {
            self.resume_reading()?;
        }
        Ok(())
    }

    #[cold]
    fn resume_reading(&self) -> PyResult<()> {
        self.set(&self.names._paused, &Obj::bool(false))?;
        let transport = self.get(&self.names._transport)?;
        transport.call_method(self.py, &self.names.resume_reading, []).map(drop)
    }

    /// Begins to wait for data: returns the future, which is also in `_waiter`. `None` if asyncio's method would not wait.
    #[inline]
    pub fn wait(&self) -> PyResult<Option<Obj>> {
        if !self.get(&self.names._waiter)?.is_none() || self.is_at_eof()? {
            return Ok(None);
        }
        // Waiting while reading is paused would never end.
        if self.is_true(&self.names._paused)? {
            self.resume_reading()?;
        }
        let event_loop = self.get(&self.names._loop)?;
        let waiter = event_loop.call_method(self.py, &self.names.create_future, [])?;
        self.set(&self.names._waiter, &waiter)?;
        Ok(Some(waiter))
    }

    /// Ends the wait.
    #[inline]
    pub fn wake(&self) -> PyResult<()> {
        let waiter = self.get(&self.names._waiter)?;
        if waiter.is_none() {
            return Ok(());
        }
        let none = Obj::none();
        self.set(&self.names._waiter, &none)?;
        if !waiter.call_method(self.py, &self.names.cancelled, [])?.is_true(self.py)? {
            waiter.call_method(self.py, &self.names.set_result, [&none])?;
        }
        Ok(())
    }

    /// The transport stops reading if more than twice the limit is buffered.
    #[inline]
    pub fn pause_if_full(&self, buffered: usize, limit: usize) -> PyResult<()> {
        if buffered > limit.saturating_mul(2) { self.pause_reading() } else { Ok(()) }
    }

    #[cold]
    fn pause_reading(&self) -> PyResult<()> {
        let transport = self.get(&self.names._transport)?;
        if transport.is_none() || self.is_true(&self.names._paused)? {
            return Ok(());
        }
        match transport.call_method(self.py, &self.names.pause_reading, []) {
            Ok(_) => self.set(&self.names._paused, &Obj::bool(true)),
            // As in asyncio: a transport that cannot be paused is forgotten, and all data is buffered.
            Err(error) if error.is_instance_of::<PyNotImplementedError>(self.py) => {
                self.set(&self.names._transport, &Obj::none())
            }
            Err(error) => Err(error),
        }
    }
}

#[cold]
fn missing(py: Python<'_>, name: &Py<PyString>) -> PyErr {
    PyAttributeError::new_err(format!("'StreamReader' object has no attribute '{}'", name.bind(py)))
}
