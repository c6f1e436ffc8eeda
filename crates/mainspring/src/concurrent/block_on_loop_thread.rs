//! A thread that runs a loop and waits for a result all the same. It blocks its loop: the result must not come from there.
//!
//! Where a result comes from is known by what it is composed of, and may change while the thread sleeps: what goes on with
//! another future has that as its origin from then on. So it is looked at again whenever that happens.

use super::ConcurrentFuture;
use super::cancel::{Link, Origin};
use crate::block_on::block_on;
use crate::task::JoinError;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Poll, Waker};

/// Blocks this thread until the result is there; `None` if that is for this thread's own loop to produce.
pub(super) fn block_on_loop_thread<T: 'static, E: From<JoinError> + 'static>(
    future: &mut ConcurrentFuture<T, E>,
) -> Option<Result<T, E>> {
    block_on(poll_fn(|cx| match Pin::new(&mut *future).poll(cx) {
        Poll::Ready(result) => Poll::Ready(Some(result)),
        Poll::Pending if comes_from_here(future, cx.waker()) => Poll::Ready(None),
        Poll::Pending => Poll::Pending,
    }))
}

/// Whether the loop that runs on this thread is to produce the result, or something on the way to it.
fn comes_from_here<T: 'static, E: From<JoinError> + 'static>(
    future: &ConcurrentFuture<T, E>,
    watcher: &Waker,
) -> bool {
    let mut origin = future.0.look(watcher);
    loop {
        let upstream = match origin {
            Origin::Here => return true,
            Origin::Elsewhere => return false,
            Origin::Upstream(upstream) => upstream,
        };
        match upstream.upgrade() {
            Some(link) => origin = link.look(watcher),
            // What it was composed of is settled, and has handed on or is about to.
            None => return false,
        }
    }
}
