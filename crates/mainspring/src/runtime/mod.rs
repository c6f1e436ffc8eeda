//! `Runtime`: a loop on a thread of its own.
//!
//! # How it ends
//!
//! The thread runs the loop until a shutdown is requested, in one of three modes. A stricter mode replaces another
//! ([`ShutdownMode`]):
//!
//! - **when idle**: when all tasks have ended and nothing is pending. New work is accepted until then.
//! - **drained**: the same, but new work from other threads is refused at once.
//! - **now**: everything is cancelled.
//!
//! Every task counts, whatever it awaits: the loop does not know what will call its waker
//! (`Core::keep_alive_for_tasks`).
//!
//! Accepted work is never lost between threads. Work is accepted into the loop's inbox, and the loop ends only after
//! it has found the inbox empty and sealed it under the same lock (`Inbox::seal_if_quiet`). On the loop's own thread,
//! work is accepted while the loop runs: it is part of work that was accepted before.

mod builder;
mod runtime_handle;
mod socket_io;

pub use builder::RuntimeBuilder;
pub use runtime_handle::RuntimeHandle;

use crate::concurrent::ConcurrentFuture;
use crate::error::Error;
use crate::event_loop::EventLoop;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// A loop on a thread of its own, for programs that are not asynchronous themselves.
///
/// It has all methods of its [`RuntimeHandle`], and can end the loop. It is `Send` and `Sync`.
///
/// # Ways to end it
///
/// | | tasks | waits for |
/// | --- | --- | --- |
/// | [`shutdown`](Runtime::shutdown) | run to their ends, whatever they await; new work is refused | all of them |
/// | [`join`](Runtime::join) | the same; new work is accepted until nothing is left | all of them |
/// | [`shutdown_timeout`](Runtime::shutdown_timeout) | as with `shutdown`, and cancelled when the time is over | no longer than that |
/// | [`shutdown_now`](Runtime::shutdown_now), drop | cancelled at their current `await` | their destructors |
/// | [`shutdown_background`](Runtime::shutdown_background) | cancelled likewise | nothing |
///
/// Dropping a runtime cancels everything, as tokio's does, so it ends even with a listening server or an endless
/// task. Destructors run on the loop's thread; the drop waits for them and for the callback that is running. On the
/// loop's own thread, and on a panicking thread, it does not wait. To complete the work, call `shutdown`, or wait for
/// the results.
///
/// ```
/// use mainspring::{Runtime, sleep};
/// use std::time::Duration;
///
/// let runtime = Runtime::start()?;
/// let slow = runtime.spawn(|| async {
///     sleep(Duration::from_millis(2)).await;
///     20
/// });
/// let fast = runtime.call(|| 22);
/// assert_eq!(slow.wait().unwrap() + fast.wait().unwrap(), 42);
/// runtime.shutdown()?;
/// # Ok::<(), mainspring::Error>(())
/// ```
#[must_use = "dropping a runtime cancels its tasks"]
pub struct Runtime {
    handle: RuntimeHandle,
    /// `None` when it was joined.
    thread: Option<JoinHandle<Result<usize, Error>>>,
    /// Settled, with an error, when the thread has ended.
    done: Option<ConcurrentFuture<()>>,
}

/// How the thread ends the loop. A greater value is stricter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum ShutdownMode {
    KeepRunning,
    WhenIdle,
    Drained,
    Now,
}

/// The requested mode.
struct ShutdownRequest(AtomicU8);

impl ShutdownRequest {
    fn new() -> Self {
        ShutdownRequest(AtomicU8::new(ShutdownMode::KeepRunning as u8))
    }

    fn get(&self) -> ShutdownMode {
        match self.0.load(Ordering::SeqCst) {
            0 => ShutdownMode::KeepRunning,
            1 => ShutdownMode::WhenIdle,
            2 => ShutdownMode::Drained,
            _ => ShutdownMode::Now,
        }
    }

    fn raise(&self, mode: ShutdownMode) {
        self.0.fetch_max(mode as u8, Ordering::SeqCst);
    }
}

impl Runtime {
    /// Starts a runtime with the defaults.
    ///
    /// ```
    /// let runtime = mainspring::Runtime::start()?;
    /// assert_eq!(runtime.call(|| 6 * 7).wait(), Ok(42));
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn start() -> Result<Runtime, Error> {
        RuntimeBuilder::new().start()
    }

    /// Makes a runtime with options: see [`RuntimeBuilder`].
    ///
    /// ```
    /// let runtime = mainspring::Runtime::builder().name("background").start()?;
    /// assert_eq!(runtime.name(), "background");
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn builder() -> RuntimeBuilder {
        RuntimeBuilder::new()
    }

    /// A handle for other threads. It does not keep the runtime alive.
    pub fn handle(&self) -> RuntimeHandle {
        self.handle.clone()
    }

    /// Refuses new work from other threads, waits until all accepted work is done, and ends the loop.
    ///
    /// That includes all tasks, whatever they await, and everything that [`EventLoop::run_until_idle`] counts as
    /// pending: calls, timers, transports, blocking calls, a [`KeepAlive`](crate::KeepAlive). With a task that never
    /// ends, or a listening server, this waits forever: close or cancel those first, or use
    /// [`shutdown_timeout`](Runtime::shutdown_timeout).
    ///
    /// Fails if the loop itself has failed. On the loop's own thread, which cannot wait for itself, fails with
    /// [`Error::AlreadyRunning`]; the loop then ends after this call, when all work is done.
    ///
    /// ```
    /// let runtime = mainspring::Runtime::start()?;
    /// let handle = runtime.handle();
    /// handle.call_soon_threadsafe(|| println!("accepted"))?;
    /// runtime.shutdown()?;
    /// let refused = handle.call_soon_threadsafe(|| println!("too late"));
    /// assert!(matches!(refused, Err(mainspring::Error::ShutDown)));
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn shutdown(mut self) -> Result<(), Error> {
        self.end_loop(ShutdownMode::Drained).map(drop)
    }

    /// [`shutdown`](Runtime::shutdown) for at most `limit`, then [`shutdown_now`](Runtime::shutdown_now).
    ///
    /// Returns the number of tasks that were cancelled at the limit.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let runtime = mainspring::Runtime::start()?;
    /// let never = runtime.spawn(std::future::pending::<()>);
    /// assert_eq!(runtime.shutdown_timeout(Duration::from_millis(5))?, 1);
    /// assert!(never.wait().unwrap_err().is_cancelled());
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn shutdown_timeout(mut self, limit: Duration) -> Result<usize, Error> {
        self.handle.shared.request_shutdown(ShutdownMode::Drained);
        if !self.handle.shared.is_own_thread()
            && let Some(done) = self.done.take()
            && done.wait_timeout(limit).is_err()
        {
            return self.end_loop(ShutdownMode::Now);
        }
        self.end_loop(ShutdownMode::Drained)
    }

    /// [`shutdown_now`](Runtime::shutdown_now) without waiting, not even for a callback that blocks: the thread
    /// continues until that returns. For the loop's own thread, and for threads that must not block.
    ///
    /// ```
    /// let runtime = mainspring::Runtime::start()?;
    /// let never = runtime.spawn(std::future::pending::<()>);
    /// runtime.shutdown_background();
    /// assert!(never.wait().is_err());
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn shutdown_background(mut self) {
        self.handle.shared.request_shutdown(ShutdownMode::Now);
        drop(self.thread.take());
    }

    /// Ends the loop without completing its work: tasks are cancelled, calls that have not run are dropped, and their
    /// results are errors. Waits for the callback that is running, but not for the executor's threads. Dropping the
    /// runtime does the same.
    ///
    /// Returns the number of cancelled tasks. Fails as [`shutdown`](Runtime::shutdown).
    ///
    /// ```
    /// let runtime = mainspring::Runtime::start()?;
    /// let never = runtime.spawn(std::future::pending::<()>);
    /// // Calls run in order: after this call, the task exists.
    /// runtime.call(|| ()).wait().unwrap();
    /// assert_eq!(runtime.shutdown_now()?, 1);
    /// assert!(never.wait().unwrap_err().is_cancelled());
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn shutdown_now(mut self) -> Result<usize, Error> {
        self.end_loop(ShutdownMode::Now)
    }

    /// Waits until all tasks have ended and nothing is pending, then ends the loop. Handles can submit work until
    /// then.
    ///
    /// Fails as [`shutdown`](Runtime::shutdown).
    ///
    /// ```
    /// use std::sync::mpsc;
    /// use std::time::Duration;
    ///
    /// let (sender, receiver) = mpsc::channel();
    /// let runtime = mainspring::Runtime::start()?;
    /// runtime.call_soon_threadsafe(|| {
    ///     let event_loop = mainspring::EventLoop::current();
    ///     event_loop.call_later(Duration::from_millis(1), move || sender.send("the last one").unwrap()).unwrap();
    /// })?;
    /// runtime.join()?;
    /// assert_eq!(receiver.try_recv(), Ok("the last one"));
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn join(mut self) -> Result<(), Error> {
        self.end_loop(ShutdownMode::WhenIdle).map(drop)
    }

    fn end_loop(&mut self, mode: ShutdownMode) -> Result<usize, Error> {
        self.handle.shared.request_shutdown(mode);
        // Taken in any case, so that the destructor does not request another mode.
        let thread = self.thread.take();
        if self.handle.shared.is_own_thread() {
            return Err(Error::AlreadyRunning);
        }
        match thread.map(JoinHandle::join) {
            Some(Ok(outcome)) => outcome,
            // Panics of callbacks are caught earlier, so this is a panic of the loop itself.
            Some(Err(payload)) => std::panic::resume_unwind(payload),
            None => Ok(0),
        }
    }
}

/// The main function of the thread. Returns the number of tasks that it cancels.
fn thread_main(event_loop: &EventLoop, request: &ShutdownRequest) -> Result<usize, Error> {
    let inbox = Arc::clone(event_loop.core().inbox());
    let outcome = loop {
        match request.get() {
            ShutdownMode::KeepRunning => match event_loop.run_forever() {
                Ok(()) => {}
                Err(error) => break Err(error),
            },
            ShutdownMode::WhenIdle | ShutdownMode::Drained => {
                event_loop.core().keep_alive_for_tasks();
                match event_loop.run_until_idle() {
                    Ok(0) if inbox.seal_if_quiet() => break Ok(0),
                    // More work has arrived.
                    Ok(_) | Err(Error::Stopped) => {}
                    Err(error) => break Err(error),
                }
            }
            ShutdownMode::Now => break Ok(event_loop.metrics().tasks),
        }
    };
    inbox.seal();
    event_loop.core().is_sealed.set(true);
    event_loop.cancel_tasks_and_close(request.get() != ShutdownMode::Now && outcome.is_ok());
    outcome
}

impl Drop for Runtime {
    fn drop(&mut self) {
        if self.thread.is_none() {
            return;
        }
        self.handle.shared.request_shutdown(ShutdownMode::Now);
        if std::thread::panicking() {
            return;
        }
        if let Err(error) = self.end_loop(ShutdownMode::Now)
            && !matches!(error, Error::AlreadyRunning)
        {
            let context = crate::ExceptionContext::new("The loop of a runtime has failed").with_error(error);
            crate::event_loop::report_here(&context);
        }
    }
}

impl Deref for Runtime {
    type Target = RuntimeHandle;

    fn deref(&self) -> &RuntimeHandle {
        &self.handle
    }
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runtime").field("handle", &self.handle).finish_non_exhaustive()
    }
}
