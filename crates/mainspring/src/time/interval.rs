//! `interval`: periodic ticks.

use super::{Sleep, expect_running_core, sleep_until};
use crate::clock::Time;
use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

/// A tick that is at most this late is not missed.
const MAX_LATENESS: Duration = Duration::from_millis(5);

/// Ticks every `period`. The first tick is immediate.
///
/// # Panics
///
/// If `period` is zero, or no loop runs on this thread.
///
/// ```
/// use mainspring::time::interval;
/// use std::time::Duration;
///
/// # mainspring::run(async {
/// let mut ticks = interval(Duration::from_millis(1));
/// let first = ticks.tick().await;
/// let second = ticks.tick().await;
/// assert_eq!(second, first.saturating_add(Duration::from_millis(1)));
/// # })?;
/// # Ok::<(), mainspring::Error>(())
/// ```
#[track_caller]
pub fn interval(period: Duration) -> Interval {
    interval_at(expect_running_core().now(), period)
}

/// Ticks every `period`; the first tick is at `start`.
///
/// # Panics
///
/// If `period` is zero. Also if it is polled outside of a mainspring loop.
///
/// ```
/// use mainspring::time::{interval_at, now};
/// use std::time::Duration;
///
/// # mainspring::run(async {
/// let start = now().saturating_add(Duration::from_millis(2));
/// let mut ticks = interval_at(start, Duration::from_millis(1));
/// assert_eq!(ticks.tick().await, start);
/// # })?;
/// # Ok::<(), mainspring::Error>(())
/// ```
#[track_caller]
pub fn interval_at(start: Time, period: Duration) -> Interval {
    assert!(!period.is_zero(), "the period of an interval is zero");
    Interval { sleep: sleep_until(start), due: start, period, missed: MissedTickBehavior::Burst }
}

/// What happens to missed ticks: those that are taken more than 5 ms late.
///
/// With a period of 10, and a tick that is taken at 25 instead of 10, the next ticks are:
///
/// | | |
/// | --- | --- |
/// | `Burst` | 20 (at once), 30, 40 |
/// | `Delay` | 35, 45, 55 |
/// | `Skip` | 30, 40, 50 |
///
/// ```
/// use mainspring::time::{MissedTickBehavior, interval};
/// use std::time::Duration;
///
/// # mainspring::run(async {
/// let mut ticks = interval(Duration::from_millis(1));
/// ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
/// assert_eq!(ticks.missed_tick_behavior(), MissedTickBehavior::Skip);
/// # })?;
/// # Ok::<(), mainspring::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MissedTickBehavior {
    /// Delivered immediately, one after another, until none is missed.
    #[default]
    Burst,
    /// Skipped. The next one comes one period after the late one.
    Delay,
    /// Skipped. The next one comes at its regular time.
    Skip,
}

impl MissedTickBehavior {
    /// The time of the tick after the one that was due at `due` and taken at `now`.
    fn next(self, due: Time, now: Time, period: Duration) -> Time {
        let late = now.saturating_duration_since(due);
        let behaviour = if late <= MAX_LATENESS { MissedTickBehavior::Burst } else { self };
        match behaviour {
            MissedTickBehavior::Burst => due.saturating_add(period),
            MissedTickBehavior::Delay => now.saturating_add(period),
            MissedTickBehavior::Skip => {
                let into_period = (late.as_nanos() % period.as_nanos()) as u64;
                now.saturating_add(period - Duration::from_nanos(into_period))
            }
        }
    }
}

/// The ticks of [`interval`] and [`interval_at`]. It stays on its thread (`!Send`), and is `Unpin`. Dropping it
/// removes its timer. It is also a `Stream`.
///
/// ```
/// use mainspring::time::{MissedTickBehavior, interval};
/// use std::time::Duration;
///
/// # mainspring::run(async {
/// let mut ticks = interval(Duration::from_millis(1));
/// assert_eq!(ticks.period(), Duration::from_millis(1));
/// assert_eq!(ticks.missed_tick_behavior(), MissedTickBehavior::Burst);
/// ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
/// let first = ticks.tick().await;
/// assert!(ticks.tick().await > first);
/// # })?;
/// # Ok::<(), mainspring::Error>(())
/// ```
pub struct Interval {
    /// Sleeps until the next tick.
    sleep: Sleep,
    /// The time of the next tick.
    due: Time,
    period: Duration,
    missed: MissedTickBehavior,
}

impl Interval {
    /// Waits for the next tick. Returns the time at which it was due.
    ///
    /// Cancel safety: no tick is taken.
    pub async fn tick(&mut self) -> Time {
        poll_fn(|cx| self.poll_tick(cx)).await
    }

    /// The poll function of [`tick`](Interval::tick).
    ///
    /// ```
    /// use std::{future::poll_fn, time::Duration};
    ///
    /// # mainspring::run(async {
    /// let mut ticks = mainspring::time::interval(Duration::from_millis(1));
    /// let first = poll_fn(|cx| ticks.poll_tick(cx)).await;
    /// assert!(poll_fn(|cx| ticks.poll_tick(cx)).await > first);
    /// # })?;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn poll_tick(&mut self, cx: &mut Context<'_>) -> Poll<Time> {
        ready!(Pin::new(&mut self.sleep).poll(cx));
        let (due, now) = (self.due, expect_running_core().now());
        self.reset_at(self.missed.next(due, now, self.period));
        Poll::Ready(due)
    }

    /// Moves the next tick to one period from now.
    ///
    /// # Panics
    ///
    /// If no loop runs on this thread.
    ///
    /// ```
    /// use mainspring::time::{interval, now};
    /// use std::time::Duration;
    ///
    /// # mainspring::run(async {
    /// let mut ticks = interval(Duration::from_millis(2));
    /// let start = now();
    /// ticks.reset();
    /// assert!(ticks.tick().await >= start.saturating_add(Duration::from_millis(2)));
    /// ticks.reset_at(start);
    /// assert_eq!(ticks.tick().await, start);
    /// # })?;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    #[track_caller]
    pub fn reset(&mut self) {
        self.reset_at(expect_running_core().now().saturating_add(self.period));
    }

    /// Moves the next tick to `when`.
    pub fn reset_at(&mut self, when: Time) {
        self.due = when;
        self.sleep.reset(when);
    }

    /// The time between two ticks.
    pub fn period(&self) -> Duration {
        self.period
    }

    /// What happens to missed ticks. The default is [`MissedTickBehavior::Burst`].
    pub fn missed_tick_behavior(&self) -> MissedTickBehavior {
        self.missed
    }

    /// Sets what happens to missed ticks.
    pub fn set_missed_tick_behavior(&mut self, behavior: MissedTickBehavior) {
        self.missed = behavior;
    }
}

/// An endless stream of ticks.
impl futures_core::Stream for Interval {
    type Item = Time;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Time>> {
        self.poll_tick(cx).map(Some)
    }
}

impl fmt::Debug for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Interval")
            .field("due", &self.due)
            .field("period", &self.period)
            .field("missed", &self.missed)
            .finish_non_exhaustive()
    }
}
