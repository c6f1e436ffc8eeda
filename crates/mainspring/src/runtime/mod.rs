//! `Runtime`: a loop on a thread of its own.
//!
//! # How it ends
//!
//! The thread runs the loop until it is told how to end. There are three ways, each stricter than the one before, and
//! only a stricter one replaces another ([`Ending`]):
//!
//! - **to its end**: when every task has ended and nothing is pending; new work is accepted until then.
//! - **drained**: the same, but new work of other threads is refused from that moment on.
//! - **now**: what is there is cancelled.
//!
//! A task is waited for whatever it awaits. The loop cannot see who will call a waker, so it counts the tasks
//! (`Core::keep_alive_for_tasks`).
//!
//! What was accepted is never lost between two threads: work is accepted into the loop's inbox, and the loop ends only
//! when it has found that empty and closed the door under the same lock (`Inbox::seal_if_quiet`). On the loop's own
//! thread, work is accepted as long as the loop runs: it belongs to what was accepted before.

mod builder;
mod runtime_handle;

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

/// A loop that runs on a thread of its own, for programs that are not asynchronous themselves.
///
/// It does everything that its [`RuntimeHandle`] does, and ends the loop. It is `Send` and `Sync`.
///
/// # Ways to end it
///
/// | | tasks | waits for |
/// | --- | --- | --- |
/// | [`shutdown`](Runtime::shutdown) | run to their ends, whatever they await; new work is refused | all of them |
/// | [`join`](Runtime::join) | the same; new work is accepted until nothing is left | all of them |
/// | [`shutdown_timeout`](Runtime::shutdown_timeout) | as with `shutdown`, and cancelled when the time is over | no longer than that |
/// | [`shutdown_now`](Runtime::shutdown_now), drop | cancelled at the `await` where they stand | their destructors |
/// | [`shutdown_background`](Runtime::shutdown_background) | cancelled likewise | nothing |
///
/// Dropping a runtime cancels, as dropping tokio's does, so it ends also with a server that listens or a task that never
/// ends. Destructors run on the loop's thread, and the drop waits for them and for the callback that runs at this
/// moment. It only asks for the end, and does not wait, on the loop's own thread and on one that panics. A program that
/// wants its work done calls `shutdown` or waits for the results.
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
    /// Settled, with an error, when the thread is done.
    done: Option<ConcurrentFuture<()>>,
}

/// How a loop's thread is to end; a greater one is stricter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Ending {
    NotYet,
    ToEnd,
    Drained,
    Now,
}

/// What the thread is told, by whom ever.
struct Order(AtomicU8);

impl Order {
    fn new() -> Self {
        Order(AtomicU8::new(Ending::NotYet as u8))
    }

    fn get(&self) -> Ending {
        match self.0.load(Ordering::SeqCst) {
            0 => Ending::NotYet,
            1 => Ending::ToEnd,
            2 => Ending::Drained,
            _ => Ending::Now,
        }
    }

    fn raise(&self, ending: Ending) {
        self.0.fetch_max(ending as u8, Ordering::SeqCst);
    }
}

impl Runtime {
    /// A runtime with everything as usual.
    ///
    /// ```
    /// let runtime = mainspring::Runtime::start()?;
    /// assert_eq!(runtime.call(|| 6 * 7).wait(), Ok(42));
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn start() -> Result<Runtime, Error> {
        RuntimeBuilder::new().start()
    }

    /// A runtime with something of its own: see [`RuntimeBuilder`].
    ///
    /// ```
    /// let runtime = mainspring::Runtime::builder().name("background").start()?;
    /// assert_eq!(runtime.name(), "background");
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn builder() -> RuntimeBuilder {
        RuntimeBuilder::new()
    }

    /// What other threads use to reach this runtime. It does not keep it from ending.
    pub fn handle(&self) -> RuntimeHandle {
        self.handle.clone()
    }

    /// Accepts nothing more from other threads, waits until everything that was accepted has run to its end, and ends
    /// the loop.
    ///
    /// That is every task, whatever it awaits: a future of this crate, a channel that a thread feeds, a request of another
    /// library. It is also what [`EventLoop::run_until_idle`] takes for pending: calls, timers, transports, blocking
    /// calls, a [`KeepAlive`](crate::KeepAlive). A task that never ends is waited for for ever, and so is a server that
    /// listens: close or cancel those before, or use [`shutdown_timeout`](Runtime::shutdown_timeout).
    ///
    /// Fails if the loop itself has failed, and with [`Error::AlreadyRunning`] on the loop's own thread, which cannot wait for
    /// itself: there the loop ends when this has returned and all is done.
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
        self.end(Ending::Drained).map(drop)
    }

    /// As [`shutdown`](Runtime::shutdown), but for no longer than `limit`; then as
    /// [`shutdown_now`](Runtime::shutdown_now).
    ///
    /// Gives the number of tasks that were cancelled when the time was over: 0 if everything came to its end.
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
        self.handle.shared.order(Ending::Drained);
        if !self.handle.shared.is_own_thread()
            && let Some(done) = self.done.take()
            && done.wait_timeout(limit).is_err()
        {
            return self.end(Ending::Now);
        }
        self.end(Ending::Drained)
    }

    /// Ends the loop as [`shutdown_now`](Runtime::shutdown_now) does, and waits for nothing, not even for a callback that
    /// blocks: the thread goes on until that returns. For the loop's own thread, and for threads that must not block.
    ///
    /// ```
    /// let runtime = mainspring::Runtime::start()?;
    /// let never = runtime.spawn(std::future::pending::<()>);
    /// runtime.shutdown_background();
    /// assert!(never.wait().is_err());
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn shutdown_background(mut self) {
        self.handle.shared.order(Ending::Now);
        drop(self.thread.take());
    }

    /// Ends the loop without waiting for what runs: tasks are cancelled, calls that have not run are dropped, and
    /// whoever waits for their results is told so. Waits for the callback that runs at this moment, and not for the
    /// executor's threads. Dropping the runtime does the same.
    ///
    /// Gives the number of tasks that were cancelled; fails as [`shutdown`](Runtime::shutdown) does.
    ///
    /// ```
    /// let runtime = mainspring::Runtime::start()?;
    /// let never = runtime.spawn(std::future::pending::<()>);
    /// // In the order of a queue: when this has run, the task is there.
    /// runtime.call(|| ()).wait().unwrap();
    /// assert_eq!(runtime.shutdown_now()?, 1);
    /// assert!(never.wait().unwrap_err().is_cancelled());
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn shutdown_now(mut self) -> Result<usize, Error> {
        self.end(Ending::Now)
    }

    /// Waits until every task has ended and nothing is pending, and ends the loop then. Handles may submit more work until
    /// that moment.
    ///
    /// Fails as [`shutdown`](Runtime::shutdown) does.
    ///
    /// ```
    /// use std::sync::mpsc;
    /// use std::time::Duration;
    ///
    /// let (tell, told) = mpsc::channel();
    /// let runtime = mainspring::Runtime::start()?;
    /// runtime.call_soon_threadsafe(|| {
    ///     let event_loop = mainspring::EventLoop::current();
    ///     event_loop.call_later(Duration::from_millis(1), move || tell.send("the last one").unwrap()).unwrap();
    /// })?;
    /// runtime.join()?;
    /// assert_eq!(told.try_recv(), Ok("the last one"));
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn join(mut self) -> Result<(), Error> {
        self.end(Ending::ToEnd).map(drop)
    }

    fn end(&mut self, ending: Ending) -> Result<usize, Error> {
        self.handle.shared.order(ending);
        // Taken in any case: what is dropped afterwards gives no other order.
        let thread = self.thread.take();
        if self.handle.shared.is_own_thread() {
            return Err(Error::AlreadyRunning);
        }
        match thread.map(JoinHandle::join) {
            Some(Ok(ended)) => ended,
            // Callbacks' panics do not come here: this one is the loop's own.
            Some(Err(payload)) => std::panic::resume_unwind(payload),
            None => Ok(0),
        }
    }
}

/// What the thread of a runtime does. Gives the number of tasks that it cancels.
fn serve(event_loop: &EventLoop, order: &Order) -> Result<usize, Error> {
    let inbox = Arc::clone(event_loop.core().inbox());
    let ended = loop {
        match order.get() {
            Ending::NotYet => match event_loop.run_forever() {
                Ok(()) => {}
                Err(error) => break Err(error),
            },
            Ending::ToEnd | Ending::Drained => {
                event_loop.core().keep_alive_for_tasks();
                match event_loop.run_until_idle() {
                    Ok(0) if inbox.seal_if_quiet() => break Ok(0),
                    // Work has come meanwhile.
                    Ok(_) | Err(Error::Stopped) => {}
                    Err(error) => break Err(error),
                }
            }
            Ending::Now => break Ok(event_loop.metrics().tasks),
        }
    };
    inbox.seal();
    event_loop.core().is_sealed.set(true);
    event_loop.wind_up(order.get() != Ending::Now && ended.is_ok());
    ended
}

impl Drop for Runtime {
    fn drop(&mut self) {
        if self.thread.is_none() {
            return;
        }
        self.handle.shared.order(Ending::Now);
        if std::thread::panicking() {
            return;
        }
        if let Err(error) = self.end(Ending::Now)
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
