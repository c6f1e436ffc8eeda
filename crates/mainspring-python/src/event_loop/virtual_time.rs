//! Virtual time and shuffled order, for `mainspring.testing`.

use super::NativeLoop;
use super::host::PyHost;
use super::scheduling::deadline_to_time;
use crate::handle::{Handle, HandleTypes};
use crate::python::object::Obj;
use mainspring_engine::Shuffle;
use mainspring_engine::testing::VirtualClock;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use std::time::Duration;

pub fn use_virtual_clock(native: &NativeLoop, start: f64) -> PyResult<()> {
    match native.base_clock().set_virtual(VirtualClock::new(deadline_to_time(start))) {
        true => Ok(()),
        false => Err(PyRuntimeError::new_err("the loop has a virtual clock already")),
    }
}

pub fn advance_clock(native: &NativeLoop, seconds: f64) -> PyResult<()> {
    let Some(clock) = native.base_clock().virtual_clock() else {
        return Err(PyRuntimeError::new_err("the loop has no virtual clock"));
    };
    let by = Duration::try_from_secs_f64(seconds).map_err(|_| {
        PyValueError::new_err("a clock can be advanced by a finite number of seconds, not negative")
    })?;
    clock.advance(by);
    Ok(())
}

pub fn shuffle(native: &NativeLoop, seed: u64, ready: bool) {
    let shuffle = Shuffle::new(seed);
    native.engine().set_shuffle(Some(if ready { shuffle.with_ready() } else { shuffle }));
}

/// Whether a thread may call the loop: see `VirtualTimeLoop._waits_for_threads()`.
pub fn waits_for_threads(py: Python<'_>, host: &PyHost) -> bool {
    let result = host
        .event_loop(py)
        .and_then(|event_loop| event_loop.call_method0("_waits_for_threads"))
        .and_then(|waits| waits.is_truthy());
    result.unwrap_or_else(|error| {
        error.write_unraisable(py, None);
        false
    })
}

/// The types of a callback that runs a step of a task.
struct TaskTypes {
    task: Obj,
    /// `types.BuiltinMethodType` and `types.MethodType`: a wake-up of a C task, and each step of a Python task.
    methods: [Obj; 2],
}

static TASK_TYPES: PyOnceLock<TaskTypes> = PyOnceLock::new();

impl TaskTypes {
    fn get(py: Python<'_>) -> PyResult<&'static Self> {
        TASK_TYPES.get_or_try_init(py, || {
            let types = py.import("types")?;
            Ok(TaskTypes {
                task: py.import("asyncio")?.getattr("Task")?.into(),
                methods: [types.getattr("BuiltinMethodType")?.into(), types.getattr("MethodType")?.into()],
            })
        })
    }
}

/// Whether a handle runs a step of a task. Runs no Python code.
pub fn is_task_step(py: Python<'_>, types: &HandleTypes, handle: &Handle) -> bool {
    types.callback(handle).is_some_and(|callback| runs_task(&callback.bind(py)).unwrap_or(false))
}

fn runs_task(callback: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = callback.py();
    let types = TaskTypes::get(py)?;
    let class = callback.get_type();
    if types.methods.iter().any(|method| class.is(method.bind(py))) {
        let receiver = callback.getattr(intern!(py, "__self__"))?;
        return receiver.get_type().is_subclass(&types.task.bind(py));
    }
    // The first step of a C task. The type has no public name.
    Ok(class.get_type().is(py.get_type::<pyo3::types::PyType>())
        && class.name()?.to_str()? == "TaskStepMethWrapper")
}
