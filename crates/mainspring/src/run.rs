//! `run`: the entry point of a program.

use crate::error::Error;
use crate::event_loop::{Builder, EventLoop};
use std::fmt;

/// Makes a loop, runs `future` on it, cancels the remaining tasks, waits for the executor's threads and closes the
/// loop, as `asyncio.run`.
///
/// Ctrl-C terminates the process, as in any program. A [`Runner`] can make it end the future instead.
///
/// [`Error::AlreadyRunning`] if a loop runs on this thread.
///
/// # Panics
///
/// If the future panics.
///
/// ```
/// let answer = mainspring::run(async { 6 * 7 })?;
/// assert_eq!(answer, 42);
/// # Ok::<(), mainspring::Error>(())
/// ```
pub fn run<F: IntoFuture>(future: F) -> Result<F::Output, Error> {
    Runner::new().run(future)
}

/// [`run`] with options: asyncio's `Runner`.
///
/// It can run several futures on one loop, one after the other. The loop is made for the first one. Dropping the
/// runner cancels the remaining tasks, waits for the executor's threads and closes the loop. It stays on its thread
/// (`!Send`).
///
/// ```
/// use mainspring::Runner;
///
/// let mut runner = Runner::new().debug(true).configure(|builder| builder.name("main"));
/// assert_eq!(runner.run(async { 6 * 7 })?, 42);
/// let name = runner.run(async { mainspring::EventLoop::current().name().to_owned() })?;
/// assert_eq!(name, "main");
/// # Ok::<(), mainspring::Error>(())
/// ```
#[derive(Default)]
pub struct Runner {
    debug: Option<bool>,
    cancel_on_interrupt: bool,
    configure: Option<Box<dyn FnOnce(Builder) -> Builder>>,
    event_loop: Option<EventLoop>,
}

impl Runner {
    /// A runner with the defaults of [`run`].
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether the loop starts in debug mode: see [`EventLoop::set_debug`].
    #[must_use]
    pub fn debug(mut self, debug: bool) -> Self {
        self.debug = Some(debug);
        self
    }

    /// Configures the loop with its [`Builder`].
    #[doc(alias = "loop_factory")]
    #[must_use]
    pub fn configure(mut self, configure: impl FnOnce(Builder) -> Builder + 'static) -> Self {
        self.configure = Some(Box::new(configure));
        self
    }

    /// Whether Ctrl-C (SIGINT) ends the running future: the future is dropped, and `run` returns
    /// [`Error::Interrupted`]. Dropping the runner then cancels the remaining tasks, so that the program ends in
    /// order. The default is `false`. As in asyncio, this applies to the first Ctrl-C of a run. After that the signal
    /// has its previous effect.
    ///
    /// ```
    /// use mainspring::{Error, Runner, sleep};
    /// use std::time::Duration;
    ///
    /// let served = Runner::new().cancel_on_interrupt(true).run(async {
    ///     // The terminal does this on Ctrl-C.
    ///     # unsafe extern "C" { safe fn raise(signal: i32) -> i32; }
    ///     raise(2);
    ///     sleep(Duration::from_secs(3600)).await;
    /// });
    /// assert!(matches!(served, Err(Error::Interrupted)));
    /// ```
    #[must_use]
    pub fn cancel_on_interrupt(mut self, cancel: bool) -> Self {
        self.cancel_on_interrupt = cancel;
        self
    }

    /// Runs `future` to its end. Other tasks of the loop run at the same time, and stay on the loop afterwards.
    ///
    /// The errors of [`run`].
    ///
    /// # Panics
    ///
    /// If the future panics.
    pub fn run<F: IntoFuture>(&mut self, future: F) -> Result<F::Output, Error> {
        let event_loop = self.event_loop()?.clone();
        if self.cancel_on_interrupt {
            interruptible::run(&event_loop, future)
        } else {
            event_loop.run_until_complete(future)
        }
    }

    /// The loop. Makes it if there is none yet.
    ///
    /// [`Error::Io`] if it cannot be made.
    ///
    /// ```
    /// use mainspring::Runner;
    ///
    /// let mut runner = Runner::new();
    /// let task = runner.event_loop()?.spawn(async { 6 * 7 })?;
    /// assert_eq!(runner.run(task)?, Ok(42));
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    #[doc(alias = "get_loop")]
    pub fn event_loop(&mut self) -> Result<&EventLoop, Error> {
        let event_loop = match self.event_loop.take() {
            Some(event_loop) => event_loop,
            None => {
                let mut builder = Builder::new();
                if let Some(configure) = self.configure.take() {
                    builder = configure(builder);
                }
                if let Some(debug) = self.debug {
                    builder = builder.debug(debug);
                }
                builder.build()?
            }
        };
        Ok(self.event_loop.insert(event_loop))
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        if let Some(event_loop) = self.event_loop.take() {
            // A panicking program does not wait for blocking calls.
            event_loop.cancel_tasks_and_close(!std::thread::panicking());
        }
    }
}

impl fmt::Debug for Runner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runner").field("event_loop", &self.event_loop).finish_non_exhaustive()
    }
}

#[cfg(not(loom))]
mod interruptible {
    //! Ends the main future on Ctrl-C.

    use super::{Error, EventLoop};
    use std::cell::Cell;
    use std::future::poll_fn;
    use std::pin::pin;
    use std::rc::Rc;
    use std::task::{Poll, Waker};

    #[derive(Default)]
    struct Interrupt {
        has_arrived: Cell<bool>,
        waker: Cell<Option<Waker>>,
    }

    pub(super) fn run<F: IntoFuture>(event_loop: &EventLoop, future: F) -> Result<F::Output, Error> {
        let interrupt = Rc::new(Interrupt::default());
        let _remove_handler = install(event_loop, &interrupt)?;
        event_loop.run_until_complete(async move {
            let mut future = pin!(future.into_future());
            poll_fn(|cx| {
                if interrupt.has_arrived.get() {
                    return Poll::Ready(Err(Error::Interrupted));
                }
                let former = interrupt.waker.replace(Some(cx.waker().clone()));
                drop(former);
                future.as_mut().poll(cx).map(Ok)
            })
            .await
        })?
    }

    /// Makes Ctrl-C end the future, once, until the returned guard is dropped.
    fn install(event_loop: &EventLoop, interrupt: &Rc<Interrupt>) -> Result<impl Drop + use<>, Error> {
        struct RemoveHandler(EventLoop);
        impl Drop for RemoveHandler {
            fn drop(&mut self) {
                self.0.remove_signal_handler(libc::SIGINT);
            }
        }
        let (interrupt, handler_loop) = (Rc::clone(interrupt), event_loop.clone());
        event_loop.add_signal_handler(libc::SIGINT, move || {
            interrupt.has_arrived.set(true);
            if let Some(waker) = interrupt.waker.take() {
                waker.wake();
            }
            handler_loop.remove_signal_handler(libc::SIGINT);
        })?;
        Ok(RemoveHandler(event_loop.clone()))
    }
}

/// loom models have no signals.
#[cfg(loom)]
mod interruptible {
    pub(super) use super::EventLoop;

    pub(super) fn run<F: IntoFuture>(event_loop: &EventLoop, future: F) -> Result<F::Output, super::Error> {
        event_loop.run_until_complete(future)
    }
}
