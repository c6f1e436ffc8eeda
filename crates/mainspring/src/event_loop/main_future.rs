//! The future of `run_until_complete`. It is on that function's stack and may borrow from its caller.
//!
//! The loop polls it in turn with the tasks, so the loop must reach it while that function runs, and only then.
//! `MainSlot` ensures this, with the only `unsafe` code of this module.

use super::core::wake_call;
use crate::host::Inbound;
use crate::task::WaitReason;
use mainspring_engine::wakeup::Inbox;
use std::cell::Cell;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Wake;

/// Gives a running loop access to the step of its main future.
#[derive(Default)]
pub(crate) struct MainSlot {
    step: Cell<Option<NonNull<dyn FnMut()>>>,
    /// The number of the run. A stop of an earlier run is ignored.
    run: Cell<u64>,
    /// What the future waits for, if that is known.
    pub(crate) waits_for: Cell<Option<WaitReason>>,
}

impl MainSlot {
    /// Makes `step` available to [`MainSlot::poll`] while `run` runs.
    pub(super) fn with_step<R>(&self, step: &mut dyn FnMut(), run: impl FnOnce() -> R) -> R {
        struct ClearSlot<'a>(&'a MainSlot);
        impl Drop for ClearSlot<'_> {
            fn drop(&mut self) {
                self.0.step.set(None);
                self.0.run.set(self.0.run.get() + 1);
            }
        }
        let step: NonNull<dyn FnMut() + '_> = NonNull::from(step);
        // SAFETY: this only extends the lifetime. The pointer is removed from the slot before this function returns
        // or unwinds (`ClearSlot`), so within the lifetime of `step`.
        let step = unsafe { std::mem::transmute::<NonNull<dyn FnMut() + '_>, NonNull<dyn FnMut()>>(step) };
        let _clear = ClearSlot(self);
        self.step.set(Some(step));
        run()
    }

    /// Whether there is a main future, and it is not being polled.
    pub(crate) fn is_running(&self) -> bool {
        self.step.get().is_some()
    }

    /// The number of the current run, or of the next one.
    pub(crate) fn run(&self) -> u64 {
        self.run.get()
    }

    /// Runs the step, if there is one and it is not running.
    pub(crate) fn poll(&self) {
        let Some(mut step) = self.step.take() else { return };
        // SAFETY: the pointer came from the slot, so `with_step` is still on this stack (the slot belongs to one
        // thread), and its exclusive borrow of the step is alive. Nothing else uses that borrow: the slot is empty
        // until the step has returned.
        unsafe { step.as_mut()() };
        self.step.set(Some(step));
    }
}

/// Schedules a step of the main future.
pub(super) struct MainWaker {
    inbox: Arc<Inbox<Inbound>>,
    is_scheduled: AtomicBool,
}

impl MainWaker {
    /// A waker whose first step the caller schedules.
    pub(super) fn new(inbox: Arc<Inbox<Inbound>>) -> Self {
        MainWaker { inbox, is_scheduled: AtomicBool::new(true) }
    }

    /// A step begins: later wakes schedule another.
    pub(super) fn begin_step(&self) {
        self.is_scheduled.store(false, Ordering::SeqCst);
    }
}

impl Wake for MainWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.is_scheduled.swap(true, Ordering::SeqCst) {
            // A closed loop polls nothing.
            let _ = wake_call(&self.inbox, Inbound::Main);
        }
    }
}
