//! The methods that several transport classes share.

use super::engine_transport::{EngineTransport, ReadableTransport, WritableTransport};
use super::write_buffer_limits::write_buffer_limits;
use super::{TransportClass, opened};
use crate::errors::out_of_memory;
use crate::python::args::Args;
use crate::python::method::{Method, Native, Receiver};
use crate::python::object::Obj;
use mainspring_engine::transport::{DeferredCall, Transport, WaterMarks};
use pyo3::prelude::*;

/// The methods of every transport.
pub fn common<K: TransportClass>() -> Vec<Method<Native<K>>> {
    vec![
        Method::noargs(c"close", close::<K>, c"Close the transport after flushing buffered data."),
        Method::noargs(c"is_closing", is_closing::<K>, c"Whether the transport is closing or closed."),
        Method::fastcall(c"set_protocol", set_protocol::<K>, c"Set a new protocol."),
        Method::noargs(c"get_protocol", get_protocol::<K>, c"The current protocol."),
        Method::noargs(c"_add_reader", add_reader::<K>, c"Begin to read; scheduled by the engine."),
        Method::one(
            c"_call_connection_lost",
            call_connection_lost::<K>,
            c"Call connection_lost() of the protocol and close the descriptor; scheduled by the engine.",
        ),
        Method::one(
            c"_force_close",
            force_close::<K>,
            c"Close immediately; the argument is passed to connection_lost().",
        ),
        Method::noargs(
            c"_state",
            state::<K>,
            c"(is_finished, fd, is_reading, is_writing, is_writing_paused), for repr().",
        ),
        Method::noargs(c"_release", release::<K>, c"Close the descriptor of a transport that is finalized."),
    ]
}

/// The methods of every transport that reads.
pub fn reading<K: TransportClass<Machine: ReadableTransport>>() -> Vec<Method<Native<K>>> {
    vec![
        Method::noargs(c"is_reading", is_reading::<K>, c"Whether the transport is receiving."),
        Method::noargs(c"pause_reading", pause_reading::<K>, c"Pause the receiving end."),
        Method::noargs(c"resume_reading", resume_reading::<K>, c"Resume the receiving end."),
    ]
}

/// The methods of every transport that writes.
pub fn writing<K: TransportClass<Machine: WritableTransport>>() -> Vec<Method<Native<K>>> {
    vec![
        Method::noargs(c"abort", abort::<K>, c"Close the transport immediately; buffered data is lost."),
        Method::noargs(
            c"get_write_buffer_size",
            get_write_buffer_size::<K>,
            c"The number of bytes in the write buffer.",
        ),
        Method::noargs(
            c"get_write_buffer_limits",
            get_write_buffer_limits::<K>,
            c"The low and high water marks of write flow control.",
        ),
        Method::fastcall(
            c"set_write_buffer_limits",
            set_write_buffer_limits::<K>,
            c"Set the high and low water limits for write flow control.",
        ),
    ]
}

pub fn close<K: TransportClass>(receiver: Receiver<'_, K>) -> PyResult<()> {
    let (open, cx) = opened(receiver)?;
    if open.machine.is_finished() {
        // Has an effect only after `_release()`, when connection_lost() was not called yet.
        open.machine.abort(cx, None)
    } else {
        open.machine.close(cx)
    }
}

fn abort<K: TransportClass>(receiver: Receiver<'_, K>) -> PyResult<()> {
    let (open, cx) = opened(receiver)?;
    open.machine.abort(cx, None)
}

fn force_close<K: TransportClass>(receiver: Receiver<'_, K>, error: &Obj) -> PyResult<()> {
    let (open, cx) = opened(receiver)?;
    open.machine.abort(cx, exception(receiver.py, error))
}

/// An argument that is an exception or `None`.
pub fn exception(py: Python<'_>, error: &Obj) -> Option<PyErr> {
    (!error.is_none()).then(|| PyErr::from_value(error.bind(py)))
}

fn is_closing<K: TransportClass>(receiver: Receiver<'_, K>) -> PyResult<bool> {
    Ok(opened(receiver)?.0.machine.is_closing())
}

fn is_reading<K: TransportClass<Machine: ReadableTransport>>(receiver: Receiver<'_, K>) -> PyResult<bool> {
    Ok(opened(receiver)?.0.machine.is_reading())
}

fn pause_reading<K: TransportClass<Machine: ReadableTransport>>(receiver: Receiver<'_, K>) -> PyResult<()> {
    let (open, cx) = opened(receiver)?;
    if open.machine.pause_reading(cx)? {
        cx.engine.host().log(cx.this, "pauses reading")?;
    }
    Ok(())
}

fn resume_reading<K: TransportClass<Machine: ReadableTransport>>(receiver: Receiver<'_, K>) -> PyResult<()> {
    let (open, cx) = opened(receiver)?;
    if open.machine.resume_reading(cx)? {
        open.contexts.capture_for_reading(receiver.py)?;
        cx.engine.host().log(cx.this, "resumes reading")?;
    }
    Ok(())
}

fn get_write_buffer_size<K: TransportClass<Machine: WritableTransport>>(
    receiver: Receiver<'_, K>,
) -> PyResult<usize> {
    Ok(opened(receiver)?.0.machine.write_buffer_size())
}

fn get_write_buffer_limits<K: TransportClass<Machine: WritableTransport>>(
    receiver: Receiver<'_, K>,
) -> PyResult<Obj> {
    limits(receiver.py, opened(receiver)?.0.machine.water_marks())
}

/// `(low, high)`.
pub fn limits(py: Python<'_>, marks: WaterMarks) -> PyResult<Obj> {
    Ok((marks.low, marks.high).into_pyobject(py)?.into())
}

fn set_write_buffer_limits<K: TransportClass<Machine: WritableTransport>>(
    receiver: Receiver<'_, K>,
    args: &Args<'_>,
) -> PyResult<()> {
    let (open, cx) = opened(receiver)?;
    let [high, low] = args.optional("set_write_buffer_limits", ["high", "low"])?;
    let marks = write_buffer_limits(receiver.py, high, low, WaterMarks::default().high)?;
    open.machine.set_water_marks(cx, marks)
}

fn set_protocol<K: TransportClass>(receiver: Receiver<'_, K>, args: &Args<'_>) -> PyResult<()> {
    let (open, _) = opened(receiver)?;
    let protocol = args.only("set_protocol", "protocol")?;
    K::protocol(&open.machine).set_protocol(&protocol.bind(receiver.py))
}

fn get_protocol<K: TransportClass>(receiver: Receiver<'_, K>) -> PyResult<Option<Obj>> {
    Ok(K::protocol(&opened(receiver)?.0.machine).protocol())
}

fn add_reader<K: TransportClass>(receiver: Receiver<'_, K>) -> PyResult<()> {
    let (open, cx) = opened(receiver)?;
    open.contexts.capture_for_reading(receiver.py)?;
    open.machine.run_deferred(cx, DeferredCall::StartReading)
}

/// The engine has stored the exception, so the argument is not used.
fn call_connection_lost<K: TransportClass>(receiver: Receiver<'_, K>, _: &Obj) -> PyResult<()> {
    let (open, cx) = opened(receiver)?;
    let result = open.machine.run_deferred(cx, DeferredCall::ConnectionLost);
    open.drop_contexts_if_finished();
    result
}

fn state<K: TransportClass>(receiver: Receiver<'_, K>) -> PyResult<Obj> {
    let machine = &opened(receiver)?.0.machine;
    let interest = machine.interest();
    let state = (
        machine.is_finished(),
        machine.fd(),
        interest.is_inbound(),
        interest.is_outbound(),
        machine.is_writing_paused(),
    );
    Ok(state.into_pyobject(receiver.py)?.into())
}

fn release<K: TransportClass>(receiver: Receiver<'_, K>) -> PyResult<()> {
    let (open, cx) = opened(receiver)?;
    let channel = open.machine.take_channel();
    drop(channel);
    // The protocol stays: another object of the same garbage can still call close() in its finalizer.
    K::protocol(&open.machine).leave_server(receiver.py, cx.this)
}

/// Collects an iterator of any length; `MemoryError` if there is no memory for it.
pub fn try_collect<T>(items: impl Iterator<Item = PyResult<T>>) -> PyResult<Vec<T>> {
    let mut all = Vec::new();
    for item in items {
        let item = item?;
        all.try_reserve(1).map_err(|_| out_of_memory())?;
        all.push(item);
    }
    Ok(all)
}
