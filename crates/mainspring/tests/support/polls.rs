//! Futures that are given up at a chosen moment.

use std::pin::Pin;
use std::task::{Context, Poll};

/// Polls a future a number of times at most; then drops it and answers `None`.
pub struct GivenUpAfter<F> {
    future: Option<Pin<Box<F>>>,
    polls: usize,
}

/// `future`, dropped in the poll after `polls` of them. It is polled when it is woken: only the last time, it is given
/// up without waiting for that.
pub fn given_up_after<F: IntoFuture>(polls: usize, future: F) -> GivenUpAfter<F::IntoFuture> {
    GivenUpAfter { future: Some(Box::pin(future.into_future())), polls }
}

impl<F: Future> Future for GivenUpAfter<F> {
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<F::Output>> {
        if self.polls == 0 {
            self.future = None;
            return Poll::Ready(None);
        }
        self.polls -= 1;
        let Some(future) = &mut self.future else { return Poll::Ready(None) };
        let polled = future.as_mut().poll(cx).map(Some);
        if polled.is_pending() && self.polls == 0 {
            // Given up in a step of its own, so that what the last poll set off is under way.
            cx.waker().wake_by_ref();
        }
        polled
    }
}

/// A future that is polled in every pass, woken or not.
pub struct Restless<F>(Pin<Box<F>>);

pub fn restless<F: IntoFuture>(future: F) -> Restless<F::IntoFuture> {
    Restless(Box::pin(future.into_future()))
}

impl<F: Future> Future for Restless<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        // Before anything that the future itself asks for in this poll.
        cx.waker().wake_by_ref();
        self.0.as_mut().poll(cx)
    }
}
