//! `run`: a program's way in.

use crate::error::Error;
use crate::event_loop::{Builder, EventLoop};
use std::fmt;

/// Makes a loop, runs `future` on it to its end, cancels what is left, waits for the executor's threads and
/// closes the loop: as `asyncio.run` does.
///
/// Ctrl-C does what it does in any program, and ends the process; a [`Runner`] can have it end the future.
///
/// [`Error::AlreadyRunning`] on a thread where a loop runs already.
///
/// # Panics
///
/// With the future's own panic, if it panics.
///
/// ```
/// let answer = mainspring::run(async { 6 * 7 })?;
/// assert_eq!(answer, 42);
/// # Ok::<(), mainspring::Error>(())
/// ```
pub fn run<F: IntoFuture>(future: F) -> Result<F::Output, Error> {
    Runner::new().run(future)
}

/// [`run`] with something of its own: asyncio's `Runner`.
///
/// Several futures can be run one after the other on its loop. It is made when the first one is run; when the runner is
/// dropped, what is left is cancelled, the executor's threads are waited for, and the loop is closed. It stays on its
/// thread (`!Send`).
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
    /// Everything as [`run`] does it.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether the loop begins in debug mode: see [`EventLoop::set_debug`].
    #[must_use]
    pub fn debug(mut self, debug: bool) -> Self {
        self.debug = Some(debug);
        self
    }

    /// Has `configure` change what the loop is made with.
    #[doc(alias = "loop_factory")]
    #[must_use]
    pub fn configure(mut self, configure: impl FnOnce(Builder) -> Builder + 'static) -> Self {
        self.configure = Some(Box::new(configure));
        self
    }

    /// Whether Ctrl-C (SIGINT) ends the future that runs: it is dropped where it stands, with everything in it, and the
    /// answer is [`Error::Interrupted`]. What is left on the loop is then cancelled when the runner is dropped, so a
    /// program ends in order. Usually `false`. As in asyncio, it is for the first Ctrl-C of a run; after that, the signal
    /// does what it did before.
    ///
    /// ```
    /// use mainspring::{Error, Runner, sleep};
    /// use std::time::Duration;
    ///
    /// let served = Runner::new().cancel_on_interrupt(true).run(async {
    ///     // What the terminal does when Ctrl-C is pressed.
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

    /// Runs `future` to its end. Everything else on the loop runs meanwhile, and stays where it is afterwards.
    ///
    /// Fails as [`run`] does.
    ///
    /// # Panics
    ///
    /// With the future's own panic, if it panics.
    pub fn run<F: IntoFuture>(&mut self, future: F) -> Result<F::Output, Error> {
        let event_loop = self.event_loop()?.clone();
        if self.cancel_on_interrupt {
            interruptible::run(&event_loop, future)
        } else {
            event_loop.run_until_complete(future)
        }
    }

    /// The loop, which is made if there is none yet.
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
            // A program that panics does not wait for blocking calls.
            event_loop.wind_up(!std::thread::panicking());
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
    //! A main future that ends at Ctrl-C.

    use super::{Error, EventLoop};
    use std::cell::Cell;
    use std::future::poll_fn;
    use std::pin::pin;
    use std::rc::Rc;
    use std::task::{Poll, Waker};

    #[derive(Default)]
    struct Interrupt {
        has_come: Cell<bool>,
        waker: Cell<Option<Waker>>,
    }

    pub(super) fn run<F: IntoFuture>(event_loop: &EventLoop, future: F) -> Result<F::Output, Error> {
        let interrupt = Rc::new(Interrupt::default());
        let _remove = install(event_loop, &interrupt)?;
        event_loop.run_until_complete(async move {
            let mut future = pin!(future.into_future());
            poll_fn(|cx| {
                if interrupt.has_come.get() {
                    return Poll::Ready(Err(Error::Interrupted));
                }
                let former = interrupt.waker.replace(Some(cx.waker().clone()));
                drop(former);
                future.as_mut().poll(cx).map(Ok)
            })
            .await
        })?
    }

    /// Has Ctrl-C end the future, once, until what this gives is dropped.
    fn install(event_loop: &EventLoop, interrupt: &Rc<Interrupt>) -> Result<impl Drop + use<>, Error> {
        struct Remove(EventLoop);
        impl Drop for Remove {
            fn drop(&mut self) {
                self.0.remove_signal_handler(libc::SIGINT);
            }
        }
        let (interrupt, inside) = (Rc::clone(interrupt), event_loop.clone());
        event_loop.add_signal_handler(libc::SIGINT, move || {
            interrupt.has_come.set(true);
            if let Some(waker) = interrupt.waker.take() {
                waker.wake();
            }
            inside.remove_signal_handler(libc::SIGINT);
        })?;
        Ok(Remove(event_loop.clone()))
    }
}

/// There are no signals in models.
#[cfg(loom)]
mod interruptible {
    pub(super) use super::EventLoop;

    pub(super) fn run<F: IntoFuture>(event_loop: &EventLoop, future: F) -> Result<F::Output, super::Error> {
        event_loop.run_until_complete(future)
    }
}
