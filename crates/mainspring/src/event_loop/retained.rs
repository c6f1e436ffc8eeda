//! What lives on a loop and that nobody else need keep: a process with a protocol, say.

use super::core::Core;
use super::exceptions::ExceptionContext;
use crate::panics::catch;
use slab::Slab;
use std::cell::RefCell;
use std::rc::Rc;

/// What a loop keeps until it comes to its own end, or the loop is closed.
pub(crate) trait Retained {
    /// The loop is closed: lets go of what may hold the one who is kept.
    fn let_go(&self);
}

/// The list of them.
#[derive(Default)]
pub(super) struct RetainedList(RefCell<Slab<Rc<dyn Retained>>>);

impl Core {
    /// Keeps something until [`Core::release`] gives it back; the answer is where.
    pub(crate) fn retain(&self, value: Rc<dyn Retained>) -> usize {
        self.retained.0.borrow_mut().insert(value)
    }

    /// Keeps it no longer, and gives it.
    pub(crate) fn release(&self, place: usize) -> Option<Rc<dyn Retained>> {
        self.retained.0.borrow_mut().try_remove(place)
    }

    /// Lets go of everything that is kept, one by one: any destructor may run user code, and fail.
    pub(super) fn release_retained(&self) {
        let kept = self.retained.0.take();
        for (_, kept) in kept {
            let let_go = move || {
                kept.let_go();
                drop(kept);
            };
            if let Err(text) = catch(let_go) {
                self.call_exception_handler(&ExceptionContext::of_panic("A destructor panicked", text));
            }
        }
    }
}
