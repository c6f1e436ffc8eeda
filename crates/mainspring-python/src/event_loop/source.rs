//! Which native object an event of the engine is for: each kind of transport, and listeners.

use crate::datagram::DatagramData;
use crate::names::names;
use crate::pipe::{ReadPipeData, WritePipeData};
use crate::python::native_class::native_data;
use crate::python::object::Obj;
use crate::stream::TransportData;
use crate::stream::listener;
use crate::tls::TlsTransportData;
use crate::transport as kind;
use mainspring_engine::Readiness;
use mainspring_engine::transport::{Cx, Notice};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyString;

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

    /// The turn is over whose end `source`, which is this one, has asked to be told of.
    pub fn turn_ended(&self, py: Python<'_>, source: &Obj) -> PyResult<()> {
        match self {
            Source::Stream(stream) => kind::with_open(py, *stream, |open, native| {
                open.machine.turn_ended(Cx { engine: native.engine(), this: source });
                Ok(())
            }),
            // Nothing of theirs is ever kept for more to come.
            Source::Datagram(_)
            | Source::ReadPipe(_)
            | Source::WritePipe(_)
            | Source::Tls
            | Source::Listener => Ok(()),
        }
    }

    /// What is called for a deferred step of `source`, which is this one: a method by asyncio's name of it, so that
    /// reports read as they do there. What is a call of the protocol's there is one here.
    pub fn step<'py>(&self, py: Python<'py>, source: &Obj, notice: Notice) -> PyResult<Bound<'py, PyAny>> {
        let names = names(py)?;
        let name = match notice {
            Notice::ConnectionMade => return self.protocols_own(py, source, &names.connection_made),
            Notice::EofReceived => return self.protocols_own(py, source, &names.eof_received),
            Notice::StartReading => &names._add_reader,
            Notice::ConnectionLost => &names._call_connection_lost,
            Notice::ResumeAccepting => &names._start_serving,
            Notice::ContinueReading => &names._do_read,
            Notice::HandshakeTimeout => &names._check_handshake_timeout,
            Notice::ShutdownTimeout => &names._check_shutdown_timeout,
            Notice::CloseLower => &names._close_lower,
        };
        source.bind(py).getattr(name)
    }

    fn protocols_own<'py>(
        &self,
        py: Python<'py>,
        source: &Obj,
        name: &Py<PyString>,
    ) -> PyResult<Bound<'py, PyAny>> {
        match self {
            Source::Stream(stream) => kind::protocols_own(py, *stream, name),
            Source::Datagram(datagram) => kind::protocols_own(py, *datagram, name),
            Source::ReadPipe(pipe) => kind::protocols_own(py, *pipe, name),
            Source::WritePipe(pipe) => kind::protocols_own(py, *pipe, name),
            // They have no such steps.
            Source::Tls | Source::Listener => source.bind(py).getattr(name),
        }
    }

    /// asyncio's name for what is done when something has arrived.
    pub fn reading_step(&self) -> &'static str {
        if matches!(self, Source::Listener) { "_accept_connection" } else { "_read_ready" }
    }

    /// Whether what arrives can only be the end: so for a pipe that is written.
    pub fn waits_for_its_readers_end(&self) -> bool {
        matches!(self, Source::WritePipe(pipe) if kind::reads(*pipe))
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
