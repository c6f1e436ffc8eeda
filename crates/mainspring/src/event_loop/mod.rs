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
mod guest;
#[cfg(not(loom))]
mod handlers;
mod hooks;
mod keep_alive;
#[allow(unsafe_code, reason = "a pointer to a future on the stack of `run_until_complete`")]
mod main_future;
mod metrics;
mod retained;
mod run_in_executor;
mod run_loop;
#[allow(unsafe_code, reason = "an uncounted pointer to the running loop")]
mod running;
mod scheduling;
mod sockets;
mod stalls;

pub use builder::Builder;
pub use exception_handler::ExceptionContext;
pub use guest::{Guest, PolledEvents};
pub use keep_alive::KeepAlive;
pub use metrics::{Counters, LagHistogram, Metrics};
pub use run_in_executor::to_thread;
pub use stalls::Stall;

pub(crate) use self::core::{Core, wake_call};
pub(crate) use debug_mode::{DebugMode, TimedCall, instrumented};
pub(crate) use exception_handler::report_here;
pub(crate) use hooks::Hooks;
pub(crate) use retained::Retained;
pub(crate) use run_in_executor::run_in_executor;
pub(crate) use running::{
    current_core, find_loop, panic_without_loop, running_core, with_current_core, with_running_core,
};
pub(crate) use sockets::ready;
pub(crate) use stalls::RunningCall;

use crate::clock::Time;
use crate::error::Error;
use crate::future::Future;
use crate::remote::Remote;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

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
            None => panic_without_loop(),
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
        Remote::counted(Arc::clone(self.core().inbox()), &self.core().remotes)
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
