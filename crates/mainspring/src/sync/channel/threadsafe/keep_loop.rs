//! Waits on the other half of a channel, during which the loop is not idle.

use crate::event_loop::KeepAlive;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Keeps the loop of a waiting task alive. Only that loop drops it, in the task's next step. Whatever ended the wait
/// has reached the loop by then.
#[derive(Default)]
pub(super) struct LoopKeeper(Option<KeepAlive>);

impl LoopKeeper {
    /// Called with the result of each poll.
    pub(super) fn after<R>(&mut self, polled: Poll<R>) -> Poll<R> {
        // The future may have moved to another loop: keep the new one before releasing the old one.
        let keep_alive = if polled.is_pending() { KeepAlive::unless(None) } else { None };
        let former = std::mem::replace(&mut self.0, keep_alive);
        drop(former);
        polled
    }
}

/// A wait on the queue that keeps the loop alive. `finish` converts its result. A struct instead of an `async fn`, to
/// save a layer of polling.
pub(super) struct KeepingLoop<W, F> {
    wait: W,
    finish: F,
    keeper: LoopKeeper,
}

impl<W: Future + Unpin, R, F: Fn(W::Output) -> R + Unpin> KeepingLoop<W, F> {
    pub(super) fn new(wait: W, finish: F) -> Self {
        KeepingLoop { wait, finish, keeper: LoopKeeper::default() }
    }
}

impl<W: Future + Unpin, R, F: Fn(W::Output) -> R + Unpin> Future for KeepingLoop<W, F> {
    type Output = R;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<R> {
        let polled = Pin::new(&mut self.wait).poll(cx).map(&self.finish);
        self.keeper.after(polled)
    }
}
