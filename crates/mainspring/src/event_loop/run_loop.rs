//! Running the loop: `run_forever`, `run_until_complete`, `run_until_idle`, `run_once` and `stop`.

use super::main_future::MainWaker;
use super::running::Running;
use super::{Core, EventLoop};
use crate::error::Error;
use crate::host::Call;
use crate::lane::{Priority, RestorePriority};
use crate::task::WaitReason;
use crate::task::context::copy_context;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

impl EventLoop {
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
    /// ready, the future is dropped, and this returns [`Error::Stopped`]. With a
    /// [`VirtualClock`](crate::testing::VirtualClock) it returns [`Error::Deadlock`] if the future can never be ready.
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
            WaitReason::take();
            let polled = catch_unwind(AssertUnwindSafe(|| {
                context.run(|| future.as_mut().poll(&mut Context::from_waker(&waker)))
            }));
            outcome = match polled {
                Ok(Poll::Pending) => return core.main.waits_for.set(WaitReason::take()),
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
    /// - messages from other threads through a [`Remote`](crate::Remote), and a
    ///   [`ConcurrentFuture`](crate::ConcurrentFuture) of another thread that a task awaits;
    /// - a [`KeepAlive`](crate::KeepAlive).
    ///
    /// A task by itself is not pending: it continues when one of these wakes it. Neither are signal handlers, an unused
    /// [`Remote`](crate::Remote), and wakers that a task passes to threads or to other libraries: such code needs a
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
            Err(failure) => Err(failure.into()),
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
        struct RunGuard {
            core: Rc<Core>,
            running: Option<Running>,
            _restore_priority: RestorePriority,
        }
        impl Drop for RunGuard {
            fn drop(&mut self) {
                self.core.is_running.set(false);
                drop(self.running.take());
            }
        }
        self.core().check_open()?;
        let running = Running::enter(&self.owner).ok_or(Error::AlreadyRunning)?;
        self.core().is_running.set(true);
        Ok(RunGuard {
            core: Rc::clone(self.core()),
            running: Some(running),
            // Calls in the normal lane do not set it themselves.
            _restore_priority: Priority::NORMAL.enter(),
        })
    }

    fn run(&self) -> Result<(), Error> {
        self.core().engine.run_forever().map_err(Error::from)
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
}
