//! `Priority`: what tasks and callbacks inherit from the code that creates them.
//!
//! The thread-local is read where a task or callback is created. It is written by the functions of the parent module,
//! and around the calls of tasks and callbacks that are not in the normal lane. So calls in the normal lane cost nothing.

use super::Lane;
use std::cell::Cell;
use std::time::Duration;

thread_local! {
    static CURRENT: Cell<Priority> = const { Cell::new(Priority::NORMAL) };
}

/// A lane, and how long a call may wait in it if it is the background lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Priority {
    pub(crate) lane: Lane,
    pub(crate) limit: OverdueLimit,
}

/// How long a call may wait in the background lane, in nanoseconds. Half the size of an `Option<Duration>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OverdueLimit(u64);

impl OverdueLimit {
    /// As [`EventLoop::set_max_overdue`](crate::EventLoop::set_max_overdue) defines.
    const OF_LOOP: Self = OverdueLimit(u64::MAX);

    pub(crate) fn new(limit: Duration) -> Self {
        OverdueLimit(u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX).min(u64::MAX - 1))
    }

    /// `None`: the limit of the loop.
    #[inline]
    pub(crate) fn get(self) -> Option<Duration> {
        (self != Self::OF_LOOP).then(|| Duration::from_nanos(self.0))
    }
}

impl From<Option<Duration>> for OverdueLimit {
    /// The inverse of [`OverdueLimit::get`].
    fn from(limit: Option<Duration>) -> Self {
        limit.map_or(Self::OF_LOOP, Self::new)
    }
}

impl Priority {
    pub(crate) const NORMAL: Self = Priority { lane: Lane::Normal, limit: OverdueLimit::OF_LOOP };
    pub(super) const URGENT: Self = Priority { lane: Lane::Urgent, limit: OverdueLimit::OF_LOOP };

    /// The priority that a new task or callback inherits.
    #[inline]
    pub(crate) fn current() -> Self {
        CURRENT.get()
    }

    /// The priority of a call that is explicitly in `lane`. In the background lane it inherits the limit if the current
    /// code is in that lane too.
    pub(crate) fn in_lane(lane: Lane) -> Self {
        let current = Self::current();
        if current.lane == lane { current } else { Priority { lane, ..Self::NORMAL } }
    }

    pub(super) fn background(max_overdue: Duration) -> Self {
        Priority { lane: Lane::Background, limit: OverdueLimit::new(max_overdue) }
    }

    #[inline]
    pub(crate) fn is_normal(self) -> bool {
        self.lane == Lane::Normal
    }

    /// Makes this the current priority until the guard is dropped.
    pub(crate) fn enter(self) -> RestorePriority {
        RestorePriority(CURRENT.replace(self))
    }

    /// Calls `f` with this as the current priority.
    pub(crate) fn run<R>(self, f: impl FnOnce() -> R) -> R {
        let _restore = self.enter();
        f()
    }
}

/// Restores the former priority when it is dropped.
pub(crate) struct RestorePriority(Priority);

impl Drop for RestorePriority {
    fn drop(&mut self) {
        CURRENT.set(self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_of_any_length_is_a_limit() {
        for limit in [Duration::ZERO, Duration::from_nanos(1), Duration::from_secs(3600)] {
            assert_eq!(OverdueLimit::new(limit).get(), Some(limit));
        }
        assert_eq!(OverdueLimit::new(Duration::MAX).get(), Some(Duration::from_nanos(u64::MAX - 1)));
        assert_eq!(OverdueLimit::OF_LOOP.get(), None);
    }
}
