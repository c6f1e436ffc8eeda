//! `Source`: the transport or listener that an event of the engine is for.

use crate::datagram::DatagramData;
use crate::names::names;
use crate::pipe::{ReadPipeData, WritePipeData};
use crate::python::native_class::native_data;
use crate::python::object::Obj;
use crate::stream::{StreamData, listener};
use crate::tls::TlsTransportData;
use crate::transport;
use mainspring_engine::Readiness;
use mainspring_engine::transport::DeferredCall;
use pyo3::prelude::*;
use pyo3::types::PyString;

/// A source by its class. The most frequent class is tested first.
pub enum Source<'a> {
    Stream(&'a StreamData),
    Datagram(&'a DatagramData),
    ReadPipe(&'a ReadPipeData),
    WritePipe(&'a WritePipeData),
    /// Has no file descriptor of its own; the engine only makes deferred calls to it.
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

    /// The file descriptor of `source`, which is this one, is ready.
    pub fn io_ready(&self, py: Python<'_>, source: &Obj, readiness: Readiness) -> PyResult<()> {
        match self {
            Source::Stream(stream) => transport::io_ready(py, *stream, source, readiness),
            Source::Datagram(datagram) => transport::io_ready(py, *datagram, source, readiness),
            Source::ReadPipe(pipe) => transport::io_ready(py, *pipe, source, readiness),
            Source::WritePipe(pipe) => transport::io_ready(py, *pipe, source, readiness),
            Source::Tls => Ok(()),
            Source::Listener => listener::io_ready(py, source),
        }
    }

    /// The callback during which `source`, which is this one, wrote has ended (`Engine::at_scope_end`).
    pub fn scope_ended(&self, py: Python<'_>, source: &Obj) -> PyResult<()> {
        match self {
            Source::Stream(stream) => {
                let (open, cx) = transport::opened_in(py, source, *stream)?;
                open.machine.scope_ended(cx);
                Ok(())
            }
            // Only streams coalesce writes.
            Source::Datagram(_)
            | Source::ReadPipe(_)
            | Source::WritePipe(_)
            | Source::Tls
            | Source::Listener => Ok(()),
        }
    }

    /// The method of a deferred call to `source`, which is this one. Methods have asyncio's names, so that reports look
    /// the same; where asyncio calls the protocol, this is a method of the protocol.
    pub fn deferred_method<'py>(
        &self,
        py: Python<'py>,
        source: &Obj,
        deferred: DeferredCall,
    ) -> PyResult<Bound<'py, PyAny>> {
        let names = names(py)?;
        let name = match deferred {
            DeferredCall::ConnectionMade => return self.protocol_method(py, source, &names.connection_made),
            DeferredCall::EofReceived => return self.protocol_method(py, source, &names.eof_received),
            DeferredCall::StartReading => &names._add_reader,
            DeferredCall::ConnectionLost => &names._call_connection_lost,
            DeferredCall::ResumeAccepting => &names._start_serving,
            DeferredCall::ContinueReading => &names._do_read,
            DeferredCall::HandshakeTimeout => &names._check_handshake_timeout,
            DeferredCall::ShutdownTimeout => &names._check_shutdown_timeout,
            DeferredCall::CloseLower => &names._close_lower,
        };
        source.bind(py).getattr(name)
    }

    fn protocol_method<'py>(
        &self,
        py: Python<'py>,
        source: &Obj,
        name: &Py<PyString>,
    ) -> PyResult<Bound<'py, PyAny>> {
        match self {
            Source::Stream(stream) => transport::protocol_method(py, *stream, name),
            Source::Datagram(datagram) => transport::protocol_method(py, *datagram, name),
            Source::ReadPipe(pipe) => transport::protocol_method(py, *pipe, name),
            Source::WritePipe(pipe) => transport::protocol_method(py, *pipe, name),
            // The engine makes no such deferred calls to them.
            Source::Tls | Source::Listener => source.bind(py).getattr(name),
        }
    }

    /// asyncio's name of the method that reads.
    pub fn reading_method(&self) -> &'static str {
        if matches!(self, Source::Listener) { "_accept_connection" } else { "_read_ready" }
    }

    /// Whether readability means that the reader has closed its end: true for a write pipe.
    pub fn watches_for_closed_reader(&self) -> bool {
        matches!(self, Source::WritePipe(pipe) if transport::is_registered_for_reading(*pipe))
    }

    /// The context of deferred calls; `None` for a copy of the current one.
    pub fn deferred_context(&self) -> Option<&Obj> {
        match self {
            Source::Stream(stream) => transport::deferred_context(*stream),
            Source::Datagram(datagram) => transport::deferred_context(*datagram),
            Source::ReadPipe(pipe) => transport::deferred_context(*pipe),
            Source::WritePipe(pipe) => transport::deferred_context(*pipe),
            Source::Tls | Source::Listener => None,
        }
    }
}
