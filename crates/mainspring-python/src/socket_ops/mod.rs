//! The native half of the `sock_*` coroutines in `mainspring._sockets`: the first attempt, and the wait after it.
//!
//! The engine (`mainspring_engine::socket_ops`) performs the attempts, continues partial sends, and cancels. This module
//! turns sockets and buffers into file descriptors and slices. Only a plain `socket.socket` is used through its
//! descriptor. For every other object its methods are called, as asyncio does; so are those of a plain socket for unusual
//! arguments, since they raise the right exceptions.

mod held_buffer;
mod wait;

pub use wait::SocketWait;

use crate::errors::os_error;
use crate::event_loop::NativeLoop;
use crate::event_loop::readers::file_descriptor;
use crate::names::names;
use crate::python::args::Args;
use crate::python::buffer::with_writable;
use crate::python::bytes::Bytes;
use crate::python::descriptor;
use crate::python::guard::catch_unwind;
use crate::python::method::{Method, PyO3, Receiver};
use crate::python::object::Obj;
use held_buffer::HeldBuffer;
use mainspring_engine::socket_ops::{self, Ready, SendAll, SendFile};
use mainspring_engine::{Direction, READ_SIZE};
use pyo3::exceptions::{PyBlockingIOError, PyInterruptedError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::PyString;
use std::io;
use std::os::fd::{BorrowedFd, RawFd};
use wait::Waiting;

/// The delay in seconds after failed attempt number `attempt` to connect a Unix socket.
#[pyfunction]
pub fn connect_backoff(attempt: u32) -> PyResult<f64> {
    catch_unwind(|| Ok(socket_ops::connect_backoff(attempt).as_secs_f64()))
}

/// The methods of this file.
pub fn methods() -> Vec<Method<PyO3<NativeLoop>>> {
    vec![
        Method::fastcall(c"_try_recv", try_recv, c"Receive the available data; None if there is none yet."),
        Method::fastcall(
            c"_try_recv_into",
            try_recv_into,
            c"Receive the available data into a buffer; None if there is none yet.",
        ),
        Method::fastcall(
            c"_try_sendall",
            try_sendall,
            c"Send what the kernel accepts; None if that is all, otherwise an awaitable for the rest.",
        ),
        Method::fastcall(
            c"_until_ready",
            until_ready,
            c"An awaitable until the socket can be read from, or (True) written to.",
        ),
        Method::fastcall(
            c"_send_file",
            send_file,
            c"An awaitable until a part of a file is sent: (sock, fd, offset, count or None).",
        ),
    ]
}

/// A call of one of the methods: the socket and `N` more arguments.
struct Request<'a, const N: usize> {
    py: Python<'a>,
    event_loop: Bound<'a, NativeLoop>,
    socket: Bound<'a, PyAny>,
    rest: [&'a Obj; N],
}

impl<'a, const N: usize> Request<'a, N> {
    fn new(method: &str, receiver: Receiver<'a, NativeLoop>, args: &Args<'a>) -> PyResult<Self> {
        let py = receiver.py;
        let ([socket], rest) = args.split(method, ["sock"])?;
        let Some(rest) = rest.first_chunk::<N>() else {
            return Err(PyTypeError::new_err(format!("{method}() takes {} arguments", N + 1)));
        };
        let event_loop = receiver.this.bind(py).cast_into::<NativeLoop>()?;
        Ok(Request { py, event_loop, socket: socket.bind(py), rest: rest.each_ref() })
    }

    /// Whether the type of the socket is `socket.socket` itself.
    fn is_plain(&self) -> PyResult<bool> {
        Ok(self.socket.get_type().is(&names(self.py)?.socket_class))
    }

    /// asyncio's checks of the socket and of the loop. A plain socket passes them, except in debug mode.
    fn check(&self) -> PyResult<()> {
        let native = self.event_loop.get();
        if !self.is_plain()? || native.is_debug() {
            self.event_loop.call_method1(&names(self.py)?._check_socket, (&self.socket,))?;
        }
        native.check_closed()
    }

    /// The file descriptor of a plain, open socket.
    fn plain_descriptor(&self) -> PyResult<Option<BorrowedFd<'_>>> {
        if !self.is_plain()? {
            return Ok(None);
        }
        let fd: RawFd = self.socket.call_method0(&names(self.py)?.fileno)?.extract()?;
        Ok(descriptor::of_socket(&self.socket, fd))
    }

    /// Makes an attempt with a method of the socket, whose only argument is `argument`.
    fn call_socket(&self, name: &Py<PyString>, argument: &Obj) -> PyResult<Obj> {
        match self.socket.call_method1(name, (argument.bind(self.py),)) {
            Ok(value) => Ok(value.into()),
            Err(error)
                if error.is_instance_of::<PyBlockingIOError>(self.py)
                    || error.is_instance_of::<PyInterruptedError>(self.py) =>
            {
                Ok(Obj::none())
            }
            Err(error) => Err(error),
        }
    }

    fn io_error(&self, error: io::Error) -> PyErr {
        os_error(self.py, error)
    }
}

fn try_recv(receiver: Receiver<'_, NativeLoop>, args: &Args<'_>) -> PyResult<Obj> {
    let request = Request::<1>::new("_try_recv", receiver, args)?;
    let (py, [size]) = (request.py, request.rest);
    request.check()?;
    let length = size.bind(py).extract::<usize>().unwrap_or(0);
    let socket = request.plain_descriptor()?.filter(|_| (1..=READ_SIZE).contains(&length));
    let Some(socket) = socket else { return request.call_socket(&names(py)?.recv, size) };
    let engine = receiver.data.engine();
    engine.with_read_buffer(|scratch| {
        let received = engine.try_recv(socket, scratch.get_mut(..length).unwrap_or_default());
        match received.map_err(|error| request.io_error(error))? {
            Some(count) => Ok(Bytes::new(py, scratch.get(..count).unwrap_or_default())?.into()),
            None => Ok(Obj::none()),
        }
    })
}

fn try_recv_into(receiver: Receiver<'_, NativeLoop>, args: &Args<'_>) -> PyResult<Obj> {
    let request = Request::<1>::new("_try_recv_into", receiver, args)?;
    let (py, [buffer]) = (request.py, request.rest);
    request.check()?;
    let engine = receiver.data.engine();
    let received = match request.plain_descriptor()? {
        None => None,
        Some(socket) => {
            with_writable(py, buffer, |buffer| (!buffer.is_empty()).then(|| engine.try_recv(socket, buffer)))
                .ok()
                .flatten()
        }
    };
    match received {
        None => request.call_socket(&names(py)?.recv_into, buffer),
        Some(received) => match received.map_err(|error| request.io_error(error))? {
            Some(count) => Obj::int(py, count),
            None => Ok(Obj::none()),
        },
    }
}

fn try_sendall(receiver: Receiver<'_, NativeLoop>, args: &Args<'_>) -> PyResult<Obj> {
    let request = Request::<1>::new("_try_sendall", receiver, args)?;
    let (py, [data]) = (request.py, request.rest);
    request.check()?;
    let data = HeldBuffer::new(py, data)?;
    let Some(socket) = request.plain_descriptor()? else {
        return Err(request.io_error(io::Error::from_raw_os_error(libc::EBADF)));
    };
    let sent = receiver.data.engine().try_send(socket, data.as_ref());
    let sent = sent.map_err(|error| request.io_error(error))?.unwrap_or(0);
    if sent == data.as_ref().len() {
        return Ok(Obj::none());
    }
    let operation = Waiting::SendAll(SendAll::new(data, sent));
    Ok(SocketWait::begin(&request.event_loop, &request.socket, socket, operation)?.into())
}

fn until_ready(receiver: Receiver<'_, NativeLoop>, args: &Args<'_>) -> PyResult<Obj> {
    let request = Request::<1>::new("_until_ready", receiver, args)?;
    let [to_write] = request.rest;
    let direction =
        if to_write.bind(request.py).is_truthy()? { Direction::Outbound } else { Direction::Inbound };
    let socket = file_descriptor(&request.socket)?;
    let socket = descriptor::borrow_open(&request.socket, socket).map_err(|error| request.io_error(error))?;
    let operation = Waiting::Ready(Ready(direction));
    Ok(SocketWait::begin(&request.event_loop, &request.socket, socket, operation)?.into())
}

fn send_file(receiver: Receiver<'_, NativeLoop>, args: &Args<'_>) -> PyResult<Obj> {
    let request = Request::<3>::new("_send_file", receiver, args)?;
    let py = request.py;
    let [file, offset, count] = request.rest.map(|argument| argument.bind(py));
    let file_fd = file_descriptor(&file)?;
    let offset: u64 = offset.extract()?;
    let count: Option<u64> = count.extract()?;
    let socket = file_descriptor(&request.socket)?;
    let socket = descriptor::borrow_open(&request.socket, socket).map_err(|error| request.io_error(error))?;
    let file = descriptor::borrow_open(&file, file_fd).and_then(|file| file.try_clone_to_owned());
    let operation = SendFile::new(file.map_err(|error| request.io_error(error))?, offset, count);
    Ok(SocketWait::send_file(&request.event_loop, &request.socket, socket, operation)?.into())
}
