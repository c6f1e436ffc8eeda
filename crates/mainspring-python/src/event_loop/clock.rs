//! The loop's clock as Python may replace it: a class or an instance with a `time()` of its own tells the time of every
//! deadline, as in asyncio. Without one, the system's monotonic clock is asked, and no Python. The native `time()` reads
//! that clock too, so that a replacement may call `super().time()`.

use crate::event_loop::overrides::Overrides;
use mainspring_engine::clock::{Clock, MonotonicClock, Time};
use pyo3::ffi;
use pyo3::prelude::*;
use std::cell::Cell;
use std::rc::Rc;

/// See the module's text.
pub struct LoopClock {
    overrides: Rc<Overrides>,
    /// What `time()` said last: the answer while it fails.
    latest: Cell<Time>,
}

impl LoopClock {
    pub fn new(overrides: Rc<Overrides>) -> Self {
        LoopClock { overrides, latest: Cell::new(Time::ZERO) }
    }

    /// What `time()` says. A failure is shown, and no time has passed.
    #[cold]
    fn ask(&self, py: Python<'_>, event_loop: *mut ffi::PyObject) -> Time {
        // SAFETY: the clock is part of the loop object, which is alive.
        let event_loop = unsafe { Bound::from_borrowed_ptr(py, event_loop) };
        let told = event_loop.call_method0("time").and_then(|time| time.extract::<f64>());
        match told {
            Ok(seconds) => self.latest.set(Time::from_nanos((seconds * 1e9) as u64)),
            Err(error) => error.write_unraisable(py, Some(&event_loop)),
        }
        self.latest.get()
    }
}

impl Clock for LoopClock {
    fn now(&self) -> Time {
        // SAFETY: the engine runs only on threads that are attached.
        let py = unsafe { Python::assume_attached() };
        match self.overrides.clock(py) {
            Ok(None) => MonotonicClock.now(),
            Ok(Some(event_loop)) => self.ask(py, event_loop),
            Err(error) => {
                error.write_unraisable(py, None);
                MonotonicClock.now()
            }
        }
    }
}
