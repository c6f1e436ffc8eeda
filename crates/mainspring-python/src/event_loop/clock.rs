//! The loop's clock.
//!
//! As in asyncio, a `time()` method that replaces the loop's own (in a derived class or on the instance) is the clock of
//! every deadline. Otherwise the clock is the system's monotonic one, or a virtual one in tests, and no Python code runs.
//! The native `time()` reads that clock too, so that a replacement can call `super().time()`.

use super::overrides::Overrides;
use crate::python::interpreter::attached;
use mainspring_engine::clock::{Clock, MonotonicClock, Time};
use mainspring_engine::testing::VirtualClock;
use pyo3::prelude::*;
use std::cell::{Cell, OnceCell};
use std::rc::Rc;

/// The clock that a replaced `time()` replaces: the system's, unless a virtual one was set.
#[derive(Default)]
pub struct BaseClock(OnceCell<VirtualClock>);

impl BaseClock {
    /// Makes the clock virtual. `false` if it is already.
    pub fn set_virtual(&self, clock: VirtualClock) -> bool {
        self.0.set(clock).is_ok()
    }

    pub fn virtual_clock(&self) -> Option<&VirtualClock> {
        self.0.get()
    }

    #[inline(always)]
    pub fn now(&self) -> Time {
        match self.0.get() {
            None => MonotonicClock.now(),
            Some(clock) => clock.now(),
        }
    }
}

/// See the module comment.
pub struct LoopClock {
    base: Rc<BaseClock>,
    overrides: Rc<Overrides>,
    /// The last result of a replaced `time()`, used while it raises.
    latest: Cell<Time>,
}

impl LoopClock {
    pub fn new(base: Rc<BaseClock>, overrides: Rc<Overrides>) -> Self {
        LoopClock { base, overrides, latest: Cell::new(Time::ZERO) }
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
            Ok(None) => self.base.now(),
            Ok(Some(event_loop)) => self.call_time(&event_loop),
            Err(error) => {
                error.write_unraisable(py, None);
                self.base.now()
            }
        }
    }

    fn is_virtual(&self) -> bool {
        self.base.virtual_clock().is_some()
    }

    fn skip_to(&self, deadline: Option<Time>) -> bool {
        self.base.virtual_clock().is_some_and(|clock| clock.skip_to(deadline))
    }
}
