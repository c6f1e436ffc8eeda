//! The outcome of a handshake, and the task that waits for it.

use crate::host::Failure;
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::task::{Poll, Waker};

/// The outcome of one handshake. Only the first outcome counts.
#[derive(Default)]
pub(super) struct Handshake {
    outcome: RefCell<Option<Result<(), Failure>>>,
    is_expected: Cell<bool>,
    waker: Cell<Option<Waker>>,
}

impl Handshake {
    /// Announces a waiter: a failure is then returned to it, not reported.
    pub(super) fn expect_waiter(&self) {
        self.is_expected.set(true);
    }

    /// Sets the outcome. Returns the failure if nothing waits for it.
    pub(super) fn settle(&self, outcome: Result<(), &Failure>) -> Option<Failure> {
        if self.outcome.borrow().is_some() {
            return None;
        }
        let unreported = if self.is_expected.get() { None } else { outcome.err().map(clone_failure) };
        *self.outcome.borrow_mut() = Some(outcome.map_err(clone_failure));
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
        unreported
    }

    /// Waits for the outcome; one task at a time.
    pub(super) async fn wait(&self) -> io::Result<()> {
        let _guard = WaitGuard { handshake: self, was_expected: self.is_expected.replace(true) };
        poll_fn(|cx| {
            let outcome =
                self.outcome.borrow().as_ref().map(|outcome| outcome.as_ref().err().map(clone_failure));
            match outcome {
                Some(None) => Poll::Ready(Ok(())),
                Some(Some(failure)) => Poll::Ready(Err(failure.into())),
                None => {
                    let former = self.waker.replace(Some(cx.waker().clone()));
                    drop(former);
                    Poll::Pending
                }
            }
        })
        .await
    }
}

/// A wait in progress. Dropping it restores the previous value of `is_expected`.
struct WaitGuard<'a> {
    handshake: &'a Handshake,
    was_expected: bool,
}

impl Drop for WaitGuard<'_> {
    fn drop(&mut self) {
        self.handshake.is_expected.set(self.was_expected);
    }
}

/// Copies a failure.
fn clone_failure(failure: &Failure) -> Failure {
    match failure {
        Failure::Io(error) => Failure::Io(crate::net::clone_error(error)),
        Failure::Panic(text) => Failure::Panic(text.clone()),
        Failure::Run(error) => Failure::Io(io::Error::other(error.to_string())),
    }
}
