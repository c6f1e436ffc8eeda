//! `PyChannel`: the owner of a transport's file descriptor.

use crate::errors::os_error;
use crate::names::{Names, names};
use crate::python::descriptor;
use crate::python::interpreter::attached;
use crate::python::object::Obj;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};

/// The only owner of a transport's file descriptor.
pub enum PyChannel {
    /// The descriptor itself: an accepted connection without a socket object.
    Owned(OwnedFd),
    /// A `socket.socket` that owns the descriptor.
    Socket(SocketHold),
    /// A file object that owns the descriptor of a pipe.
    File(FileHold),
}

/// A `socket.socket` whose file descriptor stays open.
///
/// If the program closed the socket under its transport, the number would be reused by the next connection, and the
/// transport would read that one's data. So the socket is held as a file object of `socket.makefile()` holds it: the
/// socket counts these in `_io_refs`, and closes its descriptor after the last one.
pub struct SocketHold {
    socket: Obj,
    fd: RawFd,
    is_counted: bool,
    closes_socket: bool,
}

impl SocketHold {
    /// Holds a socket and closes it at the end.
    pub fn new(socket: &Bound<'_, PyAny>) -> PyResult<Self> {
        Self::hold(socket, true)
    }

    /// Holds a socket that its owner closes.
    pub fn borrowed(socket: &Bound<'_, PyAny>) -> PyResult<Self> {
        Self::hold(socket, false)
    }

    fn hold(socket: &Bound<'_, PyAny>, closes_socket: bool) -> PyResult<Self> {
        let fd: RawFd = socket.call_method0("fileno")?.extract()?;
        if fd < 0 {
            return Err(os_error(socket.py(), io::Error::from_raw_os_error(libc::EBADF)));
        }
        let is_counted = match socket.getattr("_io_refs").and_then(|count| count.extract::<i64>()) {
            Ok(count) => socket.setattr("_io_refs", count + 1).is_ok(),
            Err(_) => false,
        };
        Ok(SocketHold { socket: socket.into(), fd, is_counted, closes_socket })
    }

    pub fn socket(&self) -> &Obj {
        &self.socket
    }
}

impl Drop for SocketHold {
    fn drop(&mut self) {
        let py = attached();
        let socket = self.socket.bind(py);
        let call_if = |condition: bool, name: fn(&Names) -> &Py<PyString>| match condition {
            true => socket.call_method0(name(names(py)?)).map(drop),
            false => Ok(()),
        };
        let closed = call_if(self.closes_socket, |names| &names.close);
        let released = call_if(self.is_counted, |names| &names._decref_socketios);
        for error in [closed, released].into_iter().filter_map(Result::err) {
            // There is no caller to raise this to.
            error.write_unraisable(py, Some(&socket));
        }
    }
}

/// A file object that its own `close()` closes, once, at the end of the transport.
///
/// As with asyncio, a program must not close the file under its transport.
pub struct FileHold {
    /// `None` after [`FileHold::detach`].
    file: Option<Obj>,
    fd: RawFd,
}

impl FileHold {
    /// Takes over a file object whose `fileno()` is `fd`. Fails with `EBADF` if the file is not open.
    pub fn new(file: &Bound<'_, PyAny>, fd: RawFd) -> io::Result<Self> {
        descriptor::borrow_open(file, fd)?;
        Ok(FileHold { file: Some(file.into()), fd })
    }

    /// Gives the file up without closing it.
    pub fn detach(mut self) {
        self.file = None;
    }
}

impl Drop for FileHold {
    fn drop(&mut self) {
        let py = attached();
        let Some(file) = self.file.as_ref().map(|file| file.bind(py)) else { return };
        if let Err(error) = names(py).and_then(|names| file.call_method0(&names.close)) {
            // There is no caller to raise this to.
            error.write_unraisable(py, Some(&file));
        }
    }
}

impl AsFd for FileHold {
    #[inline]
    fn as_fd(&self) -> BorrowedFd<'_> {
        descriptor::held_by(self, self.fd)
    }
}

impl AsFd for PyChannel {
    #[inline]
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            PyChannel::Owned(fd) => fd.as_fd(),
            PyChannel::Socket(hold) => descriptor::held_by(hold, hold.fd),
            PyChannel::File(hold) => hold.as_fd(),
        }
    }
}

impl PyChannel {
    pub fn traverse(&self, visit: &mut dyn FnMut(&Obj)) {
        match self {
            PyChannel::Owned(_) => {}
            PyChannel::Socket(hold) => visit(&hold.socket),
            PyChannel::File(hold) => hold.file.iter().for_each(visit),
        }
    }
}

/// A new `socket.socket` that owns the file descriptor `fd`. If this fails, the descriptor stays with the caller.
pub fn socket_object<'py>(py: Python<'py>, fd: RawFd) -> PyResult<Bound<'py, PyAny>> {
    let class = names(py)?.socket_class.bind(py);
    let socket = class.call_method1("__new__", (class,))?;
    let initialize = || {
        let arguments = PyDict::new(py);
        arguments.set_item("fileno", fd)?;
        socket.call_method("__init__", (), Some(&arguments))?;
        // The constructor assumes that the descriptor is blocking, and `dup()` would make it so.
        socket.call_method1("setblocking", (false,)).map(drop)
    };
    match initialize() {
        Ok(()) => Ok(socket),
        Err(error) => {
            detach_socket(&socket);
            Err(error)
        }
    }
}

/// Makes a socket object give its file descriptor up. Calls the method of the C type: no Python code runs, so no signal
/// handler can interrupt it.
pub fn detach_socket(socket: &Bound<'_, PyAny>) {
    let py = socket.py();
    let detached =
        py.import("_socket").and_then(|module| module.getattr("socket")?.getattr("detach")?.call1((socket,)));
    if let Err(error) = detached {
        error.write_unraisable(py, Some(socket));
    }
}
