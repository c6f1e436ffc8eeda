//! Lanes: the priority of handles.
//!
//! `mainspring.background()` and `urgent()` set a context variable to a [`LaneSetting`]. A handle runs in the lane of its
//! context. So tasks and callbacks inherit the lane as they inherit every other context variable, and a handle needs no
//! field for it. Until the first setting is created, no context is searched.
//!
//! Cancellation and timeouts of a background task are not delayed: the handle that delivers them runs in the normal lane.

use super::host::PyHost;
use super::{NativeLoop, tasks};
use crate::handle::{Handle, HandleTypes};
use crate::python::context;
use crate::python::guard::catch_unwind;
use crate::python::interpreter::attached;
use crate::python::object::Obj;
use crate::python::thread_exit;
use mainspring_engine::ready_queue::Lane;
use pyo3::exceptions::PyValueError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Whether a setting was ever created.
static IN_USE: AtomicBool = AtomicBool::new(false);
static SHARED: PyOnceLock<Shared> = PyOnceLock::new();

/// Objects that exist once.
struct Shared {
    /// The context variable.
    variable: Obj,
    /// The callbacks of asyncio's timeouts.
    timeout_callbacks: Vec<Obj>,
    /// `asyncio.tasks.Task`.
    task_class: Py<PyAny>,
    /// `types.MethodType`.
    method_class: Py<PyAny>,
    /// `functools.partial`.
    partial_class: Py<PyAny>,
    /// `mainspring._priorities.BackgroundTask`, from the first setting on.
    background_task: PyOnceLock<Py<PyType>>,
}

impl Shared {
    fn get(py: Python<'_>) -> PyResult<&'static Self> {
        SHARED.get_or_try_init(py, || {
            let tasks = py.import("asyncio.tasks")?;
            // `asyncio.wait()`, and `wait_for()` before Python 3.12.
            let release_waiter = tasks.getattr("_release_waiter").ok();
            // `asyncio.timeout()`: from Python 3.11 on.
            let on_timeout = py.import("asyncio.timeouts").ok();
            let on_timeout =
                on_timeout.and_then(|timeouts| timeouts.getattr("Timeout").ok()?.getattr("_on_timeout").ok());
            let variable = py.import("contextvars")?.getattr("ContextVar")?.call1(("mainspring.lane",))?;
            Ok(Shared {
                variable: variable.into(),
                timeout_callbacks: release_waiter.into_iter().chain(on_timeout).map(Obj::from).collect(),
                task_class: tasks.getattr("Task")?.unbind(),
                method_class: py.import("types")?.getattr("MethodType")?.unbind(),
                partial_class: py.import("functools")?.getattr("partial")?.unbind(),
                background_task: PyOnceLock::new(),
            })
        })
    }

    /// Looks up what the lane of a handle depends on. An import may run Python code, the search for a lane must not.
    fn load(py: Python<'_>) -> PyResult<()> {
        Self::get(py)?.background_task.import(py, "mainspring._priorities", "BackgroundTask")?;
        tasks::load(py)
    }
}

/// The value of the context variable.
#[pyclass(module = "mainspring._mainspring", frozen)]
pub struct LaneSetting {
    lane: Lane,
    max_overdue: Option<Duration>,
}

#[pymethods]
impl LaneSetting {
    /// A lane by its name, and for the background lane how long a call may wait in it, in seconds.
    #[new]
    #[pyo3(signature = (lane, max_overdue = None))]
    fn new(py: Python<'_>, lane: &str, max_overdue: Option<f64>) -> PyResult<Self> {
        catch_unwind(|| {
            Shared::load(py)?;
            let lane = match lane {
                "urgent" => Lane::Urgent,
                "normal" => Lane::Normal,
                "background" => Lane::Background,
                _ => return Err(PyValueError::new_err(format!("no such lane: {lane:?}"))),
            };
            let max_overdue = match max_overdue {
                Some(seconds) if seconds.is_nan() || seconds < 0.0 => {
                    return Err(PyValueError::new_err("max_overdue must not be negative"));
                }
                // Too long for a `Duration`: for ever.
                Some(seconds) => Duration::try_from_secs_f64(seconds).ok(),
                None => None,
            };
            IN_USE.store(true, Ordering::Relaxed);
            Ok(LaneSetting { lane, max_overdue })
        })
    }

    /// The name of the lane.
    #[getter]
    fn lane(&self) -> &'static str {
        thread_exit::guard();
        name(self.lane)
    }

    /// The limit in seconds.
    #[getter]
    fn max_overdue(&self) -> Option<f64> {
        thread_exit::guard();
        self.max_overdue.map(|limit| limit.as_secs_f64())
    }
}

fn name(lane: Lane) -> &'static str {
    match lane {
        Lane::Urgent => "urgent",
        Lane::Normal => "normal",
        Lane::Background => "background",
    }
}

/// The context variable.
#[pyfunction]
pub fn lane_variable(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    catch_unwind(|| Ok(Shared::get(py)?.variable.bind(py)))
}

/// Whether lanes are in use, so that a handle can have another than the normal one.
#[inline(always)]
pub fn in_use() -> bool {
    IN_USE.load(Ordering::Relaxed)
}

/// Calls `read` with the setting of a context. `None` if it has none.
fn setting<R>(py: Python<'_>, context: &Obj, read: impl FnOnce(&LaneSetting) -> R) -> PyResult<Option<R>> {
    let value = context::get(py, context, &Shared::get(py)?.variable)?;
    Ok(value.and_then(|value| value.get_pyclass::<LaneSetting>(py).map(read)))
}

/// The lane of a context.
fn lane_of_context(py: Python<'_>, context: &Obj) -> PyResult<Lane> {
    Ok(setting(py, context, |setting| setting.lane)?.unwrap_or_default())
}

/// Whether a handle calls the callback of one of asyncio's timeouts.
#[cold]
fn is_timeout(py: Python<'_>, types: &HandleTypes, handle: &Handle) -> PyResult<bool> {
    let Some(callback) = types.callback(handle) else { return Ok(false) };
    let shared = Shared::get(py)?;
    let callback = callback.bind(py);
    let class = callback.get_type();
    // No Python code runs: these are the types themselves.
    let function = if class.is(&shared.method_class) {
        callback.getattr(intern!(py, "__func__"))?
    } else if class.is(&shared.partial_class) {
        callback.getattr(intern!(py, "func"))?
    } else {
        callback
    };
    let function = Obj::from(function);
    Ok(shared.timeout_callbacks.iter().any(|known| known.is(&function)))
}

/// Whether a handle delivers the cancellation of a task in the background lane. Runs no Python code.
#[cold]
fn is_cancelled_step(py: Python<'_>, types: &HandleTypes, handle: &Handle) -> PyResult<bool> {
    let Some(task) = tasks::task_of(py, types, handle)? else { return Ok(false) };
    // The getter of a derived class could be Python code.
    let class = Shared::get(py)?.background_task.get(py);
    if !class.is_some_and(|class| task.get_type().is(class)) {
        return Ok(false);
    }
    task.getattr(intern!(py, "_must_cancel"))?.is_truthy()
}

/// The lane of a handle that a timer or another thread has made ready, or whose task was cancelled. Runs no Python code.
/// Lack of memory makes the lane a normal one.
#[cold]
pub fn of_handle(types: &HandleTypes, handle: &Handle) -> Lane {
    let py = attached();
    let lane = types.context(handle).map_or(Ok(Lane::Normal), |context| lane_of_context(py, &context));
    match lane {
        Ok(Lane::Background)
            if is_timeout(py, types, handle).unwrap_or(true)
                || is_cancelled_step(py, types, handle).unwrap_or(true) =>
        {
            Lane::Normal
        }
        lane => lane.unwrap_or_default(),
    }
}

/// The name of a handle's lane; `None` for the normal one.
pub fn name_of_handle(types: &HandleTypes, handle: &Handle) -> Option<&'static str> {
    if !in_use() {
        return None;
    }
    let lane = of_handle(types, handle);
    (lane != Lane::Normal).then(|| name(lane))
}

/// How long a handle may wait in the background lane. Runs no Python code.
#[cold]
pub fn max_overdue(types: &HandleTypes, handle: &Handle) -> Option<Duration> {
    let py = attached();
    let context = types.context(handle)?;
    setting(py, &context, |setting| setting.max_overdue).ok()??
}

/// The lane of a new handle of `call_soon()`.
#[cold]
pub fn of_call_soon(
    py: Python<'_>,
    native: &NativeLoop,
    handle: &Handle,
    callback: &Obj,
    args: &[Obj],
) -> PyResult<Lane> {
    let lane = of_handle(native.engine().host().types(), handle);
    if lane != Lane::Background {
        return Ok(lane);
    }
    if native.engine().host().delivers_timeout() || is_cancelled_wakeup(py, callback, args)? {
        return Ok(Lane::Normal);
    }
    Ok(lane)
}

/// Whether a callback wakes a task that waits for a future which was cancelled.
fn is_cancelled_wakeup(py: Python<'_>, callback: &Obj, args: &[Obj]) -> PyResult<bool> {
    let [future] = args else { return Ok(false) };
    let Ok(task) = callback.bind(py).getattr(intern!(py, "__self__")) else { return Ok(false) };
    if !task.is_instance(Shared::get(py)?.task_class.bind(py))? {
        return Ok(false);
    }
    let future = future.bind(py);
    if !future.hasattr(intern!(py, "_asyncio_future_blocking"))? {
        return Ok(false);
    }
    future.call_method0(intern!(py, "cancelled"))?.is_truthy()
}

/// Runs the callback of a timeout so that the tasks which it wakes run in the normal lane.
#[inline(always)]
pub fn run<R>(host: &PyHost, handle: &Handle, run: impl FnOnce() -> R) -> R {
    if in_use() && is_timeout(attached(), host.types(), handle).unwrap_or(false) {
        return host.while_delivering_timeout(run);
    }
    run()
}

/// Whether a task that is created in this context, or in the current one, is in the background lane.
#[cold]
pub fn makes_background_task(py: Python<'_>, context: Option<&Obj>) -> PyResult<bool> {
    let lane = match context.filter(|context| !context.is_none()) {
        Some(context) => lane_of_context(py, context)?,
        None => lane_of_context(py, &context::copy_current(py)?)?,
    };
    Ok(lane == Lane::Background)
}
