//! The loop's clock.
//!
//! As in asyncio, a `time()` method that replaces the loop's own (in a derived class or on the instance) is the clock of
//! every deadline. Otherwise the clock is the system's monotonic one, and no Python code runs. The native `time()` reads
//! that clock too, so that a replacement can call `super().time()`.

use super::overrides::Overrides;
use crate::python::interpreter::attached;
use mainspring_engine::clock::{Clock, MonotonicClock, Time};
use pyo3::prelude::*;
use std::cell::Cell;
use std::rc::Rc;

/// See the module comment.
pub struct LoopClock {
    overrides: Rc<Overrides>,
    /// The last result of a replaced `time()`, used while it raises.
    latest: Cell<Time>,
}

impl LoopClock {
    pub fn new(overrides: Rc<Overrides>) -> Self {
        LoopClock { overrides, latest: Cell::new(Time::ZERO) }
    }

    /// Calls the replaced `time()`. An exception is reported as unraisable.
    #[cold]
    fn call_time(&self, event_loop: &Bound<'_, PyAny>) -> Time {
        match event_loop.call_method0("time").and_then(|time| time.extract::<f64>()) {
            Ok(seconds) => self.latest.set(Time::from_nanos((seconds * 1e9) as u64)),
            Err(error) => error.write_unraisable(event_loop.py(), Some(event_loop)),
        }
        self.latest.get()
    }
}

impl Clock for LoopClock {
    fn now(&self) -> Time {
        let py = attached();
        match self.overrides.replaced_clock(py) {
            Ok(None) => MonotonicClock.now(),
            Ok(Some(event_loop)) => self.call_time(&event_loop),
            Err(error) => {
                error.write_unraisable(py, None);
                MonotonicClock.now()
            }
        }
    }
}
