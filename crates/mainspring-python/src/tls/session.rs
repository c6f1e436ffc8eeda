//! `PySession`: the user's `ssl.SSLContext` at work, through the public interface of its `SSLObject` and two `MemoryBIO`s.
//!
//! Only calls that everybody may make are made, so contexts, their callbacks, and classes derived from them all do what
//! they do elsewhere. What costs most there is the exception that says "nothing yet": where it is plain that there is
//! nothing, it is not asked for.

use super::buffers::{Room, part_of};
use crate::event_loop::host::PyHost;
use crate::names::{Names, names};
use crate::python::object::Obj;
use crate::transport::channel::{PyChunk, bytes_object};
use mainspring_engine::tls::{Note, Plain, Session, Step, Trouble};
use mainspring_engine::transport::Cx;
use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyString;
use std::io;

/// What one `recv` may bring: asyncio's size. Every piece costs a call of the protocol, and for streams a task's turn.
const CIPHER_SIZE: usize = 256 * 1024;

/// What one read takes: what one `recv` brought, and a record that began with the one before.
const PLAIN_SIZE: usize = CIPHER_SIZE + 16 * 1024;

/// What a session is made of.
pub struct PySession {
    names: &'static Names,
    words: &'static Words,
    ssl_object: Obj,
    incoming: Obj,
    outgoing: Obj,
}

/// The exceptions of the ssl module.
struct Words {
    want_read: Obj,
    syscall: Obj,
    certificate: Obj,
}

static WORDS: PyOnceLock<Words> = PyOnceLock::new();

impl Words {
    fn get(py: Python<'_>) -> PyResult<&'static Self> {
        WORDS.get_or_try_init(py, || {
            let ssl = py.import("ssl")?;
            Ok(Words {
                want_read: ssl.getattr("SSLWantReadError")?.into(),
                syscall: ssl.getattr("SSLSyscallError")?.into(),
                certificate: ssl.getattr("CertificateError")?.into(),
            })
        })
    }
}

fn attached<'py>() -> Python<'py> {
    // SAFETY: the engine runs only on threads that are attached.
    unsafe { Python::assume_attached() }
}

fn is_a(py: Python<'_>, error: &PyErr, class: &Obj) -> bool {
    error.matches(py, class.bind(py)).unwrap_or(false)
}

impl PySession {
    pub fn new(py: Python<'_>, ssl_object: Obj, incoming: Obj, outgoing: Obj) -> PyResult<Self> {
        Ok(PySession { names: names(py)?, words: Words::get(py)?, ssl_object, incoming, outgoing })
    }

    /// The `SSLObject`.
    pub fn ssl_object(&self) -> &Obj {
        &self.ssl_object
    }

    /// Shows what is held to the garbage collector.
    pub fn for_each_held(&self, show: &mut dyn FnMut(*mut ffi::PyObject)) {
        [&self.ssl_object, &self.incoming, &self.outgoing].into_iter().for_each(|held| show(held.as_ptr()));
    }

    /// Lets `claim` receive ciphertext, and takes it.
    pub fn receive(
        &self,
        host: &PyHost,
        claim: &mut dyn FnMut(&mut [u8]) -> io::Result<usize>,
    ) -> PyResult<io::Result<usize>> {
        let py = attached();
        host.cipher_room().with(py, CIPHER_SIZE, |room| {
            let received = room.fill(claim)?;
            if let Ok(count @ 1..) = received {
                self.write_incoming(&room.front(py, count)?)?;
            }
            Ok(received)
        })
    }

    /// Takes ciphertext in a Python object.
    pub fn write_incoming(&self, ciphertext: &Obj) -> PyResult<()> {
        self.call(&self.incoming, &self.names.write, &[ciphertext.as_ptr()]).map(drop)
    }

    fn call(&self, object: &Obj, name: &Py<PyString>, arguments: &[*mut ffi::PyObject]) -> PyResult<Obj> {
        let mut all = [object.as_ptr(); 3];
        for (place, &argument) in all.iter_mut().skip(1).zip(arguments) {
            *place = argument;
        }
        let all = all.get(..=arguments.len()).unwrap_or(&all);
        // SAFETY: the receiver and at most two arguments, all live objects for the length of the call.
        unsafe { Obj::from_method_call(attached(), name, all) }
    }

    fn is_again(&self, py: Python<'_>, error: &PyErr) -> bool {
        is_a(py, error, &self.words.want_read) || is_a(py, error, &self.words.syscall)
    }

    /// `None` if the session says that it cannot go on yet.
    fn try_call(&self, name: &Py<PyString>, arguments: &[*mut ffi::PyObject]) -> PyResult<Option<Obj>> {
        match self.call(&self.ssl_object, name, arguments) {
            Ok(result) => Ok(Some(result)),
            Err(error) if self.is_again(attached(), &error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn step(&self, name: &Py<PyString>) -> PyResult<Step> {
        Ok(if self.try_call(name, &[])?.is_some() { Step::Done } else { Step::Again })
    }

    /// `bio.pending`.
    fn pending_in(&self, bio: &Obj) -> PyResult<usize> {
        let py = attached();
        // SAFETY: a live object and a string.
        let pending =
            unsafe { Obj::from_call(py, ffi::PyObject_GetAttr(bio.as_ptr(), self.names.pending.as_ptr()))? };
        number(py, &pending)
    }

    /// Reads once, behind what was read before. `None`: not yet.
    fn read_once(&self, py: Python<'_>, room: &Room, filled: usize) -> PyResult<Option<usize>> {
        let room_left = room.len().saturating_sub(filled);
        let count = if filled == 0 {
            self.try_call(&self.names.read, &[room.size().as_ptr(), room.view(py)?.as_ptr()])?
        } else {
            // SAFETY: always allowed.
            let size = unsafe { Obj::from_call(py, ffi::PyLong_FromSize_t(room_left))? };
            self.try_call(&self.names.read, &[size.as_ptr(), room.rest(py, filled)?.as_ptr()])?
        };
        room.check()?;
        let Some(count) = count else { return Ok(None) };
        let count = number(py, &count)?;
        if count > room_left {
            return Err(PyRuntimeError::new_err("SSLObject.read() gave more than it was asked for"));
        }
        Ok(Some(count))
    }

    fn read_into(&self, py: Python<'_>, room: &Room) -> PyResult<Plain<PyChunk>> {
        let mut filled = 0;
        let is_all = loop {
            let room_left = room.len().saturating_sub(filled);
            match self.read_once(py, room, filled)? {
                None if filled == 0 => return Ok(Plain::Again),
                None => break true,
                Some(0) if filled == 0 => return Ok(Plain::End),
                // The end is told when it is asked for again.
                Some(0) => break false,
                Some(count) => {
                    filled += count;
                    if count == room_left {
                        break false;
                    }
                }
            }
            // A read that left room took the whole record; another one needs more ciphertext.
            if self.pending_in(&self.incoming)? == 0 {
                break true;
            }
        };
        Ok(Plain::Data { chunk: PyChunk::Bytes(room.bytes(py, filled)?), is_all })
    }

    fn protocol<'py>(&self, py: Python<'py>, cx: Cx<'_, PyHost>) -> PyResult<Bound<'py, PyAny>> {
        cx.this.bind(py).getattr(&self.names._ssl_protocol)
    }
}

fn number(py: Python<'_>, object: &Obj) -> PyResult<usize> {
    // SAFETY: a live object; what is no number, or out of range, raises.
    let value = unsafe { ffi::PyLong_AsSize_t(object.as_ptr()) };
    if value == usize::MAX
        && let Some(error) = PyErr::take(py)
    {
        return Err(error);
    }
    Ok(value)
}

impl Session<PyHost> for PySession {
    fn handshake(&self, _: Cx<'_, PyHost>) -> PyResult<Step> {
        self.step(&self.names.do_handshake)
    }

    fn established(&self, cx: Cx<'_, PyHost>) -> PyResult<()> {
        let py = attached();
        self.protocol(py, cx)?.call_method0(&self.names._established).map(drop)
    }

    fn feed(&self, _: Cx<'_, PyHost>, ciphertext: &[u8]) -> PyResult<()> {
        self.write_incoming(&bytes_object(attached(), ciphertext)?)
    }

    fn fed(&self, _: Cx<'_, PyHost>) -> PyResult<usize> {
        self.pending_in(&self.incoming)
    }

    fn read(&self, cx: Cx<'_, PyHost>) -> PyResult<Plain<PyChunk>> {
        let py = attached();
        cx.engine.host().plain_room().with(py, PLAIN_SIZE, |room| self.read_into(py, room))
    }

    fn write(&self, _: Cx<'_, PyHost>, chunk: &PyChunk, done: usize) -> PyResult<Option<usize>> {
        let py = attached();
        let whole = chunk.to_bytes(py)?;
        let data = if done == 0 {
            whole
        } else {
            // SAFETY: a live bytes object.
            let view = unsafe { Obj::from_call(py, ffi::PyMemoryView_FromObject(whole.as_ptr()))? };
            part_of(py, &view, done, None)?
        };
        let taken = self.try_call(&self.names.write, &[data.as_ptr()])?;
        taken.map(|count| number(py, &count)).transpose()
    }

    fn shutdown(&self, _: Cx<'_, PyHost>) -> PyResult<Step> {
        self.step(&self.names.unwrap)
    }

    fn take(&self, _: Cx<'_, PyHost>) -> PyResult<Option<PyChunk>> {
        let ciphertext = self.call(&self.outgoing, &self.names.read, &[])?;
        // SAFETY: a live object, whose type is checked before its size is asked for.
        unsafe {
            if ffi::PyBytes_Check(ciphertext.as_ptr()) == 0 {
                return Err(PyTypeError::new_err("MemoryBIO.read() did not give bytes"));
            }
            Ok((ffi::PyBytes_Size(ciphertext.as_ptr()) > 0).then_some(PyChunk::Bytes(ciphertext)))
        }
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
        if is_a(attached(), error, &self.words.certificate) {
            "SSL handshake failed on verifying the certificate"
        } else {
            "SSL handshake failed"
        }
    }

    fn trouble(&self, cx: Cx<'_, PyHost>, trouble: Trouble) -> PyErr {
        let py = attached();
        let number = match trouble {
            Trouble::HandshakeReset => 0,
            Trouble::HandshakeTimeout => 1,
            Trouble::ShutdownTimeout => 2,
        };
        let words = self.protocol(py, cx).and_then(|it| it.call_method1(&self.names._trouble, (number,)));
        words.map_or_else(|failure| failure, PyErr::from_value)
    }

    fn note(&self, cx: Cx<'_, PyHost>, note: Note) -> PyResult<()> {
        let py = attached();
        let is_debug = cx.engine.host().is_debug();
        let number = match note {
            Note::HandshakeBegins if is_debug => 0,
            Note::EndOfStream if is_debug => 1,
            Note::KeepOpenIgnored => 2,
            Note::HandshakeBegins | Note::EndOfStream => return Ok(()),
        };
        self.protocol(py, cx)?.call_method1(&self.names._note, (number,)).map(drop)
    }
}
