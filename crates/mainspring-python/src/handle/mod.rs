//! `Handle` and `TimerHandle`: how they are created, run and cancelled.

#[allow(unsafe_code, reason = "functions that CPython calls")]
mod memory;
#[allow(unsafe_code, reason = "accesses slots by offset")]
mod object;

pub use object::{Handle, HandleArgs, HandleMethods, HandleTypes};

use crate::errors::merge_outcomes;
use crate::event_loop::{NativeLoop, lanes};
use crate::python::context;
use crate::python::method::{Method, Receiver};
use crate::python::object::Obj;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

static RLOCK: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// A callback with its arguments, as the caller of `call_soon()` gave them.
#[derive(Clone, Copy)]
pub struct Callback<'a> {
    pub event_loop: &'a Obj,
    pub callback: &'a Obj,
    pub args: &'a [Obj],
    /// `None`, in Rust or in Python: a copy of the current context.
    pub context: Option<&'a Obj>,
    /// Set in debug mode.
    pub source_traceback: Option<&'a Obj>,
}

impl HandleTypes {
    /// The types, created on first use.
    #[inline]
    pub fn get(py: Python<'_>) -> PyResult<&'static Self> {
        HandleTypes::get_or_create(py, methods)
    }
}

fn methods() -> HandleMethods {
    const CANCEL: &std::ffi::CStr = c"Cancel the call; it will not run.";
    let repr_info = || Method::noargs(c"_repr_info", repr_info, c"The parts of the repr().");
    HandleMethods {
        handle: vec![Method::noargs(c"cancel", cancel_handle, CANCEL), repr_info()],
        timer: vec![Method::noargs(c"cancel", cancel_timer, CANCEL), repr_info()],
        thread_safe: vec![repr_info()],
    }
}

impl Callback<'_> {
    /// Calls `create` with the content of the slots of a handle.
    #[inline]
    fn with_slots<R>(
        &self,
        py: Python<'_>,
        create: impl FnOnce(HandleArgs<'_>) -> PyResult<R>,
    ) -> PyResult<R> {
        let Callback { event_loop, callback, args, context, source_traceback } = *self;
        match context.filter(|context| !context.is_none()) {
            Some(context) => create(HandleArgs { event_loop, callback, args, context, source_traceback }),
            None => {
                let context = &context::copy_current(py)?;
                create(HandleArgs { event_loop, callback, args, context, source_traceback })
            }
        }
    }

    /// A new `Handle`.
    #[inline]
    pub fn new_handle(&self, py: Python<'_>) -> PyResult<Handle> {
        let types = HandleTypes::get(py)?;
        self.with_slots(py, |slots| types.new_handle(py, slots))
    }

    /// A new `TimerHandle` that is not in the engine's queue yet.
    #[inline]
    pub fn new_timer(&self, py: Python<'_>, when: &Obj) -> PyResult<Handle> {
        let types = HandleTypes::get(py)?;
        self.with_slots(py, |slots| types.new_timer(py, when, slots))
    }

    /// A new handle for `call_soon_threadsafe()`: from Python 3.14 on one with a lock.
    #[inline]
    pub fn new_thread_safe(&self, py: Python<'_>) -> PyResult<Handle> {
        let types = HandleTypes::get(py)?;
        if !types.has_thread_safe() {
            return self.new_handle(py);
        }
        let lock = RLOCK.import(py, "threading", "RLock")?.call0()?;
        self.with_slots(py, |slots| types.new_thread_safe(py, lock.into(), slots))
    }
}

/// Runs the callback in its context, unless the handle was cancelled. `Err` is what the callback raised. If the context
/// is entered already, `is_postponed` gets the exception and decides: `Ok(true)` for not running the callback,
/// `Ok(false)` for running it in a copy.
#[inline]
pub fn run(
    py: Python<'_>,
    types: &HandleTypes,
    handle: &Handle,
    is_postponed: impl FnOnce(PyErr) -> PyResult<bool>,
) -> PyResult<()> {
    match types.lock(handle) {
        None => run_unlocked(py, types, handle, is_postponed),
        Some(lock) => run_locked(py, types, handle, &lock.bind(py), is_postponed),
    }
}

fn run_locked(
    py: Python<'_>,
    types: &HandleTypes,
    handle: &Handle,
    lock: &Bound<'_, PyAny>,
    is_postponed: impl FnOnce(PyErr) -> PyResult<bool>,
) -> PyResult<()> {
    lock.call_method0(intern!(py, "acquire"))?;
    let result = run_unlocked(py, types, handle, is_postponed);
    merge_outcomes(py, result, lock.call_method0(intern!(py, "release")).map(drop))
}

#[inline]
fn run_unlocked(
    py: Python<'_>,
    types: &HandleTypes,
    handle: &Handle,
    is_postponed: impl FnOnce(PyErr) -> PyResult<bool>,
) -> PyResult<()> {
    if types.is_cancelled(handle) {
        return Ok(());
    }
    // New references: the callback can cancel the handle, which empties the slots.
    let (Some(callback), Some(args)) = (types.callback(handle), types.args(handle)) else { return Ok(()) };
    let Some(context) = types.context(handle).filter(|_| args.is_tuple()) else {
        // Python code has changed the slots; asyncio's own method raises the right exception.
        return handle.as_obj().bind(py).call_method0(intern!(py, "_run")).map(drop);
    };
    context::run_in_or_postpone(py, &context, || callback.call_tuple(py, &args), is_postponed).map(drop)
}

/// asyncio's `_repr_info()`, and the lane if it is not the normal one.
fn repr_info(receiver: Receiver<'_, Handle>) -> PyResult<Obj> {
    let (py, handle) = (receiver.py, receiver.data);
    let object = handle.as_obj().bind(py);
    let base = object.get_type().getattr(intern!(py, "__base__"))?;
    let info = base.call_method1(intern!(py, "_repr_info"), (&object,))?;
    if let Some(lane) = lanes::name_of_handle(HandleTypes::get(py)?, handle) {
        info.call_method1(intern!(py, "append"), (format!("lane={lane}"),))?;
    }
    Ok(info.into())
}

fn cancel_handle(receiver: Receiver<'_, Handle>) -> PyResult<()> {
    let (py, handle) = (receiver.py, receiver.data);
    let types = HandleTypes::get(py)?;
    let event_loop = types.event_loop(handle);
    cancel(py, types, handle, native_loop(py, event_loop.as_ref()))
}

fn cancel_timer(receiver: Receiver<'_, Handle>) -> PyResult<()> {
    let (py, handle) = (receiver.py, receiver.data);
    let types = HandleTypes::get(py)?;
    let was_scheduled = types.is_scheduled(handle);
    let event_loop = types.event_loop(handle);
    let native = native_loop(py, event_loop.as_ref());
    cancel(py, types, handle, native)?;
    if was_scheduled
        && let Some(native) = native
        && let Some(key) = types.timer_key(handle)
    {
        types.unschedule(handle);
        // Python code can set `_loop` and `_scheduled`. The comparison makes sure that no other timer is cancelled.
        let timer = native.engine().cancel_timer_if(key, |timer| timer.as_obj().is(handle.as_obj()));
        drop(timer);
    }
    Ok(())
}

/// The native data of `_loop`; `None` if Python code has set `_loop` to another object.
fn native_loop<'a>(py: Python<'_>, event_loop: Option<&'a Obj>) -> Option<&'a NativeLoop> {
    event_loop.and_then(|event_loop| NativeLoop::of(py, event_loop))
}

/// As in asyncio, a cancelled handle drops its callback and arguments at once, and keeps its `repr()` in debug mode.
fn cancel(py: Python<'_>, types: &HandleTypes, handle: &Handle, native: Option<&NativeLoop>) -> PyResult<()> {
    if types.is_cancelled(handle) {
        return Ok(());
    }
    types.set_cancelled(handle);
    if native.is_some_and(NativeLoop::is_debug) {
        types.set_repr(handle, handle.as_obj().bind(py).repr()?.into());
    }
    types.drop_callback(handle);
    Ok(())
}
