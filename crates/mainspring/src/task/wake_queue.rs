//! `WakeQueue`: records which of many futures in one task were woken, so that a step polls only those.
//!
//! Each future has its own waker, which records the future's index and wakes the task. Wakers may be used on any
//! thread and may outlive the queue. No foreign code runs under the lock: the task's waker is cloned before, and
//! woken or dropped after.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Wake, Waker};

pub(super) struct WakeQueue {
    shared: Arc<Shared>,
    entries: Vec<Entry>,
    /// The futures to poll in this step.
    batch: VecDeque<usize>,
}

struct Entry {
    flag: Arc<Flag>,
    waker: Waker,
}

struct Shared(Mutex<Woken>);

struct Woken {
    numbers: Vec<usize>,
    /// `None` from a wake until the next step.
    task: Option<Waker>,
}

/// The waker of one future.
struct Flag {
    number: usize,
    /// The index is recorded, and the future not polled yet.
    is_noted: AtomicBool,
    shared: Arc<Shared>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Woken> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.is_noted.swap(true, Ordering::AcqRel) {
            return;
        }
        let mut woken = self.shared.lock();
        woken.numbers.push(self.number);
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
        let shared = Arc::new(Shared(Mutex::new(Woken { numbers: (0..count).collect(), task: None })));
        let entry = |number| {
            let flag =
                Arc::new(Flag { number, is_noted: AtomicBool::new(true), shared: Arc::clone(&shared) });
            Entry { waker: Waker::from(Arc::clone(&flag)), flag }
        };
        WakeQueue { entries: (0..count).map(entry).collect(), shared, batch: VecDeque::new() }
    }

    /// Begins a step of the task: later wakes wake `task`. Futures that the last step left are polled first.
    pub(super) fn begin_step(&mut self, task: &Waker) {
        let task = task.clone();
        let mut woken = self.shared.lock();
        let former = woken.task.replace(task);
        let numbers = std::mem::take(&mut woken.numbers);
        drop(woken);
        drop(former);
        self.batch.extend(numbers);
    }

    /// The next future to poll in this step, and its waker.
    pub(super) fn next(&mut self) -> Option<(usize, &Waker)> {
        let number = self.batch.pop_front()?;
        let entry = self.entries.get(number)?;
        // Before the poll, so that a wake during it counts.
        entry.flag.is_noted.store(false, Ordering::Release);
        Some((number, &entry.waker))
    }
}
