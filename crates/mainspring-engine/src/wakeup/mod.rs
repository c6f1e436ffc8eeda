//! The inbox: how other threads send items to a loop, and how they wake it.
//!
//! # Rules
//!
//! The queue, the sleep flag and the closed flag are one state under one lock. No item can arrive unnoticed between
//! the check that the queue is empty and the sleep.
//!
//! - Only the loop sets `asleep`, in [`Inbox::prepare_sleep`], and only if the queue is empty. It is cleared by the
//!   first of: the pusher that is about to call the waker, and the loop in [`Inbox::awake`]. One sleep costs at most
//!   one wake-up, and a loop that is awake none.
//! - `woken` records a wake-up without an item while the loop was awake: the next `prepare_sleep` refuses to sleep.
//! - `pending` mirrors "an item or `woken` is present". It is written under the lock and read without it, as a hint:
//!   a stale `false` costs at most one iteration, because `prepare_sleep` checks the state itself. A `true` without an
//!   item costs one look at the queue ([`Inbox::raise_hint`]).
//! - `expected` counts operations of other threads that will send to the loop ([`Inbox::expect`]). If the queue is
//!   empty and nothing is expected, no item can arrive any more. The end of the last expectation wakes the loop, if
//!   the loop requested that.
//! - `working` counts those of `expected` that are jobs in a thread. A virtual clock waits for them
//!   ([`Inbox::waits_for_work`]), and the end of the last one wakes the waiting loop.
//! - A sealed inbox refuses new work ([`Inbox::submit`]) and still takes items of work that it accepted
//!   ([`Inbox::push`]). [`Inbox::seal_if_quiet`] checks and seals under one lock, so an item is either refused, or
//!   seen by the loop before it ends.
//! - The lock is held for a few instructions, never while an item is run or dropped, and never while the waker is
//!   called. A wake-up may therefore arrive after the loop has found the item: the loop must tolerate a wake-up
//!   without an item.
//!
//! # The loop's side
//!
//! ```text
//! if inbox.has_pending() { inbox.drain_into(&mut items) }
//! ...
//! if inbox.prepare_sleep() { wait; inbox.awake() } else { poll without waiting }
//! ```
//!
//! A loop that sleeps by [`std::thread::park`]:
//!
//! ```
//! use mainspring_engine::wakeup::{Inbox, Waker};
//! use std::sync::Arc;
//! use std::thread::{self, Thread};
//!
//! struct Unpark(Thread);
//!
//! impl Waker for Unpark {
//!     fn wake(&self) {
//!         self.0.unpark();
//!     }
//! }
//!
//! let inbox = Arc::new(Inbox::new(Unpark(thread::current())));
//! let sender = Arc::clone(&inbox);
//! thread::spawn(move || sender.push("hello"));
//!
//! let mut items = Vec::new();
//! while items.is_empty() {
//!     if inbox.prepare_sleep() {
//!         thread::park();
//!         inbox.awake();
//!     }
//!     inbox.drain_into(&mut items);
//! }
//! assert_eq!(items, ["hello"]);
//! ```

mod eventfd;

pub use eventfd::{EventFd, LoopWaker};

use std::fmt;
use std::mem;
use std::sync::PoisonError;

use crate::loom_shim::atomic::{AtomicBool, Ordering};
use crate::loom_shim::{Mutex, MutexGuard};

/// Ends a loop's sleep. Called from any thread, never under the inbox's lock.
pub trait Waker: Send + Sync {
    /// Ends the current wait, or else the next one, at once.
    fn wake(&self);
}

/// The receiver is closed. Contains the refused item.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Closed<T>(
    /// The refused item.
    pub T,
);

impl<T> fmt::Debug for Closed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Closed(..)")
    }
}

impl<T> fmt::Display for Closed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("closed: the item was refused")
    }
}

impl<T> std::error::Error for Closed<T> {}

/// Why [`Inbox::try_push`] refused an item, with the item.
pub enum TryPushError<T> {
    /// The receiver is closed.
    Closed(T),
    /// There is no memory for the item.
    OutOfMemory(T),
}

/// A queue that any thread may push to and one loop drains. It knows whether that loop sleeps.
///
/// It is `Send` and `Sync`.
pub struct Inbox<T, W = LoopWaker> {
    state: Mutex<State<T>>,
    pending: AtomicBool,
    waker: W,
}

struct State<T> {
    items: Vec<T>,
    asleep: bool,
    woken: bool,
    closed: bool,
    sealed: bool,
    expected: usize,
    /// Whether to wake the loop when `expected` reaches zero.
    minds_quiet: bool,
    working: usize,
    /// Whether to wake the loop when `working` reaches zero.
    minds_work: bool,
}

impl<T: Send, W: Waker> Inbox<T, W> {
    /// Creates an empty inbox for a loop that is awake.
    pub fn new(waker: W) -> Self {
        let state = State {
            items: Vec::new(),
            asleep: false,
            woken: false,
            closed: false,
            sealed: false,
            expected: 0,
            minds_quiet: false,
            working: 0,
            minds_work: false,
        };
        Inbox { state: Mutex::new(state), pending: AtomicBool::new(false), waker }
    }

    /// The waker.
    pub fn waker(&self) -> &W {
        &self.waker
    }

    /// Appends `item`, and wakes the loop if it sleeps. After [`close`](Inbox::close) the item is returned.
    pub fn push(&self, item: T) -> Result<(), Closed<T>> {
        self.push_unless(item, |state| state.closed)
    }

    /// As [`push`](Inbox::push), for new work: the item is also returned after [`seal`](Inbox::seal).
    pub fn submit(&self, item: T) -> Result<(), Closed<T>> {
        self.push_unless(item, |state| state.closed || state.sealed)
    }

    fn push_unless(&self, item: T, is_refused: impl FnOnce(&State<T>) -> bool) -> Result<(), Closed<T>> {
        let state = self.lock();
        if is_refused(&state) {
            drop(state);
            return Err(Closed(item));
        }
        self.append(state, item);
        Ok(())
    }

    /// As [`push`](Inbox::push), but the item is also returned if there is no memory for it.
    pub fn try_push(&self, item: T) -> Result<(), TryPushError<T>> {
        let mut state = self.lock();
        let refused = if state.closed {
            TryPushError::Closed
        } else if state.items.try_reserve(1).is_err() {
            TryPushError::OutOfMemory
        } else {
            self.append(state, item);
            return Ok(());
        };
        drop(state);
        Err(refused(item))
    }

    fn append(&self, mut state: MutexGuard<'_, State<T>>, item: T) {
        state.items.push(item);
        self.pending.store(true, Ordering::Relaxed);
        let was_asleep = mem::take(&mut state.asleep);
        drop(state);
        if was_asleep {
            self.waker.wake();
        }
    }

    /// Wakes the loop without an item: ends the current sleep, or prevents the next one.
    pub fn wake(&self) {
        self.wake_from(self.lock());
    }

    fn wake_from(&self, mut state: MutexGuard<'_, State<T>>) {
        if state.closed {
            return;
        }
        let was_asleep = mem::take(&mut state.asleep);
        if !was_asleep {
            state.woken = true;
            self.pending.store(true, Ordering::Relaxed);
        }
        drop(state);
        if was_asleep {
            self.waker.wake();
        }
    }

    /// The number of items.
    pub fn len(&self) -> usize {
        self.lock().items.len()
    }

    /// Whether there are no items.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether there may be something to drain: one relaxed load, cheap enough for every iteration.
    #[inline]
    pub fn has_pending(&self) -> bool {
        self.pending.load(Ordering::Relaxed)
    }

    /// Makes [`has_pending`](Inbox::has_pending) return `true` once. For the loop's thread.
    pub fn raise_hint(&self) {
        self.pending.store(true, Ordering::Relaxed);
    }

    /// Appends all items to `items`, in the order of the pushes. An empty vector is swapped with the queue's, so that
    /// the two buffers alternate and neither is reallocated.
    pub fn drain_into(&self, items: &mut Vec<T>) {
        let mut state = self.lock();
        if items.is_empty() {
            mem::swap(&mut state.items, items);
        } else {
            items.append(&mut state.items);
        }
        state.woken = false;
        self.pending.store(false, Ordering::Relaxed);
    }

    /// Prepares to sleep. `false`: there is something to drain, poll without waiting. `true`: until
    /// [`awake`](Inbox::awake), the first push or wake calls the waker.
    #[must_use]
    pub fn prepare_sleep(&self) -> bool {
        let mut state = self.lock();
        if !state.items.is_empty() {
            return false;
        }
        if mem::take(&mut state.woken) {
            self.pending.store(false, Ordering::Relaxed);
            return false;
        }
        state.asleep = true;
        true
    }

    /// Ends the sleep: pushes no longer call the waker.
    pub fn awake(&self) {
        self.lock().asleep = false;
    }

    /// Closes the inbox and returns the items that were not drained. Called by the loop's thread while it is awake.
    #[must_use = "the caller runs or drops the items"]
    pub fn close(&self) -> Vec<T> {
        let mut state = self.lock();
        state.closed = true;
        state.asleep = false;
        state.woken = false;
        self.pending.store(false, Ordering::Relaxed);
        mem::take(&mut state.items)
    }

    /// Announces an item that another thread will push. Ended by one [`expect_no_more`](Inbox::expect_no_more), after
    /// that push.
    pub fn expect(&self) {
        self.lock().expected += 1;
    }

    /// Ends one [`expect`](Inbox::expect).
    pub fn expect_no_more(&self) {
        self.end_expectation(self.lock(), false);
    }

    /// [`expect`](Inbox::expect) for a job in a thread. Ended by one [`end_work`](Inbox::end_work).
    pub fn begin_work(&self) {
        let mut state = self.lock();
        state.expected += 1;
        state.working += 1;
    }

    /// Ends one [`begin_work`](Inbox::begin_work), after its result was pushed.
    pub fn end_work(&self) {
        let mut state = self.lock();
        state.working = state.working.saturating_sub(1);
        let was_minded = state.working == 0 && mem::take(&mut state.minds_work);
        self.end_expectation(state, was_minded);
    }

    fn end_expectation(&self, mut state: MutexGuard<'_, State<T>>, wakes: bool) {
        state.expected = state.expected.saturating_sub(1);
        if wakes || (state.expected == 0 && state.minds_quiet) {
            self.wake_from(state);
        }
    }

    /// Whether a job is running; if so, the end of the last one wakes the loop.
    pub fn waits_for_work(&self) -> bool {
        let mut state = self.lock();
        state.minds_work = state.working > 0;
        state.minds_work
    }

    /// Sets whether the end of the last expectation wakes the loop. Returns the previous setting.
    pub fn report_quiet(&self, minds_quiet: bool) -> bool {
        mem::replace(&mut self.lock().minds_quiet, minds_quiet)
    }

    /// Whether there is no item and nothing is expected.
    pub fn is_quiet(&self) -> bool {
        self.lock().is_quiet()
    }

    /// Refuses new work.
    pub fn seal(&self) {
        self.lock().sealed = true;
    }

    /// Refuses new work if there is no item and nothing is expected. Returns whether that is so.
    #[must_use = "items may be left to run"]
    pub fn seal_if_quiet(&self) -> bool {
        let mut state = self.lock();
        let is_quiet = state.is_quiet();
        state.sealed |= is_quiet;
        is_quiet
    }

    /// Whether new work is refused.
    pub fn is_sealed(&self) -> bool {
        let state = self.lock();
        state.sealed || state.closed
    }

    /// Shows the items, under the lock: `show` must not run user code. Shows nothing if the lock is taken.
    pub fn for_each(&self, show: &mut dyn FnMut(&T)) {
        if let Ok(state) = self.state.try_lock() {
            state.items.iter().for_each(show);
        }
    }

    /// Whether [`close`](Inbox::close) was called.
    pub fn is_closed(&self) -> bool {
        self.lock().closed
    }
}

impl<T> State<T> {
    fn is_quiet(&self) -> bool {
        self.items.is_empty() && self.expected == 0
    }
}

impl<T, W> Inbox<T, W> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        // No foreign code runs under the lock, so the state is consistent even if the lock is poisoned.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T, W: fmt::Debug> fmt::Debug for Inbox<T, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inbox").field("waker", &self.waker).finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
