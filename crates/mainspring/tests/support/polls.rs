//! Futures that are cancelled after a number of polls.

use std::pin::Pin;
use std::task::{Context, Poll};

/// Polls a future at most a number of times, then drops it and returns `None`.
pub struct GivenUpAfter<F> {
    future: Option<Pin<Box<F>>>,
    polls: usize,
}

/// Polls `future` at most `polls` times, then drops it. It is polled when it is woken; the final drop does not wait for
/// a wake-up.
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
            // Dropped in a separate poll, so that the effects of the last poll are under way.
            cx.waker().wake_by_ref();
        }
        polled
    }
}

/// A future that is polled in every iteration, woken or not.
pub struct PolledEveryIteration<F>(Pin<Box<F>>);

pub fn polled_every_iteration<F: IntoFuture>(future: F) -> PolledEveryIteration<F::IntoFuture> {
    PolledEveryIteration(Box::pin(future.into_future()))
}

impl<F: Future> Future for PolledEveryIteration<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        // Wake before polling, so that this wake-up precedes any that the future requests.
        cx.waker().wake_by_ref();
        self.0.as_mut().poll(cx)
    }
}
