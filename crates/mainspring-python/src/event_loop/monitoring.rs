//! Stall detection and metrics: what other threads and the program read of a loop.

use super::host::PyHost;
use crate::python::dealloc::ClassData;
use crate::python::guard::catch_unwind;
use crate::python::interpreter::detached;
use mainspring_engine::ready_queue::Lane;
use mainspring_engine::stalls::{StallEvent, StallWatch};
use mainspring_engine::{Engine, LAG_BOUNDS};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use std::cell::RefCell;

/// The watch of a loop, for the thread that watches. It does not keep the loop alive.
#[pyclass(name = "StallWatch", module = "mainspring._mainspring", frozen)]
pub struct PyStallWatch {
    watch: ClassData<RefCell<StallWatch>>,
}

impl PyStallWatch {
    pub fn new(watch: StallWatch) -> Self {
        PyStallWatch { watch: ClassData::new(RefCell::new(watch)) }
    }
}

#[pymethods]
impl PyStallWatch {
    /// Waits without the interpreter lock. Returns (has ended, seconds) of a call that blocks the loop; None if the loop
    /// is not watched any more.
    fn wait(&self) -> PyResult<Option<(bool, f64)>> {
        catch_unwind(|| {
            let Ok(mut watch) = self.watch.try_borrow_mut() else {
                return Err(PyRuntimeError::new_err("another thread waits for the same watch"));
            };
            let mut event = None;
            detached(&mut || event = watch.wait());
            Ok(event.map(|event| match event {
                StallEvent::Blocked(elapsed) => (false, elapsed.as_secs_f64()),
                StallEvent::Ended(total) => (true, total.as_secs_f64()),
            }))
        })
    }

    /// Whether the call that wait() returned last still blocks the loop.
    fn is_blocked(&self) -> PyResult<bool> {
        catch_unwind(|| Ok(self.watch.try_borrow().is_ok_and(|watch| watch.is_blocked())))
    }
}

/// The counters of the engine, by name.
pub fn metrics<'py>(engine: &Engine<PyHost>, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
    let metrics = engine.metrics();
    let values = PyDict::new(py);
    values.set_item("iterations", metrics.iterations)?;
    values.set_item("callbacks", metrics.calls)?;
    values.set_item("busy_seconds", metrics.busy.as_secs_f64())?;
    values.set_item("idle_seconds", metrics.idle.as_secs_f64())?;
    values.set_item("lag_bounds", LAG_BOUNDS.map(|bound| bound.as_secs_f64()))?;
    values.set_item("lag_counts", metrics.timer_lag.counts)?;
    values.set_item("lag_sum", metrics.timer_lag.sum.as_secs_f64())?;
    let lanes = [("urgent", Lane::Urgent), ("normal", Lane::Normal), ("background", Lane::Background)];
    let ready = PyDict::new(py);
    for (name, lane) in lanes {
        ready.set_item(name, engine.ready_len_of(lane))?;
    }
    values.set_item("ready", ready)?;
    values.set_item("timers", engine.timers_len())?;
    values.set_item("received_bytes", metrics.received_bytes)?;
    values.set_item("sent_bytes", metrics.sent_bytes)?;
    values.set_item("stalls", metrics.stalls)?;
    Ok(values)
}

/// The transports that own an fd, in the order of the numbers.
pub fn transports<'py>(engine: &Engine<PyHost>, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
    let found: Vec<_> = engine.owners().into_iter().filter_map(|(_, owner)| owner.bind(py)).collect();
    PyList::new(py, found)
}
