//! Running the loop: `run_forever`, `run_until_complete`, `run_until_idle`, `run_once` and `stop`.

use super::main_future::MainWaker;
use super::running::Running;
use super::{Core, EventLoop};
use crate::error::Error;
use crate::host::Call;
use crate::lane::{Priority, RestorePriority};
use crate::task::context::copy_context;
use crate::task::{WaitReason, suspend_current_task};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

impl EventLoop {
    /// Runs until [`EventLoop::stop`] is called.
    ///
    /// [`Error::AlreadyRunning`] if a loop runs on this thread, unless nested runs are
    /// [allowed](EventLoop::allow_nested).
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
        // As in asyncio, the caller does not see context variables that the main task sets. Copied first: a nested run
        // has no current task.
        let context = copy_context();
        let _running = self.enter()?;
        let core = self.core();
        let mut future = pin!(future.into_future());
        let run = core.main.new_run();
        let scheduling = Arc::new(MainWaker::new(Arc::clone(core.inbox()), run));
        let waker = Waker::from(Arc::clone(&scheduling));
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
                Ok(Poll::Pending) => return core.main.record_wait(run, WaitReason::take()),
                Ok(Poll::Ready(output)) => Some(Ok(output)),
                Err(payload) => Some(Err(payload)),
            };
            // As in asyncio, a done callback of the future stops the loop, one iteration later.
            core.engine.call_soon(Call::MainDone(run));
        };
        core.engine.call_soon(Call::Main(run));
        let depth = core.engine.run_depth() + 1;
        let ran = core.main.with_step(run, depth, &mut step, || self.run());
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
            Ok(true) => Ok(self.core().task_count()),
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
        let engine = &self.core().engine;
        let run = || {
            engine.process_events(engine.poll_events(Some(Duration::ZERO))?)?;
            engine.process_ready()
        };
        run().map(drop).map_err(|failure| Error::Io(failure.into()))
    }

    fn enter(&self) -> Result<impl Drop + use<>, Error> {
        self.enter_nested(self.core().allows_nested.get())
    }

    /// Makes this the running loop of the thread.
    pub(super) fn enter_nested(&self, may_be_nested: bool) -> Result<impl Drop + use<>, Error> {
        struct RunGuard<T> {
            core: Rc<Core>,
            was_running: bool,
            running: Option<Running>,
            _restore_priority: RestorePriority,
            _restore_task: T,
        }
        impl<T> Drop for RunGuard<T> {
            fn drop(&mut self) {
                self.core.is_running.set(self.was_running);
                drop(self.running.take());
            }
        }
        self.core().check_open()?;
        let running = Running::enter(&self.owner, may_be_nested).ok_or(Error::AlreadyRunning)?;
        Ok(RunGuard {
            core: Rc::clone(self.core()),
            was_running: self.core().is_running.replace(true),
            running: Some(running),
            // Calls in the normal lane do not set it themselves.
            _restore_priority: Priority::NORMAL.enter(),
            _restore_task: suspend_current_task(),
        })
    }

    /// Allows this loop to run inside a running loop of its thread: inside itself, or inside another one. For synchronous
    /// functions that a task calls and that need the result of a future.
    ///
    /// Other tasks and callbacks run during a nested run, each ready call once and in order. The task that calls it is not
    /// polled meanwhile: if it is cancelled, its future is dropped after the nested run. [`stop`](EventLoop::stop) ends
    /// the innermost run. The end of the future of an outer run does not end a nested one.
    ///
    /// ```
    /// use mainspring::{EventLoop, sleep};
    /// use std::time::Duration;
    ///
    /// /// A function of a library that is not asynchronous.
    /// fn load() -> u32 {
    ///     EventLoop::current()
    ///         .run_until_complete(async {
    ///             sleep(Duration::from_millis(1)).await;
    ///             42
    ///         })
    ///         .unwrap()
    /// }
    ///
    /// let event_loop = EventLoop::new()?;
    /// event_loop.allow_nested(true);
    /// assert_eq!(event_loop.run_until_complete(async { load() })?, 42);
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn allow_nested(&self, allowed: bool) {
        self.core().allows_nested.set(allowed);
    }

    fn run(&self) -> Result<(), Error> {
        self.core().engine.run_forever().map_err(Error::from)
    }

    /// Stops the current run, or the next one, at the end of its iteration. Of nested runs, the innermost one.
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
