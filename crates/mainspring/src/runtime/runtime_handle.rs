//! `RuntimeHandle`: a reference to a runtime for any thread.

use super::{ShutdownMode, ShutdownRequest};
use crate::concurrent::{CancelHandle, ConcurrentFuture, refused};
use crate::error::Error;
use crate::host::Inbound;
use crate::remote::Remote;
use crate::task::JoinError;
use crate::time::{Elapsed, sleep, timeout};
use std::fmt;
use std::sync::Arc;
use std::thread::{self, Thread};
use std::time::Duration;

/// A reference to a [`Runtime`](super::Runtime) for any thread. Clones refer to the same one. It is `Send` and
/// `Sync`, and does not keep the runtime alive.
///
/// A runtime that is shut down refuses work: with [`Error::ShutDown`], or with a future whose error is
/// [refused](crate::JoinError::is_refused). Accepted work is completed, unless the runtime is dropped or ended by
/// [`shutdown_now`](super::Runtime::shutdown_now): then it is cancelled. On the loop's own thread work is accepted
/// until the loop has ended: it is part of work that was accepted before.
///
/// ```
/// use mainspring::Runtime;
///
/// let runtime = Runtime::start()?;
/// let handle = runtime.handle();
/// let other = std::thread::spawn(move || handle.call(|| 6 * 7).wait());
/// assert_eq!(other.join().unwrap(), Ok(42));
///
/// let handle = runtime.handle();
/// runtime.shutdown()?;
/// assert!(handle.is_shut_down());
/// assert!(handle.call(|| ()).wait().unwrap_err().is_refused());
/// # Ok::<(), mainspring::Error>(())
/// ```
#[derive(Clone)]
pub struct RuntimeHandle {
    pub(super) shared: Arc<RuntimeShared>,
}

pub(super) struct RuntimeShared {
    pub(super) remote: Remote,
    pub(super) request: Arc<ShutdownRequest>,
    pub(super) thread: Thread,
}

impl RuntimeShared {
    /// Requests a shutdown of the thread.
    pub(super) fn request_shutdown(&self, mode: ShutdownMode) {
        self.request.raise(mode);
        if mode >= ShutdownMode::Drained {
            self.remote.inbox().seal();
        }
        // The thread reads the request when its run ends. A closed loop needs no request.
        let _ = self.remote.inbox().push(Inbound::Stop);
    }

    pub(super) fn is_own_thread(&self) -> bool {
        thread::current().id() == self.thread.id()
    }
}

impl RuntimeHandle {
    /// The name of the runtime.
    ///
    /// ```
    /// let runtime = mainspring::Runtime::builder().name("background").start()?;
    /// assert_eq!(runtime.handle().name(), "background");
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn name(&self) -> &str {
        self.shared.thread.name().unwrap_or_default()
    }

    /// Whether the runtime refuses new work from other threads.
    pub fn is_shut_down(&self) -> bool {
        self.shared.remote.inbox().is_sealed()
    }

    /// The loop, as a [`Remote`].
    ///
    /// ```
    /// let runtime = mainspring::Runtime::start()?;
    /// let answer = runtime.remote().spawn(|| async { 6 * 7 })?;
    /// assert_eq!(answer.wait(), Ok(42));
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn remote(&self) -> Remote {
        self.shared.remote.clone()
    }

    /// Calls `callback` on the loop's thread. A panic goes to the loop's exception handler.
    ///
    /// ```
    /// use std::sync::mpsc;
    ///
    /// let runtime = mainspring::Runtime::start()?;
    /// let (sender, receiver) = mpsc::channel();
    /// runtime.call_soon_threadsafe(move || sender.send("hello").unwrap())?;
    /// assert_eq!(receiver.recv(), Ok("hello"));
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn call_soon_threadsafe(&self, callback: impl FnOnce() + Send + 'static) -> Result<(), Error> {
        // A closed loop was shut down earlier.
        self.shared.remote.call_soon_threadsafe(callback).map_err(|_| Error::ShutDown)
    }

    /// Calls `call` on the loop's thread. Returns its result or its panic.
    ///
    /// ```
    /// let runtime = mainspring::Runtime::start()?;
    /// let answer = runtime.call(|| 6 * 7);
    /// assert_eq!(answer.wait(), Ok(42));
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn call<T: Send + 'static>(&self, call: impl FnOnce() -> T + Send + 'static) -> ConcurrentFuture<T> {
        let (promise, future) = self.shared.remote.pair();
        match self.call_soon_threadsafe(move || promise.settle_with(|| Ok(call()))) {
            Ok(()) => future,
            Err(_) => ConcurrentFuture::ready(Err(refused())),
        }
    }

    /// Makes a future on the loop's thread, so that it need not be `Send`, and runs it there as a task.
    ///
    /// ```
    /// use std::{rc::Rc, time::Duration};
    ///
    /// let runtime = mainspring::Runtime::start()?;
    /// let answer = runtime.spawn(|| async {
    ///     let local_value = Rc::new(42);
    ///     mainspring::sleep(Duration::from_millis(1)).await;
    ///     *local_value
    /// });
    /// assert_eq!(answer.wait(), Ok(42));
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn spawn<M, F>(&self, make: M) -> ConcurrentFuture<F::Output>
    where
        M: FnOnce() -> F + Send + 'static,
        F: IntoFuture<IntoFuture: 'static, Output: Send + 'static>,
    {
        let spawned = self.shared.remote.spawn(make);
        spawned.unwrap_or_else(|_| ConcurrentFuture::ready(Err(refused())))
    }

    /// Runs a future as [`spawn`](RuntimeHandle::spawn) does, and waits for its result.
    ///
    /// # Panics
    ///
    /// On the loop's own thread, which would wait for itself: see [`ConcurrentFuture::wait`].
    ///
    /// ```
    /// let runtime = mainspring::Runtime::start()?;
    /// assert_eq!(runtime.run(|| async { 6 * 7 }), Ok(42));
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    #[track_caller]
    #[doc(alias = "block_on")]
    pub fn run<M, F>(&self, make: M) -> Result<F::Output, JoinError>
    where
        M: FnOnce() -> F + Send + 'static,
        F: IntoFuture<IntoFuture: 'static, Output: Send + 'static>,
    {
        self.spawn(make).wait()
    }

    /// Completes after `delay` by the loop's clock.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let runtime = mainspring::Runtime::start()?;
    /// let later = runtime.delay(Duration::from_millis(1)).map(|()| "later");
    /// assert_eq!(later.wait(), Ok("later"));
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn delay(&self, delay: Duration) -> ConcurrentFuture<()> {
        self.spawn(move || sleep(delay))
    }

    /// Gives `future` at most `limit` by the loop's clock. Then it is cancelled, and the result is an error: see
    /// [`JoinError::is_timed_out`]. A future that is refused or cancelled here is cancelled too.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let runtime = mainspring::Runtime::start()?;
    /// let never = runtime.spawn(std::future::pending::<()>);
    /// let limited = runtime.timeout(Duration::from_millis(1), never);
    /// assert!(limited.wait().unwrap_err().is_timed_out());
    /// // The task is cancelled, and nothing keeps the loop.
    /// runtime.shutdown()?;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn timeout<T, E>(&self, limit: Duration, future: ConcurrentFuture<T, E>) -> ConcurrentFuture<T, E>
    where
        T: Send + 'static,
        E: From<JoinError> + From<Elapsed> + Send + 'static,
    {
        // Does nothing if there is a result.
        let cancel = CancelOnDrop(future.cancel_handle());
        let limited = self.spawn(move || async move {
            let _cancel = cancel;
            timeout(limit, future).await?
        });
        limited.flatten()
    }
}

/// Cancels a future that nothing waits for any more.
struct CancelOnDrop(CancelHandle);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

impl fmt::Debug for RuntimeHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RuntimeHandle")
            .field("name", &self.name())
            .field("shut_down", &self.is_shut_down())
            .finish_non_exhaustive()
    }
}
