//! The native half of the `sock_*` coroutines in `mainspring._sockets`: the first attempt, and the wait after it.
//!
//! What is tried, how a partial send goes on and what giving up means is the engine's (`mainspring_engine::socket_ops`). Here
//! sockets and buffers become descriptors and slices. Only a plain `socket.socket` is used through its descriptor; the
//! methods of every other kind of object are called as asyncio calls them, and so are a plain socket's for arguments
//! that are out of the ordinary: it knows what to say.

mod buffer;
mod wait;

pub use wait::{SocketWait, thrown};

use crate::event_loop::host::os_error;
use crate::event_loop::{NativeLoop, file_descriptor};
use crate::names::names;
use crate::python::method::{self, Args, enter};
use crate::python::object::Obj;
use crate::transport::channel::bytes_object;
use buffer::HeldBuffer;
use mainspring_engine::socket_ops::{Ready, SendAll, SendFile};
use mainspring_engine::{Direction, READ_SIZE};
use pyo3::exceptions::{PyBlockingIOError, PyInterruptedError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyString, PyType};
use std::os::fd::{BorrowedFd, RawFd};
use wait::Waiting;

/// Adds the methods of this file to the class.
pub fn add_methods(class: &Bound<'_, PyType>) -> PyResult<()> {
    method::add_methods(
        class,
        vec![
            method::method(c"_try_recv", try_recv, c"Receive what is there; None if nothing is yet."),
            method::method(
                c"_try_recv_into",
                try_recv_into,
                c"Receive what is there into a buffer; None if nothing is yet.",
            ),
            method::method(
                c"_try_sendall",
                try_sendall,
                c"Send what the kernel takes; None if that is all, else what to await.",
            ),
            method::method(
                c"_until_ready",
                until_ready,
                c"What to await until the socket can be read from, or (True) written to.",
            ),
            method::method(
                c"_send_file",
                send_file,
                c"What to await until a part of a file is sent: (sock, fd, offset, count or None).",
            ),
        ],
    )
}

/// A call of one of the methods, on a socket.
struct Request<'py, const N: usize> {
    py: Python<'py>,
    event_loop: Bound<'py, NativeLoop>,
    socket: Bound<'py, PyAny>,
    rest: [*mut ffi::PyObject; N],
}

/// Runs a method's body with its arguments: the socket and `N` more.
///
/// # Safety
/// The arguments are those that the interpreter called a method of the class with.
unsafe fn method<const N: usize>(
    name: &'static str,
    this: *mut ffi::PyObject,
    args: *const *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
    kwnames: *mut ffi::PyObject,
    body: impl FnOnce(Request<'_, N>) -> PyResult<Obj>,
) -> *mut ffi::PyObject {
    enter(|py| {
        // SAFETY: the caller's promise: `this` is a loop, and the arguments are alive until the method returns.
        let (event_loop, args) = unsafe {
            let event_loop = Bound::from_borrowed_ptr(py, this).cast_into_unchecked::<NativeLoop>();
            (event_loop, Args::new(name, args, count, kwnames))
        };
        let ([socket], rest) = args.split(["sock"])?;
        let Some(&rest) = rest.first_chunk::<N>() else {
            return Err(pyo3::exceptions::PyTypeError::new_err(format!(
                "{name}() takes {} arguments",
                N + 1
            )));
        };
        // SAFETY: a live argument.
        let socket = unsafe { Bound::from_borrowed_ptr(py, socket) };
        body(Request { py, event_loop, socket, rest }).map(Obj::into_ptr)
    })
}

impl<'py, const N: usize> Request<'py, N> {
    fn argument(&self, index: usize) -> PyResult<Bound<'py, PyAny>> {
        let argument = self.rest.get(index).copied().unwrap_or(std::ptr::null_mut());
        // SAFETY: null or a live argument of this call.
        unsafe { Bound::from_borrowed_ptr_or_err(self.py, argument) }
    }

    /// Whether the socket is a `socket.socket` and nothing more special.
    fn is_plain(&self) -> PyResult<bool> {
        Ok(self.socket.get_type().as_ptr() == names(self.py)?.socket_class.as_ptr())
    }

    /// asyncio's checks of the socket, and of the loop. Without debug mode there is nothing to find fault with in a plain one.
    fn check(&self) -> PyResult<()> {
        let native = self.event_loop.get();
        if !self.is_plain()? || native.is_debug() {
            self.event_loop.call_method1(&names(self.py)?._check_socket, (&self.socket,))?;
        }
        native.check_closed()
    }

    /// The descriptor of a plain, open socket.
    fn plain_descriptor(&self) -> PyResult<Option<BorrowedFd<'_>>> {
        if !self.is_plain()? {
            return Ok(None);
        }
        let fd: RawFd = self.socket.call_method0(&names(self.py)?.fileno)?.extract()?;
        // SAFETY: the socket object owns the descriptor, and is alive; no Python code that could close it runs while
        // the descriptor is used.
        Ok((fd >= 0).then(|| unsafe { BorrowedFd::borrow_raw(fd) }))
    }

    /// Makes an attempt by the socket's own method.
    fn by_method(&self, name: &Py<PyString>) -> PyResult<Obj> {
        match self.socket.call_method1(name, (self.argument(0)?,)) {
            Ok(value) => Ok(value.into()),
            Err(error)
                if error.is_instance_of::<PyBlockingIOError>(self.py)
                    || error.is_instance_of::<PyInterruptedError>(self.py) =>
            {
                Ok(none(self.py))
            }
            Err(error) => Err(error),
        }
    }
}

fn none(py: Python<'_>) -> Obj {
    py.None().into_bound(py).into()
}

extern "C" fn try_recv(
    this: *mut ffi::PyObject,
    args: *const *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
    kwnames: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    let body = |request: Request<'_, 1>| {
        let py = request.py;
        request.check()?;
        let room = request.argument(0)?.extract::<usize>().unwrap_or(0);
        let socket = request.plain_descriptor()?.filter(|_| (1..=READ_SIZE).contains(&room));
        let Some(socket) = socket else { return request.by_method(&names(py)?.recv) };
        let engine = request.event_loop.get().engine();
        engine.with_scratch(|scratch| {
            let received = engine.try_recv(socket, scratch.get_mut(..room).unwrap_or_default());
            match received.map_err(|error| os_error(py, error))? {
                Some(count) => bytes_object(py, scratch.get(..count).unwrap_or_default()),
                None => Ok(none(py)),
            }
        })
    };
    // SAFETY: called by the interpreter as a method of the class.
    unsafe { method("_try_recv", this, args, count, kwnames, body) }
}

extern "C" fn try_recv_into(
    this: *mut ffi::PyObject,
    args: *const *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
    kwnames: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    let body = |request: Request<'_, 1>| {
        let py = request.py;
        request.check()?;
        let [buffer] = request.rest;
        // SAFETY: a live argument.
        let buffer = unsafe { HeldBuffer::to_write(py, buffer) }.ok();
        let buffer = buffer.filter(|buffer| !buffer.as_ref().is_empty());
        let Some((socket, mut buffer)) = request.plain_descriptor()?.zip(buffer) else {
            return request.by_method(&names(py)?.recv_into);
        };
        let received = request.event_loop.get().engine().try_recv(socket, buffer.as_mut_slice());
        match received.map_err(|error| os_error(py, error))? {
            Some(count) => Ok(count.into_pyobject(py)?.into()),
            None => Ok(none(py)),
        }
    };
    // SAFETY: called by the interpreter as a method of the class.
    unsafe { method("_try_recv_into", this, args, count, kwnames, body) }
}

extern "C" fn try_sendall(
    this: *mut ffi::PyObject,
    args: *const *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
    kwnames: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    let body = |request: Request<'_, 1>| {
        let py = request.py;
        request.check()?;
        let [data] = request.rest;
        // SAFETY: a live argument.
        let data = unsafe { HeldBuffer::to_read(py, data)? };
        let Some(socket) = request.plain_descriptor()? else {
            return Err(os_error(py, std::io::Error::from_raw_os_error(libc::EBADF)));
        };
        let sent = request.event_loop.get().engine().try_send(socket, data.as_ref());
        let sent = sent.map_err(|error| os_error(py, error))?.unwrap_or(0);
        if sent == data.as_ref().len() {
            return Ok(none(py));
        }
        let operation = Waiting::SendAll(SendAll::new(data, sent));
        Ok(SocketWait::begin(&request.event_loop, &request.socket, socket, operation)?.into())
    };
    // SAFETY: called by the interpreter as a method of the class.
    unsafe { method("_try_sendall", this, args, count, kwnames, body) }
}

extern "C" fn until_ready(
    this: *mut ffi::PyObject,
    args: *const *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
    kwnames: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    let body = |request: Request<'_, 1>| {
        let to_write = request.argument(0)?.is_truthy()?;
        let direction = if to_write { Direction::Outbound } else { Direction::Inbound };
        let fd = file_descriptor(&request.socket)?;
        // SAFETY: not negative; only told to the back end, which answers EBADF for one that is not open.
        let fd = unsafe { BorrowedFd::borrow_raw(fd) };
        let operation = Waiting::Ready(Ready(direction));
        Ok(SocketWait::begin(&request.event_loop, &request.socket, fd, operation)?.into())
    };
    // SAFETY: called by the interpreter as a method of the class.
    unsafe { method("_until_ready", this, args, count, kwnames, body) }
}

extern "C" fn send_file(
    this: *mut ffi::PyObject,
    args: *const *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
    kwnames: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    let body = |request: Request<'_, 3>| {
        let py = request.py;
        let file = file_descriptor(&request.argument(0)?)?;
        let offset: u64 = request.argument(1)?.extract()?;
        let count: Option<u64> = request.argument(2)?.extract()?;
        let socket = file_descriptor(&request.socket)?;
        // SAFETY: not negative, and open or refused by the kernel: the file is duplicated and nothing more, the
        // socket belongs to the object that is held, and is used in its attempts only.
        let (file, socket) = unsafe { (BorrowedFd::borrow_raw(file), BorrowedFd::borrow_raw(socket)) };
        let file = file.try_clone_to_owned().map_err(|error| os_error(py, error))?;
        let operation = SendFile::new(file, offset, count);
        Ok(SocketWait::send_file(&request.event_loop, &request.socket, socket, operation)?.into())
    };
    // SAFETY: called by the interpreter as a method of the class.
    unsafe { method("_send_file", this, args, count, kwnames, body) }
}
