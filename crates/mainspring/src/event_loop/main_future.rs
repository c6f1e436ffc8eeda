//! The futures of `run_until_complete`. Each is on that function's stack and may borrow from its caller.
//!
//! The loop polls it in turn with the tasks, so the loop must reach it while that function runs, and only then.
//! `MainSlots` ensures this, with the only `unsafe` code of this module. Nested runs have a slot each: the future of an
//! outer run is polled during a nested one, unless it is the code that waits for the nested one.

use super::core::wake_call;
use crate::host::Inbound;
use crate::task::WaitReason;
use mainspring_engine::wakeup::Inbox;
use std::cell::{Cell, RefCell};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Wake;

/// Gives a running loop access to the steps of its main futures.
#[derive(Default)]
pub(crate) struct MainSlots {
    /// Of the current runs, outermost first.
    slots: RefCell<Vec<Slot>>,
    runs: Cell<u64>,
}

struct Slot {
    /// The number of the run. A step or a stop of an earlier run is ignored.
    run: u64,
    /// The depth of the run in the engine.
    depth: usize,
    /// Empty while the step runs.
    step: Option<NonNull<dyn FnMut()>>,
    waits_for: Option<WaitReason>,
}

impl MainSlots {
    /// A number for a new run.
    pub(super) fn new_run(&self) -> u64 {
        self.runs.set(self.runs.get() + 1);
        self.runs.get()
    }

    /// Makes `step` available to [`MainSlots::poll`] while `body` runs.
    pub(super) fn with_step<R>(
        &self,
        run: u64,
        depth: usize,
        step: &mut dyn FnMut(),
        body: impl FnOnce() -> R,
    ) -> R {
        struct RemoveSlot<'a>(&'a MainSlots);
        impl Drop for RemoveSlot<'_> {
            fn drop(&mut self) {
                // Runs end in the reverse order of their beginning, so this is the slot of this run.
                self.0.slots.borrow_mut().pop();
            }
        }
        let step: NonNull<dyn FnMut() + '_> = NonNull::from(step);
        // SAFETY: this only extends the lifetime. The pointer is removed from the slots before this function returns
        // or unwinds (`RemoveSlot`), so within the lifetime of `step`.
        let step = unsafe { std::mem::transmute::<NonNull<dyn FnMut() + '_>, NonNull<dyn FnMut()>>(step) };
        self.slots.borrow_mut().push(Slot { run, depth, step: Some(step), waits_for: None });
        let _remove = RemoveSlot(self);
        body()
    }

    /// Whether a main future waits: one that is not being polled.
    pub(crate) fn is_waiting(&self) -> bool {
        self.slots.borrow().iter().any(|slot| slot.step.is_some())
    }

    /// The future of a run waits. Records what for, if that is known.
    pub(super) fn record_wait(&self, run: u64, waits_for: Option<WaitReason>) {
        self.with_slot(run, |slot| slot.waits_for = waits_for);
    }

    /// What the main futures that wait have recorded, outermost first.
    pub(crate) fn waits(&self) -> Vec<Option<WaitReason>> {
        let slots = self.slots.borrow();
        slots.iter().filter(|slot| slot.step.is_some()).map(|slot| slot.waits_for).collect()
    }

    /// The depth of a run. `None` if it has ended.
    pub(crate) fn depth(&self, run: u64) -> Option<usize> {
        self.with_slot(run, |slot| slot.depth)
    }

    /// Runs the step of a run, if the run has not ended and the step is not running.
    pub(crate) fn poll(&self, run: u64) {
        let Some(mut step) = self.with_slot(run, |slot| slot.step.take()).flatten() else { return };
        // SAFETY: the pointer came from a slot, so its `with_step` is still on this stack (the slots belong to one
        // thread), and its exclusive borrow of the step is alive. Nothing else uses that borrow: the slot is empty
        // until the step has returned.
        unsafe { step.as_mut()() };
        self.with_slot(run, |slot| slot.step = Some(step));
    }

    fn with_slot<R>(&self, run: u64, body: impl FnOnce(&mut Slot) -> R) -> Option<R> {
        self.slots.borrow_mut().iter_mut().rfind(|slot| slot.run == run).map(body)
    }
}

/// Schedules a step of the main future.
pub(super) struct MainWaker {
    inbox: Arc<Inbox<Inbound>>,
    run: u64,
    is_scheduled: AtomicBool,
}

impl MainWaker {
    /// A waker whose first step the caller schedules.
    pub(super) fn new(inbox: Arc<Inbox<Inbound>>, run: u64) -> Self {
        MainWaker { inbox, run, is_scheduled: AtomicBool::new(true) }
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
            let _ = wake_call(&self.inbox, Inbound::Main(self.run));
        }
    }
}
