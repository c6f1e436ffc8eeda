//! What the adversarial tests share: a guard around each test, loops of both back ends that are run pass by pass, and
//! protocols that notice whatever is out of order.
//!
//! Nothing here waits for ever. Loops are run pass by pass until something is so, or not so in [`PATIENCE`]; a run that
//! blocks is ended, with the name of what was going on, by the watchdog.

#![allow(dead_code, reason = "each target uses its share")]

pub use crate::leak_check::open_descriptors;

pub mod numbers;
pub mod polls;
pub mod probe;

use crate::leak_check::for_good;
use mainspring::testing::{FakeControl, FakePoller, VirtualClock};
use mainspring::{Builder, EventLoop};
use std::cell::{Cell, RefCell};
use std::io::Write;
use std::panic;
use std::rc::Rc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Mutex, Once, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// What does not happen in so long does not happen.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// What a test panics with on purpose.
pub const DELIBERATE: &str = "deliberate";

static CURRENT: Mutex<String> = Mutex::new(String::new());

/// Says what is going on, for the watchdog.
pub fn now_testing(what: &str) {
    for_good(|| what.clone_into(&mut CURRENT.lock().unwrap_or_else(PoisonError::into_inner)));
}

/// Runs `test` alone in this process, ends it if it hangs, and checks that it leaves no descriptor open.
pub fn guarded(test: impl FnOnce()) {
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    quiet_deliberate_panics();
    now_testing("");
    let watchdog = watchdog(thread::current().name().unwrap_or("a test"));
    let before = open_descriptors();
    test();
    assert_eq!(open_descriptors(), before, "descriptors are not what they were before");
    drop(watchdog);
}

/// Ends the process unless its answer is dropped in time.
fn watchdog(test: &str) -> Sender<()> {
    let test = test.to_owned();
    let (alive, dog) = mpsc::channel::<()>();
    thread::spawn(move || {
        if dog.recv_timeout(4 * PATIENCE) == Err(RecvTimeoutError::Timeout) {
            let current = CURRENT.lock().unwrap_or_else(PoisonError::into_inner);
            // Not `eprintln`, which the test harness keeps for a test that ends.
            let _ = writeln!(std::io::stderr(), "{test} hangs: {current}");
            std::process::abort();
        }
    });
    alive
}

fn quiet_deliberate_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let usual = panic::take_hook();
        let quiet = move |info: &panic::PanicHookInfo<'_>| {
            if info.payload().downcast_ref::<&str>() != Some(&DELIBERATE) {
                usual(info);
            }
        };
        panic::set_hook(for_good(|| Box::new(quiet)));
    });
}

/// Which back end a loop stands on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum On {
    Epoll,
    Fake,
}

impl On {
    pub const ALL: [On; 2] = [On::Epoll, On::Fake];
}

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
