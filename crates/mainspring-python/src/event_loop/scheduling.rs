//! `call_soon`, `call_later`, `call_at`, `call_soon_threadsafe`, `time`, `get_debug`: what every asyncio program
//! calls all the time, without anything between the interpreter and the engine.

use crate::event_loop::host::out_of_memory;
use crate::event_loop::loop_method::{Request, loop_method, native};
use crate::handle::{self, CallParts};
use crate::names::names;
use crate::python::method::{self, enter};
use crate::python::object::Obj;
use mainspring_engine::clock::{Clock, MonotonicClock, Time};
use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple, PyType};

/// Adds the methods of this file to the class.
pub fn add_methods(class: &Bound<'_, PyType>) -> PyResult<()> {
    method::add_methods(
        class,
        vec![
            loop_method!(call_soon, c"Arrange for a callback to be called as soon as possible."),
            loop_method!(
                call_soon_threadsafe,
                c"Like call_soon(), but thread-safe: wakes the loop if it sleeps."
            ),
            loop_method!(call_later, c"Arrange for a callback to be called after a delay, in seconds."),
            loop_method!(
                call_at,
                c"Like call_later(), but with an absolute time, as the loop's time() tells it."
            ),
            method::method_noargs(c"time", time, c"The time on the loop's monotonic clock, in seconds."),
            method::method_noargs(c"get_debug", get_debug, c"Whether debug mode is on."),
            method::method_noargs(c"_panic", panic, c"Fail as a fault of our own would; for the tests."),
        ],
    )
}

impl Request<'_> {
    /// The handle of the call that is asked for, made by `make`; in debug mode, after asyncio's checks.
    fn handle(
        &self,
        py: Python<'_>,
        callback: *mut ffi::PyObject,
        args: &[*mut ffi::PyObject],
        is_from_the_loop: bool,
        make: impl FnOnce(CallParts<'_>) -> PyResult<Obj>,
    ) -> PyResult<Obj> {
        let context = self.args.keyword(py, names(py)?.context.as_ptr())?;
        self.native.check_closed()?;
        let traceback =
            if self.native.is_debug() { Some(self.check(py, callback, is_from_the_loop)?) } else { None };
        let source_traceback = traceback.as_ref().map_or(std::ptr::null_mut(), Obj::as_ptr);
        make(CallParts { event_loop: self.this, callback, args, context, source_traceback })
    }

    /// What debug mode checks before a call is scheduled: the thread, unless any may do it, and that the callback can
    /// be called. Gives the traceback that the handle remembers.
    fn check(&self, py: Python<'_>, callback: *mut ffi::PyObject, is_from_the_loop: bool) -> PyResult<Obj> {
        let names = names(py)?;
        // SAFETY: live objects: the `self` and an argument of the method that was called.
        let (event_loop, callback) =
            unsafe { (Bound::from_borrowed_ptr(py, self.this), Bound::from_borrowed_ptr(py, callback)) };
        if is_from_the_loop {
            event_loop.call_method0(&names._check_thread)?;
        }
        event_loop.call_method1(&names._check_callback, (callback, self.args.name()))?;
        Ok(names.reports.bind(py).call_method0(&names.source_traceback)?.into())
    }

    /// `call_later()` where `time()` or `call_at()` is not ours.
    fn call_later_by_python(
        &self,
        py: Python<'_>,
        delay: *mut ffi::PyObject,
        callback: *mut ffi::PyObject,
        args: &[*mut ffi::PyObject],
    ) -> PyResult<Obj> {
        let context = self.args.keyword(py, names(py)?.context.as_ptr())?;
        // SAFETY: live objects: the `self` and arguments of the method that was called.
        let bound = |object: *mut ffi::PyObject| unsafe { Bound::from_borrowed_ptr(py, object) };
        let event_loop = bound(self.this);
        if bound(delay).is_none() {
            return Err(PyTypeError::new_err("delay must not be None"));
        }
        let when = event_loop.call_method0("time")?.add(bound(delay))?;
        let args = [when, bound(callback)].into_iter().chain(args.iter().map(|&argument| bound(argument)));
        let args = PyTuple::new(py, args.collect::<Vec<_>>())?;
        let keywords = PyDict::new(py);
        if !context.is_null() {
            keywords.set_item(&names(py)?.context, bound(context))?;
        }
        Ok(event_loop.call_method("call_at", args, Some(&keywords))?.into())
    }

    /// Schedules a call for `when`, which has to be a number.
    fn schedule(
        &self,
        py: Python<'_>,
        when: &Obj,
        callback: *mut ffi::PyObject,
        args: &[*mut ffi::PyObject],
    ) -> PyResult<Obj> {
        // SAFETY: a live object.
        let deadline = unsafe { ffi::PyFloat_AsDouble(when.as_ptr()) };
        if deadline == -1.0
            && let Some(error) = PyErr::take(py)
        {
            return Err(error);
        }
        // SAFETY: the pointers are arguments of this call, alive until it returns.
        let timer = self
            .handle(py, callback, args, true, |call| unsafe { handle::new_timer(py, when.as_ptr(), call) })?;
        let scheduled = self.native.engine().try_call_at(point_in_time(deadline), timer.clone().into());
        let key = scheduled.map_err(refused)?;
        // SAFETY: the timer was made above.
        unsafe { handle::set_timer_key(py, &timer, key)? };
        Ok(timer)
    }
}

/// The loop has no memory for a call.
#[cold]
fn refused(call: impl Into<Call>) -> PyErr {
    drop(call.into());
    out_of_memory()
}

#[inline(always)]
fn call_soon(py: Python<'_>, request: &Request<'_>) -> PyResult<Obj> {
    let ([callback], rest) = request.args.split(["callback"])?;
    // SAFETY: the pointers are arguments of this call, alive until it returns.
    let handle = request.handle(py, callback, rest, true, |call| unsafe { handle::new_handle(py, call) })?;
    request.native.engine().try_call_soon(handle.clone().into()).map_err(refused)?;
    Ok(handle)
}

#[inline(always)]
fn call_soon_threadsafe(py: Python<'_>, request: &Request<'_>) -> PyResult<Obj> {
    let ([callback], rest) = request.args.split(["callback"])?;
    // SAFETY: the pointers are arguments of this call, alive until it returns.
    let handle =
        request.handle(py, callback, rest, false, |call| unsafe { handle::new_shared_handle(py, call) })?;
    let native = request.native;
    if native.runs_elsewhere() {
        let inbox = native.engine().inbox();
        // Nobody pushes between the two: the interpreter lock is held.
        if !inbox.try_reserve() {
            return Err(refused(handle));
        }
        let pushed = inbox.push(handle.clone());
        pushed.map_err(|_| PyRuntimeError::new_err("Event loop is closed"))?;
    } else {
        // The loop's own thread, or nobody runs it: its order is call_soon()'s.
        native.engine().try_call_soon(handle.clone().into()).map_err(refused)?;
    }
    Ok(handle)
}

#[inline(always)]
fn call_later(py: Python<'_>, request: &Request<'_>) -> PyResult<Obj> {
    let ([delay, callback], rest) = request.args.split(["delay", "callback"])?;
    if request.native.overrides().concern_call_later(py)? {
        return request.call_later_by_python(py, delay, callback, rest);
    }
    // SAFETY: `delay` is a live argument; the results are new references.
    let when = unsafe {
        if delay == ffi::Py_None() {
            return Err(PyTypeError::new_err("delay must not be None"));
        }
        let now = seconds(request.native.engine().now());
        let now = Obj::from_call(py, ffi::PyFloat_FromDouble(now))?;
        // Whatever may be added to a float is a delay, as in asyncio.
        Obj::from_call(py, ffi::PyNumber_Add(now.as_ptr(), delay))?
    };
    request.schedule(py, &when, callback, rest)
}

#[inline(always)]
fn call_at(py: Python<'_>, request: &Request<'_>) -> PyResult<Obj> {
    let ([when, callback], rest) = request.args.split(["when", "callback"])?;
    // SAFETY: `when` is a live argument.
    let when = unsafe {
        if when == ffi::Py_None() {
            return Err(PyTypeError::new_err("when cannot be None"));
        }
        Obj::from_borrowed(when)
    };
    request.schedule(py, &when, callback, rest)
}

/// The system's clock, and not the engine's: that asks a `time()` which Python code has put over this one, and which may
/// call this one.
extern "C" fn time(_: *mut ffi::PyObject, _: *mut ffi::PyObject) -> *mut ffi::PyObject {
    enter(|py| {
        // SAFETY: always allowed.
        let now = unsafe { Obj::from_call(py, ffi::PyFloat_FromDouble(seconds(MonotonicClock.now())))? };
        Ok(now.into_ptr())
    })
}

extern "C" fn get_debug(this: *mut ffi::PyObject, _: *mut ffi::PyObject) -> *mut ffi::PyObject {
    enter(|py| {
        // SAFETY: called by the interpreter as a method of the class; the booleans live for ever.
        unsafe {
            let native = native(py, this);
            native.check_initialized()?;
            let debug = native.is_debug();
            Ok(Obj::from_borrowed(if debug { ffi::Py_True() } else { ffi::Py_False() }).into_ptr())
        }
    })
}

extern "C" fn panic(_: *mut ffi::PyObject, _: *mut ffi::PyObject) -> *mut ffi::PyObject {
    enter(|_| panic!("asked for"))
}

/// A point on the engine's clock as Python tells time.
pub fn seconds(time: Time) -> f64 {
    time.as_nanos() as f64 / 1e9
}

/// A deadline as the engine counts: never earlier than the number by [`seconds`]. The past is now, infinity is never;
/// what is not a number is due at once, as it is for asyncio.
fn point_in_time(deadline: f64) -> Time {
    if deadline.is_nan() || deadline <= 0.0 {
        return Time::ZERO;
    }
    // The cast saturates: what is too far for the clock never comes.
    let time = Time::from_nanos((deadline * 1e9).ceil() as u64);
    if seconds(time) < deadline { Time::from_nanos(time.as_nanos().saturating_add(1)) } else { time }
}
