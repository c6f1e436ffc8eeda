//! `PySession`: a user's `ssl.SSLContext`, through the public interface of its `SSLObject` and two `MemoryBIO`s.
//!
//! Only public methods are called, so contexts, their callbacks and derived classes work as elsewhere. The most expensive
//! part is the exception `SSLWantReadError`: a call that can only raise it is skipped.

use super::buffers::TlsBuffer;
use crate::event_loop::host::PyHost;
use crate::names::{Names, names};
use crate::python::bytes::Bytes;
use crate::python::interpreter::attached;
use crate::python::object::Obj;
use crate::transport::write_data::PyChunk;
use mainspring_engine::tls::{LogEvent, Plaintext, Progress, Session, TlsFailure};
use mainspring_engine::transport::Cx;
use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyString;
use std::io;

/// The size of one `recv()`, as in asyncio. Each received piece costs a call of the protocol.
const CIPHERTEXT_SIZE: usize = 256 * 1024;

/// The size of one `read()`: one `recv()`, and a record that began in the previous one.
const PLAINTEXT_SIZE: usize = CIPHERTEXT_SIZE + 16 * 1024;

/// See the module comment.
pub struct PySession {
    names: &'static Names,
    exceptions: &'static SslExceptions,
    ssl_object: Obj,
    incoming: Obj,
    outgoing: Obj,
}

/// The exceptions of the ssl module.
struct SslExceptions {
    want_read: Obj,
    syscall: Obj,
    certificate: Obj,
}

static EXCEPTIONS: PyOnceLock<SslExceptions> = PyOnceLock::new();

impl SslExceptions {
    fn get(py: Python<'_>) -> PyResult<&'static Self> {
        EXCEPTIONS.get_or_try_init(py, || {
            let ssl = py.import("ssl")?;
            Ok(SslExceptions {
                want_read: ssl.getattr("SSLWantReadError")?.into(),
                syscall: ssl.getattr("SSLSyscallError")?.into(),
                certificate: ssl.getattr("CertificateError")?.into(),
            })
        })
    }
}

fn is_instance(py: Python<'_>, error: &PyErr, class: &Obj) -> bool {
    error.matches(py, class.bind(py)).unwrap_or(false)
}

impl PySession {
    pub fn new(py: Python<'_>, ssl_object: Obj, incoming: Obj, outgoing: Obj) -> PyResult<Self> {
        Ok(PySession {
            names: names(py)?,
            exceptions: SslExceptions::get(py)?,
            ssl_object,
            incoming,
            outgoing,
        })
    }

    /// The `SSLObject`.
    pub fn ssl_object(&self) -> &Obj {
        &self.ssl_object
    }

    pub fn traverse(&self, visit: &mut dyn FnMut(&Obj)) {
        [&self.ssl_object, &self.incoming, &self.outgoing].into_iter().for_each(visit);
    }

    /// Lets `claim` receive ciphertext, and passes it to the session.
    pub fn receive(
        &self,
        host: &PyHost,
        claim: &mut dyn FnMut(&mut [u8]) -> io::Result<usize>,
    ) -> PyResult<io::Result<usize>> {
        let py = attached();
        host.ciphertext_buffer().with(py, CIPHERTEXT_SIZE, |buffer| {
            let received = buffer.fill(claim)?;
            if let Ok(count @ 1..) = received {
                self.write_incoming(&buffer.front(py, count)?)?;
            }
            Ok(received)
        })
    }

    /// Passes ciphertext to the session.
    pub fn write_incoming(&self, ciphertext: &Obj) -> PyResult<()> {
        self.incoming.call_method(attached(), &self.names.write, [ciphertext]).map(drop)
    }

    /// Whether an exception means that the session needs more ciphertext.
    fn needs_more(&self, py: Python<'_>, error: &PyErr) -> bool {
        is_instance(py, error, &self.exceptions.want_read) || is_instance(py, error, &self.exceptions.syscall)
    }

    /// Calls a method of the `SSLObject`. `None` if it needs more ciphertext.
    fn try_call<const N: usize>(&self, name: &Py<PyString>, args: [&Obj; N]) -> PyResult<Option<Obj>> {
        match self.ssl_object.call_method(attached(), name, args) {
            Ok(result) => Ok(Some(result)),
            Err(error) if self.needs_more(attached(), &error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn step(&self, name: &Py<PyString>) -> PyResult<Progress> {
        Ok(if self.try_call(name, [])?.is_some() { Progress::Done } else { Progress::Again })
    }

    /// `bio.pending`.
    fn pending_in(&self, bio: &Obj) -> PyResult<usize> {
        let py = attached();
        bio.getattr(py, &self.names.pending)?.to_usize(py)
    }

    /// Reads once, to the place `filled` of the buffer. `None` if the session needs more ciphertext.
    fn read_once(&self, py: Python<'_>, buffer: &TlsBuffer, filled: usize) -> PyResult<Option<usize>> {
        let available = buffer.len().saturating_sub(filled);
        let count = if filled == 0 {
            self.try_call(&self.names.read, [buffer.size(), &buffer.view(py)?])?
        } else {
            self.try_call(&self.names.read, [&Obj::int(py, available)?, &buffer.rest(py, filled)?])?
        };
        buffer.check()?;
        let Some(count) = count else { return Ok(None) };
        let count = count.to_usize(py)?;
        if count > available {
            return Err(PyRuntimeError::new_err("SSLObject.read() returned more bytes than were requested"));
        }
        Ok(Some(count))
    }

    fn read_into(&self, py: Python<'_>, buffer: &TlsBuffer) -> PyResult<Plaintext<PyChunk>> {
        let mut filled = 0;
        let is_all = loop {
            let available = buffer.len().saturating_sub(filled);
            match self.read_once(py, buffer, filled)? {
                None if filled == 0 => return Ok(Plaintext::Again),
                None => break true,
                Some(0) if filled == 0 => return Ok(Plaintext::End),
                // The next read returns 0 again.
                Some(0) => break false,
                Some(count) => {
                    filled += count;
                    if count == available {
                        break false;
                    }
                }
            }
            // A read that left room took the whole record; the next one needs more ciphertext.
            if self.pending_in(&self.incoming)? == 0 {
                break true;
            }
        };
        Ok(Plaintext::Data { chunk: PyChunk::Bytes(buffer.to_bytes(py, filled)?), is_all })
    }

    fn protocol<'py>(&self, py: Python<'py>, cx: Cx<'_, PyHost>) -> PyResult<Bound<'py, PyAny>> {
        cx.this.bind(py).getattr(&self.names._ssl_protocol)
    }
}

impl Session<PyHost> for PySession {
    fn handshake(&self, _: Cx<'_, PyHost>) -> PyResult<Progress> {
        self.step(&self.names.do_handshake)
    }

    fn established(&self, cx: Cx<'_, PyHost>) -> PyResult<()> {
        let py = attached();
        self.protocol(py, cx)?.call_method0(&self.names._established).map(drop)
    }

    fn feed(&self, _: Cx<'_, PyHost>, ciphertext: &[u8]) -> PyResult<()> {
        self.write_incoming(Bytes::new(attached(), ciphertext)?.as_obj())
    }

    fn fed(&self, _: Cx<'_, PyHost>) -> PyResult<usize> {
        self.pending_in(&self.incoming)
    }

    fn read(&self, cx: Cx<'_, PyHost>) -> PyResult<Plaintext<PyChunk>> {
        let py = attached();
        cx.engine.host().plaintext_buffer().with(py, PLAINTEXT_SIZE, |buffer| self.read_into(py, buffer))
    }

    fn write(&self, _: Cx<'_, PyHost>, chunk: &PyChunk, done: usize) -> PyResult<Option<usize>> {
        let py = attached();
        let whole = Obj::from(chunk.to_bytes(py)?);
        let data = if done == 0 { whole } else { whole.memory_view(py)?.slice(py, done, None)? };
        let written = self.try_call(&self.names.write, [&data])?;
        written.map(|count| count.to_usize(py)).transpose()
    }

    fn shutdown(&self, _: Cx<'_, PyHost>) -> PyResult<Progress> {
        self.step(&self.names.unwrap)
    }

    fn take(&self, _: Cx<'_, PyHost>) -> PyResult<Option<PyChunk>> {
        let ciphertext = self.outgoing.call_method(attached(), &self.names.read, [])?;
        let Some(ciphertext) = Bytes::cast(ciphertext) else {
            return Err(PyTypeError::new_err("MemoryBIO.read() did not return bytes"));
        };
        Ok((!ciphertext.as_ref().is_empty()).then_some(PyChunk::Bytes(ciphertext)))
    }

    fn pending(&self, _: Cx<'_, PyHost>) -> PyResult<usize> {
        self.pending_in(&self.outgoing)
    }

    fn handshake_ended(&self, cx: Cx<'_, PyHost>, outcome: Result<(), &PyErr>) -> PyResult<()> {
        let py = attached();
        let error = outcome.err().map(|error| error.value(py));
        self.protocol(py, cx)?.call_method1(&self.names._handshake_ended, (error,)).map(drop)
    }

    fn handshake_failure(&self, error: &PyErr) -> &'static str {
        if is_instance(attached(), error, &self.exceptions.certificate) {
            "SSL handshake failed on verifying the certificate"
        } else {
            "SSL handshake failed"
        }
    }

    fn trouble(&self, cx: Cx<'_, PyHost>, trouble: TlsFailure) -> PyErr {
        let py = attached();
        let number = match trouble {
            TlsFailure::HandshakeReset => 0,
            TlsFailure::HandshakeTimeout => 1,
            TlsFailure::ShutdownTimeout => 2,
        };
        let error = self.protocol(py, cx).and_then(|it| it.call_method1(&self.names._tls_error, (number,)));
        error.map_or_else(|failure| failure, PyErr::from_value)
    }

    fn note(&self, cx: Cx<'_, PyHost>, note: LogEvent) -> PyResult<()> {
        let py = attached();
        let is_debug = cx.engine.host().is_debug();
        let number = match note {
            LogEvent::HandshakeBegins if is_debug => 0,
            LogEvent::EndOfStream if is_debug => 1,
            LogEvent::KeepOpenIgnored => 2,
            LogEvent::HandshakeBegins | LogEvent::EndOfStream => return Ok(()),
        };
        self.protocol(py, cx)?.call_method1(&self.names._log_tls_event, (number,)).map(drop)
    }
}
