//! Guest mode: the methods by which another loop drives this one.
//!
//! An event is a tuple of the engine's key and a mask with the values of `selectors.EVENT_READ` and `EVENT_WRITE`. The
//! engine ignores keys that it does not know, so the tuples need no protection.

use super::NativeLoop;
use mainspring_engine::Readiness;
use mainspring_engine::poller::{Event, Key};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use std::os::fd::RawFd;
use std::time::Duration;

const EVENT_READ: u8 = 1;
const EVENT_WRITE: u8 = 2;

pub fn fileno(native: &NativeLoop) -> PyResult<RawFd> {
    native.check_closed()?;
    native.engine().pollable_fd().ok_or_else(|| PyRuntimeError::new_err("Event loop is closed"))
}

pub fn next_timeout(native: &NativeLoop) -> PyResult<Option<f64>> {
    native.check_closed()?;
    Ok(native.engine().next_timeout().map(|timeout| timeout.as_secs_f64()))
}

pub fn poll_events(native: &NativeLoop, py: Python<'_>, timeout: Option<f64>) -> PyResult<Vec<(u64, u8)>> {
    native.check_closed()?;
    let timeout = timeout.map(duration).transpose()?;
    let events = native.run_here(py, |engine| engine.poll_events(timeout))?;
    Ok(events.into_iter().map(to_tuple).collect())
}

pub fn process_events(native: &NativeLoop, py: Python<'_>, events: &[(u64, u8)]) -> PyResult<()> {
    native.check_closed()?;
    let events = events.iter().map(from_tuple).collect();
    native.run_here(py, |engine| engine.process_events(events))
}

/// A timeout in seconds. A negative one is zero; the engine limits large ones.
fn duration(seconds: f64) -> PyResult<Duration> {
    if seconds.is_nan() {
        return Err(PyValueError::new_err("timeout must not be NaN"));
    }
    Ok(Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX))
}

fn to_tuple(Event { key, readiness }: Event) -> (u64, u8) {
    let read = if readiness.inbound { EVENT_READ } else { 0 };
    let write = if readiness.outbound { EVENT_WRITE } else { 0 };
    (key.to_bits(), read | write)
}

fn from_tuple(&(key, mask): &(u64, u8)) -> Event {
    let readiness = Readiness { inbound: mask & EVENT_READ != 0, outbound: mask & EVENT_WRITE != 0 };
    Event { key: Key::from_bits(key), readiness }
}
