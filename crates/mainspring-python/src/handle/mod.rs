//! `Handle` and `TimerHandle`: how they are created, run and cancelled.

#[allow(unsafe_code, reason = "calls with borrowed arguments")]
mod data;
#[allow(unsafe_code, reason = "functions that CPython calls")]
mod memory;
#[allow(unsafe_code, reason = "accesses slots by offset")]
mod object;
mod thread_safe;

pub use object::{Handle, HandleArgs, HandleMethods, HandleTypes};

use crate::event_loop::{NativeLoop, lanes};
use crate::python::attribute::Attribute;
use crate::python::context;
use crate::python::method::{Method, Receiver};
use crate::python::object::Obj;
use pyo3::intern;
use pyo3::prelude::*;

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
    /// Whether the garbage collector knows the handle from the beginning: see `object.rs`.
    pub is_tracked: bool,
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
        thread_safe: vec![
            Method::noargs(c"cancel", cancel_thread_safe, CANCEL),
            Method::noargs(c"cancelled", is_cancelled, c"Whether the call was cancelled."),
            Method::noargs(c"_run", run_thread_safe, c"Run the callback, unless the call was cancelled."),
            repr_info(),
        ],
        args: || Attribute::new(c"_args", args, set_args, c"The arguments of the callback."),
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
        let Callback { event_loop, callback, args, context, source_traceback, is_tracked } = *self;
        let copy;
        let context = match context.filter(|context| !context.is_none()) {
            Some(context) => context,
            None => {
                copy = context::copy_current(py)?;
                &copy
            }
        };
        create(HandleArgs { event_loop, callback, args, context, source_traceback, is_tracked })
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

    /// A new handle for `call_soon_threadsafe()`.
    #[inline]
    pub fn new_thread_safe(&self, py: Python<'_>) -> PyResult<Handle> {
        let types = HandleTypes::get(py)?;
        self.with_slots(py, |slots| types.new_thread_safe(py, slots))
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
    if types.is_thread_safe(handle) {
        return thread_safe::run(py, types, handle, || run_unlocked(py, types, handle, is_postponed));
    }
    run_unlocked(py, types, handle, is_postponed)
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
    let Some(callback) = types.callback(handle) else { return Ok(()) };
    let args = types.args(handle);
    if args.is_none() && types.has_no_args(handle) {
        return Ok(());
    }
    let Some(context) = types.context(handle).filter(|_| args.as_ref().is_none_or(Obj::is_tuple)) else {
        // Python code has changed the slots; asyncio's own method raises the right exception.
        return run_by_asyncio(py, types, handle);
    };
    let call = || match &args {
        None => types.call(py, handle, &callback),
        Some(args) => callback.call_tuple(py, args),
    };
    context::run_in_or_postpone(py, &context, call, is_postponed).map(drop)
}

/// `asyncio.Handle._run()`.
#[cold]
fn run_by_asyncio(py: Python<'_>, types: &HandleTypes, handle: &Handle) -> PyResult<()> {
    let base = types.handle_class().bind(py).getattr(intern!(py, "__base__"))?;
    base.call_method1(intern!(py, "_run"), (handle.as_obj().bind(py),)).map(drop)
}

/// `_run()` of a thread-safe handle, which Python code may call.
fn run_thread_safe(receiver: Receiver<'_, Handle>) -> PyResult<()> {
    let (py, handle) = (receiver.py, receiver.data);
    let types = HandleTypes::get(py)?;
    thread_safe::run(py, types, handle, || {
        if types.is_cancelled(handle) { Ok(()) } else { run_by_asyncio(py, types, handle) }
    })
}

fn is_cancelled(receiver: Receiver<'_, Handle>) -> PyResult<bool> {
    let (py, handle) = (receiver.py, receiver.data);
    let types = HandleTypes::get(py)?;
    thread_safe::wait(py, types, handle)?;
    Ok(types.is_cancelled(handle))
}

fn args(receiver: Receiver<'_, Handle>) -> PyResult<Obj> {
    HandleTypes::get(receiver.py)?.args_tuple(receiver.py, receiver.data)
}

fn set_args(receiver: Receiver<'_, Handle>, args: Option<&Obj>) -> PyResult<()> {
    let types = HandleTypes::get(receiver.py)?;
    match args {
        Some(args) => types.set_args(receiver.data, args.clone()),
        None => types.delete_args(receiver.data),
    }
    Ok(())
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

fn cancel_thread_safe(receiver: Receiver<'_, Handle>) -> PyResult<()> {
    thread_safe::wait(receiver.py, HandleTypes::get(receiver.py)?, receiver.data)?;
    cancel_handle(receiver)
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
        if let Some(timer) = timer {
            types.release(timer);
        }
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
