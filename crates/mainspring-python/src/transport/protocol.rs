//! A Python protocol object, as the engine's stream transport sees it.
//!
//! Methods are looked up by name at each call, as asyncio does, so a method that is replaced on the protocol is seen.
//! TLS of our own is no Python protocol: it is told directly.

use crate::event_loop::host::PyHost;
use crate::names::{Names, names};
use crate::python::object::Obj;
use crate::tls;
use crate::transport::channel::{PyChunk, bytes_object};
use mainspring_engine::transport::{Claim, Cx, Upper};
use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyString;
use std::cell::{Cell, RefCell};
use std::ffi::CStr;
use std::io;

/// A protocol and what belongs to its connection.
pub struct PyUpper {
    names: &'static Names,
    protocol: RefCell<Option<Obj>>,
    is_buffered: Cell<bool>,
    /// Whether the protocol is our own TLS.
    is_tls: Cell<bool>,
    /// The `asyncio.Server` that accepted the connection, until the connection is gone.
    server: RefCell<Option<Obj>>,
}

fn attached<'py>() -> Python<'py> {
    // SAFETY: the engine runs only on threads that are attached.
    unsafe { Python::assume_attached() }
}

impl PyUpper {
    pub fn new(py: Python<'_>, server: Option<Obj>) -> PyResult<Self> {
        Ok(PyUpper {
            names: names(py)?,
            protocol: RefCell::new(None),
            is_buffered: Cell::new(false),
            is_tls: Cell::new(false),
            server: RefCell::new(server),
        })
    }

    pub fn set_protocol(&self, protocol: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = protocol.py();
        self.is_buffered.set(protocol.is_instance(self.names.buffered_protocol.bind(py))?);
        let protocol: Obj = protocol.clone().into();
        self.is_tls.set(tls::is_tls_protocol(py, &protocol)?);
        let former = self.protocol.borrow_mut().replace(protocol);
        drop(former);
        Ok(())
    }

    pub fn protocol(&self) -> Option<Obj> {
        self.protocol.borrow().clone()
    }

    /// Shows what is held to the garbage collector.
    pub fn for_each_held(&self, show: &mut dyn FnMut(&Obj)) {
        for held in [&self.protocol, &self.server] {
            if let Ok(held) = held.try_borrow()
                && let Some(object) = &*held
            {
                show(object);
            }
        }
    }

    /// The server, if there is one, no longer waits for the end of `transport`.
    pub fn leave_server(&self, py: Python<'_>, transport: &Obj) -> PyResult<()> {
        let server = self.server.borrow_mut().take();
        server.map_or(Ok(()), |server| crate::stream::leave_server(py, &server, transport))
    }

    /// Lets go of what the collector was shown.
    pub fn clear(&self) {
        let protocol = self.protocol.borrow_mut().take();
        let server = self.server.borrow_mut().take();
        drop((protocol, server));
    }

    /// The protocol if it is our own TLS.
    fn tls(&self) -> Option<Obj> {
        if self.is_tls.get() { self.protocol() } else { None }
    }

    /// Calls a method of the protocol's, looked up now.
    pub fn call<const N: usize>(
        &self,
        name: &Py<PyString>,
        arguments: [*mut ffi::PyObject; N],
    ) -> PyResult<Obj> {
        let py = attached();
        let Some(protocol) = self.protocol() else {
            return Err(PyRuntimeError::new_err("the transport has no protocol"));
        };
        let mut all = [protocol.as_ptr(); 3];
        for (place, argument) in all.iter_mut().skip(1).zip(arguments) {
            *place = argument;
        }
        // SAFETY: the receiver and at most two arguments, all live objects for the length of the call.
        unsafe {
            let arguments = all.get(..=N).unwrap_or(&all);
            Obj::from_method_call(py, name, arguments)
        }
    }
}

impl Upper<PyHost> for PyUpper {
    fn connection_made(&self, cx: Cx<'_, PyHost>) -> PyResult<()> {
        self.call(&self.names.connection_made, [cx.this.as_ptr()]).map(drop)
    }

    fn is_buffered(&self) -> bool {
        self.is_buffered.get()
    }

    fn data_received(&self, _: Cx<'_, PyHost>, data: &[u8]) -> PyResult<()> {
        let py = attached();
        let bytes = bytes_object(py, data)?;
        self.call(&self.names.data_received, [bytes.as_ptr()]).map(drop)
    }

    fn chunk_received(&self, cx: Cx<'_, PyHost>, chunk: PyChunk, skip: usize) -> PyResult<()> {
        match &chunk {
            PyChunk::Bytes(bytes) if skip == 0 => {
                self.call(&self.names.data_received, [bytes.as_ptr()]).map(drop)
            }
            _ => self.data_received(cx, chunk.as_ref().get(skip..).unwrap_or_default()),
        }
    }

    fn receive_into(&self, _: Cx<'_, PyHost>, claim: Claim<'_>) -> PyResult<io::Result<usize>> {
        let py = attached();
        if let Some(tls) = self.tls() {
            return tls::receive(py, &tls, claim);
        }
        // SAFETY: always allowed.
        let hint = unsafe { Obj::from_call(py, ffi::PyLong_FromLong(-1))? };
        let target = self.call(&self.names.get_buffer, [hint.as_ptr()])?;
        // asyncio asks for len() first: an object without a length, or of length zero, is get_buffer()'s failure.
        // SAFETY: a live object.
        match unsafe { ffi::PyObject_Size(target.as_ptr()) } {
            ..0 => return Err(PyErr::fetch(py)),
            0 => return Err(PyRuntimeError::new_err("get_buffer() returned an empty buffer")),
            1.. => {}
        }
        let mut view = ffi::Py_buffer::new();
        // SAFETY: the view is filled by the interpreter, or an exception is set; it is released below, and keeps
        // the memory in place until then. A length of zero may come with a null pointer, hence the check before
        // the slice is made. `claim` is the engine's recv: it runs no Python.
        unsafe {
            if ffi::PyObject_GetBuffer(target.as_ptr(), &mut view, ffi::PyBUF_WRITABLE) != 0 {
                return Ok(Err(io::Error::other(no_buffer(py, &target))));
            }
            if view.len <= 0 {
                ffi::PyBuffer_Release(&mut view);
                return Ok(Ok(0)); // as recv_into() does
            }
            let received = claim(std::slice::from_raw_parts_mut(view.buf.cast::<u8>(), view.len as usize));
            ffi::PyBuffer_Release(&mut view);
            Ok(received)
        }
    }

    fn buffer_updated(&self, _: Cx<'_, PyHost>, filled: usize) -> PyResult<()> {
        let py = attached();
        if let Some(tls) = self.tls() {
            return tls::received(py, &tls);
        }
        // SAFETY: always allowed.
        let filled = unsafe { Obj::from_call(py, ffi::PyLong_FromSize_t(filled))? };
        self.call(&self.names.buffer_updated, [filled.as_ptr()]).map(drop)
    }

    fn eof_received(&self, cx: Cx<'_, PyHost>) -> PyResult<bool> {
        cx.engine.host().note(cx.this, "received EOF")?;
        if let Some(tls) = self.tls() {
            return tls::eof_received(attached(), &tls);
        }
        self.call(&self.names.eof_received, [])?.bind(attached()).is_truthy()
    }

    fn connection_lost(&self, _: Cx<'_, PyHost>, error: Option<PyErr>) -> PyResult<()> {
        let py = attached();
        if let Some(tls) = self.tls() {
            return tls::connection_lost(py, &tls, error);
        }
        let error = error
            .map_or_else(|| py.None().into_bound(py), |error| error.into_value(py).into_bound(py).into_any());
        self.call(&self.names.connection_lost, [error.as_ptr()]).map(drop)
    }

    fn pause_writing(&self, _: Cx<'_, PyHost>) -> PyResult<()> {
        match self.tls() {
            Some(tls) => tls::pause_writing(attached(), &tls),
            None => self.call(&self.names.pause_writing, []).map(drop),
        }
    }

    fn resume_writing(&self, _: Cx<'_, PyHost>) -> PyResult<()> {
        match self.tls() {
            Some(tls) => tls::resume_writing(attached(), &tls),
            None => self.call(&self.names.resume_writing, []).map(drop),
        }
    }

    fn drained(&self, cx: Cx<'_, PyHost>) -> PyResult<()> {
        cx.this.bind(attached()).call_method0(&self.names._drained).map(drop)
    }

    fn detach(&self, cx: Cx<'_, PyHost>) -> PyResult<()> {
        let py = attached();
        let protocol = self.protocol.borrow_mut().take();
        drop(protocol);
        self.leave_server(py, cx.this)
    }
}

/// What `socket.recv_into()` says of an object that is no writable buffer, whatever the interpreter has raised.
#[cold]
fn no_buffer(py: Python<'_>, target: &Obj) -> PyErr {
    drop(PyErr::take(py));
    // SAFETY: a live object, whose class lives as long and has a name that ends with a zero.
    let name = unsafe { CStr::from_ptr((*ffi::Py_TYPE(target.as_ptr())).tp_name) }.to_string_lossy();
    PyTypeError::new_err(format!(
        "recv_into() argument 1 must be read-write bytes-like object, not {name:.50}"
    ))
}
