//! Tasks that wait for the same thing.

use std::cell::RefCell;
use std::task::{Context, Waker};

/// Wakers of whoever waits. One whose task has gone is woken all the same, which is harmless.
#[derive(Default)]
pub(super) struct Waiters(RefCell<Vec<Waker>>);

impl Waiters {
    /// Wakes this task too, the next time.
    pub(super) fn join(&self, cx: &Context<'_>) {
        let is_known = self.0.borrow().iter().any(|waker| waker.will_wake(cx.waker()));
        if !is_known {
            let waker = cx.waker().clone();
            self.0.borrow_mut().push(waker);
        }
    }

    /// Wakes all, in the order they came.
    pub(super) fn wake(&self) {
        let waiting = self.0.take();
        for waker in waiting {
            waker.wake();
        }
    }
}
