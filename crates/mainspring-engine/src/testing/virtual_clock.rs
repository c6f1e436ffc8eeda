//! Virtual time: a clock that stands still while callbacks run and jumps to the next deadline when nothing is ready.
//!
//! An hour of timeouts takes no time and has the same order in every run. Clones share one clock, so a test keeps one
//! and gives the loop another.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use crate::clock::{Clock, Time};

/// A clock that moves only by [`VirtualClock::advance`], or when the loop is idle. It stays on its thread (`!Send`).
///
/// `event_loop/virtual_time.rs` has the rule: the loop moves the clock if nothing but a timer can make it continue. It waits
/// in real time for a job in a thread and for a peer outside of the loop, at most for as long as the nearest timer.
#[derive(Clone, Debug, Default)]
pub struct VirtualClock {
    now: Rc<Cell<Time>>,
}

impl VirtualClock {
    /// A clock that stands at `start`.
    pub fn new(start: Time) -> Self {
        VirtualClock { now: Rc::new(Cell::new(start)) }
    }

    /// Advances by `by`, as if a callback had taken that long.
    pub fn advance(&self, by: Duration) {
        self.now.set(self.now.get().saturating_add(by));
    }
}

impl Clock for VirtualClock {
    fn now(&self) -> Time {
        self.now.get()
    }

    fn is_virtual(&self) -> bool {
        true
    }

    /// Jumps to `deadline`, unless that has passed. Without a deadline, or with [`Time::NEVER`], only I/O can make
    /// progress, which takes real time: returns `false`.
    fn skip_to(&self, deadline: Option<Time>) -> bool {
        match deadline {
            None | Some(Time::NEVER) => false,
            Some(deadline) => {
                self.now.set(self.now.get().max(deadline));
                true
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Time = Time::from_nanos(1_000);

    #[test]
    fn it_stands_still_until_it_is_advanced() {
        let clock = VirtualClock::new(START);
        assert_eq!(clock.now(), START);
        assert_eq!(clock.now(), START);
        clock.advance(Duration::from_nanos(5));
        assert_eq!(clock.now(), Time::from_nanos(1_005));
    }

    #[test]
    fn clones_show_the_same_time() {
        let clock = VirtualClock::new(START);
        let given_away = clock.clone();
        clock.advance(Duration::from_secs(3600));
        assert_eq!(given_away.now(), clock.now());
    }

    #[test]
    fn it_jumps_to_a_deadline() {
        let clock = VirtualClock::new(START);
        assert!(clock.skip_to(Some(Time::from_nanos(7_000))));
        assert_eq!(clock.now(), Time::from_nanos(7_000));
    }

    #[test]
    fn it_does_not_go_back_to_a_deadline_that_has_passed() {
        let clock = VirtualClock::new(START);
        assert!(clock.skip_to(Some(Time::ZERO)));
        assert_eq!(clock.now(), START);
    }

    #[test]
    fn without_a_deadline_it_leaves_the_wait_to_io() {
        let clock = VirtualClock::new(START);
        assert!(!clock.skip_to(None));
        assert!(!clock.skip_to(Some(Time::NEVER)));
        assert_eq!(clock.now(), START);
    }

    #[test]
    fn it_ends_at_the_end_of_time() {
        let clock = VirtualClock::new(START);
        clock.advance(Duration::MAX);
        assert_eq!(clock.now(), Time::NEVER);
    }
}
