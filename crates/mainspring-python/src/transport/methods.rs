//! The methods that all kinds of transport objects have, as the interpreter calls them.

use super::engine_transport::{Machine, Reading, Writing};
use super::write_buffer_limits::marks_from;
use super::{Kind, method};
use crate::python::method::{self, Args};
use crate::python::object::Obj;
use mainspring_engine::transport::{Notice, WaterMarks};
use pyo3::ffi;
use pyo3::prelude::*;

/// The methods of every kind.
pub fn table<K: Kind>() -> Vec<ffi::PyMethodDef> {
    vec![
        method::method_noargs(c"close", close::<K>, c"Close the transport after flushing buffered data."),
        method::method_noargs(
            c"is_closing",
            is_closing::<K>,
            c"Whether the transport is closing or closed.",
        ),
        method::method(c"set_protocol", set_protocol::<K>, c"Set a new protocol."),
        method::method_noargs(c"get_protocol", get_protocol::<K>, c"The current protocol."),
        method::method_noargs(c"_add_reader", add_reader::<K>, c"Begin to read; scheduled by the engine."),
        method::method_one(
            c"_call_connection_lost",
            call_connection_lost::<K>,
            c"Tell the protocol, and close the descriptor; scheduled by the engine, which knows what to tell.",
        ),
        method::method_one(
            c"_force_close",
            force_close::<K>,
            c"Close immediately; the argument is what connection_lost() is told.",
        ),
        method::method_noargs(c"_state", state::<K>, c"What repr() shows."),
        method::method_noargs(
            c"_release",
            release::<K>,
            c"Close the descriptor of a transport that is lost.",
        ),
    ]
}

/// The methods of every kind that reads.
pub fn reading_table<K: Kind<Machine: Reading>>() -> Vec<ffi::PyMethodDef> {
    vec![
        method::method_noargs(c"is_reading", is_reading::<K>, c"Whether the transport is receiving."),
        method::method_noargs(c"pause_reading", pause_reading::<K>, c"Pause the receiving end."),
        method::method_noargs(c"resume_reading", resume_reading::<K>, c"Resume the receiving end."),
    ]
}

/// The methods of every kind that writes.
pub fn writing_table<K: Kind<Machine: Writing>>() -> Vec<ffi::PyMethodDef> {
    vec![
        method::method_noargs(
            c"abort",
            abort::<K>,
            c"Close the transport immediately; buffered data is lost.",
        ),
        method::method_noargs(
            c"get_write_buffer_size",
            get_write_buffer_size::<K>,
            c"The number of bytes that wait to be sent.",
        ),
        method::method_noargs(
            c"get_write_buffer_limits",
            get_write_buffer_limits::<K>,
            c"The low and high water marks of write flow control.",
        ),
        method::method(
            c"set_write_buffer_limits",
            set_write_buffer_limits::<K>,
            c"Set the high and low water limits for write flow control.",
        ),
    ]
}

pub fn none(py: Python<'_>) -> PyResult<*mut ffi::PyObject> {
    Ok(py.None().into_ptr())
}

pub fn boolean(value: bool) -> PyResult<*mut ffi::PyObject> {
    // SAFETY: the booleans live for ever.
    Ok(unsafe { Obj::from_borrowed(if value { ffi::Py_True() } else { ffi::Py_False() }).into_ptr() })
}

pub extern "C" fn close<K: Kind>(this: *mut ffi::PyObject, _: *mut ffi::PyObject) -> *mut ffi::PyObject {
    method::<K>(this, |py, open, cx| {
        if open.machine.is_finished() {
            // Only one that was let go of in its last words (`release`) has not told its end yet.
            open.machine.abort(cx, None)?;
        } else {
            open.machine.close(cx)?;
        }
        none(py)
    })
}

extern "C" fn abort<K: Kind>(this: *mut ffi::PyObject, _: *mut ffi::PyObject) -> *mut ffi::PyObject {
    method::<K>(this, |py, open, cx| {
        open.machine.abort(cx, None)?;
        none(py)
    })
}

extern "C" fn force_close<K: Kind>(
    this: *mut ffi::PyObject,
    error: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    method::<K>(this, |py, open, cx| {
        // SAFETY: an argument is alive for the call.
        let error = unsafe { Bound::from_borrowed_ptr(py, error) };
        let error = (!error.is_none()).then(|| PyErr::from_value(error));
        open.machine.abort(cx, error)?;
        none(py)
    })
}

extern "C" fn is_closing<K: Kind>(this: *mut ffi::PyObject, _: *mut ffi::PyObject) -> *mut ffi::PyObject {
    method::<K>(this, |_, open, _| boolean(open.machine.is_closing()))
}

extern "C" fn is_reading<K: Kind<Machine: Reading>>(
    this: *mut ffi::PyObject,
    _: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    method::<K>(this, |_, open, _| boolean(open.machine.is_reading()))
}

extern "C" fn pause_reading<K: Kind<Machine: Reading>>(
    this: *mut ffi::PyObject,
    _: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    method::<K>(this, |py, open, cx| {
        if open.machine.pause_reading(cx)? {
            cx.engine.host().note(cx.this, "pauses reading")?;
        }
        none(py)
    })
}

extern "C" fn resume_reading<K: Kind<Machine: Reading>>(
    this: *mut ffi::PyObject,
    _: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    method::<K>(this, |py, open, cx| {
        if open.machine.resume_reading(cx)? {
            open.contexts.keep(py, &open.contexts.reading)?;
            cx.engine.host().note(cx.this, "resumes reading")?;
        }
        none(py)
    })
}

extern "C" fn get_write_buffer_size<K: Kind<Machine: Writing>>(
    this: *mut ffi::PyObject,
    _: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    method::<K>(this, |py, open, _| Ok(open.machine.write_buffer_size().into_pyobject(py)?.into_ptr()))
}

extern "C" fn get_write_buffer_limits<K: Kind<Machine: Writing>>(
    this: *mut ffi::PyObject,
    _: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    method::<K>(this, |py, open, _| {
        let marks = open.machine.water_marks();
        Ok((marks.low, marks.high).into_pyobject(py)?.into_ptr())
    })
}

extern "C" fn set_write_buffer_limits<K: Kind<Machine: Writing>>(
    this: *mut ffi::PyObject,
    args: *const *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
    kwnames: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    method::<K>(this, |py, open, cx| {
        // SAFETY: called by the interpreter with these arguments.
        let args = unsafe { Args::new("set_write_buffer_limits", args, count, kwnames) };
        let marks = marks_from(py, &args, WaterMarks::default().high)?;
        open.machine.set_water_marks(cx, marks)?;
        none(py)
    })
}

extern "C" fn set_protocol<K: Kind>(
    this: *mut ffi::PyObject,
    args: *const *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
    kwnames: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    method::<K>(this, |py, open, _| {
        // SAFETY: called by the interpreter with these arguments, which are alive for the call.
        let protocol = unsafe {
            let args = Args::new("set_protocol", args, count, kwnames);
            Bound::from_borrowed_ptr(py, args.only("protocol")?)
        };
        K::protocol(&open.machine).set_protocol(&protocol)?;
        none(py)
    })
}

extern "C" fn get_protocol<K: Kind>(this: *mut ffi::PyObject, _: *mut ffi::PyObject) -> *mut ffi::PyObject {
    method::<K>(this, |py, open, _| match K::protocol(&open.machine).protocol() {
        Some(protocol) => Ok(protocol.into_ptr()),
        None => none(py),
    })
}

extern "C" fn add_reader<K: Kind>(this: *mut ffi::PyObject, _: *mut ffi::PyObject) -> *mut ffi::PyObject {
    method::<K>(this, |py, open, cx| {
        open.contexts.keep(py, &open.contexts.reading)?;
        open.machine.notified(cx, Notice::StartReading)?;
        none(py)
    })
}

extern "C" fn call_connection_lost<K: Kind>(
    this: *mut ffi::PyObject,
    _: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    method::<K>(this, |py, open, cx| {
        let result = open.machine.notified(cx, Notice::ConnectionLost);
        open.forget_contexts_at_the_end();
        result?;
        none(py)
    })
}

extern "C" fn state<K: Kind>(this: *mut ffi::PyObject, _: *mut ffi::PyObject) -> *mut ffi::PyObject {
    method::<K>(this, |py, open, _| {
        let interest = open.machine.interest();
        let state = (
            open.machine.is_finished(),
            open.machine.fd(),
            interest.is_inbound(),
            interest.is_outbound(),
            open.machine.is_writing_paused(),
        );
        Ok(state.into_pyobject(py)?.into_ptr())
    })
}

extern "C" fn release<K: Kind>(this: *mut ffi::PyObject, _: *mut ffi::PyObject) -> *mut ffi::PyObject {
    method::<K>(this, |py, open, cx| {
        let channel = open.machine.take_channel();
        drop(channel);
        // The protocol stays: another of those who go with the transport may yet close it, in its own last words.
        K::protocol(&open.machine).leave_server(py, cx.this)?;
        none(py)
    })
}
