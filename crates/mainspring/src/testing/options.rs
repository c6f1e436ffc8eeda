//! `Options`: a loop for a test, and `run`.

use super::VirtualClock;
use super::explore::{self, ExploreError};
use crate::clock::Time;
use crate::error::Error;
use crate::event_loop::{Builder, EventLoop};

/// Whether a loop with a virtual clock may wait for the outside. See [`Options::real_io`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum RealIo {
    /// The loop waits in real time for sockets, pipes and child processes outside of the loop.
    #[default]
    Allow,
    /// Such a wait ends the run with [`Error::RealIo`]. Looking up a host name with the system's resolver fails.
    Refuse,
}

/// Virtual time and a reproducible schedule for a test. It is `Send` and `Sync`.
///
/// The loop has a [`VirtualClock`]: see there for when time passes. If nothing can ever continue the program, the run
/// ends with [`Error::Deadlock`].
///
/// ```
/// use mainspring::testing::{Options, RealIo};
/// use mainspring::{Time, sleep};
/// use std::time::Duration;
///
/// let options = Options::new().start(Time::from_nanos(5)).seed(17).shuffle_ready(true).real_io(RealIo::Refuse);
/// let ended = options.run(async {
///     sleep(Duration::from_secs(3600)).await;
///     mainspring::time::now()
/// })?;
/// assert_eq!(ended, Time::from_nanos(5) + Duration::from_secs(3600));
/// # Ok::<(), mainspring::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use = "options run nothing by themselves"]
pub struct Options {
    pub(crate) seed: Option<u64>,
    pub(crate) start: Time,
    pub(crate) real_io: RealIo,
    pub(crate) shuffle_ready: bool,
}

impl Options {
    /// Virtual time from zero, without a seed. Real I/O is allowed.
    pub fn new() -> Self {
        Self::default()
    }

    /// Shuffles what asyncio leaves unordered: timers with equal deadlines, and the I/O events of one poll. The same
    /// seed gives the same order.
    pub fn seed(self, seed: u64) -> Self {
        Options { seed: Some(seed), ..self }
    }

    /// Sets the time at which the clock starts.
    pub fn start(self, start: Time) -> Self {
        Options { start, ..self }
    }

    /// Whether the loop may wait for sockets, pipes and child processes outside of the loop. Sockets and pipes whose two
    /// ends are in the loop are not affected. Neither are jobs in the executor.
    ///
    /// ```
    /// use mainspring::Error;
    /// use mainspring::net::UnixStream;
    /// use mainspring::testing::{Options, RealIo};
    ///
    /// let (here, _outside) = std::os::unix::net::UnixStream::pair()?;
    /// let waited = Options::new().real_io(RealIo::Refuse).run(async {
    ///     UnixStream::from_std(here)?.read_some(100).await
    /// });
    /// assert!(matches!(waited, Err(Error::RealIo(_))));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn real_io(self, real_io: RealIo) -> Self {
        Options { real_io, ..self }
    }

    /// Whether the seed also shuffles the task steps that are ready in one iteration. Callbacks keep their order.
    pub fn shuffle_ready(self, shuffle_ready: bool) -> Self {
        Options { shuffle_ready, ..self }
    }

    /// Makes a loop. [`Builder::testing`] combines the options with others.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if the system has no file descriptor left.
    ///
    /// ```
    /// use mainspring::testing::Options;
    ///
    /// let event_loop = Options::new().seed(17).build()?;
    /// event_loop.run_until_complete(mainspring::sleep(std::time::Duration::from_secs(3600)))?;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    #[doc(alias = "new_event_loop")]
    pub fn build(&self) -> Result<EventLoop, Error> {
        Builder::new().testing(self).build()
    }

    /// [`mainspring::run`](crate::run) with these options.
    ///
    /// # Errors
    ///
    /// Those of [`mainspring::run`](crate::run), [`Error::Deadlock`] and [`Error::RealIo`].
    ///
    /// # Panics
    ///
    /// If the future panics, or at the end if a panic or an error of something else was only written to stderr: of a
    /// callback, or of a task that nothing awaits. A program that sets an exception handler handles these itself.
    pub fn run<F: IntoFuture>(&self, future: F) -> Result<F::Output, Error> {
        let options = self.clone();
        let mut runner = crate::Runner::new().configure(move |builder| builder.testing(&options));
        let event_loop = runner.event_loop()?.clone();
        let result = runner.run(future);
        // Cancels the remaining tasks, which may panic too.
        drop(runner);
        match event_loop.first_unhandled() {
            Some(failure) if result.is_ok() => panic!("{failure}"),
            _ => result,
        }
    }

    /// [`explore`](super::explore) with these options. The seeds replace their seed.
    ///
    /// ```
    /// use mainspring::testing::Options;
    ///
    /// let runs = Options::new().shuffle_ready(true).explore(0..100, || async { mainspring::yield_now().await });
    /// assert_eq!(runs.unwrap(), 100);
    /// ```
    pub fn explore<F: IntoFuture>(
        &self,
        seeds: impl IntoIterator<Item = u64>,
        test: impl FnMut() -> F,
    ) -> Result<u64, ExploreError> {
        explore::run_seeds(self, seeds, test)
    }

    pub(crate) fn clock(&self) -> VirtualClock {
        VirtualClock::new(self.start)
    }
}

/// [`mainspring::run`](crate::run) in virtual time. [`Options::run`] has options.
///
/// ```
/// use mainspring::{sleep, testing, timeout};
/// use std::time::Duration;
///
/// let timed_out = testing::run(async {
///     timeout(Duration::from_secs(3600), sleep(Duration::from_secs(7200))).await.is_err()
/// })?;
/// assert!(timed_out);
/// # Ok::<(), mainspring::Error>(())
/// ```
///
/// # Errors
///
/// Those of [`mainspring::run`](crate::run), and [`Error::Deadlock`]:
///
/// ```
/// use mainspring::{Error, testing};
///
/// let stuck = testing::run(std::future::pending::<()>());
/// assert!(matches!(stuck, Err(Error::Deadlock(_))));
/// ```
///
/// # Panics
///
/// As [`Options::run`].
pub fn run<F: IntoFuture>(future: F) -> Result<F::Output, Error> {
    Options::new().run(future)
}
