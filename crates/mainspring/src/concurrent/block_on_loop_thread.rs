//! Blocking waits on a thread that runs a loop. They block that loop, so the result must not come from it.
//!
//! The origin of a result follows from its composition, and may change while the thread sleeps: a chained future
//! becomes the new origin. It is checked again after each such change.

use super::ConcurrentFuture;
use super::cancel::{AnyFuture, Origin};
use crate::block_on::block_on;
use crate::task::JoinError;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Poll, Waker};

/// Blocks this thread until there is a result. `None` if this thread's own loop must produce it.
pub(super) fn block_on_loop_thread<T: 'static, E: From<JoinError> + 'static>(
    future: &mut ConcurrentFuture<T, E>,
) -> Option<Result<T, E>> {
    block_on(poll_fn(|cx| match Pin::new(&mut *future).poll(cx) {
        Poll::Ready(result) => Poll::Ready(Some(result)),
        Poll::Pending if is_produced_here(future, cx.waker()) => Poll::Ready(None),
        Poll::Pending => Poll::Pending,
    }))
}

/// Whether the loop of this thread must produce the result, or an intermediate result.
fn is_produced_here<T: 'static, E: From<JoinError> + 'static>(
    future: &ConcurrentFuture<T, E>,
    watcher: &Waker,
) -> bool {
    let mut origin = future.0.origin(watcher);
    loop {
        let upstream = match origin {
            Origin::Here => return true,
            Origin::Elsewhere => return false,
            Origin::Upstream(upstream) => upstream,
        };
        match upstream.upgrade() {
            Some(link) => origin = link.origin(watcher),
            // The upstream future is settled, and has passed its result on or is about to.
            None => return false,
        }
    }
}
