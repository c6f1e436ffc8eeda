//! Blocking calls, in the loop's executor or in another.

use super::{Core, EventLoop, ExceptionContext, KeepAlive};
use crate::concurrent::{ConcurrentFuture, refused};
use crate::error::Error;
use crate::executor::{Executor, SubmitError};
use crate::time::{Elapsed, timeout};
use std::sync::Arc;
use std::time::Duration;

impl EventLoop {
    /// Runs the blocking function `blocking` in a thread of the loop's executor. If it panics, the result is a
    /// [`JoinError`](crate::JoinError).
    ///
    /// [`Error::Closed`] if the loop is closed or its executor is shut down, [`Error::Io`] if the system has no thread
    /// left.
    ///
    /// Cancel safety: a call that has begun runs to its end, even if the result is not awaited.
    ///
    /// ```
    /// # mainspring::run(async {
    /// let event_loop = mainspring::EventLoop::current();
    /// let text = event_loop.run_in_executor(|| std::fs::read_to_string("Cargo.toml"))?.await??;
    /// assert!(text.starts_with("[package]"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })??;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "spawn_blocking")]
    #[doc(alias = "to_thread")]
    pub fn run_in_executor<T, F>(&self, blocking: F) -> Result<ConcurrentFuture<T>, Error>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        run_in_executor(self.core(), blocking)
    }

    /// Runs `blocking` in a thread of `executor`, which the program owns and loops can share. Otherwise as
    /// [`run_in_executor`](EventLoop::run_in_executor).
    ///
    /// ```
    /// use mainspring::{EventLoop, Executor, ExecutorConfig};
    ///
    /// let few = Executor::new(ExecutorConfig { name_prefix: "few".to_owned(), ..Default::default() });
    /// let event_loop = EventLoop::new()?;
    /// let name = event_loop.run_on(&few, || std::thread::current().name().map(str::to_owned))?;
    /// assert_eq!(event_loop.run_until_complete(name)?.unwrap().as_deref(), Some("few_0"));
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn run_on<T, F>(&self, executor: &Executor, blocking: F) -> Result<ConcurrentFuture<T>, Error>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        submit(self.core(), executor, blocking)
    }

    /// Sets the executor of [`run_in_executor`](EventLoop::run_in_executor). Closing the loop shuts it down, as in
    /// asyncio. The previous executor is shut down now, and ends when its jobs are done.
    ///
    /// ```
    /// use mainspring::{EventLoop, Executor, ExecutorConfig};
    ///
    /// let event_loop = EventLoop::new()?;
    /// event_loop.set_default_executor(Executor::new(ExecutorConfig::default()));
    /// let answer = event_loop.run_in_executor(|| 6 * 7)?;
    /// assert_eq!(event_loop.run_until_complete(answer)?, Ok(42));
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn set_default_executor(&self, executor: impl Into<Arc<Executor>>) {
        let former = self.core().executor.replace(Some(executor.into()));
        if let Some(former) = former {
            former.shutdown(false);
        }
    }

    /// Shuts the executor down and blocks until its jobs are done.
    ///
    /// ```
    /// let event_loop = mainspring::EventLoop::new()?;
    /// let saved = event_loop.run_in_executor(|| "saved")?;
    /// event_loop.shutdown_executor();
    /// assert!(saved.is_finished());
    /// assert!(event_loop.run_in_executor(|| ()).is_err());
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn shutdown_executor(&self) {
        let executor = self.core().executor.borrow().clone();
        if let Some(executor) = executor {
            executor.shutdown(true);
        }
    }

    /// Shuts the executor down and waits until its jobs are done, for at most `limit`. After that they continue.
    ///
    /// Cancel safety: the executor is shut down, and its threads end by themselves.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// # mainspring::run(async {
    /// let event_loop = mainspring::EventLoop::current();
    /// let saved = event_loop.run_in_executor(|| "saved")?;
    /// event_loop.shutdown_default_executor(Some(Duration::from_secs(60))).await?;
    /// assert!(saved.is_finished());
    /// assert!(event_loop.run_in_executor(|| ()).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })??;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub async fn shutdown_default_executor(&self, limit: Option<Duration>) -> Result<(), Elapsed> {
        let executor = self.core().executor();
        executor.shutdown(false);
        let (promise, done) = ConcurrentFuture::<()>::pair();
        let join = move || {
            executor.shutdown(true);
            promise.set_result(());
        };
        // If no thread can be started, the promise is dropped, and the await below ends at once.
        let _ = std::thread::Builder::new().name("executor-shutdown".to_owned()).spawn(join);
        let joined = match limit {
            Some(limit) => timeout(limit, done).await?,
            None => done.await,
        };
        // The result is an error only in that case.
        let _ = joined;
        Ok(())
    }
}

/// Runs `blocking` in a thread of the executor of the current loop. asyncio's `to_thread`, tokio's `spawn_blocking`.
/// It is [`EventLoop::run_in_executor`] with one kind of error.
///
/// It starts at once, whether it is awaited or not. If it panics, or the executor is shut down
/// ([`is_refused`](crate::JoinError::is_refused)), the result is a [`JoinError`](crate::JoinError). If the system has
/// no thread left, the exception handler is called, and the result is refused as well.
///
/// # Panics
///
/// If no loop runs on this thread.
///
/// Cancel safety: a call that has begun runs to its end, even if the result is not awaited.
///
/// ```
/// # mainspring::run(async {
/// let text = mainspring::to_thread(|| std::fs::read_to_string("Cargo.toml")).await??;
/// assert!(text.starts_with("[package]"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })??;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias = "spawn_blocking")]
#[doc(alias = "run_in_executor")]
#[track_caller]
pub fn to_thread<T, F>(blocking: F) -> ConcurrentFuture<T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    let event_loop = EventLoop::current();
    event_loop.run_in_executor(blocking).unwrap_or_else(|error| {
        if let Error::Io(error) = error {
            let report = ExceptionContext::new("Cannot start a thread for a blocking call").with_error(error);
            event_loop.call_exception_handler(&report);
        }
        ConcurrentFuture::ready(Err(refused()))
    })
}

pub(crate) fn run_in_executor<T, F>(core: &Core, blocking: F) -> Result<ConcurrentFuture<T>, Error>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    submit(core, &core.executor(), blocking)
}

fn submit<T, F>(core: &Core, executor: &Executor, blocking: F) -> Result<ConcurrentFuture<T>, Error>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    core.check_open()?;
    let (promise, future) = ConcurrentFuture::pair();
    let keep_alive = KeepAlive::for_job(core.inbox());
    let job = move || {
        promise.settle_with(|| Ok(blocking()));
        drop(keep_alive);
    };
    match executor.submit(Box::new(job)) {
        Ok(()) => Ok(future),
        Err(SubmitError::Closed(_)) => Err(Error::Closed),
        Err(SubmitError::NoThread(_, error)) => Err(Error::Io(error)),
    }
}
