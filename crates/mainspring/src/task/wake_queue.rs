//! `WakeQueue`: records which of many futures in one task were woken, so that a step polls only those.
//!
//! Each future has its own waker, which records the future's index and wakes the task. Wakers may be used on any thread
//! and may outlive the queue. No foreign code runs under the lock: the task's waker is cloned before locking, and woken
//! or dropped after unlocking.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Wake, Waker};

pub(super) struct WakeQueue {
    shared: Arc<SharedWoken>,
    entries: Vec<Entry>,
    /// The futures to poll in this step.
    batch: VecDeque<usize>,
}

struct Entry {
    future_waker: Arc<FutureWaker>,
    waker: Waker,
}

struct SharedWoken(Mutex<Woken>);

struct Woken {
    indexes: Vec<usize>,
    /// `None` from a wake until the next step.
    task: Option<Waker>,
}

/// The waker of one future.
struct FutureWaker {
    index: usize,
    /// The index is recorded, and the future is not polled yet.
    is_recorded: AtomicBool,
    shared: Arc<SharedWoken>,
}

impl SharedWoken {
    fn lock(&self) -> MutexGuard<'_, Woken> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wake for FutureWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.is_recorded.swap(true, Ordering::AcqRel) {
            return;
        }
        let mut woken = self.shared.lock();
        woken.indexes.push(self.index);
        let task = woken.task.take();
        drop(woken);
        if let Some(task) = task {
            task.wake();
        }
    }
}

impl WakeQueue {
    /// A queue for `count` futures, all of which are polled once.
    pub(super) fn new(count: usize) -> Self {
        let shared = Arc::new(SharedWoken(Mutex::new(Woken { indexes: (0..count).collect(), task: None })));
        let entry = |index| {
            let future_waker = Arc::new(FutureWaker {
                index,
                is_recorded: AtomicBool::new(true),
                shared: Arc::clone(&shared),
            });
            Entry { waker: Waker::from(Arc::clone(&future_waker)), future_waker }
        };
        WakeQueue { entries: (0..count).map(entry).collect(), shared, batch: VecDeque::new() }
    }

    /// Begins a step of the task: later wakes wake `task`. Futures that the last step did not poll come first.
    pub(super) fn begin_step(&mut self, task: &Waker) {
        let task = task.clone();
        let mut woken = self.shared.lock();
        let former = woken.task.replace(task);
        let indexes = std::mem::take(&mut woken.indexes);
        drop(woken);
        drop(former);
        self.batch.extend(indexes);
    }

    /// The next future to poll in this step, and its waker.
    pub(super) fn next(&mut self) -> Option<(usize, &Waker)> {
        let index = self.batch.pop_front()?;
        let entry = self.entries.get(index)?;
        // Before the poll, so that a wake during it counts.
        entry.future_waker.is_recorded.store(false, Ordering::Release);
        Some((index, &entry.waker))
    }
}
