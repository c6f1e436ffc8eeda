//! The loop's sense of time: `Time`, a point on a clock, and `Clock`, what tells it.
//!
//! Every deadline in the engine is a `Time`, and only the loop's own clock may be compared with it: a timer
//! is never early *by that clock*. The monotonic clock is the default; `testing::VirtualClock` jumps.

use std::ops::{Add, AddAssign, Sub};
use std::time::Duration;

/// A point in time on the loop's clock: nanoseconds since that clock's origin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(u64);

impl Time {
    /// The clock's origin.
    pub const ZERO: Time = Time(0);
    /// A deadline that never comes (some 584 years after the origin).
    pub const NEVER: Time = Time(u64::MAX);

    /// The point `nanos` nanoseconds after the origin.
    pub const fn from_nanos(nanos: u64) -> Self {
        Time(nanos)
    }

    /// Nanoseconds since the origin.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// This point moved by `delay`, or `NEVER` where the clock cannot count so far.
    pub fn saturating_add(self, delay: Duration) -> Self {
        let nanos = u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX);
        Time(self.0.saturating_add(nanos))
    }

    /// How long after `earlier` this is; zero if it is not after it.
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

/// What tells the loop the time.
pub trait Clock {
    /// The time now. Never goes back.
    fn now(&self) -> Time;

    /// Whether [`Clock::skip_to`] may move this clock. The loop then looks for I/O before it asks for that: time
    /// does not pass while anything can happen.
    fn is_virtual(&self) -> bool {
        false
    }

    /// Called when the loop has nothing to do before `deadline` (`None`: ever, unless I/O comes). A clock
    /// that answers `true` has moved on by itself, and the loop polls without waiting.
    fn skip_to(&self, deadline: Option<Time>) -> bool {
        let _ = deadline;
        false
    }
}

/// The system's monotonic clock. Its origin is the kernel's own (`CLOCK_MONOTONIC`), so its readings agree
/// with Python's `time.monotonic()`.
#[derive(Clone, Copy, Debug, Default)]
pub struct MonotonicClock;

impl Clock for MonotonicClock {
    fn now(&self) -> Time {
        // The C library's call, not rustix's: that one reads the kernel's vDSO by itself and dies under valgrind,
        // which hides it.
        let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: fills the struct it is given. It cannot fail: the clock exists on every Linux.
        unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
        Time((now.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(now.tv_nsec as u64))
    }
}
