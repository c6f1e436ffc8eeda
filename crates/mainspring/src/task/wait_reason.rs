//! What a task waits for, for the messages of [`testing`](crate::testing).
//!
//! A future that returns `Pending` names itself in a thread-local variable. A loop with a virtual clock reads it after
//! each step of a task. Other loops never read it.

use super::TaskId;
use std::cell::Cell;
use std::pin::Pin;
use std::task::{Context, Poll};

/// What a task waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitReason {
    /// A method of this crate.
    Event(&'static str),
    /// Another task.
    Task(TaskId),
}

thread_local! {
    static LAST: Cell<Option<WaitReason>> = const { Cell::new(None) };
}

impl WaitReason {
    /// The current step waits for this.
    #[inline(always)]
    pub(crate) fn set(self) {
        LAST.set(Some(self));
    }

    /// Takes the last reason of the current step.
    pub(crate) fn take() -> Option<WaitReason> {
        LAST.take()
    }
}

/// The current step waits in the method `name`.
#[inline(always)]
pub(crate) fn waits_for(name: &'static str) {
    WaitReason::Event(name).set();
}

/// `future`, which is what the method `name` waits for. A function instead of a string needs no room in the futures of
/// idle connections: row `memory` of `bench/peers`.
pub(crate) fn named<F, N>(name: N, future: F) -> Named<F, N>
where
    F: Future + Unpin,
    N: Fn() -> &'static str + Unpin,
{
    Named { name, future }
}

/// See [`named`].
pub(crate) struct Named<F, N> {
    name: N,
    future: F,
}

impl<F, N> Future for Named<F, N>
where
    F: Future + Unpin,
    N: Fn() -> &'static str + Unpin,
{
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let polled = Pin::new(&mut self.future).poll(cx);
        if polled.is_pending() {
            waits_for((self.name)());
        }
        polled
    }
}
