//! Objects that the loop itself owns, such as a process with a protocol.

use super::core::Core;
use super::exception_handler::ExceptionContext;
use crate::panics::catch;
use slab::Slab;
use std::cell::RefCell;
use std::rc::Rc;

/// An object that the loop owns until it is released, or the loop is closed.
pub(crate) trait Retained {
    /// The loop is closed: drops references that may form a cycle with this object.
    fn detach_from_loop(&self);
}

/// The retained objects.
#[derive(Default)]
pub(super) struct RetainedList(RefCell<Slab<Rc<dyn Retained>>>);

impl Core {
    /// Retains an object until [`Core::release`]. Returns its index.
    pub(crate) fn retain(&self, value: Rc<dyn Retained>) -> usize {
        self.retained.0.borrow_mut().insert(value)
    }

    /// Removes a retained object and returns it.
    pub(crate) fn release(&self, index: usize) -> Option<Rc<dyn Retained>> {
        self.retained.0.borrow_mut().try_remove(index)
    }

    /// Releases all retained objects one by one: a destructor may run user code, and panic.
    pub(super) fn release_retained(&self) {
        let objects = self.retained.0.take();
        for (_, object) in objects {
            let release = move || {
                object.detach_from_loop();
                drop(object);
            };
            if let Err(text) = catch(release) {
                self.call_exception_handler(&ExceptionContext::from_panic("A destructor panicked", text));
            }
        }
    }
}
