//! `WakerState`: the part of a task that other threads use.
//!
//! # Rules
//!
//! - `references` counts the wakers of the task, and one for all references of the loop's thread together. The thread
//!   that removes the last one frees the memory.
//! - `is_woken` is set by a wake on another thread, which then sends the task to the loop. It is cleared by the loop
//!   before the step. So a task is in the inbox once at most, and a step sees everything that happened before the wake.
//! - The loop's own thread uses neither for a wake: see [`cell`](super::cell).

use mainspring_engine::loom_shim::atomic::{AtomicBool, AtomicU32, Ordering, fence};

/// As for `Arc`: no program has so many wakers, unless it forgets them in a loop. Far below the maximum, because several
/// threads may pass it before one aborts.
const MAX_REFERENCES: u32 = i32::MAX as u32;

pub(super) struct WakerState {
    references: AtomicU32,
    is_woken: AtomicBool,
}

impl WakerState {
    /// The state of a task without wakers, with the reference of the loop's thread.
    pub(super) fn new() -> Self {
        WakerState { references: AtomicU32::new(1), is_woken: AtomicBool::new(false) }
    }

    /// Adds a waker.
    #[inline]
    pub(super) fn add(&self) {
        // Relaxed, as in `Arc`: the caller already has a reference, so the memory cannot be freed meanwhile.
        if self.references.fetch_add(1, Ordering::Relaxed) > MAX_REFERENCES {
            std::process::abort();
        }
    }

    /// Removes a reference. Returns `true` if it was the last one: the caller frees the memory.
    #[inline]
    pub(super) fn remove(&self) -> bool {
        if self.references.fetch_sub(1, Ordering::Release) != 1 {
            return false;
        }
        fence(Ordering::Acquire);
        true
    }

    /// [`WakerState::remove`] for the reference of the loop's thread. A task without wakers costs no atomic write: only
    /// a reference can be the source of another one.
    #[inline]
    pub(super) fn remove_own(&self) -> bool {
        self.references.load(Ordering::Acquire) == 1 || self.remove()
    }

    /// Another thread wakes the task. Returns `true` if the caller must send it to the loop.
    pub(super) fn set_woken(&self) -> bool {
        !self.is_woken.swap(true, Ordering::AcqRel)
    }

    /// The loop has received the task. A later wake sends it again.
    pub(super) fn clear_woken(&self) {
        // Not a plain store: this must see the writes of every thread whose `set_woken` returned `false`.
        self.is_woken.swap(false, Ordering::AcqRel);
    }
}

/// `RUSTFLAGS="--cfg loom" cargo test --release -p mainspring --lib models`
#[cfg(all(test, loom))]
mod models {
    use super::*;
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::sync::atomic::AtomicUsize;
    use loom::thread;

    /// Stands for the memory of a task: reports a second release, and an access after the release.
    struct Memory {
        state: WakerState,
        content: UnsafeCell<()>,
        releases: AtomicUsize,
    }

    impl Memory {
        fn new() -> Arc<Self> {
            Arc::new(Memory {
                state: WakerState::new(),
                content: UnsafeCell::new(()),
                releases: AtomicUsize::new(0),
            })
        }

        fn read(&self) {
            // loom reports a write at the same time.
            self.content.with(|_| ());
            assert_eq!(self.releases.load(Ordering::Relaxed), 0);
        }

        fn free(&self) {
            // loom reports an access at the same time.
            self.content.with_mut(|_| ());
            assert_eq!(self.releases.fetch_add(1, Ordering::Relaxed), 0);
        }

        fn remove(&self) {
            self.read();
            if self.state.remove() {
                self.free();
            }
        }
    }

    #[test]
    fn the_memory_is_freed_once_and_after_the_last_use() {
        loom::model(|| {
            let memory = Memory::new();
            memory.state.add();
            let waker = {
                let memory = Arc::clone(&memory);
                thread::spawn(move || {
                    memory.state.add();
                    memory.remove();
                    memory.remove();
                })
            };
            memory.read();
            if memory.state.remove_own() {
                memory.free();
            }
            waker.join().unwrap();
            assert_eq!(memory.releases.load(Ordering::Relaxed), 1);
        });
    }

    #[test]
    fn a_step_after_the_last_wake_sees_what_every_thread_wrote() {
        loom::model(|| {
            let state = Arc::new(WakerState::new());
            let sent = Arc::new(AtomicUsize::new(0));
            let written = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
            let threads = [0, 1].map(|number| {
                let (state, sent, written) = (Arc::clone(&state), Arc::clone(&sent), Arc::clone(&written));
                thread::spawn(move || {
                    written[number].store(1, Ordering::Relaxed);
                    if state.set_woken() {
                        sent.fetch_add(1, Ordering::Release);
                    }
                })
            });
            let mut seen = 0;
            let mut received = 0;
            let mut step = || {
                while received < sent.load(Ordering::Acquire) {
                    received += 1;
                    state.clear_woken();
                    seen = written.iter().map(|flag| flag.load(Ordering::Relaxed)).sum();
                }
            };
            step();
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            step();
            assert_eq!(seen, 2);
        });
    }
}
