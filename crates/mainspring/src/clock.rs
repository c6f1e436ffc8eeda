//! The loop's clock: [`Time`], a point on it, and [`Clock`], the trait for clocks of the program's own.
//!
//! A timer is never early by the loop's own clock. The default is the monotonic clock of the system;
//! [`testing::VirtualClock`](crate::testing::VirtualClock) jumps from deadline to deadline.
//!
//! ```
//! use mainspring::clock::{Clock, MonotonicClock, Time};
//! use mainspring::{Builder, sleep};
//! use std::time::Duration;
//!
//! /// Runs twice as fast as the system's clock.
//! struct DoubleSpeed(Time);
//!
//! impl Clock for DoubleSpeed {
//!     fn now(&self) -> Time {
//!         self.0 + 2 * (MonotonicClock.now() - self.0)
//!     }
//! }
//!
//! let event_loop = Builder::new().clock(DoubleSpeed(MonotonicClock.now())).build()?;
//! let started = event_loop.time();
//! event_loop.run_until_complete(sleep(Duration::from_millis(2)))?;
//! assert!(event_loop.time() - started >= Duration::from_millis(2));
//! # Ok::<(), mainspring::Error>(())
//! ```

use mainspring_engine::clock as engine;
use std::fmt;
use std::ops::{Add, AddAssign, Sub};
use std::time::Duration;

/// A point in time on the loop's clock: nanoseconds since the origin of that clock.
///
/// ```
/// use mainspring::Time;
/// use std::time::Duration;
///
/// let time = Time::from_nanos(1_500);
/// assert_eq!((time + Duration::from_nanos(500)).as_nanos(), 2_000);
/// assert_eq!(time.saturating_add(Duration::MAX), Time::NEVER);
/// assert_eq!(Time::ZERO.saturating_duration_since(time), Duration::ZERO);
/// ```
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub(crate) engine::Time);

impl Time {
    /// The clock's origin.
    pub const ZERO: Time = Time(engine::Time::ZERO);
    /// A deadline that is never reached, about 584 years after the origin.
    pub const NEVER: Time = Time(engine::Time::NEVER);

    /// The point `nanos` nanoseconds after the origin.
    pub const fn from_nanos(nanos: u64) -> Self {
        Time(engine::Time::from_nanos(nanos))
    }

    /// Nanoseconds since the origin.
    pub const fn as_nanos(self) -> u64 {
        self.0.as_nanos()
    }

    /// This point plus `delay`, or [`NEVER`](Time::NEVER) if the sum overflows.
    pub fn saturating_add(self, delay: Duration) -> Self {
        Time(self.0.saturating_add(delay))
    }

    /// The time from `earlier` to this point; zero if this point is not later.
    pub const fn saturating_duration_since(self, earlier: Time) -> Duration {
        self.0.saturating_duration_since(earlier.0)
    }
}

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// See [`saturating_add`](Time::saturating_add).
impl Add<Duration> for Time {
    type Output = Time;

    fn add(self, delay: Duration) -> Time {
        self.saturating_add(delay)
    }
}

/// See [`saturating_add`](Time::saturating_add).
impl AddAssign<Duration> for Time {
    fn add_assign(&mut self, delay: Duration) {
        *self = *self + delay;
    }
}

/// See [`saturating_duration_since`](Time::saturating_duration_since).
impl Sub for Time {
    type Output = Duration;

    fn sub(self, earlier: Time) -> Duration {
        self.saturating_duration_since(earlier)
    }
}

/// A clock for [`Builder::clock`](crate::Builder::clock). The [module](self) has an example.
pub trait Clock {
    /// The time now. It never decreases.
    fn now(&self) -> Time;

    /// Whether [`Clock::skip_to`] can move this clock. The loop calls it only when nothing but a timer can continue the
    /// program, or when it has waited for the outside for as long as that timer: see
    /// [`VirtualClock`](crate::testing::VirtualClock).
    fn is_virtual(&self) -> bool {
        false
    }

    /// Called when the loop has nothing to do before `deadline`; `None` means that there is no timer. If this returns
    /// `true`, the clock has moved, and the loop polls without blocking.
    fn skip_to(&self, deadline: Option<Time>) -> bool {
        let _ = deadline;
        false
    }
}

/// The monotonic clock of the system, `CLOCK_MONOTONIC`: it agrees with Python's `time.monotonic()`.
#[derive(Clone, Copy, Debug, Default)]
pub struct MonotonicClock;

impl Clock for MonotonicClock {
    fn now(&self) -> Time {
        Time(engine::Clock::now(&engine::MonotonicClock))
    }
}

/// Presents a [`Clock`] of this crate to the engine.
pub(crate) struct EngineClock<C>(pub(crate) C);

impl<C: Clock> engine::Clock for EngineClock<C> {
    fn now(&self) -> engine::Time {
        self.0.now().0
    }

    fn is_virtual(&self) -> bool {
        self.0.is_virtual()
    }

    fn skip_to(&self, deadline: Option<engine::Time>) -> bool {
        self.0.skip_to(deadline.map(Time))
    }
}
