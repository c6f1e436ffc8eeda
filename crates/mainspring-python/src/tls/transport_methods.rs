//! The methods of `SSLTransport`, as the interpreter calls them.

use super::{PyTls, TlsTransportData, native_of, open_of};
use crate::event_loop::host::PyHost;
use crate::python::method::{self, Args, enter};
use crate::python::native_class::native_data;
use crate::python::object::Obj;
use crate::stream::methods::collect;
use crate::transport::channel::Data;
use crate::transport::methods::{boolean, none};
use crate::transport::write_buffer_limits::marks_from;
use mainspring_engine::transport::{Cx, Notice, WaterMarks};
use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;

pub fn table() -> Vec<ffi::PyMethodDef> {
    vec![
        method::method(c"write", write, c"Write some data bytes to the transport."),
        method::method(c"writelines", writelines, c"Write a list (or any iterable) of data bytes."),
        method::method_noargs(
            c"can_write_eof",
            can_write_eof,
            c"Return False: TLS cannot end in one direction only.",
        ),
        method::method_noargs(c"close", close, c"Close the transport after flushing buffered data."),
        method::method_noargs(c"abort", abort, c"Close the transport immediately; buffered data is lost."),
        method::method_one(
            c"_force_close",
            force_close,
            c"Close immediately; the argument is what connection_lost() is told.",
        ),
        method::method_noargs(c"is_closing", is_closing, c"Whether the transport is closing or closed."),
        method::method_noargs(c"is_reading", is_reading, c"Whether the transport delivers what arrives."),
        method::method_noargs(c"pause_reading", pause_reading, c"Pause the receiving end."),
        method::method_noargs(c"resume_reading", resume_reading, c"Resume the receiving end."),
        method::method_noargs(
            c"get_write_buffer_size",
            get_write_buffer_size,
            c"The number of bytes that wait to be encrypted or sent.",
        ),
        method::method_noargs(
            c"get_write_buffer_limits",
            get_write_buffer_limits,
            c"The low and high water marks of write flow control.",
        ),
        method::method(
            c"set_write_buffer_limits",
            set_write_buffer_limits,
            c"Set the high and low water limits for write flow control.",
        ),
        method::method_noargs(
            c"get_read_buffer_size",
            get_read_buffer_size,
            c"The number of bytes that were received and not delivered.",
        ),
        method::method_noargs(
            c"get_read_buffer_limits",
            get_read_buffer_limits,
            c"The low and high water marks of read flow control.",
        ),
        method::method(
            c"set_read_buffer_limits",
            set_read_buffer_limits,
            c"Set the high and low water limits for read flow control.",
        ),
        method::method(c"set_protocol", set_protocol, c"Set a new protocol."),
        method::method_noargs(c"get_protocol", get_protocol, c"The current protocol."),
        method::method_noargs(c"_do_read", do_read, c"Go on delivering; scheduled by the engine."),
        method::method_noargs(
            c"_check_handshake_timeout",
            check_handshake_timeout,
            c"Give the handshake up; scheduled by the engine.",
        ),
        method::method_noargs(
            c"_check_shutdown_timeout",
            check_shutdown_timeout,
            c"Give the goodbye up; scheduled by the engine.",
        ),
        method::method_noargs(
            c"_close_lower",
            close_lower,
            c"Close the transport below; scheduled by the engine.",
        ),
        method::method_noargs(c"_state", state, c"Whether it was closed, and whether writing is paused."),
        method::method_noargs(c"_protocol_below", protocol_below, c"The protocol of the transport below."),
    ]
}

fn protocol_of<'a>(py: Python<'_>, this: &'a Obj) -> PyResult<&'a Obj> {
    let data = native_data::<TlsTransportData>(py, this)?;
    let protocol = data.and_then(|data| data.protocol.get());
    protocol.ok_or_else(|| PyRuntimeError::new_err("the transport was not opened by a loop"))
}

/// Runs a method body with the machine and what it needs to call out.
fn method(
    this: *mut ffi::PyObject,
    body: impl FnOnce(Python<'_>, &PyTls, Cx<'_, PyHost>) -> PyResult<*mut ffi::PyObject>,
) -> *mut ffi::PyObject {
    enter(|py| {
        // SAFETY: called by the interpreter as a method; `this` is alive for the call, and the reference made here
        // keeps it so, and its protocol with it, while others are called.
        let this = unsafe { Obj::from_borrowed(this) };
        let open = open_of(py, protocol_of(py, &this)?)?;
        body(py, &open.tls, Cx { engine: native_of(py, open)?.engine(), this: &this })
    })
}

fn limits(py: Python<'_>, marks: WaterMarks) -> PyResult<*mut ffi::PyObject> {
    Ok((marks.low, marks.high).into_pyobject(py)?.into_ptr())
}

extern "C" fn write(
    this: *mut ffi::PyObject,
    args: *const *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
    kwnames: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    method(this, |py, tls, cx| {
        // SAFETY: called by the interpreter with these arguments.
        let argument = unsafe { Args::new("write", args, count, kwnames) }.only("data")?;
        // SAFETY: an argument is alive for the call.
        let data = unsafe { Data::new(py, argument) }.or_else(|error| {
            if !error.is_instance_of::<PyTypeError>(py) {
                return Err(error);
            }
            // SAFETY: as above.
            let name = unsafe { Bound::from_borrowed_ptr(py, argument) }.get_type().name()?;
            Err(PyTypeError::new_err(format!("data: expecting a bytes-like instance, got {name}")))
        })?;
        if !data.as_slice().is_empty() {
            tls.write(cx, [data.to_bytes(py)?])?;
        }
        none(py)
    })
}

extern "C" fn writelines(
    this: *mut ffi::PyObject,
    args: *const *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
    kwnames: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    method(this, |py, tls, cx| {
        // SAFETY: called by the interpreter with these arguments, which are alive for the call.
        let lines = unsafe {
            let args = Args::new("writelines", args, count, kwnames);
            Bound::from_borrowed_ptr(py, args.only("list_of_data")?)
        };
        let chunks = collect(lines.try_iter()?.map(|line| {
            let line = line?;
            // SAFETY: the object is held by `line`.
            unsafe { Data::for_lines(py, line.as_ptr())? }.to_bytes(py)
        }))?;
        tls.write(cx, chunks)?;
        none(py)
    })
}

extern "C" fn can_write_eof(this: *mut ffi::PyObject, _: *mut ffi::PyObject) -> *mut ffi::PyObject {
    method(this, |_, _, _| boolean(false))
}

extern "C" fn close(this: *mut ffi::PyObject, _: *mut ffi::PyObject) -> *mut ffi::PyObject {
    method(this, |py, tls, cx| {
        if !tls.is_closed() {
            tls.close(cx)?;
        }
        none(py)
    })
}

extern "C" fn abort(this: *mut ffi::PyObject, _: *mut ffi::PyObject) -> *mut ffi::PyObject {
    method(this, |py, tls, cx| {
        tls.abort(cx, None)?;
        none(py)
    })
}

extern "C" fn force_close(this: *mut ffi::PyObject, error: *mut ffi::PyObject) -> *mut ffi::PyObject {
    method(this, |py, tls, cx| {
        // SAFETY: an argument is alive for the call.
        let error = unsafe { Bound::from_borrowed_ptr(py, error) };
        let error = (!error.is_none()).then(|| PyErr::from_value(error));
        tls.abort(cx, error)?;
        none(py)
    })
}

extern "C" fn is_closing(this: *mut ffi::PyObject, _: *mut ffi::PyObject) -> *mut ffi::PyObject {
    method(this, |_, tls, cx| boolean(tls.is_closing(cx)?))
}

extern "C" fn is_reading(this: *mut ffi::PyObject, _: *mut ffi::PyObject) -> *mut ffi::PyObject {
    method(this, |_, tls, _| boolean(tls.is_reading()))
}

extern "C" fn pause_reading(this: *mut ffi::PyObject, _: *mut ffi::PyObject) -> *mut ffi::PyObject {
    method(this, |py, tls, _| {
        tls.pause_reading();
        none(py)
    })
}

extern "C" fn resume_reading(this: *mut ffi::PyObject, _: *mut ffi::PyObject) -> *mut ffi::PyObject {
    method(this, |py, tls, cx| {
        tls.resume_reading(cx)?;
        none(py)
    })
}

extern "C" fn get_write_buffer_size(this: *mut ffi::PyObject, _: *mut ffi::PyObject) -> *mut ffi::PyObject {
    method(this, |py, tls, cx| Ok(tls.write_buffer_size(cx)?.into_pyobject(py)?.into_ptr()))
}

extern "C" fn get_write_buffer_limits(this: *mut ffi::PyObject, _: *mut ffi::PyObject) -> *mut ffi::PyObject {
    method(this, |py, tls, _| limits(py, tls.write_marks()))
}

extern "C" fn set_write_buffer_limits(
    this: *mut ffi::PyObject,
    args: *const *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
    kwnames: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    method(this, |py, tls, cx| {
        // SAFETY: called by the interpreter with these arguments.
        let args = unsafe { Args::new("set_write_buffer_limits", args, count, kwnames) };
        tls.set_write_marks(cx, marks_from(py, &args, PyTls::WRITE_HIGH_WATER)?)?;
        none(py)
    })
}

extern "C" fn get_read_buffer_size(this: *mut ffi::PyObject, _: *mut ffi::PyObject) -> *mut ffi::PyObject {
    method(this, |py, tls, cx| Ok(tls.read_buffer_size(cx)?.into_pyobject(py)?.into_ptr()))
}

extern "C" fn get_read_buffer_limits(this: *mut ffi::PyObject, _: *mut ffi::PyObject) -> *mut ffi::PyObject {
    method(this, |py, tls, _| limits(py, tls.read_marks()))
}

extern "C" fn set_read_buffer_limits(
    this: *mut ffi::PyObject,
    args: *const *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
    kwnames: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    method(this, |py, tls, cx| {
        // SAFETY: called by the interpreter with these arguments.
        let args = unsafe { Args::new("set_read_buffer_limits", args, count, kwnames) };
        tls.set_read_marks(cx, marks_from(py, &args, PyTls::READ_HIGH_WATER)?)?;
        none(py)
    })
}

extern "C" fn set_protocol(
    this: *mut ffi::PyObject,
    args: *const *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
    kwnames: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    method(this, |py, tls, _| {
        // SAFETY: called by the interpreter with these arguments, which are alive for the call.
        let protocol = unsafe {
            let args = Args::new("set_protocol", args, count, kwnames);
            Bound::from_borrowed_ptr(py, args.only("protocol")?)
        };
        tls.upper().set_protocol(&protocol)?;
        none(py)
    })
}

extern "C" fn get_protocol(this: *mut ffi::PyObject, _: *mut ffi::PyObject) -> *mut ffi::PyObject {
    method(this, |py, tls, _| match tls.upper().protocol() {
        Some(protocol) => Ok(protocol.into_ptr()),
        None => none(py),
    })
}

/// Runs a deferred step.
fn notified(this: *mut ffi::PyObject, notice: Notice) -> *mut ffi::PyObject {
    method(this, |py, tls, cx| {
        tls.notified(cx, notice)?;
        none(py)
    })
}

extern "C" fn do_read(this: *mut ffi::PyObject, _: *mut ffi::PyObject) -> *mut ffi::PyObject {
    notified(this, Notice::ContinueReading)
}

extern "C" fn check_handshake_timeout(this: *mut ffi::PyObject, _: *mut ffi::PyObject) -> *mut ffi::PyObject {
    notified(this, Notice::HandshakeTimeout)
}

extern "C" fn check_shutdown_timeout(this: *mut ffi::PyObject, _: *mut ffi::PyObject) -> *mut ffi::PyObject {
    notified(this, Notice::ShutdownTimeout)
}

extern "C" fn close_lower(this: *mut ffi::PyObject, _: *mut ffi::PyObject) -> *mut ffi::PyObject {
    notified(this, Notice::CloseLower)
}

extern "C" fn state(this: *mut ffi::PyObject, _: *mut ffi::PyObject) -> *mut ffi::PyObject {
    method(this, |py, tls, _| Ok((tls.is_closed(), tls.is_writing_paused()).into_pyobject(py)?.into_ptr()))
}

extern "C" fn protocol_below(this: *mut ffi::PyObject, _: *mut ffi::PyObject) -> *mut ffi::PyObject {
    enter(|py| {
        // SAFETY: called by the interpreter as a method.
        let this = unsafe { Obj::from_borrowed(this) };
        Ok(protocol_of(py, &this)?.clone().into_ptr())
    })
}
