//! The methods that only `StreamTransport` has, as the interpreter calls them.

use super::TransportData;
use crate::event_loop::host::{PyHost, out_of_memory};
use crate::python::method::{self, Args, enter};
use crate::python::native_class::NativeClass;
use crate::python::object::Obj;
use crate::transport::channel::{Data, PyChannel, SocketHold, detach_socket, socket_object};
use crate::transport::contexts::writing;
use crate::transport::methods::{boolean, none};
use crate::transport::protocol::PyUpper;
use crate::transport::{Open, method};
use mainspring_engine::transport::{Stream, WriteRefused};
use pyo3::exceptions::PyRuntimeError;
use pyo3::ffi;
use pyo3::prelude::*;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd, RawFd};

/// The methods beside those of every kind.
pub fn table() -> Vec<ffi::PyMethodDef> {
    vec![
        method::method(c"write", write, c"Write some data bytes to the transport."),
        method::method(c"writelines", writelines, c"Write a list (or any iterable) of data bytes."),
        method::method_noargs(c"write_eof", write_eof, c"Close the write end after flushing buffered data."),
        method::method_noargs(
            c"can_write_eof",
            can_write_eof,
            c"Return True: the transport supports write_eof().",
        ),
        method::method_noargs(
            c"_reserve_writing",
            reserve_writing,
            c"Refuse writes, for somebody who sends past the queue; whether that is empty.",
        ),
        method::method_noargs(c"_release_writing", release_writing, c"Take writes again."),
        method::method_noargs(
            c"_accepted_names",
            accepted_names,
            c"The names (own, peer) of an accepted connection, also after its end; None for another.",
        ),
        method::method_noargs(c"_take_socket", take_socket, c"The socket object that owns the descriptor."),
    ]
}

/// Refuses a write in asyncio's words, which name the method that was called.
fn check_write(open: &Open<Stream<PyHost, PyUpper>>, method: impl FnOnce() -> &'static str) -> PyResult<()> {
    open.machine.check_write().map_err(|refused| {
        let method = method();
        PyRuntimeError::new_err(match refused {
            WriteRefused::AfterEof => format!("Cannot call {method}() after write_eof()"),
            WriteRefused::Reserved => format!("unable to {method}; sendfile is in progress"),
        })
    })
}

extern "C" fn write(
    this: *mut ffi::PyObject,
    args: *const *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
    kwnames: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    method::<TransportData>(this, |py, open, cx| {
        // SAFETY: called by the interpreter with these arguments, which are alive for the call.
        let data = unsafe {
            let args = Args::new("write", args, count, kwnames);
            Data::for_stream(py, args.only("data")?)?
        };
        check_write(open, || "write")?;
        data.reserve()?;
        writing(py, open, || open.machine.write(cx, data.as_slice(), || data.to_chunk()))?;
        none(py)
    })
}

extern "C" fn writelines(
    this: *mut ffi::PyObject,
    args: *const *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
    kwnames: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    method::<TransportData>(this, |py, open, cx| {
        // SAFETY: called by the interpreter with these arguments, which are alive for the call.
        let lines = unsafe {
            let args = Args::new("writelines", args, count, kwnames);
            Bound::from_borrowed_ptr(py, args.only("list_of_data")?)
        };
        let lines = collect(lines.try_iter()?)?;
        // SAFETY: the objects are held by `lines`.
        let pieces = collect(lines.iter().map(|line| unsafe { Data::for_lines(py, line.as_ptr()) }))?;
        // Before Python 3.12 it joined the lines and called write().
        check_write(open, || if py.version_info() >= (3, 12) { "writelines" } else { "write" })?;
        pieces.iter().try_for_each(Data::reserve)?;
        let slices = collect(pieces.iter().map(|piece| Ok(std::io::IoSlice::new(piece.as_slice()))))?;
        let keep = |index: usize| pieces.get(index)?.to_chunk();
        writing(py, open, || open.machine.write_vectored(cx, &slices, keep))?;
        none(py)
    })
}

/// Everything that an iterator gives, however much that is: `MemoryError` if it is too much.
pub fn collect<T>(items: impl Iterator<Item = PyResult<T>>) -> PyResult<Vec<T>> {
    let mut all = Vec::new();
    for item in items {
        let item = item?;
        all.try_reserve(1).map_err(|_| out_of_memory())?;
        all.push(item);
    }
    Ok(all)
}

extern "C" fn write_eof(this: *mut ffi::PyObject, _: *mut ffi::PyObject) -> *mut ffi::PyObject {
    method::<TransportData>(this, |py, open, cx| {
        open.machine.write_eof(cx)?;
        none(py)
    })
}

extern "C" fn can_write_eof(_: *mut ffi::PyObject, _: *mut ffi::PyObject) -> *mut ffi::PyObject {
    enter(|_| boolean(true))
}

extern "C" fn reserve_writing(this: *mut ffi::PyObject, _: *mut ffi::PyObject) -> *mut ffi::PyObject {
    method::<TransportData>(this, |_, open, _| boolean(open.machine.reserve_writing()))
}

extern "C" fn release_writing(this: *mut ffi::PyObject, _: *mut ffi::PyObject) -> *mut ffi::PyObject {
    method::<TransportData>(this, |py, open, _| {
        open.machine.release_writing();
        none(py)
    })
}

extern "C" fn accepted_names(this: *mut ffi::PyObject, _: *mut ffi::PyObject) -> *mut ffi::PyObject {
    enter(|py| {
        let class = NativeClass::of::<TransportData>(py)?;
        // SAFETY: called by the interpreter as a method of the type.
        match unsafe { class.data::<TransportData>(this) }.accepted.get() {
            Some(accepted) => Ok(accepted.names(py)?.into_ptr()),
            None => none(py),
        }
    })
}

extern "C" fn take_socket(this: *mut ffi::PyObject, _: *mut ffi::PyObject) -> *mut ffi::PyObject {
    method::<TransportData>(this, |py, open, _| match open.machine.with_channel(socket_of) {
        None => none(py),
        Some(Ok(socket)) => Ok(socket.into_ptr()),
        Some(Err(fd)) => make_socket(py, &open.machine, fd),
    })
}

/// The socket object of a channel; the number of its descriptor where there is no such object yet.
fn socket_of(channel: &PyChannel) -> Result<Obj, RawFd> {
    match channel {
        PyChannel::Socket(hold) => Ok(hold.socket().clone()),
        PyChannel::Owned(_) | PyChannel::File(_) => Err(channel.as_fd().as_raw_fd()),
    }
}

/// Makes the socket object of an accepted connection. The transport keeps its channel while Python code runs, which may
/// fail, use the transport, or end it; then the new object must not close the descriptor.
fn make_socket(py: Python<'_>, stream: &Stream<PyHost, PyUpper>, fd: RawFd) -> PyResult<*mut ffi::PyObject> {
    // SAFETY: the stream has the descriptor open. If the stream ends meanwhile, what the socket object asks of it fails
    // or is about another connection; both only set the object's own state.
    let socket = socket_object(py, unsafe { BorrowedFd::borrow_raw(fd) })?;
    let hold = match SocketHold::new(&socket) {
        Ok(hold) => hold,
        Err(error) => {
            detach_socket(&socket);
            return Err(error);
        }
    };
    let mut hold = Some(hold);
    stream.replace_channel(|channel| match (channel, hold.take()) {
        (PyChannel::Owned(owned), Some(new)) => {
            // The object closes it from here on.
            let _ = owned.into_raw_fd();
            PyChannel::Socket(new)
        }
        (channel, unused) => {
            hold = unused;
            channel
        }
    });
    if hold.is_some() {
        detach_socket(&socket);
    }
    match stream.with_channel(socket_of) {
        Some(Ok(socket)) => Ok(socket.into_ptr()),
        Some(Err(_)) | None => none(py),
    }
}
