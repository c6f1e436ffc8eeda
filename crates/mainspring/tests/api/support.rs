//! Helpers for all tests: loops, logs, and the check that a test leaves nothing on the loop.

use mainspring::testing::VirtualClock;
use mainspring::{Builder, EventLoop, sleep, timeout};
use mainspring_engine::testing::{FakeControl, FakePoller};
use std::cell::RefCell;
use std::fmt::Debug;
use std::rc::Rc;
use std::time::Duration;

/// A test that takes longer has hung.
const TEST_TIMEOUT: Duration = Duration::from_secs(60);

pub fn new_loop() -> EventLoop {
    EventLoop::new().unwrap()
}

pub fn virtual_loop() -> (EventLoop, VirtualClock) {
    let clock = VirtualClock::default();
    (Builder::new().clock(clock.clone()).build().unwrap(), clock)
}

/// A loop with a fault-injecting poller.
pub fn faulty_loop() -> (EventLoop, FakeControl) {
    let (fake, control) = FakePoller::open().unwrap();
    (Builder::new().backend(fake).build().unwrap(), control)
}

/// Records events in order. Clones share one log.
#[derive(Clone)]
pub struct Log<T>(Rc<RefCell<Vec<T>>>);

impl<T: Clone + Debug + PartialEq> Log<T> {
    pub fn new() -> Self {
        Log(Rc::default())
    }

    pub fn add(&self, entry: impl Into<T>) {
        self.0.borrow_mut().push(entry.into());
    }

    /// Returns a callback that adds `entry`.
    pub fn adder(&self, entry: T) -> impl FnOnce() + 'static
    where
        T: 'static,
    {
        let log = self.clone();
        move || log.add(entry)
    }

    pub fn entries(&self) -> Vec<T> {
        self.0.borrow().clone()
    }

    #[track_caller]
    pub fn assert(&self, expected: impl AsRef<[T]>) {
        assert_eq!(self.entries(), expected.as_ref());
    }
}

/// Installs an exception handler that logs each report.
pub fn collect_reports(event_loop: &EventLoop) -> Log<String> {
    let log = Log::new();
    let reports = log.clone();
    event_loop.set_exception_handler(move |context| reports.add(context.to_string()));
    log
}

/// Runs one loop iteration without blocking.
pub fn run_one_iteration(event_loop: &EventLoop) {
    event_loop.stop();
    event_loop.run_forever().unwrap();
}

pub fn run_on<F: IntoFuture>(event_loop: &EventLoop, future: F) -> F::Output {
    event_loop.run_until_complete(timeout(TEST_TIMEOUT, future)).unwrap().unwrap()
}

/// Yields to the loop `count` times.
pub async fn yield_times(count: usize) {
    for _ in 0..count {
        sleep(Duration::ZERO).await;
    }
}

/// Runs a network test on each back end, and checks that it leaves nothing on the loop and reports no exception.
pub fn on_every_backend<F: Future<Output = ()>>(test: impl Fn(EventLoop) -> F) {
    let (fake, _control) = FakePoller::open().unwrap();
    for event_loop in [new_loop(), Builder::new().backend(fake).build().unwrap()] {
        let reports = collect_reports(&event_loop);
        run_on(&event_loop, test(event_loop.clone()));
        assert_leaves_nothing(&event_loop);
        reports.assert([]);
    }
}

/// Lets pending closes finish, and checks that the loop has no calls, timers, tasks or registered fds.
#[track_caller]
pub fn assert_leaves_nothing(event_loop: &EventLoop) {
    for _ in 0..4 {
        run_one_iteration(event_loop);
    }
    assert_eq!(event_loop.metrics(), Default::default(), "something is left on the loop");
}
