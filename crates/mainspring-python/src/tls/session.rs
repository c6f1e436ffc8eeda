//! `PySession`: a user's `ssl.SSLContext`, through the public interface of its `SSLObject` and two `MemoryBIO`s.
//!
//! Only public methods are called, so contexts, their callbacks and derived classes work as elsewhere. The most expensive
//! part is the exception `SSLWantReadError`: a call that can only raise it is skipped.

use crate::errors::out_of_memory;
use crate::event_loop::host::PyHost;
use crate::names::{Names, names};
use crate::python::bytes::Bytes;
use crate::python::interpreter::attached;
use crate::python::object::Obj;
use crate::transport::write_data::PyChunk;
use mainspring_engine::tls::{LogEvent, Plaintext, Progress, Session, TlsFailure};
use mainspring_engine::transport::Cx;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyString;
use std::io;

/// The size of one `recv()`, as in asyncio. Each received piece costs a call of the protocol.
const CIPHERTEXT_SIZE: usize = 256 * 1024;

/// The argument of `read()`: more than a record contains. So one call returns a whole record.
const READ_SIZE: usize = 16 * 1024 + 1;

/// See the module comment.
pub struct PySession {
    names: &'static Names,
    constants: &'static Constants,
    ssl_object: Obj,
    incoming: Obj,
    outgoing: Obj,
}

/// Exceptions of the ssl module, and an argument.
struct Constants {
    want_read: Obj,
    syscall: Obj,
    certificate: Obj,
    read_size: Obj,
}

static CONSTANTS: PyOnceLock<Constants> = PyOnceLock::new();

impl Constants {
    fn get(py: Python<'_>) -> PyResult<&'static Self> {
        CONSTANTS.get_or_try_init(py, || {
            let ssl = py.import("ssl")?;
            Ok(Constants {
                want_read: ssl.getattr("SSLWantReadError")?.into(),
                syscall: ssl.getattr("SSLSyscallError")?.into(),
                certificate: ssl.getattr("CertificateError")?.into(),
                read_size: Obj::int(py, READ_SIZE)?,
            })
        })
    }
}

fn is_instance(py: Python<'_>, error: &PyErr, class: &Obj) -> bool {
    error.matches(py, class.bind(py)).unwrap_or(false)
}

/// The result of `read()` of this class.
fn bytes_of(result: Obj, class: &str) -> PyResult<Bytes> {
    Bytes::cast(result).ok_or_else(|| PyTypeError::new_err(format!("{class}.read() did not return bytes")))
}

impl PySession {
    pub fn new(py: Python<'_>, ssl_object: Obj, incoming: Obj, outgoing: Obj) -> PyResult<Self> {
        Ok(PySession { names: names(py)?, constants: Constants::get(py)?, ssl_object, incoming, outgoing })
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
        is_instance(py, error, &self.constants.want_read) || is_instance(py, error, &self.constants.syscall)
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

    /// Reads the records that have arrived, but no more than one `recv()` brings, as one chunk.
    fn read_records(&self, py: Python<'_>) -> PyResult<Plaintext<PyChunk>> {
        let mut records = Vec::new();
        let mut length = 0;
        let is_all = loop {
            match self.try_call(&self.names.read, [&self.constants.read_size])? {
                None if records.is_empty() => return Ok(Plaintext::Again),
                None => break true,
                Some(record) => {
                    let record = bytes_of(record, "SSLObject")?;
                    if record.as_ref().is_empty() {
                        if records.is_empty() {
                            return Ok(Plaintext::End);
                        }
                        // The next read returns nothing again.
                        break false;
                    }
                    length += record.as_ref().len();
                    records.try_reserve(1).map_err(|_| out_of_memory())?;
                    records.push(record);
                }
            }
            // The last record was read completely; the next one needs more ciphertext.
            if self.pending_in(&self.incoming)? == 0 {
                break true;
            }
            if length >= CIPHERTEXT_SIZE {
                break false;
            }
        };
        let chunk = match records.as_slice() {
            [record] => record.clone(),
            records => Bytes::concat(py, records)?,
        };
        Ok(Plaintext::Data { chunk: PyChunk::Bytes(chunk), is_all })
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

    fn read(&self, _: Cx<'_, PyHost>) -> PyResult<Plaintext<PyChunk>> {
        self.read_records(attached())
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
        let ciphertext = bytes_of(ciphertext, "MemoryBIO")?;
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
        if is_instance(attached(), error, &self.constants.certificate) {
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
