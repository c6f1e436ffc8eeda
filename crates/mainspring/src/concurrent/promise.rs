//! `Promise`: settles a `ConcurrentFuture`.

use super::shared::Shared;
use super::{cancelled, panicked};
use crate::panics::catch_payload;
use crate::task::JoinError;
use std::fmt;
use std::sync::Arc;

/// Sets the result of a [`ConcurrentFuture`](super::ConcurrentFuture). Created by
/// [`ConcurrentFuture::pair`](super::ConcurrentFuture::pair).
///
/// Dropping it without a result settles the future with a cancelled [`JoinError`].
///
/// It is `Send` and `Sync` if `T` and `E` are `Send`.
///
/// ```
/// let (promise, answer) = mainspring::ConcurrentFuture::<&str>::pair();
/// std::thread::spawn(move || promise.set_result("from another thread"));
/// assert_eq!(mainspring::run(answer)?, Ok("from another thread"));
/// # Ok::<(), mainspring::Error>(())
/// ```
#[must_use = "dropping a promise cancels its future"]
pub struct Promise<T: 'static, E: From<JoinError> + 'static = JoinError>(
    pub(super) Option<Arc<Shared<T, E>>>,
);

impl<T: 'static, E: From<JoinError> + 'static> Promise<T, E> {
    /// Sets the result.
    ///
    /// Callbacks and composed closures run on this thread.
    pub fn set_result(self, result: T) {
        self.settle(Ok(result));
    }

    /// Sets an error instead of a result.
    ///
    /// ```
    /// use mainspring::ConcurrentFuture;
    /// use std::io;
    ///
    /// let (promise, answer) = ConcurrentFuture::<i32, io::Error>::pair();
    /// promise.set_error(io::ErrorKind::TimedOut.into());
    /// assert_eq!(answer.wait().unwrap_err().kind(), io::ErrorKind::TimedOut);
    /// ```
    pub fn set_error(self, error: E) {
        self.settle(Err(error));
    }

    /// Settles with the output of `run`, or with its panic. If the future is cancelled, `run` is dropped instead.
    pub(crate) fn settle_with(self, run: impl FnOnce() -> Result<T, E>) {
        if self.is_cancelled() {
            return drop(run);
        }
        let result = catch_payload(run).unwrap_or_else(|payload| Err(panicked(payload).into()));
        self.settle(result);
    }

    pub(crate) fn settle(mut self, result: Result<T, E>) {
        if let Some(shared) = self.0.take() {
            shared.settle(result, false);
        }
    }
}

impl<T: 'static, E: From<JoinError> + 'static> Drop for Promise<T, E> {
    fn drop(&mut self) {
        if let Some(shared) = self.0.take() {
            shared.settle(Err(cancelled().into()), true);
        }
    }
}

impl<T: 'static, E: From<JoinError> + 'static> fmt::Debug for Promise<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Promise").finish_non_exhaustive()
    }
}
