//! The inbox: how other threads hand work to a loop, and how they wake it when it sleeps.
//!
//! # Rules
//!
//! The queue, whether the loop sleeps, and whether the inbox is closed are one state under one lock, so there
//! is no moment between "the queue is empty" and "the loop sleeps" in which an item could slip by.
//!
//! - `asleep` is set by the loop alone, in [`Inbox::prepare_sleep`], and only when nothing waits. It is taken
//!   back by whoever ends the sleep first: the pusher that is going to call the waker, or the loop itself in
//!   [`Inbox::awake`]. So one sleep costs one wake-up at most, and a loop that is awake none.
//! - `woken` is a wake-up that came without an item while the loop was awake: the next `prepare_sleep`
//!   answers it by refusing to sleep.
//! - `pending` mirrors "an item or `woken` is there". It is written under the lock and read without it, as a
//!   hint: a stale `false` costs nothing but a pass, because `prepare_sleep` looks at the state itself.
//! - `expected` counts what other threads are busy with and will tell the loop of ([`Inbox::expect`]). With it the
//!   loop knows when nothing can come any more: nothing waits, and nothing is expected. Whoever ends the last
//!   expectation wakes the loop, if it asked for that.
//! - `working` counts those of `expected` that are jobs in a thread: a clock that jumps waits for them
//!   ([`Inbox::waits_for_work`]), and whoever ends the last one wakes the loop that does.
//! - A sealed inbox refuses new work ([`Inbox::submit`]) and still takes what belongs to work that it accepted
//!   ([`Inbox::push`]). [`Inbox::seal_if_quiet`] looks and seals under one lock, so an item is either refused, or
//!   seen by the loop before it ends.
//! - The lock is held for a few instructions and never while an item is run or dropped, and never while the
//!   waker is called. A wake-up may therefore come after the loop has found the item by itself: the loop must
//!   bear a wake-up that finds nothing.
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

/// Ends a loop's sleep. Called from any thread, never under a lock of the inbox.
pub trait Waker: Send + Sync {
    /// Makes the wait that is under way, or else the next one, end at once.
    fn wake(&self);
}

/// The answer of something that takes no more; what was offered comes back.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Closed<T>(
    /// What was offered.
    pub T,
);

impl<T> fmt::Debug for Closed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Closed(..)")
    }
}

impl<T> fmt::Display for Closed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("closed: it takes nothing more")
    }
}

impl<T> std::error::Error for Closed<T> {}

/// A queue that any thread may push to and one loop empties, with the knowledge whether that loop sleeps.
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
    /// The loop wants to be woken when nothing is expected any more.
    minds_quiet: bool,
    working: usize,
    /// The loop wants to be woken when nobody works for it any more.
    minds_work: bool,
}

impl<T: Send, W: Waker> Inbox<T, W> {
    /// An empty inbox of a loop that is awake.
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

    /// What ends the loop's sleep.
    pub fn waker(&self) -> &W {
        &self.waker
    }

    /// Appends `item`, and wakes the loop if it sleeps. After [`close`](Inbox::close) the item comes back.
    pub fn push(&self, item: T) -> Result<(), Closed<T>> {
        self.push_unless(item, |state| state.closed)
    }

    /// As [`push`](Inbox::push), for new work: after [`seal`](Inbox::seal) it comes back as well.
    pub fn submit(&self, item: T) -> Result<(), Closed<T>> {
        self.push_unless(item, |state| state.closed || state.sealed)
    }

    fn push_unless(&self, item: T, is_refused: impl FnOnce(&State<T>) -> bool) -> Result<(), Closed<T>> {
        let mut state = self.lock();
        if is_refused(&state) {
            drop(state);
            return Err(Closed(item));
        }
        state.items.push(item);
        self.pending.store(true, Ordering::Relaxed);
        let was_asleep = mem::take(&mut state.asleep);
        drop(state);
        if was_asleep {
            self.waker.wake();
        }
        Ok(())
    }

    /// Wakes the loop without an item: the sleep under way ends, or the next one does not begin.
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

    /// How many items wait to be drained.
    pub fn len(&self) -> usize {
        self.lock().items.len()
    }

    /// Whether nothing waits to be drained.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Makes room for one more item, so that the next push needs no memory, if no other thread pushes between. `false` if
    /// there is none.
    pub fn try_reserve(&self) -> bool {
        self.lock().items.try_reserve(1).is_ok()
    }

    /// Whether something may wait to be drained: one load, for every pass.
    #[inline]
    pub fn has_pending(&self) -> bool {
        self.pending.load(Ordering::Relaxed)
    }

    /// Appends everything that was pushed to `items`, in the order of the pushes. An empty vector is swapped
    /// for the queue's own, so the two buffers take turns and neither is allocated anew.
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

    /// Asks to sleep. `false`: something waits, poll without waiting. `true`: from now on until
    /// [`awake`](Inbox::awake), whoever comes first calls the waker.
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

    /// Says that the wait is over, whatever ended it: nobody needs to wake the loop any more.
    pub fn awake(&self) {
        self.lock().asleep = false;
    }

    /// Takes no more items, and gives those that nobody drained. For the loop's own thread, which is awake.
    #[must_use = "the items are the caller's to drop or run"]
    pub fn close(&self) -> Vec<T> {
        let mut state = self.lock();
        state.closed = true;
        state.asleep = false;
        state.woken = false;
        self.pending.store(false, Ordering::Relaxed);
        mem::take(&mut state.items)
    }

    /// Says that something will come of what another thread does. Each is ended by one
    /// [`expect_no_more`](Inbox::expect_no_more), after what came of it was pushed.
    pub fn expect(&self) {
        self.lock().expected += 1;
    }

    /// Ends one [`expect`](Inbox::expect).
    pub fn expect_no_more(&self) {
        self.end_expectation(self.lock(), false);
    }

    /// [`expect`](Inbox::expect), of a job that a thread has been given. Each is ended by one
    /// [`end_work`](Inbox::end_work).
    pub fn begin_work(&self) {
        let mut state = self.lock();
        state.expected += 1;
        state.working += 1;
    }

    /// Ends one [`begin_work`](Inbox::begin_work), after what came of it was pushed.
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

    /// Whether a job is under way; then the end of the last one wakes the loop.
    pub fn waits_for_work(&self) -> bool {
        let mut state = self.lock();
        state.minds_work = state.working > 0;
        state.minds_work
    }

    /// Whether the end of the last expectation wakes the loop.
    pub fn mind_quiet(&self, minds_quiet: bool) {
        self.lock().minds_quiet = minds_quiet;
    }

    /// Whether nothing waits and nothing is expected.
    pub fn is_quiet(&self) -> bool {
        self.lock().is_quiet()
    }

    /// Refuses new work from here on.
    pub fn seal(&self) {
        self.lock().sealed = true;
    }

    /// Refuses new work from here on, if nothing waits and nothing is expected; whether that is so.
    #[must_use = "what waits is to be run"]
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

    /// Shows what waits, under the lock: `show` must not call out. Shows nothing if somebody is just pushing.
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
        // No foreign code runs under the lock, so a poisoned one guards a state that is still whole.
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
