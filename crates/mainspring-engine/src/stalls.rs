//! Stall detection: finds a call that blocks the loop, from another thread.
//!
//! The loop shows its progress in one atomic word, which changes when a call begins and when the loop goes to sleep or
//! wakes up. A [`StallWatch`] samples the word. If the loop is awake and the word does not change for longer than the
//! limit, one call has run that long.
//!
//! # Rules
//!
//! - The loop only stores to the word, watched or not. Its accesses are relaxed: the word stands for itself.
//! - The thread that calls [`StallWatch::wait`] belongs to the host. It takes no lock: after a `fork` the child has a
//!   copy of everything here but no such thread, and whatever that thread held would stay locked.
//! - A watch counts its samples beside the time. A process that was stopped (SIGSTOP, a debugger) and continues has had
//!   too few samples, and is not reported.
//! - While the loop sleeps, so does the watching thread; the loop wakes it up.

use crate::event_loop::Engine;
use crate::host::Host;
use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::sync::{Arc, OnceLock};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

/// Samples during one limit. More of them are more exact, and cost more.
const SAMPLES: u32 = 5;
/// The time between two samples is at least this.
const MIN_PERIOD: Duration = Duration::from_millis(1);

/// The lowest bit of the word: the loop is awake. The other bits count.
const AWAKE: u64 = 1;
const STEP: u64 = 2;

/// What both sides share, however often the watch is replaced.
#[derive(Default)]
struct Progress {
    /// See the module comment.
    word: AtomicU64,
    /// The number of stalls that were found.
    stalls: AtomicU64,
}

/// The loop's side.
#[derive(Default)]
pub(crate) struct ProgressReport {
    progress: Arc<Progress>,
    /// Steps that were not the beginning of a call.
    other_steps: Cell<u64>,
    watch: RefCell<Option<Watcher>>,
}

/// What the loop has of the watch.
struct Watcher(Arc<WatchState>);

impl Drop for Watcher {
    fn drop(&mut self) {
        self.0.is_stopped.store(true, Ordering::SeqCst);
        self.0.wake();
    }
}

#[derive(Default)]
struct WatchState {
    is_stopped: AtomicBool,
    /// The thread sleeps until the loop wakes up.
    is_parked: AtomicBool,
    thread: OnceLock<Thread>,
}

impl WatchState {
    fn wake(&self) {
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }
}

impl ProgressReport {
    #[inline(always)]
    fn store(&self, change: impl FnOnce(u64) -> u64) {
        // Only the thread that runs the loop stores.
        let word = self.progress.word.load(Ordering::Relaxed);
        self.progress.word.store(change(word), Ordering::Relaxed);
    }

    /// A call begins.
    #[inline(always)]
    pub(crate) fn begin_call(&self) {
        self.store(|word| word.wrapping_add(STEP));
    }

    /// An outer call continues.
    pub(crate) fn continue_call(&self) {
        self.count_other_step();
        self.store(|word| word.wrapping_add(STEP));
    }

    fn count_other_step(&self) {
        self.other_steps.set(self.other_steps.get().wrapping_add(1));
    }

    /// A number that changes with every step.
    pub(crate) fn steps(&self) -> u64 {
        self.progress.word.load(Ordering::Relaxed) / STEP
    }

    /// The number of calls that were begun.
    pub(crate) fn calls(&self) -> u64 {
        self.steps().wrapping_sub(self.other_steps.get())
    }

    /// The loop goes to sleep, or its run ends.
    pub(crate) fn sleeps(&self) {
        self.store(|word| word & !AWAKE);
    }

    /// The loop wakes up, or a run begins.
    pub(crate) fn awakes(&self) {
        self.count_other_step();
        self.store(|word| word.wrapping_add(STEP) | AWAKE);
        if let Some(Watcher(state)) = &*self.watch.borrow() {
            // Pairs with the fence in `StallWatch::park`: either this thread sees that the other one is parked, or that
            // one sees the new word.
            fence(Ordering::SeqCst);
            if state.is_parked.load(Ordering::Relaxed) {
                state.wake();
            }
        }
    }

    /// Whether a run is under way, so that an inner one that ends leaves the loop awake.
    pub(crate) fn is_awake(&self) -> bool {
        self.progress.word.load(Ordering::Relaxed) & AWAKE != 0
    }

    /// The number of stalls that watches have found.
    pub(crate) fn stalls(&self) -> u64 {
        self.progress.stalls.load(Ordering::Relaxed)
    }
}

impl<H: Host> Engine<H> {
    /// Starts a watch for calls that take longer than `limit`, and ends the former one. The host passes it to a thread.
    pub fn watch_stalls(&self, limit: Duration) -> StallWatch {
        let state = Arc::<WatchState>::default();
        let former = self.progress().watch.replace(Some(Watcher(Arc::clone(&state))));
        drop(former);
        StallWatch {
            progress: Arc::clone(&self.progress().progress),
            state,
            limit,
            word: 0,
            since: Instant::now(),
            samples: 0,
            is_reported: false,
        }
    }

    /// Ends the watch: [`StallWatch::wait`] returns `None`.
    pub fn unwatch_stalls(&self) {
        let former = self.progress().watch.take();
        drop(former);
    }
}

/// What a watch has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StallEvent {
    /// A call has blocked the loop for this long, and still does.
    Blocked(Duration),
    /// The same call has returned. It has blocked the loop for this long, to within a fifth of the limit.
    Ended(Duration),
}

/// Watches a loop from another thread. Ends with the loop.
pub struct StallWatch {
    progress: Arc<Progress>,
    state: Arc<WatchState>,
    limit: Duration,
    /// The latest sample, when it was first seen, and how often it was seen since then.
    word: u64,
    since: Instant,
    samples: u32,
    is_reported: bool,
}

impl StallWatch {
    /// Blocks until a call has taken longer than the limit, or such a call has returned. `None` if the loop is closed,
    /// or another watch has replaced this one. Every call is reported once.
    pub fn wait(&mut self) -> Option<StallEvent> {
        // A watch is used by one thread.
        let _ = self.state.thread.set(thread::current());
        loop {
            let word = self.progress.word.load(Ordering::Relaxed);
            let taken = self.since.elapsed();
            if word != self.word {
                let is_end = std::mem::take(&mut self.is_reported);
                (self.word, self.since, self.samples) = (word, Instant::now(), 0);
                if is_end {
                    return Some(StallEvent::Ended(taken));
                }
            }
            if self.state.is_stopped.load(Ordering::SeqCst) {
                return None;
            }
            self.samples = self.samples.saturating_add(1);
            if self.samples <= SAMPLES || self.is_reported {
                thread::park_timeout((self.limit / SAMPLES).max(MIN_PERIOD));
            } else if word & AWAKE == 0 {
                self.park();
            } else if taken >= self.limit {
                self.is_reported = true;
                self.progress.stalls.fetch_add(1, Ordering::Relaxed);
                return Some(StallEvent::Blocked(taken));
            } else {
                thread::park_timeout(self.limit - taken);
            }
        }
    }

    /// Whether the call of the last [`StallEvent::Blocked`] still runs.
    pub fn is_blocked(&self) -> bool {
        self.is_reported && self.progress.word.load(Ordering::Relaxed) == self.word
    }

    /// Sleeps while the loop does.
    fn park(&self) {
        self.state.is_parked.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let is_current = self.progress.word.load(Ordering::Relaxed) == self.word;
        if is_current && !self.state.is_stopped.load(Ordering::SeqCst) {
            thread::park();
        }
        self.state.is_parked.store(false, Ordering::Relaxed);
    }
}
