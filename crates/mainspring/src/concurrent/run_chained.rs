//! Runs chained closures on the thread that settles a result, one after the other.
//!
//! A closure that settles the next future would otherwise nest stack frames. So a closure that becomes ready while
//! another runs is queued per thread, and runs after that one has returned.

use crate::event_loop::{ExceptionContext, report_here};
use crate::panics::catch;
use std::cell::RefCell;
use std::collections::VecDeque;

type Closure = Box<dyn FnOnce()>;

thread_local! {
    /// The queued closures. `None` if no closure is running.
    static QUEUE: RefCell<Option<VecDeque<Closure>>> = const { RefCell::new(None) };
}

/// Runs `closure` now, or after the closure that is running.
pub(super) fn run(closure: impl FnOnce() + 'static) {
    let mut closure = Some(closure);
    let is_first = QUEUE.try_with(|queue| {
        let mut queue = queue.borrow_mut();
        match &mut *queue {
            Some(waiting) => waiting.extend(closure.take().map(|closure| Box::new(closure) as Closure)),
            None => *queue = Some(VecDeque::new()),
        }
    });
    let Some(closure) = closure else { return };
    run_one(closure);
    // A thread that is ending has no queue, and runs each at once.
    if is_first.is_err() {
        return;
    }
    while let Some(next) = next() {
        run_one(next);
    }
}

/// Runs the queued closures of this thread. A closure that is about to block calls this first, because blocking on the
/// result of a queued closure would be a deadlock.
pub(super) fn run_queued() {
    let pop = |queue: &RefCell<Option<VecDeque<Closure>>>| queue.borrow_mut().as_mut()?.pop_front();
    while let Some(closure) = QUEUE.try_with(pop).ok().flatten() {
        run_one(closure);
    }
}

/// The next closure. Removes the queue after the last.
fn next() -> Option<Closure> {
    let pop = |queue: &RefCell<Option<VecDeque<Closure>>>| {
        let mut queue = queue.borrow_mut();
        let next = queue.as_mut()?.pop_front();
        if next.is_none() {
            *queue = None;
        }
        next
    };
    QUEUE.try_with(pop).ok().flatten()
}

/// Panics of user code are caught where they become errors, so a panic caught here comes from a destructor.
fn run_one(closure: impl FnOnce()) {
    if let Err(text) = catch(closure) {
        report_here(&ExceptionContext::from_panic("A destructor panicked", text));
    }
}
