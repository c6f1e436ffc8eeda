//! The methods of `StreamTransport` beside those that transports share.

use super::StreamData;
use crate::event_loop::host::PyHost;
use crate::python::args::Args;
use crate::python::method::{Method, Native, Receiver};
use crate::python::object::Obj;
use crate::transport::channel::{PyChannel, SocketHold, detach_socket, socket_object};
use crate::transport::methods::try_collect;
use crate::transport::protocol::PyProtocol;
use crate::transport::write_data::WriteData;
use crate::transport::{Open, opened, write_in_context};
use mainspring_engine::transport::{Stream, WriteRefused};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use std::io::IoSlice;
use std::os::fd::{AsFd, AsRawFd, IntoRawFd, RawFd};

type StreamMachine = Stream<PyHost, PyProtocol>;

pub fn methods() -> Vec<Method<Native<StreamData>>> {
    vec![
        Method::fastcall(c"write", write, c"Write some data bytes to the transport."),
        Method::fastcall(c"writelines", writelines, c"Write a list (or any iterable) of data bytes."),
        Method::noargs(c"write_eof", write_eof, c"Close the write end after flushing buffered data."),
        Method::noargs(c"can_write_eof", can_write_eof, c"Return True: the transport supports write_eof()."),
        Method::noargs(
            c"_reserve_writing",
            reserve_writing,
            c"Refuse writes while sendfile() sends; return whether the write buffer is empty.",
        ),
        Method::noargs(c"_release_writing", release_writing, c"Accept writes again."),
        Method::noargs(
            c"_accepted_names",
            accepted_names,
            c"(sockname, peername) of an accepted connection, also after its end; None for another.",
        ),
        Method::noargs(c"_take_socket", take_socket, c"The socket object that owns the descriptor."),
    ]
}

/// Raises asyncio's exception if a write is refused. `method` is the name in the message.
fn check_write(open: &Open<StreamMachine>, method: impl FnOnce() -> &'static str) -> PyResult<()> {
    open.machine.check_write().map_err(|refused| {
        let method = method();
        PyRuntimeError::new_err(match refused {
            WriteRefused::AfterEof => format!("Cannot call {method}() after write_eof()"),
            WriteRefused::Reserved => format!("unable to {method}; sendfile is in progress"),
        })
    })
}

fn write(receiver: Receiver<'_, StreamData>, args: &Args<'_>) -> PyResult<()> {
    let (open, cx) = opened(receiver)?;
    let data = WriteData::for_stream(receiver.py, args.only("write", "data")?)?;
    check_write(open, || "write")?;
    data.reserve()?;
    write_in_context(receiver.py, open, || open.machine.write(cx, data.as_slice(), || data.to_chunk()))
}

fn writelines(receiver: Receiver<'_, StreamData>, args: &Args<'_>) -> PyResult<()> {
    let py = receiver.py;
    let (open, cx) = opened(receiver)?;
    let lines = args.only("writelines", "list_of_data")?.bind(py);
    // First all lines: a generator may change an object that it has returned, which a view would prevent.
    let lines: Vec<Obj> = try_collect(lines.try_iter()?.map(|line| line.map(Obj::from)))?;
    let pieces = try_collect(lines.iter().map(|line| WriteData::for_line(py, line)))?;
    // Before Python 3.12 asyncio joins the lines and calls write().
    check_write(open, || if py.version_info() >= (3, 12) { "writelines" } else { "write" })?;
    pieces.iter().try_for_each(WriteData::reserve)?;
    let slices = try_collect(pieces.iter().map(|piece| Ok(IoSlice::new(piece.as_slice()))))?;
    let to_chunk = |index: usize| pieces.get(index)?.to_chunk();
    write_in_context(py, open, || open.machine.write_vectored(cx, &slices, to_chunk))
}

fn write_eof(receiver: Receiver<'_, StreamData>) -> PyResult<()> {
    let (open, cx) = opened(receiver)?;
    open.machine.write_eof(cx)
}

fn can_write_eof(_: Receiver<'_, StreamData>) -> PyResult<bool> {
    Ok(true)
}

fn reserve_writing(receiver: Receiver<'_, StreamData>) -> PyResult<bool> {
    Ok(opened(receiver)?.0.machine.reserve_writing())
}

fn release_writing(receiver: Receiver<'_, StreamData>) -> PyResult<()> {
    opened(receiver)?.0.machine.release_writing();
    Ok(())
}

fn accepted_names(receiver: Receiver<'_, StreamData>) -> PyResult<Option<Obj>> {
    let accepted = receiver.data.accepted.get();
    accepted.map(|accepted| Ok(accepted.names(receiver.py)?.into())).transpose()
}

fn take_socket(receiver: Receiver<'_, StreamData>) -> PyResult<Option<Obj>> {
    let machine = &opened(receiver)?.0.machine;
    match machine.with_channel(existing_socket) {
        None => Ok(None),
        Some(Ok(socket)) => Ok(Some(socket)),
        Some(Err(fd)) => create_socket(receiver.py, machine, fd),
    }
}

/// The socket object of a channel; the file descriptor if there is no such object yet.
fn existing_socket(channel: &PyChannel) -> Result<Obj, RawFd> {
    match channel {
        PyChannel::Socket(hold) => Ok(hold.socket().clone()),
        PyChannel::Owned(_) | PyChannel::File(_) => Err(channel.as_fd().as_raw_fd()),
    }
}

/// Creates the socket object of an accepted connection.
///
/// The transport keeps its channel while Python code runs, which may raise, use the transport, or close it. If the
/// transport is closed meanwhile, the new object must not close the descriptor: the number may be reused.
fn create_socket(py: Python<'_>, stream: &StreamMachine, fd: RawFd) -> PyResult<Option<Obj>> {
    let socket = socket_object(py, fd)?;
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
            // The socket object closes it from now on.
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
    Ok(stream.with_channel(existing_socket).and_then(Result::ok))
}
