//! `block_on`: runs a future on a thread without a loop. The thread sleeps until the future's waker is called.

use mainspring_engine::loom_shim::{Condvar, Mutex};
use std::pin::pin;
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

/// A thread that sleeps until it is woken.
#[derive(Default)]
struct ParkedThread {
    is_woken: Mutex<bool>,
    woken: Condvar,
}

impl ParkedThread {
    fn sleep(&self) {
        let mut is_woken = self.is_woken.lock().unwrap_or_else(PoisonError::into_inner);
        while !*is_woken {
            is_woken = self.woken.wait(is_woken).unwrap_or_else(PoisonError::into_inner);
        }
        *is_woken = false;
    }
}

impl Wake for ParkedThread {
    fn wake(self: Arc<Self>) {
        *self.is_woken.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.woken.notify_one();
    }
}

/// Blocks this thread until `future` is ready.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    // Usually the future is ready at once, and needs no real waker.
    let mut cx = Context::from_waker(Waker::noop());
    if let Poll::Ready(output) = future.as_mut().poll(&mut cx) {
        return output;
    }
    let thread = Arc::new(ParkedThread::default());
    let waker = Waker::from(Arc::clone(&thread));
    let mut cx = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut cx) {
            return output;
        }
        thread.sleep();
    }
}
