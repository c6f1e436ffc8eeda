//! The wakers of tasks, for any thread.
//!
//! A wake on the loop's own thread schedules the step at once, without atomics. The thread is known from the loop that
//! runs on it: the head of a task names the inbox of its loop. Other threads send the task to that inbox.

use super::cell::{AnyTask, Step, TaskHead, step_of};
use crate::event_loop::{Core, find_loop, with_running_core};
use crate::host::Inbound;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{RawWaker, RawWakerVTable, Waker};

static FUNCTIONS: RawWakerVTable = RawWakerVTable::new(clone, wake, wake_by_ref, remove);

/// The waker of `task` for one poll. It is not counted: its clones are.
#[inline]
pub(super) fn borrowed_waker(task: &AnyTask) -> ManuallyDrop<Waker> {
    // SAFETY: the functions below keep the contract of `RawWakerVTable` for the head of a task. They may be called by
    // any thread. This waker is not dropped, so it needs no reference of its own: the caller borrows that of `task`.
    ManuallyDrop::new(unsafe { Waker::new(task.as_ptr().as_ptr().cast(), &FUNCTIONS) })
}

/// # Safety
///
/// `data` is the pointer of a waker of this module, which is alive.
#[inline(always)]
unsafe fn head_of<'a>(data: *const ()) -> (NonNull<TaskHead>, &'a TaskHead) {
    // SAFETY: a waker that is alive keeps the memory of the cell, and its head is valid until the memory is freed. The
    // pointer comes from `borrowed_waker`, so it is not null.
    unsafe {
        let head = NonNull::new_unchecked(data.cast::<TaskHead>().cast_mut());
        (head, head.as_ref())
    }
}

/// # Safety
///
/// As [`head_of`].
unsafe fn clone(data: *const ()) -> RawWaker {
    // SAFETY: as this function requires.
    let (_, head) = unsafe { head_of(data) };
    if !head.owns_inbox.load(Ordering::Relaxed) && !head.owns_inbox.swap(true, Ordering::Relaxed) {
        // SAFETY: `inbox` is from an `Arc` of the loop. The flag was not set, so there was no counted waker before: the
        // waker that is being cloned is that of a poll, during which the loop exists.
        unsafe { Arc::increment_strong_count(head.inbox) };
    }
    head.waker_state.add();
    RawWaker::new(data, &FUNCTIONS)
}

/// # Safety
///
/// As [`head_of`]; the waker is counted, and not used again.
unsafe fn wake(data: *const ()) {
    // SAFETY: as this function requires.
    unsafe {
        wake_by_ref(data);
        remove(data);
    }
}

/// # Safety
///
/// As [`head_of`].
unsafe fn wake_by_ref(data: *const ()) {
    // SAFETY: as this function requires.
    let (pointer, head) = unsafe { head_of(data) };
    wake_task(pointer, head);
}

/// Wakes the task with this head, to which the caller has a reference.
#[inline(always)]
pub(super) fn wake_task(pointer: NonNull<TaskHead>, head: &TaskHead) {
    if with_running_core(head.inbox, |core| schedule(core, pointer)).is_none() {
        wake_elsewhere(pointer, head);
    }
}

/// # Safety
///
/// As [`wake`].
unsafe fn remove(data: *const ()) {
    // SAFETY: as this function requires.
    let (pointer, head) = unsafe { head_of(data) };
    if head.waker_state.remove() {
        // SAFETY: that was the last reference. That of the loop's thread is removed after the state is dropped.
        unsafe { release_memory(pointer) };
    }
}

/// Frees the memory of a cell.
///
/// # Safety
///
/// The state of the cell is dropped, and no reference is left.
#[inline]
pub(super) unsafe fn release_memory(pointer: NonNull<TaskHead>) {
    // SAFETY: the cell is not used again.
    let (layout, inbox, owns_inbox) = unsafe {
        let head = pointer.as_ref();
        (head.layout(), head.inbox, head.owns_inbox.load(Ordering::Relaxed))
    };
    // SAFETY: it was allocated with this layout.
    let put = |core: &Core| unsafe { core.cell_pool.put(pointer.cast(), layout) };
    if with_running_core(inbox, put).is_none() {
        // SAFETY: as above.
        unsafe { layout.free(pointer.cast()) };
    }
    if owns_inbox {
        // SAFETY: `clone` has added a reference when it set the flag.
        unsafe { Arc::decrement_strong_count(inbox) };
    }
}

/// Schedules a step on an open loop, on its thread.
#[inline(always)]
fn schedule(core: &Core, pointer: NonNull<TaskHead>) {
    if core.is_closed() {
        return;
    }
    // SAFETY: the head is valid, because the caller has a waker. This thread has the loop of the task, because that has
    // the same inbox.
    if let Some(step) = unsafe { step_of(pointer, || core.engine.receive_pending()) } {
        core.schedule_step(step);
    }
}

/// The loop of the task does not run on this thread.
#[cold]
#[inline(never)]
fn wake_elsewhere(pointer: NonNull<TaskHead>, head: &TaskHead) {
    if let Some(core) = find_loop(head.inbox) {
        return schedule(&core, pointer);
    }
    if !head.waker_state.set_woken() {
        return;
    }
    head.waker_state.add();
    // SAFETY: the caller has a waker. If it is counted, the cell has a reference to the inbox. If it is that of a poll,
    // the loop exists.
    let inbox = unsafe { &*head.inbox };
    // A closed loop has no steps: the refused task is dropped.
    let _ = inbox.push(Inbound::Task(WokenTask(pointer)));
}

/// A task that another thread has woken, in the inbox of its loop. It counts as a waker.
pub(crate) struct WokenTask(NonNull<TaskHead>);

// SAFETY: it is a waker, which any thread may own and drop. Only the loop's thread calls `into_step`.
unsafe impl Send for WokenTask {}

impl WokenTask {
    /// The step to schedule, if none is. For the loop that has received the task.
    pub(crate) fn into_step(self) -> Option<Step> {
        // SAFETY: this counts as a waker, so the head is valid. The inbox of a loop is drained on its thread only.
        unsafe {
            self.0.as_ref().waker_state.clear_woken();
            step_of(self.0, || ())
        }
    }
}

impl Drop for WokenTask {
    fn drop(&mut self) {
        // SAFETY: this counts as a waker, and is not used again.
        unsafe { remove(self.0.as_ptr().cast_const().cast()) };
    }
}
