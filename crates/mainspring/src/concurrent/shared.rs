//! `Shared`: the state of a `ConcurrentFuture`, which the future, its promise and its producer share.
//!
//! # The stages
//!
//! *Pending* until its [`Promise`](super::Promise) is settled or dropped, or it is cancelled ([`super::cancel`]).
//! *RunningCallbacks* while the done callbacks run with the result, which is not in the state at that time. Then it is
//! *Settled*, or the chained closure gets the result. *Taken* after the result was taken. A result is in one place at
//! any time, and every stage change is made under the lock.
//!
//! Foreign code (callbacks, wakers, destructors) never runs under the lock. Chained closures run from a queue on the
//! thread that settles ([`super::run_chained`]), so that a chain of any length uses the stack of one closure.

use super::cancel::Upstream;
use super::run_chained;
use crate::event_loop::{ExceptionContext, KeepAlive, report_here, running_core};
use crate::host::Inbound;
use crate::panics::catch;
use mainspring_engine::loom_shim::{Condvar, Mutex, MutexGuard};
use mainspring_engine::wakeup::Inbox;
use std::mem;
use std::sync::{Arc, PoisonError};
use std::task::Waker;

pub(super) struct Shared<T, E> {
    state: Mutex<SharedState<T, E>>,
    pub(super) is_settled: Condvar,
    /// The inbox of the loop that settles the future, if there is one. That loop need not be kept alive for it.
    pub(super) settling_loop: Option<LoopInbox>,
}

pub(super) type LoopInbox = Arc<Inbox<Inbound>>;

/// Whether that loop is running on this thread, that is, this is one of its callbacks.
pub(super) fn is_running_here(settling_loop: &LoopInbox) -> bool {
    running_core().is_some_and(|core| Arc::ptr_eq(settling_loop, core.inbox()))
}

pub(super) struct SharedState<T, E> {
    pub(super) stage: ResultStage<T, E>,
    pub(super) callbacks: Vec<DoneCallback<T, E>>,
    pub(super) waiting: Option<Waiting>,
    /// The chained closure that takes the result.
    pub(super) next: Option<ChainedClosure<T, E>>,
    /// The future that is cancelled with it.
    pub(super) upstream: Option<Upstream>,
    /// Wakes the owner of the promise, if it waits for a cancellation.
    pub(super) cancel_waker: Option<Waker>,
    /// Wakes a thread that waits for a future composed of this one when the upstream changes.
    pub(super) watcher: Option<Waker>,
    pub(super) is_cancelled: bool,
}

/// See the module documentation.
pub(super) enum ResultStage<T, E> {
    Pending,
    RunningCallbacks,
    Settled(Result<T, E>),
    Taken,
}

impl<T, E> ResultStage<T, E> {
    pub(super) fn is_finished(&self) -> bool {
        matches!(self, ResultStage::Settled(_) | ResultStage::Taken)
    }
}

/// A waiting task. Keeps its loop from being idle.
pub(super) struct Waiting {
    pub(super) waker: Waker,
    pub(super) keep_alive: Option<KeepAlive>,
}

pub(super) type DoneCallback<T, E> = Box<dyn FnOnce(&Result<T, E>) + Send>;

pub(super) type ChainedClosure<T, E> = Box<dyn FnOnce(Result<T, E>) + Send>;

impl<T, E> Shared<T, E> {
    pub(super) fn new(stage: ResultStage<T, E>, settling_loop: Option<LoopInbox>) -> Self {
        let state = SharedState {
            stage,
            callbacks: Vec::new(),
            waiting: None,
            next: None,
            upstream: None,
            cancel_waker: None,
            watcher: None,
            is_cancelled: false,
        };
        Shared { state: Mutex::new(state), is_settled: Condvar::new(), settling_loop }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, SharedState<T, E>> {
        // No foreign code runs under the lock, so the state behind a poisoned lock is consistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the result, if there is one.
    pub(super) fn take(&self) -> Option<Result<T, E>> {
        self.lock().take()
    }
}

impl<T, E> SharedState<T, E> {
    pub(super) fn take(&mut self) -> Option<Result<T, E>> {
        match mem::replace(&mut self.stage, ResultStage::Taken) {
            ResultStage::Settled(result) => Some(result),
            other => {
                self.stage = other;
                None
            }
        }
    }
}

impl<T: 'static, E: 'static> Shared<T, E> {
    /// Settles the future. If it is cancelled, the result is dropped.
    pub(super) fn settle(&self, result: Result<T, E>, is_cancelled: bool) {
        let mut state = self.lock();
        if !matches!(state.stage, ResultStage::Pending) {
            drop(state);
            return drop(result);
        }
        state.stage = ResultStage::RunningCallbacks;
        state.is_cancelled = is_cancelled;
        let (upstream, cancel_waker) = (state.upstream.take(), state.cancel_waker.take());
        drop(state);
        drop((upstream, cancel_waker));
        self.run_callbacks(result);
    }

    /// Calls the done callbacks with the result, including callbacks added while they run. Then stores the result or
    /// passes it to the chained closure.
    pub(super) fn run_callbacks(&self, result: Result<T, E>) {
        loop {
            let mut state = self.lock();
            let callbacks = mem::take(&mut state.callbacks);
            if callbacks.is_empty() {
                return self.finish(state, result);
            }
            drop(state);
            for callback in callbacks {
                if let Err(text) = catch(|| callback(&result)) {
                    report_here(&ExceptionContext::from_panic("A done callback panicked", text));
                }
            }
        }
    }

    fn finish(&self, mut state: MutexGuard<'_, SharedState<T, E>>, result: Result<T, E>) {
        let waiting = state.waiting.take();
        if let Some(next) = state.next.take() {
            state.stage = ResultStage::Taken;
            drop(state);
            drop(waiting);
            run_chained::run(move || next(result));
            return;
        }
        state.stage = ResultStage::Settled(result);
        drop(state);
        self.is_settled.notify_all();
        if let Some(Waiting { waker, keep_alive }) = waiting {
            waker.wake();
            // Dropped after the wake has reached the loop.
            drop(keep_alive);
        }
    }
}
