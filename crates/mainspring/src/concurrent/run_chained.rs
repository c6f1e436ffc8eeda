//! Runs chained closures on the thread that settles a result, one after the other.
//!
//! A closure that settles the next future would nest one stack frame in the other. So a closure that becomes ready
//! while another runs waits in a queue of the thread until that one has returned.

use crate::event_loop::{ExceptionContext, report_here};
use crate::panics::catch;
use std::cell::RefCell;
use std::collections::VecDeque;

type Link = Box<dyn FnOnce()>;

thread_local! {
    /// The waiting closures. `None` when no closure runs.
    static QUEUE: RefCell<Option<VecDeque<Link>>> = const { RefCell::new(None) };
}

/// Runs `link` now, or after the one that runs.
pub(super) fn run(link: impl FnOnce() + 'static) {
    let mut link = Some(link);
    let is_first = QUEUE.try_with(|queue| {
        let mut queue = queue.borrow_mut();
        match &mut *queue {
            Some(waiting) => waiting.extend(link.take().map(|link| Box::new(link) as Link)),
            None => *queue = Some(VecDeque::new()),
        }
    });
    let Some(link) = link else { return };
    run_one(link);
    // A thread that is ending has no queue, and runs each at once.
    if is_first.is_err() {
        return;
    }
    while let Some(next) = next() {
        run_one(next);
    }
}

/// Runs the waiting closures of this thread. For a closure that is about to block on the result of one of them, which
/// would be a deadlock.
pub(super) fn run_waiting() {
    let take = |queue: &RefCell<Option<VecDeque<Link>>>| queue.borrow_mut().as_mut()?.pop_front();
    while let Some(link) = QUEUE.try_with(take).ok().flatten() {
        run_one(link);
    }
}

/// The next closure. Removes the queue after the last.
fn next() -> Option<Link> {
    let take = |queue: &RefCell<Option<VecDeque<Link>>>| {
        let mut queue = queue.borrow_mut();
        let next = queue.as_mut()?.pop_front();
        if next.is_none() {
            *queue = None;
        }
        next
    };
    QUEUE.try_with(take).ok().flatten()
}

/// Panics of user code are caught where they become errors, so this is a destructor's.
fn run_one(link: impl FnOnce()) {
    if let Err(text) = catch(link) {
        report_here(&ExceptionContext::of_panic("A destructor panicked", text));
    }
}
