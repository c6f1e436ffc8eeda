//! The methods of `StreamTransport`, as the interpreter calls them.

use super::contexts::writing;
use super::{Open, TransportData, notice_from_number, with_open};
use crate::channel::{Data, PyChannel};
use crate::fastcall::{self, Args, enter};
use crate::host::PyHost;
use crate::native_object::NativeClass;
use crate::obj::Obj;
use mainspring::transport::{Cx, Notice, Upper, WaterMarks, WriteRefused};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;

/// The methods of the type.
pub fn table() -> Vec<ffi::PyMethodDef> {
    vec![
        fastcall::method_one(c"write", write, c"Write some data bytes to the transport."),
        fastcall::method_one(c"writelines", writelines, c"Write a list (or any iterable) of data bytes."),
        fastcall::method_noargs(
            c"write_eof",
            write_eof,
            c"Close the write end after flushing buffered data.",
        ),
        fastcall::method_noargs(
            c"can_write_eof",
            can_write_eof,
            c"Return True: the transport supports write_eof().",
        ),
        fastcall::method_noargs(c"close", close, c"Close the transport after flushing buffered data."),
        fastcall::method_noargs(c"abort", abort, c"Close the transport immediately; buffered data is lost."),
        fastcall::method_noargs(c"is_closing", is_closing, c"Whether the transport is closing or closed."),
        fastcall::method_noargs(c"is_reading", is_reading, c"Whether the transport is receiving."),
        fastcall::method_noargs(c"pause_reading", pause_reading, c"Pause the receiving end."),
        fastcall::method_noargs(c"resume_reading", resume_reading, c"Resume the receiving end."),
        fastcall::method_noargs(
            c"get_write_buffer_size",
            get_write_buffer_size,
            c"The number of bytes that wait to be sent.",
        ),
        fastcall::method_noargs(
            c"get_write_buffer_limits",
            get_write_buffer_limits,
            c"The low and high water marks of write flow control.",
        ),
        fastcall::method(
            c"set_write_buffer_limits",
            set_write_buffer_limits,
            c"Set the high and low water limits for write flow control.",
        ),
        fastcall::method_one(c"set_protocol", set_protocol, c"Set a new protocol."),
        fastcall::method_noargs(c"get_protocol", get_protocol, c"The current protocol."),
        fastcall::method_one(c"_notified", notified, c"Run a deferred step; scheduled by the engine."),
        fastcall::method_one(
            c"_force_close",
            force_close,
            c"Close immediately; the argument is what connection_lost() is told.",
        ),
        fastcall::method_noargs(
            c"_reserve_writing",
            reserve_writing,
            c"Refuse writes, for somebody who sends past the queue; whether that is empty.",
        ),
        fastcall::method_noargs(c"_release_writing", release_writing, c"Take writes again."),
        fastcall::method_noargs(c"_state", state, c"What repr() shows."),
        fastcall::method_noargs(c"_take_socket", take_socket, c"The socket object that owns the descriptor."),
        fastcall::method_noargs(c"_release", release, c"Close the descriptor of a transport that is lost."),
    ]
}

/// Runs a method body with the stream and what it needs to call out.
fn method(
    this: *mut ffi::PyObject,
    body: impl FnOnce(Python<'_>, &Open, Cx<'_, PyHost>) -> PyResult<*mut ffi::PyObject>,
) -> *mut ffi::PyObject {
    enter(|py| {
        let class = NativeClass::of::<TransportData>(py)?;
        // SAFETY: called by the interpreter as a method of the type; `this` is alive for the call, and the
        // reference made here keeps it so while the protocol is called.
        let (this, data) = unsafe { (Obj::from_borrowed(this), class.data(this)) };
        with_open(py, data, |open, native| body(py, open, Cx { engine: native.engine(), this: &this }))
    })
}

fn none(py: Python<'_>) -> PyResult<*mut ffi::PyObject> {
    Ok(py.None().into_ptr())
}

fn boolean(value: bool) -> PyResult<*mut ffi::PyObject> {
    // SAFETY: the booleans live for ever.
    Ok(unsafe { Obj::from_borrowed(if value { ffi::Py_True() } else { ffi::Py_False() }).into_ptr() })
}

fn check_write(open: &Open) -> PyResult<()> {
    open.stream.check_write().map_err(|refused| {
        PyRuntimeError::new_err(match refused {
            WriteRefused::AfterEof => "Cannot call write() after write_eof()",
            WriteRefused::Reserved => "unable to write; sendfile is in progress",
        })
    })
}

extern "C" fn write(this: *mut ffi::PyObject, argument: *mut ffi::PyObject) -> *mut ffi::PyObject {
    method(this, |py, open, cx| {
        // SAFETY: an argument is alive for the call.
        let data = unsafe { Data::new(py, argument)? };
        check_write(open)?;
        writing(py, open, || open.stream.write(cx, data.as_slice(), || data.to_chunk()))?;
        none(py)
    })
}

extern "C" fn writelines(this: *mut ffi::PyObject, argument: *mut ffi::PyObject) -> *mut ffi::PyObject {
    method(this, |py, open, cx| {
        // SAFETY: an argument is alive for the call.
        let lines = unsafe { Bound::from_borrowed_ptr(py, argument) };
        let lines: Vec<Bound<'_, PyAny>> = lines.try_iter()?.collect::<PyResult<_>>()?;
        // SAFETY: the objects are held by `lines`.
        let pieces: Vec<Data> =
            lines.iter().map(|line| unsafe { Data::new(py, line.as_ptr()) }).collect::<PyResult<_>>()?;
        check_write(open)?;
        let slices: Vec<_> = pieces.iter().map(|piece| std::io::IoSlice::new(piece.as_slice())).collect();
        let keep = |index: usize| pieces.get(index).map(Data::to_chunk);
        writing(py, open, || open.stream.write_vectored(cx, &slices, keep))?;
        none(py)
    })
}

extern "C" fn write_eof(this: *mut ffi::PyObject, _: *mut ffi::PyObject) -> *mut ffi::PyObject {
    method(this, |py, open, cx| {
        open.stream.write_eof(cx)?;
        none(py)
    })
}

extern "C" fn can_write_eof(_: *mut ffi::PyObject, _: *mut ffi::PyObject) -> *mut ffi::PyObject {
    enter(|_| boolean(true))
}

extern "C" fn close(this: *mut ffi::PyObject, _: *mut ffi::PyObject) -> *mut ffi::PyObject {
    method(this, |py, open, cx| {
        open.stream.close(cx)?;
        none(py)
    })
}

extern "C" fn abort(this: *mut ffi::PyObject, _: *mut ffi::PyObject) -> *mut ffi::PyObject {
    method(this, |py, open, cx| {
        open.stream.abort(cx, None)?;
        none(py)
    })
}

extern "C" fn force_close(this: *mut ffi::PyObject, error: *mut ffi::PyObject) -> *mut ffi::PyObject {
    method(this, |py, open, cx| {
        // SAFETY: an argument is alive for the call.
        let error = unsafe { Bound::from_borrowed_ptr(py, error) };
        let error = (!error.is_none()).then(|| PyErr::from_value(error));
        open.stream.abort(cx, error)?;
        none(py)
    })
}

extern "C" fn is_closing(this: *mut ffi::PyObject, _: *mut ffi::PyObject) -> *mut ffi::PyObject {
    method(this, |_, open, _| boolean(open.stream.is_closing()))
}

extern "C" fn is_reading(this: *mut ffi::PyObject, _: *mut ffi::PyObject) -> *mut ffi::PyObject {
    method(this, |_, open, _| boolean(open.stream.is_reading()))
}

extern "C" fn pause_reading(this: *mut ffi::PyObject, _: *mut ffi::PyObject) -> *mut ffi::PyObject {
    method(this, |py, open, cx| {
        open.stream.pause_reading(cx)?;
        none(py)
    })
}

extern "C" fn resume_reading(this: *mut ffi::PyObject, _: *mut ffi::PyObject) -> *mut ffi::PyObject {
    method(this, |py, open, cx| {
        if open.stream.resume_reading(cx)? {
            open.contexts.keep(py, &open.contexts.reading)?;
        }
        none(py)
    })
}

extern "C" fn get_write_buffer_size(this: *mut ffi::PyObject, _: *mut ffi::PyObject) -> *mut ffi::PyObject {
    method(this, |py, open, _| Ok(open.stream.write_buffer_size().into_pyobject(py)?.into_ptr()))
}

extern "C" fn get_write_buffer_limits(this: *mut ffi::PyObject, _: *mut ffi::PyObject) -> *mut ffi::PyObject {
    method(this, |py, open, _| {
        let marks = open.stream.water_marks();
        Ok((marks.low, marks.high).into_pyobject(py)?.into_ptr())
    })
}

extern "C" fn set_write_buffer_limits(
    this: *mut ffi::PyObject,
    args: *const *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
    kwnames: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    method(this, |py, open, cx| {
        // SAFETY: called by the interpreter with these arguments.
        let args = unsafe { Args::new("set_write_buffer_limits", args, count, kwnames) };
        let [high, low] = args.optional(py, ["high", "low"])?;
        let mark = |value: Option<Bound<'_, PyAny>>| -> PyResult<Option<i64>> {
            value.filter(|value| !value.is_none()).map(|value| value.extract()).transpose()
        };
        let (high, low) = (mark(high)?, mark(low)?);
        let positive = |mark: Option<i64>| mark.map(usize::try_from).transpose().ok();
        let marks = positive(high).zip(positive(low)).and_then(|(high, low)| WaterMarks::new(high, low));
        let Some(marks) = marks else {
            let high_value = high.or(low.map(|low| low.saturating_mul(4))).unwrap_or(64 * 1024);
            let low_value = low.unwrap_or(high_value.div_euclid(4));
            return Err(PyValueError::new_err(format!(
                "high ({high_value}) must be >= low ({low_value}) must be >= 0"
            )));
        };
        open.stream.set_water_marks(cx, marks)?;
        none(py)
    })
}

extern "C" fn set_protocol(this: *mut ffi::PyObject, protocol: *mut ffi::PyObject) -> *mut ffi::PyObject {
    method(this, |py, open, _| {
        // SAFETY: an argument is alive for the call.
        let protocol = unsafe { Bound::from_borrowed_ptr(py, protocol) };
        open.stream.upper().set_protocol(&protocol)?;
        none(py)
    })
}

extern "C" fn get_protocol(this: *mut ffi::PyObject, _: *mut ffi::PyObject) -> *mut ffi::PyObject {
    method(this, |py, open, _| match open.stream.upper().protocol() {
        Some(protocol) => Ok(protocol.into_ptr()),
        None => none(py),
    })
}

extern "C" fn notified(this: *mut ffi::PyObject, notice: *mut ffi::PyObject) -> *mut ffi::PyObject {
    method(this, |py, open, cx| {
        // SAFETY: an argument is alive for the call.
        let notice = unsafe { Bound::from_borrowed_ptr(py, notice) };
        let notice = notice_from_number(&notice)?;
        if notice == Notice::StartReading {
            open.contexts.keep(py, &open.contexts.reading)?;
        }
        let result = open.stream.notified(cx, notice);
        open.forget_contexts_at_the_end();
        result?;
        none(py)
    })
}

extern "C" fn reserve_writing(this: *mut ffi::PyObject, _: *mut ffi::PyObject) -> *mut ffi::PyObject {
    method(this, |_, open, _| boolean(open.stream.reserve_writing()))
}

extern "C" fn release_writing(this: *mut ffi::PyObject, _: *mut ffi::PyObject) -> *mut ffi::PyObject {
    method(this, |py, open, _| {
        open.stream.release_writing();
        none(py)
    })
}

extern "C" fn state(this: *mut ffi::PyObject, _: *mut ffi::PyObject) -> *mut ffi::PyObject {
    method(this, |py, open, _| {
        let interest = open.stream.interest();
        let state = (
            open.stream.is_finished(),
            open.stream.fd(),
            interest.is_inbound(),
            interest.is_outbound(),
            open.stream.is_writing_paused(),
        );
        Ok(state.into_pyobject(py)?.into_ptr())
    })
}

extern "C" fn take_socket(this: *mut ffi::PyObject, _: *mut ffi::PyObject) -> *mut ffi::PyObject {
    method(this, |py, open, _| {
        let Some(channel) = open.stream.take_channel() else { return none(py) };
        // The channel is out of the stream while Python makes the socket object; nothing there asks for it.
        let hold = channel.into_socket(py)?;
        let socket = hold.socket().clone();
        open.stream.put_channel(PyChannel::Socket(hold));
        Ok(socket.into_ptr())
    })
}

extern "C" fn release(this: *mut ffi::PyObject, _: *mut ffi::PyObject) -> *mut ffi::PyObject {
    method(this, |py, open, cx| {
        let channel = open.stream.take_channel();
        drop(channel);
        // Its server no longer waits for it.
        open.stream.upper().detach(cx)?;
        none(py)
    })
}
