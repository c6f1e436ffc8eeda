//! Futures that a test polls by hand, and a loop for tests that need one.

use mainspring::{EventLoop, timeout};
use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

/// Limit for a test that hangs.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Runs a future on a new loop, and checks that nothing is left on it.
pub fn run<F: IntoFuture>(future: F) -> F::Output {
    let event_loop = EventLoop::new().unwrap();
    let output = event_loop.run_until_complete(timeout(TIMEOUT, future)).unwrap().unwrap();
    for _ in 0..4 {
        event_loop.stop();
        event_loop.run_forever().unwrap();
    }
    assert_eq!(event_loop.metrics(), Default::default(), "something is left on the loop");
    output
}

/// Runs `count` loop iterations.
pub async fn run_iterations(count: usize) {
    for _ in 0..count {
        mainspring::sleep(Duration::ZERO).await;
    }
}

#[derive(Default)]
pub struct WakeCounter(AtomicUsize);

impl Wake for WakeCounter {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// A future that is polled by hand, with a waker that counts.
pub struct PolledFuture<R> {
    future: Pin<Box<dyn Future<Output = R>>>,
    wakes: Arc<WakeCounter>,
}

impl<R> PolledFuture<R> {
    pub fn new(future: impl Future<Output = R> + 'static) -> Self {
        PolledFuture { future: Box::pin(future), wakes: Arc::default() }
    }

    /// Polls it and resets its wake-up count.
    pub fn poll(&mut self) -> Poll<R> {
        self.wakes.0.store(0, Ordering::Relaxed);
        let waker = Waker::from(Arc::clone(&self.wakes));
        self.future.as_mut().poll(&mut Context::from_waker(&waker))
    }

    /// Polls it with a new waker, as a task does that received the future from another task.
    pub fn move_to_another_task(&mut self) -> Poll<R> {
        self.wakes = Arc::default();
        self.poll()
    }

    pub fn is_woken(&self) -> bool {
        self.wakes.0.load(Ordering::Relaxed) > 0
    }
}

/// Polls a future that must not be ready.
#[track_caller]
pub fn pending<R: std::fmt::Debug>(future: impl Future<Output = R> + 'static) -> PolledFuture<R> {
    let mut future = PolledFuture::new(future);
    assert!(future.poll().is_pending());
    future
}

/// Pending futures, numbered in the order of their creation.
pub struct Waiters<R> {
    futures: BTreeMap<usize, PolledFuture<R>>,
    next_number: usize,
}

impl<R> Waiters<R> {
    pub fn new() -> Self {
        Waiters { futures: BTreeMap::new(), next_number: 0 }
    }

    /// Polls a new future, and keeps it if it is pending.
    pub fn add(&mut self, future: impl Future<Output = R> + 'static) -> (usize, Poll<R>) {
        let number = self.next_number;
        self.next_number += 1;
        let mut future = PolledFuture::new(future);
        let polled = future.poll();
        if polled.is_pending() {
            self.futures.insert(number, future);
        }
        (number, polled)
    }

    /// The number of one of the pending futures.
    pub fn pick(&self, index: proptest::sample::Index) -> Option<usize> {
        let numbers: Vec<usize> = self.futures.keys().copied().collect();
        if numbers.is_empty() { None } else { Some(*index.get(&numbers)) }
    }

    pub fn poll(&mut self, number: usize) -> Poll<R> {
        let polled = self.futures.get_mut(&number).unwrap().poll();
        if polled.is_ready() {
            self.futures.remove(&number);
        }
        polled
    }

    pub fn move_to_another_task(&mut self, number: usize) -> Poll<R> {
        let polled = self.futures.get_mut(&number).unwrap().move_to_another_task();
        if polled.is_ready() {
            self.futures.remove(&number);
        }
        polled
    }

    pub fn cancel(&mut self, number: usize) {
        drop(self.futures.remove(&number));
    }

    /// The futures that were woken since their last poll.
    pub fn woken(&self) -> Vec<usize> {
        let woken = self.futures.iter().filter(|(_, future)| future.is_woken());
        woken.map(|(number, _)| *number).collect()
    }

    pub fn waiting(&self) -> usize {
        self.futures.len()
    }
}

/// Sorted, like the result of [`Waiters::woken`].
pub fn sorted(numbers: impl IntoIterator<Item = usize>) -> Vec<usize> {
    let mut numbers: Vec<usize> = numbers.into_iter().collect();
    numbers.sort_unstable();
    numbers
}
