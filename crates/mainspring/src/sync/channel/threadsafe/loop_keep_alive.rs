//! Waits for the other half of a channel. The loop is not idle during the wait.

use crate::event_loop::KeepAlive;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Keeps the loop of a waiting task alive. Only that loop drops it, in the task's next step. By then the wake has
/// reached the loop.
#[derive(Default)]
pub(super) struct LoopKeepAlive(Option<KeepAlive>);

impl LoopKeepAlive {
    /// Called with the result of each poll.
    pub(super) fn update<R>(&mut self, polled: Poll<R>) -> Poll<R> {
        // The future may have moved to another loop: keep the new one before releasing the old one.
        let keep_alive = if polled.is_pending() { KeepAlive::for_running_loop_unless(None) } else { None };
        let former = std::mem::replace(&mut self.0, keep_alive);
        drop(former);
        polled
    }
}

/// A wait on the queue that keeps the loop alive. `finish` converts its result. A struct instead of an `async fn`, to
/// save a layer of polling.
pub(super) struct WithKeepAlive<W, F> {
    wait: W,
    finish: F,
    keep_alive: LoopKeepAlive,
}

impl<W: Future + Unpin, R, F: Fn(W::Output) -> R + Unpin> WithKeepAlive<W, F> {
    pub(super) fn new(wait: W, finish: F) -> Self {
        WithKeepAlive { wait, finish, keep_alive: LoopKeepAlive::default() }
    }
}

impl<W: Future + Unpin, R, F: Fn(W::Output) -> R + Unpin> Future for WithKeepAlive<W, F> {
    type Output = R;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<R> {
        let polled = Pin::new(&mut self.wait).poll(cx).map(&self.finish);
        self.keep_alive.update(polled)
    }
}
