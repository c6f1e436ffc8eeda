//! `Time`, a point on the loop's clock, and `Clock`, its source.
//!
//! Every deadline in the engine is a `Time`, and is compared only with the loop's own clock: a timer never fires
//! early by that clock. The monotonic clock is the default; `testing::VirtualClock` jumps.

use std::ops::{Add, AddAssign, Sub};
use std::time::Duration;

/// A point in time on the loop's clock: nanoseconds since that clock's origin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(u64);

impl Time {
    /// The clock's origin.
    pub const ZERO: Time = Time(0);
    /// A deadline that is never reached (about 584 years after the origin).
    pub const NEVER: Time = Time(u64::MAX);

    /// The point `nanos` nanoseconds after the origin.
    pub const fn from_nanos(nanos: u64) -> Self {
        Time(nanos)
    }

    /// Nanoseconds since the origin.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// This point plus `delay`; `NEVER` on overflow.
    pub fn saturating_add(self, delay: Duration) -> Self {
        let nanos = u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX);
        Time(self.0.saturating_add(nanos))
    }

    /// The time since `earlier`; zero if this is not later.
    pub const fn saturating_duration_since(self, earlier: Time) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// As [`saturating_add`](Time::saturating_add).
impl Add<Duration> for Time {
    type Output = Time;

    fn add(self, delay: Duration) -> Time {
        self.saturating_add(delay)
    }
}

/// As [`saturating_add`](Time::saturating_add).
impl AddAssign<Duration> for Time {
    fn add_assign(&mut self, delay: Duration) {
        *self = *self + delay;
    }
}

/// As [`saturating_duration_since`](Time::saturating_duration_since).
impl Sub for Time {
    type Output = Duration;

    fn sub(self, earlier: Time) -> Duration {
        self.saturating_duration_since(earlier)
    }
}

/// A source of time.
pub trait Clock {
    /// The current time. Never decreases.
    fn now(&self) -> Time;

    /// Whether [`Clock::skip_to`] may move this clock. The loop calls it only when nothing but a timer can make it
    /// continue: virtual time stands still while a call is ready, or while a thread or a socket may make one ready.
    fn is_virtual(&self) -> bool {
        false
    }

    /// Called when the loop has nothing to do before `deadline` (`None`: no deadline). A clock that returns `true`
    /// has moved to the deadline, and the loop polls without waiting.
    fn skip_to(&self, deadline: Option<Time>) -> bool {
        let _ = deadline;
        false
    }
}

/// The system's monotonic clock (`CLOCK_MONOTONIC`). Its values agree with Python's `time.monotonic()`.
#[derive(Clone, Copy, Debug, Default)]
pub struct MonotonicClock;

impl Clock for MonotonicClock {
    fn now(&self) -> Time {
        // libc's call, not rustix's: rustix reads the vDSO itself and crashes under valgrind, which hides it.
        let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the call fills the struct that it is given. It cannot fail: every Linux has this clock.
        unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
        Time((now.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(now.tv_nsec as u64))
    }
}
