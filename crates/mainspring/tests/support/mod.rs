//! Shared by the adversarial tests: loops of both back ends that run one iteration at a time, and protocols that check
//! the order of their callbacks.
//!
//! Nothing here waits forever. A loop runs until a condition holds, or fails after [`TIMEOUT`]. The watchdog ends a run
//! that blocks, and names the current test.

#![allow(dead_code, reason = "each target uses its share")]

pub mod polls;
pub mod probe;

use mainspring::testing::VirtualClock;
use mainspring::{Builder, EventLoop};
use mainspring_engine::testing::{FakeControl, FakePoller};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use test_support::{TIMEOUT, TestBackend, now_testing};

/// A loop on virtual time that records its reports.
pub struct TestLoop {
    pub event_loop: EventLoop,
    pub clock: VirtualClock,
    /// Has no effect on epoll.
    pub control: FakeControl,
    pub reports: Rc<RefCell<Vec<String>>>,
    /// Whether an iteration may fail because its poll fails.
    pub may_fail: Cell<bool>,
    name: String,
}

impl TestLoop {
    pub fn new(on: TestBackend, name: impl Into<String>) -> Self {
        let name = name.into();
        now_testing(&name);
        let clock = VirtualClock::default();
        let mut builder = Builder::new().clock(clock.clone());
        let mut control = FakeControl::default();
        if on == TestBackend::Fake {
            let (backend, fake_control) = FakePoller::open().unwrap();
            control = fake_control;
            builder = builder.backend(backend);
        }
        let event_loop = builder.build().unwrap();
        let reports = Rc::new(RefCell::new(Vec::new()));
        let collected = Rc::clone(&reports);
        event_loop.set_exception_handler(move |context| collected.borrow_mut().push(context.to_string()));
        TestLoop { event_loop, clock, control, reports, may_fail: Cell::new(false), name }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs `future` to completion. The loop may block; only the watchdog bounds it.
    pub fn run<F: IntoFuture>(&self, future: F) -> F::Output {
        match self.event_loop.run_until_complete(future) {
            Ok(output) => output,
            Err(error) => panic!("{}: the loop ended early: {error}", self.name),
        }
    }

    /// Runs one iteration without blocking, then advances the clock by a millisecond.
    pub fn run_once(&self) {
        self.event_loop.stop();
        if let Err(error) = self.event_loop.run_forever() {
            assert!(self.may_fail.get(), "{}: an iteration failed: {error}", self.name);
        }
        self.clock.advance(Duration::from_millis(1));
    }

    pub fn run_iterations(&self, count: usize) {
        (0..count).for_each(|_| self.run_once());
    }

    /// Runs iterations until `condition` holds. `what` describes the condition.
    #[track_caller]
    pub fn until(&self, what: &str, condition: impl Fn() -> bool) {
        let start = Instant::now();
        while !condition() {
            assert!(
                start.elapsed() < TIMEOUT,
                "{}: timed out waiting until {what}; {:?}; reports: {:?}",
                self.name,
                self.event_loop.metrics(),
                self.reports.borrow(),
            );
            self.run_once();
        }
    }

    /// Runs iterations until nothing is left on the loop, and checks that it stays so.
    #[track_caller]
    pub fn assert_idle(&self) {
        self.until("nothing is left on the loop", || self.event_loop.metrics() == Default::default());
        self.run_iterations(3);
        assert_eq!(self.event_loop.metrics(), Default::default(), "{}: the loop is not idle", self.name);
    }

    /// Checks the reports, and clears them.
    #[track_caller]
    pub fn assert_reports(&self, expected: &[&str]) {
        assert_eq!(self.reports.take(), expected, "{}: unexpected reports", self.name);
    }
}
