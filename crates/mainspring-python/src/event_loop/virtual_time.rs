//! Virtual time and shuffled order, for `mainspring.testing`.

use super::host::PyHost;
use super::scheduling::deadline_to_time;
use super::{NativeLoop, tasks};
use mainspring_engine::Shuffle;
use mainspring_engine::testing::VirtualClock;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
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

pub fn shuffle(py: Python<'_>, native: &NativeLoop, seed: u64, ready: bool) -> PyResult<()> {
    tasks::load(py)?;
    let shuffle = Shuffle::new(seed);
    native.engine().set_shuffle(Some(if ready { shuffle.with_ready() } else { shuffle }));
    Ok(())
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
