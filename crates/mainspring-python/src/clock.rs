//! The loop's clock as Python may replace it: a subclass or an instance with a `time()` of its own tells the time of
//! every deadline, as in asyncio. Until somebody does, the system's monotonic clock is asked, and no Python.

use mainspring::clock::{Clock, MonotonicClock, Time};
use pyo3::ffi;
use pyo3::prelude::*;
use std::cell::Cell;
use std::rc::Rc;

/// Who tells the time: null for the system.
pub type Teller = Rc<Cell<*mut ffi::PyObject>>;

/// See the module's text.
pub struct LoopClock {
    /// The loop object this clock lives in, when its `time()` is to be asked: borrowed.
    teller: Teller,
    latest: Cell<Time>,
}

impl LoopClock {
    pub fn new(teller: Teller) -> Self {
        LoopClock { teller, latest: Cell::new(Time::ZERO) }
    }

    /// What `time()` says. A failure is shown, and no time has passed.
    fn ask(&self, event_loop: *mut ffi::PyObject) -> Time {
        // SAFETY: the engine runs only on threads that are attached, inside the loop object, which is alive.
        let (py, event_loop) = unsafe {
            let py = Python::assume_attached();
            (py, Bound::from_borrowed_ptr(py, event_loop))
        };
        let told = event_loop.call_method0("time").and_then(|time| time.extract::<f64>());
        match told {
            Ok(seconds) => self.latest.set(Time::from_nanos((seconds * 1e9) as u64).max(self.latest.get())),
            Err(error) => error.write_unraisable(py, Some(&event_loop)),
        }
        self.latest.get()
    }
}

impl Clock for LoopClock {
    fn now(&self) -> Time {
        let event_loop = self.teller.get();
        if event_loop.is_null() { MonotonicClock.now() } else { self.ask(event_loop) }
    }
}
