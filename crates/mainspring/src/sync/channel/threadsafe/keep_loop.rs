//! Waiting for the other half: a task's wait, for which its loop stays.

use crate::event_loop::KeepAlive;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Keeps the loop of a task that waits, until it is dropped. Only the task's own loop drops it, in the task's next step:
/// whatever ended the wait has reached the loop by then.
#[derive(Default)]
pub(super) struct LoopKeeper(Option<KeepAlive>);

impl LoopKeeper {
    /// To be told how each step ends.
    pub(super) fn after<R>(&mut self, polled: Poll<R>) -> Poll<R> {
        // Whoever waits on may have been taken to another loop. The new one stays before the old one is let go.
        let keep_alive = if polled.is_pending() { KeepAlive::unless(None) } else { None };
        let former = std::mem::replace(&mut self.0, keep_alive);
        drop(former);
        polled
    }
}

/// A wait of the queue's, for which the loop stays; `finish` makes of its outcome what the channel gives. It stands here,
/// and not in an `async fn`, to be polled without a layer in between.
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
