//! Waiting for the other half: a task's wait, for which its loop stays, and a thread's.

use super::{QueueMutex, SendError};
use crate::event_loop::KeepAlive;
use crate::loom_shim::{Condvar, Mutex};
use crate::sync::queue::{Get, Put};
use std::pin::{Pin, pin};
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

/// Keeps the loop of a task that waits, until it is dropped. Only the task's own loop drops it, in the task's next step:
/// whatever ended the wait has reached the loop by then.
#[derive(Default)]
pub(super) struct Stay(Option<KeepAlive>);

impl Stay {
    /// To be told how each step ends.
    pub(super) fn after<R>(&mut self, polled: Poll<R>) -> Poll<R> {
        // Whoever waits on may have been taken to another loop. The new one stays before the old one is let go.
        let keep_alive = if polled.is_pending() { KeepAlive::unless(None) } else { None };
        let former = std::mem::replace(&mut self.0, keep_alive);
        drop(former);
        polled
    }
}

/// The wait of [`Sender::send`](super::Sender::send).
pub(super) struct Sending<'a, T> {
    pub(super) put: Put<'a, QueueMutex<T>>,
    pub(super) stay: Stay,
}

impl<T> Future for Sending<'_, T> {
    type Output = Result<(), SendError<T>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let polled = Pin::new(&mut self.put).poll(cx).map_err(|refused| SendError(refused.0));
        self.stay.after(polled)
    }
}

/// The wait of [`Receiver::recv`](super::Receiver::recv).
pub(super) struct Receiving<'a, T> {
    pub(super) get: Get<'a, QueueMutex<T>>,
    pub(super) stay: Stay,
}

impl<T> Future for Receiving<'_, T> {
    type Output = Option<T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let polled = Pin::new(&mut self.get).poll(cx).map(Result::ok);
        self.stay.after(polled)
    }
}

/// A thread that sleeps until it is woken.
#[derive(Default)]
struct Sleeper {
    is_woken: Mutex<bool>,
    woken: Condvar,
}

impl Sleeper {
    fn sleep(&self) {
        let mut is_woken = self.is_woken.lock().unwrap_or_else(PoisonError::into_inner);
        while !*is_woken {
            is_woken = self.woken.wait(is_woken).unwrap_or_else(PoisonError::into_inner);
        }
        *is_woken = false;
    }
}

impl Wake for Sleeper {
    fn wake(self: Arc<Self>) {
        *self.is_woken.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.woken.notify_one();
    }
}

/// Blocks this thread until `future` is done.
pub(super) fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    // Mostly there is nothing to wait for, and no waker is needed.
    let mut cx = Context::from_waker(Waker::noop());
    if let Poll::Ready(output) = future.as_mut().poll(&mut cx) {
        return output;
    }
    let sleeper = Arc::new(Sleeper::default());
    let waker = Waker::from(Arc::clone(&sleeper));
    let mut cx = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut cx) {
            return output;
        }
        sleeper.sleep();
    }
}
