//! The relay: what is chained to a result runs on the thread that settles it, one link after the other.
//!
//! A link that settles the next future from inside would need a deeper stack for each; so a link that comes up while
//! another runs waits in a queue of the thread until that one has returned.

use crate::event_loop::{ExceptionContext, report_here};
use crate::panics::catch;
use std::cell::RefCell;
use std::collections::VecDeque;

type Link = Box<dyn FnOnce()>;

thread_local! {
    /// What waits; `None` when no link runs.
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
    // A thread that is ending has no queue, and runs what comes up at once.
    if is_first.is_err() {
        return;
    }
    while let Some(next) = next() {
        run_one(next);
    }
}

/// Runs the links that wait on this thread. For a link that is about to block for what one of them gives: they would wait
/// for it, and it for them.
pub(super) fn run_waiting() {
    let take = |queue: &RefCell<Option<VecDeque<Link>>>| queue.borrow_mut().as_mut()?.pop_front();
    while let Some(link) = QUEUE.try_with(take).ok().flatten() {
        run_one(link);
    }
}

/// The next that waits; there is no more queue after the last.
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

/// User code's panics are caught where they become errors; here it can only be a destructor's.
fn run_one(link: impl FnOnce()) {
    if let Err(text) = catch(link) {
        report_here(&ExceptionContext::of_panic("A destructor panicked", text));
    }
}
