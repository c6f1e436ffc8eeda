//! `EventLoop`: asyncio's loop for a Rust program.
//!
//! The [engine](mainspring_engine) is the loop; this module gives it the interface of asyncio's `AbstractEventLoop`.
//! The rules are asyncio's: first in, first out; an iteration runs the calls that were ready when it began; calls
//! scheduled by a callback run in the next iteration; timers never fire early; a callback that fails does not stop the
//! others.

mod builder;
mod core;
mod debug_mode;
mod exception_handler;
#[cfg(not(loom))]
mod handlers;
mod keep_alive;
#[allow(unsafe_code, reason = "a pointer to a future on the stack of `run_until_complete`")]
mod main_future;
mod retained;
mod run_in_executor;
#[allow(unsafe_code, reason = "an uncounted pointer to the running loop")]
mod running;
mod scheduling;
mod sockets;

pub use builder::Builder;
pub use exception_handler::ExceptionContext;
pub use keep_alive::KeepAlive;
pub use run_in_executor::to_thread;

pub(crate) use self::core::{Core, wake_call, wake_step};
pub(crate) use debug_mode::{DebugMode, TimedCall, timed};
pub(crate) use exception_handler::report_here;
pub(crate) use retained::Retained;
pub(crate) use run_in_executor::run_in_executor;
#[cfg(feature = "hyper")]
pub(crate) use running::find_loop;
pub(crate) use running::{current_core, running_core};
pub(crate) use sockets::ready;

use crate::clock::Time;
use crate::error::Error;
use crate::future::Future;
use crate::host::Call;
use crate::remote::Remote;
use crate::task::context::copy_context;
use main_future::MainWaker;
use running::Running;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// An event loop. Clones are the same loop. It stays on its thread (`!Send`); other threads use its [`Remote`].
///
/// Dropping the last clone closes the loop. A task that owns a clone of its own loop prevents that: use
/// [`EventLoop::current`] instead, or [`close`](EventLoop::close) the loop.
///
/// ```
/// use mainspring::EventLoop;
/// use std::{cell::Cell, rc::Rc, time::Duration};
///
/// let event_loop = EventLoop::new()?;
/// let (called, stopper) = (Rc::new(Cell::new(false)), event_loop.clone());
/// let flag = Rc::clone(&called);
/// event_loop.call_soon(move || flag.set(true))?;
/// event_loop.call_later(Duration::from_millis(1), move || stopper.stop())?;
/// event_loop.run_forever()?;
/// assert!(called.get());
///
/// event_loop.close()?;
/// assert!(event_loop.is_closed());
/// # Ok::<(), mainspring::Error>(())
/// ```
#[derive(Clone)]
pub struct EventLoop {
    owner: Rc<Owner>,
}

/// See the documentation of the module `core`.
struct Owner {
    core: Rc<Core>,
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.core.close();
    }
}

/// The load of a loop. See [`EventLoop::metrics`].
///
/// ```
/// use mainspring::EventLoop;
/// use std::time::Duration;
///
/// let event_loop = EventLoop::new()?;
/// event_loop.call_soon(|| ())?;
/// event_loop.call_later(Duration::from_secs(60), || ())?;
/// let metrics = event_loop.metrics();
/// assert_eq!((metrics.ready, metrics.timers, metrics.tasks), (1, 1, 0));
/// # Ok::<(), mainspring::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Metrics {
    /// The number of ready calls.
    pub ready: usize,
    /// The number of timers.
    pub timers: usize,
    /// The number of registered file descriptors.
    pub descriptors: usize,
    /// The number of tasks that are not done.
    pub tasks: usize,
}

impl EventLoop {
    /// A loop with the system's clock and the default back end.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if the system has no file descriptor left.
    ///
    /// ```
    /// let event_loop = mainspring::EventLoop::new()?;
    /// assert!(!event_loop.is_running());
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn new() -> Result<Self, Error> {
        Builder::new().build()
    }

    /// Makes a loop with options: see [`Builder`].
    ///
    /// ```
    /// let event_loop = mainspring::EventLoop::builder().name("main").build()?;
    /// assert_eq!(event_loop.name(), "main");
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn builder() -> Builder {
        Builder::new()
    }

    /// The loop that runs on this thread.
    ///
    /// # Panics
    ///
    /// If no loop runs on this thread. [`EventLoop::try_current`] does not panic.
    ///
    /// ```
    /// mainspring::run(async {
    ///     assert!(mainspring::EventLoop::current().is_running());
    /// })?;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    #[track_caller]
    pub fn current() -> EventLoop {
        match Self::try_current() {
            Some(current) => current,
            None => panic!("no mainspring event loop is running on this thread"),
        }
    }

    /// The loop that runs on this thread, if there is one.
    ///
    /// ```
    /// use mainspring::EventLoop;
    ///
    /// assert!(EventLoop::try_current().is_none());
    /// mainspring::run(async {
    ///     assert!(EventLoop::try_current().is_some());
    /// })?;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn try_current() -> Option<EventLoop> {
        running::running_loop()
    }

    pub(crate) fn core(&self) -> &Rc<Core> {
        &self.owner.core
    }

    /// The name from [`Builder::name`], or an empty string.
    pub fn name(&self) -> &str {
        &self.core().name
    }

    /// Runs until [`EventLoop::stop`] is called.
    ///
    /// [`Error::AlreadyRunning`] if a loop runs on this thread.
    ///
    /// ```
    /// use mainspring::EventLoop;
    ///
    /// let event_loop = EventLoop::new()?;
    /// event_loop.call_soon(|| EventLoop::current().stop())?;
    /// event_loop.run_forever()?;
    /// # assert!(!event_loop.is_running());
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn run_forever(&self) -> Result<(), Error> {
        let _running = self.enter()?;
        self.run()
    }

    /// Runs until `future` is ready, and returns its output. The future may borrow from the caller.
    ///
    /// Other tasks run at the same time, and stay on the loop afterwards. If the loop is stopped before the future is
    /// ready, the future is dropped, and this returns [`Error::Stopped`].
    ///
    /// # Panics
    ///
    /// If the future panics.
    ///
    /// ```
    /// let event_loop = mainspring::EventLoop::new()?;
    /// let greeting = String::from("hello");
    /// let length = event_loop.run_until_complete(async { greeting.len() })?;
    /// assert_eq!(length, 5);
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn run_until_complete<F: IntoFuture>(&self, future: F) -> Result<F::Output, Error> {
        // Checked before the slot is used: a running loop may be using it.
        let _running = self.enter()?;
        let core = self.core();
        let mut future = pin!(future.into_future());
        let scheduling = Arc::new(MainWaker::new(Arc::clone(core.inbox())));
        let waker = Waker::from(Arc::clone(&scheduling));
        // As in asyncio, the caller does not see context variables that the main task sets.
        let context = copy_context();
        let mut outcome = None;
        let mut step = || {
            if outcome.is_some() {
                return;
            }
            scheduling.begin_step();
            let polled = catch_unwind(AssertUnwindSafe(|| {
                context.run(|| future.as_mut().poll(&mut Context::from_waker(&waker)))
            }));
            outcome = match polled {
                Ok(Poll::Pending) => return,
                Ok(Poll::Ready(output)) => Some(Ok(output)),
                Err(payload) => Some(Err(payload)),
            };
            // As in asyncio, a done callback of the future stops the loop, one iteration later.
            core.engine.call_soon(Call::MainDone(core.main.run()));
        };
        core.engine.call_soon(Call::Main);
        let ran = core.main.with_step(&mut step, || self.run());
        match outcome {
            Some(Ok(output)) => Ok(output),
            Some(Err(payload)) => resume_unwind(payload),
            None => Err(ran.err().unwrap_or(Error::Stopped)),
        }
    }

    /// Runs while something is pending. Returns the number of remaining tasks: they wait for events that cannot happen,
    /// or that the loop does not know of. They stay until the next run, or [`close`](EventLoop::close).
    ///
    /// Pending are:
    ///
    /// - ready calls and timers;
    /// - registered fds: of [`add_reader`](EventLoop::add_reader), of servers, of transports that receive or have data
    ///   to send, of waiting socket operations;
    /// - calls in the executor, even if their results are not awaited;
    /// - messages from other threads through a [`Remote`], and a [`ConcurrentFuture`](crate::ConcurrentFuture) of
    ///   another thread that a task awaits;
    /// - a [`KeepAlive`].
    ///
    /// A task by itself is not pending: it continues when one of these wakes it. Neither are signal handlers, an
    /// unused [`Remote`], and wakers that a task passes to threads or to other libraries: such code needs a
    /// `KeepAlive`. To wait for a task in any case, use [`run_until_complete`](EventLoop::run_until_complete).
    ///
    /// [`Error::Stopped`] if the loop is stopped first, [`Error::AlreadyRunning`] if a loop runs on this thread.
    ///
    /// ```
    /// use mainspring::{EventLoop, sleep};
    /// use std::time::Duration;
    ///
    /// let event_loop = EventLoop::new()?;
    /// event_loop.spawn(async {
    ///     mainspring::spawn(sleep(Duration::from_millis(2)));
    ///     sleep(Duration::from_millis(1)).await;
    /// })?;
    /// assert_eq!(event_loop.run_until_idle()?, 0);
    ///
    /// event_loop.spawn(std::future::pending::<()>())?;
    /// assert_eq!(event_loop.run_until_idle()?, 1);
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn run_until_idle(&self) -> Result<usize, Error> {
        let _running = self.enter()?;
        match self.core().engine.run_until_idle() {
            Ok(true) => Ok(self.core().live_futures.get()),
            Ok(false) => Err(Error::Stopped),
            Err(failure) => Err(Error::Io(failure.into())),
        }
    }

    /// Runs one iteration without blocking: handles I/O events and due timers, and runs ready calls. For programs
    /// with an outer loop of their own.
    ///
    /// ```
    /// let event_loop = mainspring::EventLoop::new()?;
    /// let task = event_loop.spawn(async { 6 * 7 })?;
    /// while !task.is_finished() {
    ///     event_loop.run_once()?;
    /// }
    /// assert_eq!(event_loop.run_until_complete(task)?, Ok(42));
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn run_once(&self) -> Result<(), Error> {
        let _running = self.enter()?;
        self.stop();
        self.run()
    }

    fn enter(&self) -> Result<impl Drop + use<>, Error> {
        struct RunGuard(Rc<Core>, Option<Running>);
        impl Drop for RunGuard {
            fn drop(&mut self) {
                self.0.is_running.set(false);
                drop(self.1.take());
            }
        }
        self.core().check_open()?;
        let running = Running::enter(&self.owner).ok_or(Error::AlreadyRunning)?;
        self.core().is_running.set(true);
        Ok(RunGuard(Rc::clone(self.core()), Some(running)))
    }

    fn run(&self) -> Result<(), Error> {
        self.core().engine.run_forever().map_err(|failure| Error::Io(failure.into()))
    }

    /// Stops the current run, or the next one, at the end of its iteration.
    ///
    /// ```
    /// use mainspring::{Error, EventLoop};
    ///
    /// let event_loop = EventLoop::new()?;
    /// event_loop.call_soon(|| EventLoop::current().stop())?;
    /// let never = event_loop.run_until_complete(std::future::pending::<()>());
    /// assert!(matches!(never, Err(Error::Stopped)));
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn stop(&self) {
        self.core().engine.stop();
    }

    /// Closes the loop for good: drops all calls, cancels all tasks, unregisters all fds. Closing again does nothing.
    ///
    /// [`Error::AlreadyRunning`] while the loop runs.
    ///
    /// ```
    /// use mainspring::{Error, EventLoop};
    ///
    /// let event_loop = EventLoop::new()?;
    /// let task = event_loop.spawn(std::future::pending::<()>())?;
    /// event_loop.close()?;
    /// assert!(task.cancelled());
    /// assert!(matches!(event_loop.call_soon(|| ()), Err(Error::Closed)));
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn close(&self) -> Result<(), Error> {
        if self.is_running() {
            return Err(Error::AlreadyRunning);
        }
        self.core().close();
        Ok(())
    }

    /// Whether the loop is running.
    pub fn is_running(&self) -> bool {
        self.core().is_running.get()
    }

    /// Whether [`EventLoop::close`] was called.
    pub fn is_closed(&self) -> bool {
        self.core().is_closed.get()
    }

    /// The time by the loop's clock.
    ///
    /// ```
    /// use mainspring::{EventLoop, sleep};
    /// use std::time::Duration;
    ///
    /// let event_loop = EventLoop::new()?;
    /// let start = event_loop.time();
    /// event_loop.run_until_complete(sleep(Duration::from_millis(1)))?;
    /// assert!(event_loop.time() >= start.saturating_add(Duration::from_millis(1)));
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn time(&self) -> Time {
        self.core().now()
    }

    /// The current load of the loop.
    ///
    /// ```
    /// let event_loop = mainspring::EventLoop::new()?;
    /// event_loop.spawn(std::future::pending::<()>())?;
    /// assert_eq!(event_loop.metrics().tasks, 1);
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn metrics(&self) -> Metrics {
        let core = self.core();
        Metrics {
            ready: core.engine.ready_len(),
            timers: core.engine.timers_len(),
            descriptors: core.engine.registered_len(),
            tasks: core.live_futures.get(),
        }
    }

    /// A reference to the loop for other threads.
    ///
    /// ```
    /// let event_loop = mainspring::EventLoop::new()?;
    /// let remote = event_loop.remote();
    /// let other = std::thread::spawn(move || remote.stop());
    /// event_loop.run_forever()?;
    /// assert!(other.join().unwrap().is_ok());
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn remote(&self) -> Remote {
        Remote::new(Arc::clone(self.core().inbox()))
    }

    /// A future of this loop, whose result the program sets.
    ///
    /// ```
    /// let event_loop = mainspring::EventLoop::new()?;
    /// let answer = event_loop.create_future();
    /// let sender = answer.clone();
    /// event_loop.call_soon(move || sender.set_result(42).unwrap())?;
    /// assert_eq!(event_loop.run_until_complete(answer)?.unwrap(), 42);
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn create_future<T: 'static>(&self) -> Future<T> {
        Future::new(self.core())
    }

    /// Ends a loop that is no longer needed: cancels the remaining tasks, then closes it.
    pub(crate) fn cancel_tasks_and_close(&self, wait_for_executor: bool) {
        self.core().cancel_all_tasks();
        // Destructors of cancelled tasks may still send or close something.
        let _ = self.run_until_complete(async {});
        if wait_for_executor {
            self.shutdown_executor();
        }
        // The loop does not run here, so this cannot fail.
        let _ = self.close();
    }
}

impl fmt::Debug for EventLoop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventLoop")
            .field("name", &self.name())
            .field("running", &self.is_running())
            .field("closed", &self.is_closed())
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
