//! What the adversarial tests share: a guard around each test, loops of both back ends that are run pass by pass, and
//! protocols that notice whatever is out of order.
//!
//! Nothing here waits for ever. Loops are run pass by pass until something is so, or not so in [`PATIENCE`]; a run that
//! blocks is ended, with the name of what was going on, by the watchdog.

#![allow(dead_code, reason = "each target uses its share")]

pub mod polls;
pub mod probe;

use mainspring::testing::VirtualClock;
use mainspring::{Builder, EventLoop};
use mainspring_engine::testing::{FakeControl, FakePoller};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use test_support::{On, PATIENCE, now_testing};

/// A loop on virtual time, with everything it reports.
pub struct Stage {
    pub event_loop: EventLoop,
    pub clock: VirtualClock,
    /// Without effect on epoll.
    pub control: FakeControl,
    pub reports: Rc<RefCell<Vec<String>>>,
    /// Whether a pass may fail because the wait in it does.
    pub may_fail: Cell<bool>,
    name: String,
}

impl Stage {
    pub fn new(on: On, name: impl Into<String>) -> Self {
        let name = name.into();
        now_testing(&name);
        let clock = VirtualClock::default();
        let mut builder = Builder::new().clock(clock.clone());
        let mut control = FakeControl::default();
        if on == On::Fake {
            let (backend, its_control) = FakePoller::open().unwrap();
            control = its_control;
            builder = builder.backend(backend);
        }
        let event_loop = builder.build().unwrap();
        let reports = Rc::new(RefCell::new(Vec::new()));
        let collected = Rc::clone(&reports);
        event_loop.set_exception_handler(move |context| collected.borrow_mut().push(context.to_string()));
        Stage { event_loop, clock, control, reports, may_fail: Cell::new(false), name }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs `future` to its end. The loop may block: the watchdog is what bounds this.
    pub fn run<F: IntoFuture>(&self, future: F) -> F::Output {
        match self.event_loop.run_until_complete(future) {
            Ok(output) => output,
            Err(error) => panic!("{}: the loop ended early: {error}", self.name),
        }
    }

    /// One pass, without waiting, and a millisecond of the clock.
    pub fn pass(&self) {
        self.event_loop.stop();
        if let Err(error) = self.event_loop.run_forever() {
            assert!(self.may_fail.get(), "{}: a pass failed: {error}", self.name);
        }
        self.clock.advance(Duration::from_millis(1));
    }

    pub fn passes(&self, count: usize) {
        (0..count).for_each(|_| self.pass());
    }

    /// Runs passes until something is so.
    #[track_caller]
    pub fn until(&self, what: &str, is_so: impl Fn() -> bool) {
        let begun = Instant::now();
        while !is_so() {
            assert!(
                begun.elapsed() < PATIENCE,
                "{}: it never happens that {what}; {:?}; reports: {:?}",
                self.name,
                self.event_loop.metrics(),
                self.reports.borrow(),
            );
            self.pass();
        }
    }

    /// Checks that nothing is left on the loop, after a few passes to let things end.
    #[track_caller]
    pub fn assert_idle(&self) {
        self.until("nothing is left on the loop", || self.event_loop.metrics() == Default::default());
        self.passes(3);
        assert_eq!(self.event_loop.metrics(), Default::default(), "{}: something is left", self.name);
    }

    /// Checks what was reported, and forgets it.
    #[track_caller]
    pub fn assert_reports(&self, expected: &[&str]) {
        assert_eq!(self.reports.take(), expected, "{}: other reports", self.name);
    }
}
