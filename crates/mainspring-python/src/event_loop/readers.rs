//! `add_reader()`, `remove_reader()`, `add_writer()`, `remove_writer()`.

use super::NativeLoop;
use super::host::{PyHost, Watch};
use crate::errors::os_error;
use crate::python::object::{Obj, is_same};
use mainspring_engine::{Direction, Engine, GcReference};
use pyo3::exceptions::{PyAttributeError, PyOverflowError, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyInt, PyTuple};
use std::io;
use std::os::fd::RawFd;

/// Watches a file descriptor in one direction. Returns the handle of the callback.
pub fn add(
    event_loop: &Bound<'_, NativeLoop>,
    fd: &Bound<'_, PyAny>,
    direction: Direction,
    callback: &Bound<'_, PyAny>,
    args: &Bound<'_, PyTuple>,
) -> PyResult<Py<PyAny>> {
    let py = event_loop.py();
    let native = event_loop.get();
    native.check_closed()?;
    let file = (!fd.is_instance_of::<PyInt>()).then(|| Obj::from(fd));
    let fd = file_descriptor(fd)?;
    check_no_transport(py, native.engine(), fd)?;
    let handle = NativeLoop::new_handle(event_loop, callback, args)?;
    let watch = Watch { handle: handle.clone(), file };
    let replaced = match native.engine().watch(fd, direction, watch) {
        Ok(replaced) => replaced,
        Err(error) => return Err(watch_error(py, native.engine(), fd, error)?),
    };
    if let Some(replaced) = replaced {
        replaced.cancel(py)?;
    }
    Ok(handle.as_obj().bind(py).unbind())
}

/// Ends the watch in one direction. Returns whether there was one.
pub fn remove(
    event_loop: &Bound<'_, NativeLoop>,
    fd: &Bound<'_, PyAny>,
    direction: Direction,
) -> PyResult<bool> {
    let py = event_loop.py();
    let native = event_loop.get();
    if native.engine().is_closed() {
        return Ok(false);
    }
    let fd = match file_descriptor(fd) {
        Ok(fd) => fd,
        // The number is too large for an open file descriptor, so it is not watched.
        Err(error) if error.is_instance_of::<PyOverflowError>(py) => return Ok(false),
        Err(error) if error.is_instance_of::<PyValueError>(py) => {
            watched_descriptor(native.engine(), fd).ok_or(error)?
        }
        Err(error) => return Err(error),
    };
    check_no_transport(py, native.engine(), fd)?;
    match native.engine().unwatch(fd, direction) {
        Ok(Some(watch)) => watch.cancel(py).map(|()| true),
        Ok(None) => Ok(false),
        Err(error) => Err(watch_error(py, native.engine(), fd, error)?),
    }
}

/// Raises `RuntimeError` if a transport that is not closing uses the file descriptor.
pub fn ensure_no_transport(native: &NativeLoop, fd: &Bound<'_, PyAny>) -> PyResult<()> {
    match file_number(fd)?.extract() {
        Ok(number) => check_no_transport_named(native.engine(), number, fd),
        // The number is too large for a file descriptor.
        Err(_) => Ok(()),
    }
}

/// As [`ensure_no_transport`], for a number.
pub fn check_no_transport(py: Python<'_>, engine: &Engine<PyHost>, fd: RawFd) -> PyResult<()> {
    check_no_transport_named(engine, fd, fd.into_pyobject(py)?.as_any())
}

/// asyncio's exception names the transport. A transport that is closing and not registered any more loses the file
/// descriptor.
fn check_no_transport_named(engine: &Engine<PyHost>, fd: RawFd, name: &Bound<'_, PyAny>) -> PyResult<()> {
    let owner = engine.owner_of(fd).and_then(|owner| owner.bind(name.py()));
    let Some(owner) = owner else { return Ok(()) };
    if owner.call_method0("is_closing")?.is_truthy()? {
        engine.forget_owner(fd);
        return Ok(());
    }
    let (name, owner) = (name.repr()?, owner.repr()?);
    Err(PyRuntimeError::new_err(format!("File descriptor {name} is used by transport {owner}")))
}

/// The file descriptor that was watched through a file object, which may be closed by now.
fn watched_descriptor(engine: &Engine<PyHost>, file: &Bound<'_, PyAny>) -> Option<RawFd> {
    let mut found = None;
    engine.for_each_registered(&mut |fd, _, held| {
        if let GcReference::Watch(Watch { file: Some(watched), .. }) = held
            && is_same(watched, file)
        {
            found = Some(fd);
        }
    });
    found
}

/// The exception for a file descriptor that cannot be watched: a transport uses it, or the system refuses.
pub fn watch_error(py: Python<'_>, engine: &Engine<PyHost>, fd: RawFd, error: io::Error) -> PyResult<PyErr> {
    if error.kind() != io::ErrorKind::ResourceBusy || error.raw_os_error().is_some() {
        return Ok(os_error(py, error));
    }
    let owner = match engine.source_of(fd) {
        Some(owner) => format!("transport {}", owner.bind(py).repr()?),
        // A listener that has paused is not registered, so its object is unknown.
        None => "a server".to_owned(),
    };
    Ok(PyRuntimeError::new_err(format!("File descriptor {fd} is used by {owner}")))
}

/// The number that is given, or that `fileno()` of the object returns; asyncio's exceptions for everything else.
fn file_number<'py>(object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    if object.is_instance_of::<PyInt>() {
        return Ok(object.clone());
    }
    let py = object.py();
    let number = object.call_method0("fileno").and_then(|number| py.get_type::<PyInt>().call1((number,)));
    number.or_else(|error| {
        if error.is_instance_of::<PyAttributeError>(py)
            || error.is_instance_of::<PyTypeError>(py)
            || error.is_instance_of::<PyValueError>(py)
        {
            return Err(PyValueError::new_err(format!("Invalid file object: {}", object.repr()?)));
        }
        Err(error)
    })
}

/// The file descriptor of a number or of an object with `fileno()`.
pub fn file_descriptor(object: &Bound<'_, PyAny>) -> PyResult<RawFd> {
    let number = file_number(object)?;
    if number.lt(0)? {
        return Err(PyValueError::new_err(format!("Invalid file descriptor: {number}")));
    }
    number.extract()
}
