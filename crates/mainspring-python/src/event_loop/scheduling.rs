//! `call_soon()`, `call_soon_threadsafe()`, `call_later()`, `call_at()`, `time()`, `get_debug()`.

use super::NativeLoop;
use super::host::Call;
use super::lanes;
use crate::errors::out_of_memory;
use crate::handle::{Callback, Handle, HandleTypes};
use crate::names::names;
use crate::python::args::Args;
use crate::python::method::{Method, PyO3, Receiver};
use crate::python::object::Obj;
use mainspring_engine::clock::Time;
use mainspring_engine::wakeup::TryPushError;
use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

/// The methods of this file.
pub fn methods() -> Vec<Method<PyO3<NativeLoop>>> {
    vec![
        Method::fastcall(
            c"call_soon",
            call_soon,
            c"Arrange for a callback to be called as soon as possible.",
        ),
        Method::fastcall(
            c"call_soon_threadsafe",
            call_soon_threadsafe,
            c"Like call_soon(), but thread-safe: wakes the loop if it sleeps.",
        ),
        Method::fastcall(
            c"call_later",
            call_later,
            c"Arrange for a callback to be called after a delay, in seconds.",
        ),
        Method::fastcall(
            c"call_at",
            call_at,
            c"Like call_later(), but with an absolute time, as the loop's time() returns it.",
        ),
        Method::noargs(c"time", time, c"The time on the loop's monotonic clock, in seconds."),
        Method::noargs(c"get_debug", get_debug, c"Whether debug mode is on."),
        Method::noargs(c"_panic", panic, c"Panic, as a bug in the native code would; for the tests."),
    ]
}

/// A call of one of the scheduling methods.
struct Request<'a> {
    receiver: Receiver<'a, NativeLoop>,
    args: &'a Args<'a>,
    /// The name of the method.
    method: &'static str,
    callback: &'a Obj,
    callback_args: &'a [Obj],
}

impl<'a> Request<'a> {
    /// Creates a handle by `create`; in debug mode, after asyncio's checks. `checks_thread` is false for methods that any
    /// thread may call.
    #[inline]
    fn handle(
        &self,
        checks_thread: bool,
        create: impl FnOnce(Callback<'_>) -> PyResult<Handle>,
    ) -> PyResult<Handle> {
        let Receiver { py, this, data: native } = self.receiver;
        let context = self.args.keyword(self.method, &names(py)?.context_keyword)?;
        native.check_closed()?;
        let traceback = if native.is_debug() { Some(self.check_in_debug_mode(checks_thread)?) } else { None };
        create(Callback {
            event_loop: this,
            callback: self.callback,
            args: self.callback_args,
            context,
            source_traceback: traceback.as_ref(),
            is_tracked: native.engine().host().tracks_handles(),
        })
    }

    /// Appends a new handle to the ready ones.
    #[inline(always)]
    fn make_ready(&self, handle: &Handle) -> PyResult<()> {
        if lanes::in_use() {
            return self.make_ready_in_lane(handle);
        }
        self.receiver.data.engine().try_call_soon(handle.clone().into()).map_err(refused)
    }

    #[cold]
    fn make_ready_in_lane(&self, handle: &Handle) -> PyResult<()> {
        let Receiver { py, data: native, .. } = self.receiver;
        let lane = lanes::of_call_soon(py, native, handle, self.callback, self.callback_args)?;
        native.engine().try_call_soon_in(lane, handle.clone().into()).map_err(refused)
    }

    /// Debug mode: checks the thread and that the callback can be called. Returns the traceback for the handle.
    #[cold]
    fn check_in_debug_mode(&self, checks_thread: bool) -> PyResult<Obj> {
        let py = self.receiver.py;
        let names = names(py)?;
        let event_loop = self.receiver.this.bind(py);
        if checks_thread {
            event_loop.call_method0(&names._check_thread)?;
        }
        event_loop.call_method1(&names._check_callback, (self.callback.bind(py), self.method))?;
        Ok(names.reports.bind(py).call_method0(&names.source_traceback)?.into())
    }

    /// `call_later()` of a loop whose `time()` or `call_at()` was replaced.
    #[cold]
    fn call_later_through_python(&self, delay: &Obj) -> PyResult<Obj> {
        let py = self.receiver.py;
        let context = self.args.keyword(self.method, &names(py)?.context_keyword)?;
        let event_loop = self.receiver.this.bind(py);
        if delay.is_none() {
            return Err(PyTypeError::new_err("delay must not be None"));
        }
        let when = event_loop.call_method0("time")?.add(delay.bind(py))?;
        let args = self.callback_args.iter().map(|argument| argument.bind(py));
        let args = [when, self.callback.bind(py)].into_iter().chain(args);
        let args = PyTuple::new(py, args.collect::<Vec<_>>())?;
        let keywords = PyDict::new(py);
        if let Some(context) = context {
            keywords.set_item(&names(py)?.context, context.bind(py))?;
        }
        Ok(event_loop.call_method("call_at", args, Some(&keywords))?.into())
    }

    /// Schedules the callback for `when`, which has to be a number.
    #[inline]
    fn schedule(&self, when: &Obj) -> PyResult<Obj> {
        let py = self.receiver.py;
        let deadline = when.to_f64(py)?;
        let timer = self.handle(true, |callback| callback.new_timer(py, when))?;
        let engine = self.receiver.data.engine();
        let key = engine.try_call_at(deadline_to_time(deadline), timer.clone()).map_err(refused)?;
        HandleTypes::get(py)?.set_timer_key(&timer, key);
        Ok(timer.into())
    }
}

/// The engine has no memory for a call.
#[cold]
fn refused(call: impl Into<Call>) -> PyErr {
    drop(call.into());
    out_of_memory()
}

#[inline(always)]
fn call_soon(receiver: Receiver<'_, NativeLoop>, args: &Args<'_>) -> PyResult<Obj> {
    let method = "call_soon";
    let ([callback], callback_args) = args.split(method, ["callback"])?;
    let request = Request { receiver, args, method, callback, callback_args };
    let handle = request.handle(true, |callback| callback.new_handle(receiver.py))?;
    request.make_ready(&handle)?;
    Ok(handle.into())
}

#[inline(always)]
fn call_soon_threadsafe(receiver: Receiver<'_, NativeLoop>, args: &Args<'_>) -> PyResult<Obj> {
    let method = "call_soon_threadsafe";
    let ([callback], callback_args) = args.split(method, ["callback"])?;
    let request = Request { receiver, args, method, callback, callback_args };
    let handle = request.handle(false, |callback| callback.new_thread_safe(receiver.py))?;
    let native = receiver.data;
    if native.runs_elsewhere() || native.engine().is_driver_waiting() {
        match native.engine().inbox().try_push(handle.clone()) {
            Ok(()) => {}
            Err(TryPushError::Closed(_)) => return Err(PyRuntimeError::new_err("Event loop is closed")),
            Err(TryPushError::OutOfMemory(handle)) => return Err(refused(handle)),
        }
    } else {
        // This thread runs the loop, or none does: same order as for call_soon().
        request.make_ready(&handle)?;
    }
    Ok(handle.into())
}

#[inline(always)]
fn call_later(receiver: Receiver<'_, NativeLoop>, args: &Args<'_>) -> PyResult<Obj> {
    let Receiver { py, data: native, .. } = receiver;
    let method = "call_later";
    let ([delay, callback], callback_args) = args.split(method, ["delay", "callback"])?;
    let request = Request { receiver, args, method, callback, callback_args };
    if native.overrides().affect_call_later(py)? {
        return request.call_later_through_python(delay);
    }
    if delay.is_none() {
        return Err(PyTypeError::new_err("delay must not be None"));
    }
    // As in asyncio, a delay is everything that can be added to a float.
    let when = Obj::float(py, seconds(native.engine().now()))?.add(py, delay)?;
    request.schedule(&when)
}

#[inline(always)]
fn call_at(receiver: Receiver<'_, NativeLoop>, args: &Args<'_>) -> PyResult<Obj> {
    let method = "call_at";
    let ([when, callback], callback_args) = args.split(method, ["when", "callback"])?;
    if when.is_none() {
        return Err(PyTypeError::new_err("when cannot be None"));
    }
    Request { receiver, args, method, callback, callback_args }.schedule(when)
}

/// Does not read the engine's clock: that one calls a replaced `time()`, which may call this method.
fn time(receiver: Receiver<'_, NativeLoop>) -> PyResult<Obj> {
    Obj::float(receiver.py, seconds(receiver.data.base_clock().now()))
}

fn get_debug(receiver: Receiver<'_, NativeLoop>) -> PyResult<bool> {
    receiver.data.check_initialized()?;
    Ok(receiver.data.is_debug())
}

fn panic(_: Receiver<'_, NativeLoop>) -> PyResult<()> {
    panic!("asked for")
}

/// A time of the engine in seconds.
fn seconds(time: Time) -> f64 {
    time.as_nanos() as f64 / 1e9
}

/// A deadline in seconds as a time of the engine, which is never earlier. A deadline in the past or NaN is due at once,
/// as in asyncio; infinity is never due.
pub fn deadline_to_time(deadline: f64) -> Time {
    if deadline.is_nan() || deadline <= 0.0 {
        return Time::ZERO;
    }
    // The cast saturates: a deadline beyond the range of the clock is never due.
    let time = Time::from_nanos((deadline * 1e9).ceil() as u64);
    if seconds(time) < deadline { Time::from_nanos(time.as_nanos().saturating_add(1)) } else { time }
}
