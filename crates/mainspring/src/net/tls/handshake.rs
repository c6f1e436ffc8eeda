//! How a handshake ended, for the one who waits for it.

use super::error::TlsError;
use crate::host::Failure;
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::task::{Poll, Waker};

/// The outcome of one handshake. The first that is told counts.
pub(super) struct Handshake {
    outcome: RefCell<Option<io::Result<()>>>,
    is_over: Cell<bool>,
    is_awaited: Cell<bool>,
    waker: Cell<Option<Waker>>,
}

impl Handshake {
    pub(super) fn new() -> Self {
        Handshake {
            outcome: RefCell::new(None),
            is_over: Cell::new(false),
            is_awaited: Cell::new(false),
            waker: Cell::new(None),
        }
    }

    /// Somebody is going to wait for it, and is told of a failure.
    pub(super) fn expect(&self) {
        self.is_awaited.set(true);
    }

    /// It is over. Gives a failure back that nobody waits for.
    pub(super) fn settle(&self, outcome: Result<(), &Failure>) -> Option<Failure> {
        if self.is_over.replace(true) {
            return None;
        }
        let outcome = outcome.map_err(again);
        if !self.is_awaited.get() {
            return outcome.err().map(Failure::Io);
        }
        let former = self.outcome.replace(Some(outcome));
        drop(former);
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
        None
    }

    /// Waits for it, once.
    pub(super) async fn wait(&self) -> io::Result<()> {
        poll_fn(|cx| {
            let outcome = self.outcome.borrow_mut().take();
            if let Some(outcome) = outcome {
                return Poll::Ready(outcome);
            }
            let former = self.waker.replace(Some(cx.waker().clone()));
            drop(former);
            Poll::Pending
        })
        .await
    }
}

/// The same failure once more: for the one who waits, beside the protocol.
fn again(failure: &Failure) -> io::Error {
    match failure {
        Failure::Io(error) => match (TlsError::of(error), error.raw_os_error()) {
            (Some(tls), _) => tls.clone().into(),
            (None, Some(number)) => io::Error::from_raw_os_error(number),
            (None, None) => io::Error::new(error.kind(), error.to_string()),
        },
        Failure::Panic(text) => Failure::Panic(text.clone()).into(),
    }
}
