//! The methods of `SSLTransport`.

use super::{PyTls, TlsTransportData, open_of};
use crate::event_loop::host::PyHost;
use crate::python::args::Args;
use crate::python::method::{Method, Native, Receiver};
use crate::python::object::Obj;
use crate::transport::methods::{exception, limits, try_collect};
use crate::transport::write_data::WriteData;
use crate::transport::{native_loop, write_buffer_limits};
use mainspring_engine::transport::{Cx, DeferredCall};
use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::prelude::*;

type This<'a> = Receiver<'a, TlsTransportData>;

pub fn methods() -> Vec<Method<Native<TlsTransportData>>> {
    vec![
        Method::fastcall(c"write", write, c"Write some data bytes to the transport."),
        Method::fastcall(c"writelines", writelines, c"Write a list (or any iterable) of data bytes."),
        Method::noargs(
            c"can_write_eof",
            can_write_eof,
            c"Return False: TLS cannot end in one direction only.",
        ),
        Method::noargs(c"close", close, c"Close the transport after flushing buffered data."),
        Method::noargs(c"abort", abort, c"Close the transport immediately; buffered data is lost."),
        Method::one(
            c"_force_close",
            force_close,
            c"Close immediately; the argument is passed to connection_lost().",
        ),
        Method::noargs(c"is_closing", is_closing, c"Whether the transport is closing or closed."),
        Method::noargs(c"is_reading", is_reading, c"Whether the transport is receiving."),
        Method::noargs(c"pause_reading", pause_reading, c"Pause the receiving end."),
        Method::noargs(c"resume_reading", resume_reading, c"Resume the receiving end."),
        Method::noargs(
            c"get_write_buffer_size",
            get_write_buffer_size,
            c"The number of bytes that are not encrypted or not sent yet.",
        ),
        Method::noargs(
            c"get_write_buffer_limits",
            get_write_buffer_limits,
            c"The low and high water marks of write flow control.",
        ),
        Method::fastcall(
            c"set_write_buffer_limits",
            set_write_buffer_limits,
            c"Set the high and low water limits for write flow control.",
        ),
        Method::noargs(
            c"get_read_buffer_size",
            get_read_buffer_size,
            c"The number of bytes that were received and not delivered yet.",
        ),
        Method::noargs(
            c"get_read_buffer_limits",
            get_read_buffer_limits,
            c"The low and high water marks of read flow control.",
        ),
        Method::fastcall(
            c"set_read_buffer_limits",
            set_read_buffer_limits,
            c"Set the high and low water limits for read flow control.",
        ),
        Method::fastcall(c"set_protocol", set_protocol, c"Set a new protocol."),
        Method::noargs(c"get_protocol", get_protocol, c"The current protocol."),
        Method::noargs(c"_do_read", do_read, c"Continue delivering; scheduled by the engine."),
        Method::noargs(
            c"_check_handshake_timeout",
            check_handshake_timeout,
            c"The handshake timed out; scheduled by the engine.",
        ),
        Method::noargs(
            c"_check_shutdown_timeout",
            check_shutdown_timeout,
            c"The TLS shutdown timed out; scheduled by the engine.",
        ),
        Method::noargs(
            c"_close_lower",
            close_lower,
            c"Close the underlying transport; scheduled by the engine.",
        ),
        Method::noargs(c"_state", state, c"(is_closed, is_writing_paused), for repr()."),
        Method::noargs(
            c"_lower_protocol",
            lower_protocol,
            c"The SSLProtocol, which is the protocol of the underlying transport.",
        ),
    ]
}

fn protocol_of<'a>(this: This<'a>) -> PyResult<&'a Obj> {
    let protocol = this.data.protocol.get();
    protocol.ok_or_else(|| PyRuntimeError::new_err("the transport was not opened by a loop"))
}

/// The state machine, and the context for its calls.
fn opened(this: This<'_>) -> PyResult<(&PyTls, Cx<'_, PyHost>)> {
    let open = open_of(this.py, protocol_of(this)?)?;
    let engine = native_loop(this.py, &open.event_loop)?.engine();
    Ok((&open.tls, Cx { engine, this: this.this }))
}

fn write(this: This<'_>, args: &Args<'_>) -> PyResult<()> {
    let py = this.py;
    let (tls, cx) = opened(this)?;
    let argument = args.only("write", "data")?;
    let data = WriteData::new(py, argument).or_else(|error| {
        if !error.is_instance_of::<PyTypeError>(py) {
            return Err(error);
        }
        let name = argument.bind(py).get_type().name()?;
        Err(PyTypeError::new_err(format!("data: expecting a bytes-like instance, got {name}")))
    })?;
    if data.as_slice().is_empty() {
        return Ok(());
    }
    tls.write(cx, [data.to_bytes_chunk(py)?])
}

fn writelines(this: This<'_>, args: &Args<'_>) -> PyResult<()> {
    let py = this.py;
    let (tls, cx) = opened(this)?;
    let lines = args.only("writelines", "list_of_data")?.bind(py);
    let chunks = try_collect(
        lines.try_iter()?.map(|line| WriteData::for_line(py, &line?.into())?.to_bytes_chunk(py)),
    )?;
    tls.write(cx, chunks)
}

fn can_write_eof(this: This<'_>) -> PyResult<bool> {
    opened(this)?;
    Ok(false)
}

fn close(this: This<'_>) -> PyResult<()> {
    let (tls, cx) = opened(this)?;
    if tls.is_closed() { Ok(()) } else { tls.close(cx) }
}

fn abort(this: This<'_>) -> PyResult<()> {
    let (tls, cx) = opened(this)?;
    tls.abort(cx, None)
}

fn force_close(this: This<'_>, error: &Obj) -> PyResult<()> {
    let (tls, cx) = opened(this)?;
    tls.abort(cx, exception(this.py, error))
}

fn is_closing(this: This<'_>) -> PyResult<bool> {
    let (tls, cx) = opened(this)?;
    tls.is_closing(cx)
}

fn is_reading(this: This<'_>) -> PyResult<bool> {
    Ok(opened(this)?.0.is_reading())
}

fn pause_reading(this: This<'_>) -> PyResult<()> {
    opened(this)?.0.pause_reading();
    Ok(())
}

fn resume_reading(this: This<'_>) -> PyResult<()> {
    let (tls, cx) = opened(this)?;
    tls.resume_reading(cx)
}

fn get_write_buffer_size(this: This<'_>) -> PyResult<usize> {
    let (tls, cx) = opened(this)?;
    tls.write_buffer_size(cx)
}

fn get_write_buffer_limits(this: This<'_>) -> PyResult<Obj> {
    limits(this.py, opened(this)?.0.write_marks())
}

fn set_write_buffer_limits(this: This<'_>, args: &Args<'_>) -> PyResult<()> {
    let (tls, cx) = opened(this)?;
    let [high, low] = args.optional("set_write_buffer_limits", ["high", "low"])?;
    tls.set_write_marks(cx, write_buffer_limits(this.py, high, low, PyTls::WRITE_HIGH_WATER)?)
}

fn get_read_buffer_size(this: This<'_>) -> PyResult<usize> {
    let (tls, cx) = opened(this)?;
    tls.read_buffer_size(cx)
}

fn get_read_buffer_limits(this: This<'_>) -> PyResult<Obj> {
    limits(this.py, opened(this)?.0.read_marks())
}

fn set_read_buffer_limits(this: This<'_>, args: &Args<'_>) -> PyResult<()> {
    let (tls, cx) = opened(this)?;
    let [high, low] = args.optional("set_read_buffer_limits", ["high", "low"])?;
    tls.set_read_marks(cx, write_buffer_limits(this.py, high, low, PyTls::READ_HIGH_WATER)?)
}

fn set_protocol(this: This<'_>, args: &Args<'_>) -> PyResult<()> {
    let (tls, _) = opened(this)?;
    tls.sink().set_protocol(&args.only("set_protocol", "protocol")?.bind(this.py))
}

fn get_protocol(this: This<'_>) -> PyResult<Option<Obj>> {
    Ok(opened(this)?.0.sink().protocol())
}

fn run_deferred(this: This<'_>, deferred: DeferredCall) -> PyResult<()> {
    let (tls, cx) = opened(this)?;
    tls.run_deferred(cx, deferred)
}

fn do_read(this: This<'_>) -> PyResult<()> {
    run_deferred(this, DeferredCall::ContinueReading)
}

fn check_handshake_timeout(this: This<'_>) -> PyResult<()> {
    run_deferred(this, DeferredCall::HandshakeTimeout)
}

fn check_shutdown_timeout(this: This<'_>) -> PyResult<()> {
    run_deferred(this, DeferredCall::ShutdownTimeout)
}

fn close_lower(this: This<'_>) -> PyResult<()> {
    run_deferred(this, DeferredCall::CloseLower)
}

fn state(this: This<'_>) -> PyResult<Obj> {
    let (tls, _) = opened(this)?;
    Ok((tls.is_closed(), tls.is_writing_paused()).into_pyobject(this.py)?.into())
}

fn lower_protocol(this: This<'_>) -> PyResult<Obj> {
    protocol_of(this).cloned()
}
