//! `ConcurrentFuture`: a future whose result comes from another thread, as Python's
//! `concurrent.futures.Future`.

use crate::panics::catch_payload;
use crate::task::JoinError;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// What runs elsewhere, in the executor or on another thread's loop, and will give a `T`.
///
/// Await it on any loop, or [`wait`](ConcurrentFuture::wait) for it on a thread without one. Dropping it does
/// not stop what runs.
#[must_use = "the result comes when this is awaited"]
pub struct ConcurrentFuture<T>(Arc<Shared<T>>);

/// The other end: settles the future, with a [`JoinError`] that says "cancelled" if it is dropped unused.
pub(crate) struct Outcome<T>(Option<Arc<Shared<T>>>);

struct Shared<T> {
    state: Mutex<State<T>>,
    is_settled: Condvar,
}

struct State<T> {
    result: Option<Result<T, JoinError>>,
    waker: Option<Waker>,
}

pub(crate) fn pair<T>() -> (Outcome<T>, ConcurrentFuture<T>) {
    let state = Mutex::new(State { result: None, waker: None });
    let shared = Arc::new(Shared { state, is_settled: Condvar::new() });
    (Outcome(Some(Arc::clone(&shared))), ConcurrentFuture(shared))
}

impl<T> Shared<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        // No foreign code runs under the lock, so a poisoned one guards a state that is still whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn settle(&self, result: Result<T, JoinError>) {
        let mut state = self.lock();
        state.result = Some(result);
        let waker = state.waker.take();
        drop(state);
        self.is_settled.notify_all();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl<T> Outcome<T> {
    /// Settles with what `run` gives, or with its panic.
    pub(crate) fn settle_with(self, run: impl FnOnce() -> T) {
        let result = catch_payload(run).map_err(|payload| JoinError::panicked(None, payload));
        self.settle(result);
    }

    pub(crate) fn settle(mut self, result: Result<T, JoinError>) {
        if let Some(shared) = self.0.take() {
            shared.settle(result);
        }
    }
}

impl<T> Drop for Outcome<T> {
    fn drop(&mut self) {
        if let Some(shared) = self.0.take() {
            shared.settle(Err(JoinError::cancelled(None)));
        }
    }
}

impl<T> ConcurrentFuture<T> {
    /// Whether the result is there.
    pub fn is_finished(&self) -> bool {
        self.0.lock().result.is_some()
    }

    /// Blocks this thread until the result is there. On the thread of the loop that is to produce it, that
    /// would be for ever: await it there.
    pub fn wait(self) -> Result<T, JoinError> {
        let mut state = self.0.lock();
        loop {
            if let Some(result) = state.result.take() {
                return result;
            }
            state = self.0.is_settled.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl<T> Future for ConcurrentFuture<T> {
    type Output = Result<T, JoinError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // Cloning and dropping a waker is foreign code: both outside of the lock.
        let waker = cx.waker().clone();
        let mut state = self.0.lock();
        if let Some(result) = state.result.take() {
            drop(state);
            return Poll::Ready(result);
        }
        let former = state.waker.replace(waker);
        drop(state);
        drop(former);
        Poll::Pending
    }
}

impl<T> fmt::Debug for ConcurrentFuture<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConcurrentFuture").field("finished", &self.is_finished()).finish_non_exhaustive()
    }
}
