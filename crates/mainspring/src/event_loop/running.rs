//! The loop that runs on this thread, and all loops of this thread.

use super::core::Core;
use super::{EventLoop, Owner};
use crate::host::Inbound;
use mainspring_engine::wakeup::Inbox;
use std::cell::{Cell, RefCell};
use std::io;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::rc::{Rc, Weak};

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
            RUNNING_CORE.set(pointer_to(&owner.core));
            Some(Running { outer })
        })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let outer = self.outer.take();
        RUNNING_CORE.set(outer.as_ref().and_then(|owner| pointer_to(&owner.core)));
        let owner = RUNNING.with_borrow_mut(|running| std::mem::replace(running, outer));
        drop(owner);
    }
}

fn pointer_to(core: &Rc<Core>) -> Option<NonNull<Core>> {
    NonNull::new(Rc::as_ptr(core).cast_mut())
}

/// For functions that need a running loop.
#[cold]
#[track_caller]
pub(crate) fn panic_without_loop() -> ! {
    panic!("no mainspring event loop is running on this thread");
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

/// Calls `f` with the loop that has this inbox, if that is the loop that runs on this thread.
///
/// Runs for every wake of a task, so it does not touch the reference count.
#[inline(always)]
pub(crate) fn with_running_core<R>(inbox: *const Inbox<Inbound>, f: impl FnOnce(&Core) -> R) -> Option<R> {
    let core = RUNNING_CORE.get()?;
    // SAFETY: `Running::enter` set the pointer on this thread. Every `Running` is a local variable of a function that is
    // further down on this stack, so it is dropped after `f` has returned. Dropping it replaces the pointer before the
    // owner in `RUNNING`, which owns the core, is released; the core of an outer run is owned by `RUNNING` again.
    let core = unsafe { core.as_ref() };
    core.has_inbox(inbox).then(|| f(core))
}

/// Calls `f` with the loop that runs on this thread. Does not touch the reference count: for every new task.
#[inline]
pub(crate) fn with_current_core<R>(f: impl FnOnce(&Rc<Core>) -> R) -> Option<R> {
    let core = RUNNING_CORE.get()?;
    // SAFETY: the pointer is from an `Rc` which is alive, as in `with_running_core`. This one is not dropped, so it
    // borrows the reference of that one.
    let core = ManuallyDrop::new(unsafe { Rc::from_raw(core.as_ptr()) });
    Some(f(&core))
}

/// Adds a new loop to the list of this thread.
pub(super) fn register_loop(core: &Rc<Core>) {
    LOOPS.with_borrow_mut(|loops| {
        loops.retain(|core| core.strong_count() > 0);
        loops.push(Rc::downgrade(core));
    });
}

/// The loop with this inbox, if it is on this thread, running or not.
pub(crate) fn find_loop(inbox: *const Inbox<Inbound>) -> Option<Rc<Core>> {
    let has_inbox = |core: &Rc<Core>| core.has_inbox(inbox);
    running_core().filter(has_inbox).or_else(|| {
        let find = |loops: &RefCell<Vec<Weak<Core>>>| {
            loops.borrow().iter().filter_map(Weak::upgrade).find(has_inbox)
        };
        LOOPS.try_with(find).ok().flatten()
    })
}
