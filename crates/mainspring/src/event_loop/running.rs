//! The loop that runs on this thread, and all loops of this thread.

use super::core::Core;
use super::{EventLoop, Owner};
use crate::host::{Call, Inbound, Step};
use mainspring_engine::wakeup::Inbox;
use std::cell::{Cell, RefCell};
use std::io;
use std::ptr::NonNull;
use std::rc::{Rc, Weak};
use std::sync::Arc;

thread_local! {
    static RUNNING: RefCell<Option<Rc<Owner>>> = const { RefCell::new(None) };
    /// The core of the running loop, without a reference count.
    static RUNNING_CORE: Cell<Option<NonNull<Core>>> = const { Cell::new(None) };
    static LOOPS: RefCell<Vec<Weak<Core>>> = const { RefCell::new(Vec::new()) };
}

/// Marks a loop as running on this thread, until it is dropped. The loop that ran before then runs again.
pub(super) struct Running {
    outer: Option<Rc<Owner>>,
}

impl Running {
    /// `None` if a loop runs on this thread and this one may not be nested.
    pub(super) fn enter(owner: &Rc<Owner>, may_be_nested: bool) -> Option<Self> {
        RUNNING.with_borrow_mut(|running| {
            if running.is_some() && !may_be_nested {
                return None;
            }
            let outer = running.replace(Rc::clone(owner));
            RUNNING_CORE.set(Some(NonNull::from(&*owner.core)));
            Some(Running { outer })
        })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let outer = self.outer.take();
        RUNNING_CORE.set(outer.as_ref().map(|owner| NonNull::from(&*owner.core)));
        let owner = RUNNING.with_borrow_mut(|running| std::mem::replace(running, outer));
        drop(owner);
    }
}

/// The loop that runs on this thread.
pub(super) fn running_loop() -> Option<EventLoop> {
    // A thread that is ending runs no loop.
    let owner = RUNNING.try_with(|running| running.borrow().clone()).ok().flatten()?;
    Some(EventLoop { owner })
}

/// The core of the loop that runs on this thread.
pub(crate) fn running_core() -> Option<Rc<Core>> {
    RUNNING.try_with(|running| running.borrow().as_ref().map(|owner| Rc::clone(&owner.core))).ok().flatten()
}

/// The core of the loop that runs on this thread, or an error if none does.
pub(crate) fn current_core() -> io::Result<Rc<Core>> {
    running_core().ok_or_else(|| {
        io::Error::other(
            "no mainspring event loop is running on this thread: call this inside mainspring::run()",
        )
    })
}

/// Makes the step of a task ready if its loop is running on this thread. Otherwise returns the step.
///
/// Runs for every task step, so it does not touch the reference count. Only for the normal lane: scheduling a
/// background call reads the clock, which may be user code that calls this function.
pub(super) fn call_soon_if_running(step: Step) -> Result<(), Step> {
    let Some(core) = RUNNING_CORE.get() else { return Err(step) };
    // SAFETY: `Running::enter` set the pointer on this thread. Dropping `Running` replaces it before the owner in
    // `RUNNING`, which owns the core, is released; the core of an outer run is owned by `RUNNING` again. Making a step ready runs no foreign code that could end the run.
    let core = unsafe { core.as_ref() };
    let task = step.metadata();
    if !Arc::ptr_eq(core.inbox(), &task.inbox) || !task.is_normal() || core.check_open().is_err() {
        return Err(step);
    }
    core.engine.call_soon(Call::Task(step));
    Ok(())
}

/// Adds a new loop to the list of this thread.
pub(super) fn register_loop(core: &Rc<Core>) {
    LOOPS.with_borrow_mut(|loops| {
        loops.retain(|core| core.strong_count() > 0);
        loops.push(Rc::downgrade(core));
    });
}

/// The loop with this inbox, if it is on this thread, running or not.
pub(crate) fn find_loop(inbox: &Arc<Inbox<Inbound>>) -> Option<Rc<Core>> {
    let has_inbox = |core: &Rc<Core>| Arc::ptr_eq(core.inbox(), inbox);
    running_core().filter(has_inbox).or_else(|| {
        let find = |loops: &RefCell<Vec<Weak<Core>>>| {
            loops.borrow().iter().filter_map(Weak::upgrade).find(has_inbox)
        };
        LOOPS.try_with(find).ok().flatten()
    })
}
