//! `PyProtocol`: a Python protocol object, as the engine's transports call it.
//!
//! As in asyncio, methods are looked up by name at each call, so a method that is replaced on the protocol takes effect.
//! If the protocol is an `SSLProtocol` of this module, it is called directly, without Python. If it is a stream's protocol,
//! received bytes go to its reader without Python.

use super::write_data::PyChunk;
use crate::asyncio_streams::{self, StreamClasses};
use crate::event_loop::host::PyHost;
use crate::names::{Names, names};
use crate::python::buffer::with_writable;
use crate::python::bytes::Bytes;
use crate::python::interpreter::attached;
use crate::python::object::Obj;
use crate::stream;
use crate::tls;
use mainspring_engine::transport::{Cx, ProtocolSink, RecvFn};
use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::PyString;
use std::cell::{Cell, RefCell};
use std::io;

/// See the module comment.
pub struct PyProtocol {
    names: &'static Names,
    protocol: RefCell<Option<Obj>>,
    is_buffered: Cell<bool>,
    /// Whether the protocol is an `SSLProtocol` of this module.
    is_tls: Cell<bool>,
    /// Whether the protocol is a `StreamReaderProtocol` with the class of `mainspring._streams`.
    is_stream: Cell<bool>,
    /// The `asyncio.Server` that accepted the connection, until the connection is lost.
    server: RefCell<Option<Obj>>,
}

impl PyProtocol {
    pub fn new(py: Python<'_>, server: Option<Obj>) -> PyResult<Self> {
        Ok(PyProtocol {
            names: names(py)?,
            protocol: RefCell::new(None),
            is_buffered: Cell::new(false),
            is_tls: Cell::new(false),
            is_stream: Cell::new(false),
            server: RefCell::new(server),
        })
    }

    pub fn set_protocol(&self, protocol: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = protocol.py();
        asyncio_streams::adopt(py, protocol)?;
        self.is_buffered.set(protocol.is_instance(self.names.buffered_protocol.bind(py))?);
        let protocol: Obj = protocol.clone().into();
        self.is_tls.set(tls::is_tls_protocol(py, &protocol)?);
        self.is_stream.set(StreamClasses::get(py)?.is_stream_protocol(&protocol));
        let former = self.protocol.borrow_mut().replace(protocol);
        drop(former);
        Ok(())
    }

    pub fn protocol(&self) -> Option<Obj> {
        self.protocol.borrow().clone()
    }

    pub fn traverse(&self, visit: &mut dyn FnMut(&Obj)) {
        for cell in [&self.protocol, &self.server] {
            if let Ok(object) = cell.try_borrow() {
                object.iter().for_each(&mut *visit);
            }
        }
    }

    /// Detaches `transport` from its server, which then does not wait for its end any more.
    pub fn leave_server(&self, py: Python<'_>, transport: &Obj) -> PyResult<()> {
        let server = self.server.borrow_mut().take();
        server.map_or(Ok(()), |server| stream::detach_from_server(py, &server, transport))
    }

    /// Drops the references that can be part of a cycle.
    pub fn clear(&self) {
        let protocol = self.protocol.borrow_mut().take();
        let server = self.server.borrow_mut().take();
        drop((protocol, server));
    }

    /// The protocol, if it is an `SSLProtocol` of this module.
    fn tls(&self) -> Option<Obj> {
        if self.is_tls.get() { self.protocol() } else { None }
    }

    /// Passes bytes to the reader of a stream's protocol; `false` if `data_received()` has to be called.
    #[inline]
    fn feed_stream(&self, data: &[u8]) -> PyResult<bool> {
        match self.is_stream.get().then(|| self.protocol()).flatten() {
            Some(protocol) => asyncio_streams::feed(attached(), &protocol, data),
            None => Ok(false),
        }
    }

    /// Calls a method of the protocol.
    #[inline]
    pub fn call<const N: usize>(&self, name: &Py<PyString>, args: [&Obj; N]) -> PyResult<Obj> {
        match self.protocol() {
            Some(protocol) => protocol.call_method(attached(), name, args),
            None => Err(PyRuntimeError::new_err("the transport has no protocol")),
        }
    }
}

impl ProtocolSink<PyHost> for PyProtocol {
    fn connection_made(&self, cx: Cx<'_, PyHost>) -> PyResult<()> {
        self.call(&self.names.connection_made, [cx.this]).map(drop)
    }

    fn is_buffered(&self) -> bool {
        self.is_buffered.get()
    }

    fn data_received(&self, _: Cx<'_, PyHost>, data: &[u8]) -> PyResult<()> {
        if self.feed_stream(data)? {
            return Ok(());
        }
        let bytes = Bytes::new(attached(), data)?;
        self.call(&self.names.data_received, [bytes.as_obj()]).map(drop)
    }

    fn chunk_received(&self, cx: Cx<'_, PyHost>, chunk: PyChunk, skip: usize) -> PyResult<()> {
        match &chunk {
            PyChunk::Bytes(bytes) if skip == 0 => {
                if self.feed_stream(bytes.as_ref())? {
                    return Ok(());
                }
                self.call(&self.names.data_received, [bytes.as_obj()]).map(drop)
            }
            _ => self.data_received(cx, chunk.as_ref().get(skip..).unwrap_or_default()),
        }
    }

    fn receive_into(&self, _: Cx<'_, PyHost>, claim: RecvFn<'_>) -> PyResult<io::Result<usize>> {
        let py = attached();
        if let Some(tls) = self.tls() {
            return tls::receive(py, &tls, claim);
        }
        let hint = Obj::from((-1_i32).into_pyobject(py)?);
        let target = self.call(&self.names.get_buffer, [&hint])?;
        // asyncio asks for len() first: an object without a length, or of length zero, is get_buffer()'s failure.
        if target.bind(py).len()? == 0 {
            return Err(PyRuntimeError::new_err("get_buffer() returned an empty buffer"));
        }
        // No bytes in spite of that are none received, as with recv_into().
        let received =
            with_writable(py, &target, |buffer| if buffer.is_empty() { Ok(0) } else { claim(buffer) });
        Ok(received.unwrap_or_else(|_| Err(io::Error::other(no_buffer(&target)))))
    }

    fn buffer_updated(&self, _: Cx<'_, PyHost>, filled: usize) -> PyResult<()> {
        let py = attached();
        if let Some(tls) = self.tls() {
            return tls::buffer_updated(py, &tls);
        }
        self.call(&self.names.buffer_updated, [&Obj::int(py, filled)?]).map(drop)
    }

    fn eof_received(&self, cx: Cx<'_, PyHost>) -> PyResult<bool> {
        cx.engine.host().log(cx.this, "received EOF")?;
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
        let error = error.map_or_else(Obj::none, |error| error.into_value(py).into_bound(py).into());
        self.call(&self.names.connection_lost, [&error]).map(drop)
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

/// What `socket.recv_into()` raises for an object that is no writable buffer, whatever the interpreter has raised.
#[cold]
fn no_buffer(target: &Obj) -> PyErr {
    let name = target.type_name();
    PyTypeError::new_err(format!(
        "recv_into() argument 1 must be read-write bytes-like object, not {name:.50}"
    ))
}
