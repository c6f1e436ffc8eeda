//! Composition of results, without a loop and without blocking a thread.

use super::{ConcurrentFuture, panicked};
use crate::panics::catch_payload;
use crate::task::JoinError;

/// The closures run on the thread that settles the future, or at once on the calling thread if it is settled. They
/// should be short, because they may block a loop. A panic becomes a [`JoinError`], converted to the error type of
/// the composed future.
impl<T: Send + 'static, E: From<JoinError> + Send + 'static> ConcurrentFuture<T, E> {
    /// Converts the result. An error is unchanged.
    ///
    /// ```
    /// use mainspring::{ConcurrentFuture, JoinError};
    ///
    /// let number = ConcurrentFuture::ready(Ok::<_, JoinError>(6));
    /// assert_eq!(number.map(|number| number * 7).wait(), Ok(42));
    ///
    /// let number = ConcurrentFuture::ready(Ok::<_, JoinError>(0));
    /// assert!(number.map(|number| 1 / number).wait().unwrap_err().is_panic());
    /// ```
    pub fn map<U: Send + 'static>(
        self,
        make: impl FnOnce(T) -> U + Send + 'static,
    ) -> ConcurrentFuture<U, E> {
        self.map_result(|result| result.map(make))
    }

    /// Converts the error.
    ///
    /// ```
    /// use mainspring::ConcurrentFuture;
    /// use std::io;
    ///
    /// let (promise, lost) = ConcurrentFuture::<()>::pair();
    /// drop(promise);
    /// let lost = lost.map_err(|_| io::Error::from(io::ErrorKind::NotConnected));
    /// assert_eq!(lost.wait().unwrap_err().kind(), io::ErrorKind::NotConnected);
    /// ```
    pub fn map_err<F: From<JoinError> + Send + 'static>(
        self,
        make: impl FnOnce(E) -> F + Send + 'static,
    ) -> ConcurrentFuture<T, F> {
        self.map_result(|result| result.map_err(make))
    }

    /// Converts the error with `From`.
    ///
    /// ```
    /// use mainspring::{ConcurrentFuture, JoinError};
    ///
    /// let done = ConcurrentFuture::ready(Ok::<_, JoinError>(1));
    /// let result: std::io::Result<i32> = done.err_into().wait();
    /// assert_eq!(result?, 1);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn err_into<F: From<E> + From<JoinError> + Send + 'static>(self) -> ConcurrentFuture<T, F> {
        self.map_err(F::from)
    }

    /// Continues with another future after a result. An error is converted.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let runtime = mainspring::Runtime::start()?;
    /// let handle = runtime.handle();
    /// let later = runtime.delay(Duration::from_millis(1)).and_then(move |()| handle.call(|| "then"));
    /// assert_eq!(later.wait(), Ok("then"));
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn and_then<U: Send + 'static, F: From<E> + From<JoinError> + Send + 'static>(
        self,
        f: impl FnOnce(T) -> ConcurrentFuture<U, F> + Send + 'static,
    ) -> ConcurrentFuture<U, F> {
        self.then(|result| match result {
            Ok(value) => f(value),
            Err(error) => ConcurrentFuture::ready(Err(error.into())),
        })
    }

    /// Continues with another future after an error. A result is unchanged.
    ///
    /// ```
    /// use mainspring::{ConcurrentFuture, JoinError};
    ///
    /// let (promise, lost) = ConcurrentFuture::<i32>::pair();
    /// drop(promise);
    /// let found = lost.or_else(|_| ConcurrentFuture::ready(Ok::<_, JoinError>(1)));
    /// assert_eq!(found.wait(), Ok(1));
    /// ```
    pub fn or_else<F: From<JoinError> + Send + 'static>(
        self,
        f: impl FnOnce(E) -> ConcurrentFuture<T, F> + Send + 'static,
    ) -> ConcurrentFuture<T, F> {
        self.then(|result| match result {
            Ok(value) => ConcurrentFuture::ready(Ok(value)),
            Err(error) => f(error),
        })
    }

    /// Continues with another future in both cases.
    ///
    /// ```
    /// use mainspring::{ConcurrentFuture, JoinError};
    ///
    /// let (promise, answer) = ConcurrentFuture::<i32>::pair();
    /// let text = answer.then(|result| {
    ///     ConcurrentFuture::ready(Ok::<_, JoinError>(format!("{result:?}")))
    /// });
    /// promise.set_result(42);
    /// assert_eq!(text.wait().unwrap(), "Ok(42)");
    /// ```
    pub fn then<U: Send + 'static, F: From<JoinError> + Send + 'static>(
        self,
        f: impl FnOnce(Result<T, E>) -> ConcurrentFuture<U, F> + Send + 'static,
    ) -> ConcurrentFuture<U, F> {
        let (promise, future) = ConcurrentFuture::pair();
        promise.set_upstream(self.upstream());
        self.chain(Box::new(move |result| {
            if promise.is_cancelled() {
                return;
            }
            match catch_payload(|| f(result)) {
                Ok(inner) => {
                    // Cancelled while the closure ran.
                    if !promise.set_upstream(inner.upstream()) {
                        inner.cancel();
                    }
                    inner.chain(Box::new(move |result| promise.settle(result)));
                }
                Err(payload) => promise.set_error(panicked(payload).into()),
            }
        }));
        future
    }

    /// A future with the converted output.
    fn map_result<U: Send + 'static, F: From<JoinError> + Send + 'static>(
        self,
        f: impl FnOnce(Result<T, E>) -> Result<U, F> + Send + 'static,
    ) -> ConcurrentFuture<U, F> {
        let (promise, future) = ConcurrentFuture::pair_settled_by(self.0.settling_loop.clone());
        promise.set_upstream(self.upstream());
        self.chain(Box::new(move |result| promise.settle_with(|| f(result))));
        future
    }
}

impl<T, F, E> ConcurrentFuture<Result<T, F>, E>
where
    T: Send + 'static,
    F: From<E> + From<JoinError> + Send + 'static,
    E: From<JoinError> + Send + 'static,
{
    /// Merges two nested `Result`s: for calls on another thread that may fail by themselves.
    ///
    /// ```
    /// use std::io;
    ///
    /// let runtime = mainspring::Runtime::start()?;
    /// let failed = runtime.call(|| Err::<(), io::Error>(io::ErrorKind::NotFound.into()));
    /// assert_eq!(failed.flatten().wait().unwrap_err().kind(), io::ErrorKind::NotFound);
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn flatten(self) -> ConcurrentFuture<T, F> {
        self.map_result(|result| result?)
    }
}
