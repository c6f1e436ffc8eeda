//! Futures that a test polls by hand, and a loop for those that run on one.

use mainspring::{EventLoop, timeout};
use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

/// A test that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs a future on a loop of its own, and checks that nothing is left on it.
pub fn run<F: IntoFuture>(future: F) -> F::Output {
    let event_loop = EventLoop::new().unwrap();
    let output = event_loop.run_until_complete(timeout(PATIENCE, future)).unwrap().unwrap();
    for _ in 0..4 {
        event_loop.stop();
        event_loop.run_forever().unwrap();
    }
    assert_eq!(event_loop.metrics(), Default::default(), "something is left on the loop");
    output
}

/// Lets everything else that is ready run, `count` times.
pub async fn passes(count: usize) {
    for _ in 0..count {
        mainspring::sleep(Duration::ZERO).await;
    }
}

#[derive(Default)]
pub struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// A future that is polled by hand, with a waker that counts.
pub struct Actor<R> {
    future: Pin<Box<dyn Future<Output = R>>>,
    wakes: Arc<Count>,
}

impl<R> Actor<R> {
    pub fn new(future: impl Future<Output = R> + 'static) -> Self {
        Actor { future: Box::pin(future), wakes: Arc::default() }
    }

    /// Polls it, and forgets that it was woken.
    pub fn poll(&mut self) -> Poll<R> {
        self.wakes.0.store(0, Ordering::Relaxed);
        let waker = Waker::from(Arc::clone(&self.wakes));
        self.future.as_mut().poll(&mut Context::from_waker(&waker))
    }

    /// Polls it with another waker from now on: as a task that hands its futures to another.
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
pub fn pending<R: std::fmt::Debug>(future: impl Future<Output = R> + 'static) -> Actor<R> {
    let mut actor = Actor::new(future);
    assert!(actor.poll().is_pending());
    actor
}

/// Futures that wait, each with the number it came with.
pub struct Crowd<R> {
    actors: BTreeMap<usize, Actor<R>>,
    came: usize,
}

impl<R> Crowd<R> {
    pub fn new() -> Self {
        Crowd { actors: BTreeMap::new(), came: 0 }
    }

    /// Polls a new future. It stays here if it waits.
    pub fn add(&mut self, future: impl Future<Output = R> + 'static) -> (usize, Poll<R>) {
        let number = self.came;
        self.came += 1;
        let mut actor = Actor::new(future);
        let polled = actor.poll();
        if polled.is_pending() {
            self.actors.insert(number, actor);
        }
        (number, polled)
    }

    /// One of those here.
    pub fn pick(&self, index: proptest::sample::Index) -> Option<usize> {
        let numbers: Vec<usize> = self.actors.keys().copied().collect();
        if numbers.is_empty() { None } else { Some(*index.get(&numbers)) }
    }

    pub fn poll(&mut self, number: usize) -> Poll<R> {
        let polled = self.actors.get_mut(&number).unwrap().poll();
        if polled.is_ready() {
            self.actors.remove(&number);
        }
        polled
    }

    pub fn move_to_another_task(&mut self, number: usize) -> Poll<R> {
        let polled = self.actors.get_mut(&number).unwrap().move_to_another_task();
        if polled.is_ready() {
            self.actors.remove(&number);
        }
        polled
    }

    pub fn give_up(&mut self, number: usize) {
        drop(self.actors.remove(&number));
    }

    /// Those that were woken since they were polled.
    pub fn woken(&self) -> Vec<usize> {
        let woken = self.actors.iter().filter(|(_, actor)| actor.is_woken());
        woken.map(|(number, _)| *number).collect()
    }

    pub fn waiting(&self) -> usize {
        self.actors.len()
    }
}

/// Sorted, as [`Crowd::woken`] gives them.
pub fn sorted(numbers: impl IntoIterator<Item = usize>) -> Vec<usize> {
    let mut numbers: Vec<usize> = numbers.into_iter().collect();
    numbers.sort_unstable();
    numbers
}
