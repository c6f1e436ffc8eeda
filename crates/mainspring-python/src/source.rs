//! Which native object an event of the engine is for: each kind of transport, and listeners.

use crate::datagram::DatagramData;
use crate::listener;
use crate::native_object::native_data;
use crate::obj::Obj;
use crate::pipe::{ReadPipeData, WritePipeData};
use crate::tls::TlsTransportData;
use crate::transport::TransportData;
use crate::transport::kind;
use mainspring::engine::Readiness;
use pyo3::ffi;
use pyo3::prelude::*;

/// A source, by its kind; the most frequent one is looked for first.
pub enum Source<'a> {
    Stream(&'a TransportData),
    Datagram(&'a DatagramData),
    ReadPipe(&'a ReadPipeData),
    WritePipe(&'a WritePipeData),
    /// Has no descriptor of its own: only its deferred steps come from the engine.
    Tls,
    Listener,
}

impl<'a> Source<'a> {
    pub fn of(py: Python<'_>, source: &'a Obj) -> PyResult<Self> {
        if let Some(stream) = native_data(py, source)? {
            return Ok(Source::Stream(stream));
        }
        if let Some(datagram) = native_data(py, source)? {
            return Ok(Source::Datagram(datagram));
        }
        if let Some(pipe) = native_data(py, source)? {
            return Ok(Source::ReadPipe(pipe));
        }
        if let Some(pipe) = native_data(py, source)? {
            return Ok(Source::WritePipe(pipe));
        }
        let is_tls = native_data::<TlsTransportData>(py, source)?.is_some();
        Ok(if is_tls { Source::Tls } else { Source::Listener })
    }

    /// Something happened on the descriptor of `source`, which is this one.
    pub fn io_ready(&self, py: Python<'_>, source: &Obj, readiness: Readiness) -> PyResult<()> {
        match self {
            Source::Stream(stream) => kind::io_ready(py, *stream, source, readiness),
            Source::Datagram(datagram) => kind::io_ready(py, *datagram, source, readiness),
            Source::ReadPipe(pipe) => kind::io_ready(py, *pipe, source, readiness),
            Source::WritePipe(pipe) => kind::io_ready(py, *pipe, source, readiness),
            Source::Tls => Ok(()),
            Source::Listener => listener::io_ready(py, source),
        }
    }

    /// The protocol's `connection_made`, bound: scheduled as asyncio schedules it, so that a failure is reported with
    /// the protocol's own method. `None` for what has no protocol.
    pub fn connection_made<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        match self {
            Source::Stream(stream) => kind::connection_made_callback(py, *stream).map(Some),
            Source::Datagram(datagram) => kind::connection_made_callback(py, *datagram).map(Some),
            Source::ReadPipe(pipe) => kind::connection_made_callback(py, *pipe).map(Some),
            Source::WritePipe(pipe) => kind::connection_made_callback(py, *pipe).map(Some),
            Source::Tls | Source::Listener => Ok(None),
        }
    }

    /// The context that deferred steps are called in; null for a copy of the current one.
    pub fn context_for_steps(&self) -> *mut ffi::PyObject {
        match self {
            Source::Stream(stream) => kind::context_for_steps(*stream),
            Source::Datagram(datagram) => kind::context_for_steps(*datagram),
            Source::ReadPipe(pipe) => kind::context_for_steps(*pipe),
            Source::WritePipe(pipe) => kind::context_for_steps(*pipe),
            Source::Tls | Source::Listener => std::ptr::null_mut(),
        }
    }
}
