//! Which loop runs on this thread, and which loops live on it.

use super::core::Core;
use super::{EventLoop, Owner};
use crate::host::Inbound;
use crate::ready::Lane;
use crate::wakeup::Inbox;
use std::cell::RefCell;
use std::rc::{Rc, Weak};
use std::sync::Arc;

thread_local! {
    static RUNNING: RefCell<Option<Rc<Owner>>> = const { RefCell::new(None) };
    static LIVING: RefCell<Vec<Weak<Core>>> = const { RefCell::new(Vec::new()) };
}

/// Marks a loop as the one that runs on this thread, until it is dropped.
pub(super) struct Running(());

impl Running {
    /// `None` if a loop runs here already.
    pub(super) fn enter(owner: &Rc<Owner>) -> Option<Self> {
        RUNNING.with_borrow_mut(|running| {
            if running.is_some() {
                return None;
            }
            *running = Some(Rc::clone(owner));
            Some(Running(()))
        })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let owner = RUNNING.with_borrow_mut(Option::take);
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

/// Makes a call ready if the loop with this inbox runs on this thread and takes it as it is; else gives it back.
///
/// For every step of every task, so without a reference that counts.
pub(super) fn call_soon_here(inbox: *const Inbox<Inbound>, call: Inbound) -> Result<(), Inbound> {
    // What waits in the background has its time noted, by a clock that may be the program's: not under this borrow.
    let is_taken = |core: &Core, call: &Inbound| {
        call.lane() != Lane::Background && !(call.is_new_work() && core.is_sealed.get())
    };
    let mut call = Some(call);
    // A thread that is ending runs no loop.
    let _ = RUNNING.try_with(|running| {
        if let Some(owner) = &*running.borrow()
            && Arc::as_ptr(owner.core.inbox()) == inbox
            && owner.core.check_open().is_ok()
            && let Some(call) = call.take_if(|call| is_taken(&owner.core, call))
        {
            let lane = call.lane();
            owner.core.engine.call_soon_in(lane, call.into());
        }
    });
    call.map_or(Ok(()), Err)
}

/// Enters a new loop into the list of this thread.
pub(super) fn enter_loop(core: &Rc<Core>) {
    LIVING.with_borrow_mut(|living| {
        living.retain(|core| core.strong_count() > 0);
        living.push(Rc::downgrade(core));
    });
}

/// The loop with this inbox, if it lives on this thread, running or not.
pub(crate) fn find_loop(inbox: &Arc<Inbox<Inbound>>) -> Option<Rc<Core>> {
    let is_it = |core: &Rc<Core>| Arc::ptr_eq(core.inbox(), inbox);
    running_core().filter(is_it).or_else(|| {
        let find =
            |living: &RefCell<Vec<Weak<Core>>>| living.borrow().iter().filter_map(Weak::upgrade).find(is_it);
        LIVING.try_with(find).ok().flatten()
    })
}
