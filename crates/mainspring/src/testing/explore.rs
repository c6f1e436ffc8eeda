//! `explore`: runs a test once for each seed.

use super::Options;
use super::progress::Progress;
use crate::error::Error;
use crate::panics::catch;
use std::fmt;

/// Runs `test` in virtual time, once for each seed, until it fails. Returns the number of runs.
///
/// Each run has a new loop. The order of timers with equal deadlines and of I/O events depends on the seed.
/// [`Options::explore`] has options: with [`Options::shuffle_ready`], the order of task steps depends on it too. If the
/// standard error is a terminal, it shows the progress.
///
/// ```
/// use mainspring::{EventLoop, sleep, testing};
/// use std::{cell::Cell, rc::Rc, time::Duration};
///
/// /// A cache entry expires at the moment at which it is refreshed.
/// async fn test() {
///     let cache = Rc::new(Cell::new(Some("old")));
///     let (expired, refreshed) = (Rc::clone(&cache), Rc::clone(&cache));
///     let event_loop = EventLoop::current();
///     event_loop.call_later(Duration::from_secs(60), move || expired.set(None)).unwrap();
///     event_loop.call_later(Duration::from_secs(60), move || refreshed.set(Some("new"))).unwrap();
///     sleep(Duration::from_secs(61)).await;
///     assert_eq!(cache.get(), Some("new"));
/// }
///
/// testing::run(test())?; // asyncio's order: no failure
/// let error = testing::explore(0..100, test).unwrap_err();
/// assert!(error.to_string().contains("replay it with"));
/// // The same order again.
/// assert!(error.options().explore([error.seed()], test).is_err());
/// # Ok::<(), mainspring::Error>(())
/// ```
///
/// # Errors
///
/// [`ExploreError`] names the first seed for which the test panics, or its run ends with an error such as
/// [`Error::Deadlock`]. A panic of a callback, or of a task that nothing awaits, counts too, as for [`Options::run`].
pub fn explore<F: IntoFuture>(
    seeds: impl IntoIterator<Item = u64>,
    test: impl FnMut() -> F,
) -> Result<u64, ExploreError> {
    Options::new().explore(seeds, test)
}

pub(super) fn run_seeds<F: IntoFuture>(
    options: &Options,
    seeds: impl IntoIterator<Item = u64>,
    mut test: impl FnMut() -> F,
) -> Result<u64, ExploreError> {
    let seeds = seeds.into_iter();
    let mut progress = Progress::new(seeds.size_hint());
    let mut runs = 0;
    for seed in seeds {
        progress.show(runs, seed);
        let options = options.clone().seed(seed);
        let cause = match catch(|| options.run(test()).map(drop)) {
            Ok(Ok(())) => {
                runs += 1;
                continue;
            }
            Ok(Err(error)) => Cause::Error(error),
            Err(text) => Cause::Panic(text),
        };
        return Err(ExploreError { options, seed, cause });
    }
    Ok(runs)
}

/// A seed for which the test fails. `Debug` shows the same text as `Display`, for `unwrap`.
///
/// ```
/// use mainspring::testing::{self, ExploreError};
///
/// let error: ExploreError = testing::explore(5..10, || async { panic!("always") }).unwrap_err();
/// assert_eq!(error.seed(), 5);
/// ```
pub struct ExploreError {
    options: Options,
    seed: u64,
    cause: Cause,
}

enum Cause {
    Panic(String),
    Error(Error),
}

impl ExploreError {
    /// The seed.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The options that replay the run.
    pub fn options(&self) -> &Options {
        &self.options
    }
}

impl fmt::Display for ExploreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ExploreError { options, seed, cause } = self;
        match cause {
            Cause::Panic(text) => writeln!(f, "seed {seed}: the test panicked: {text}")?,
            Cause::Error(error) => writeln!(f, "seed {seed}: {error}")?,
        }
        write!(f, "replay it with mainspring::testing::Options::new().seed({seed})")?;
        if options.shuffle_ready {
            f.write_str(".shuffle_ready(true)")?;
        }
        if options.start != crate::Time::ZERO {
            write!(f, ".start(Time::from_nanos({}))", options.start.as_nanos())?;
        }
        if options.real_io == super::RealIo::Refuse {
            f.write_str(".real_io(RealIo::Refuse)")?;
        }
        f.write_str(".run(...)")
    }
}

impl fmt::Debug for ExploreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for ExploreError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.cause {
            Cause::Panic(_) => None,
            Cause::Error(error) => Some(error),
        }
    }
}
