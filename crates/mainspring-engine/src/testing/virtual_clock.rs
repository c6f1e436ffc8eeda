//! Virtual time: a clock that stands still while callbacks run and jumps when nothing can run.
//!
//! A call that runs in the executor is something that can run: time stands still until it is done, so that a timeout around
//! it does not pass in no time. What else may come from other threads does not hold it up.
//!
//! An hour of timeouts passes in no time and in the same order every run. All clones are one clock, so a test
//! keeps one in its hand and gives the loop another.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use crate::clock::{Clock, Time};

/// A clock that moves only when it is told to, or when the loop has nothing left to do. It stays on its thread (`!Send`).
///
/// A call that runs in the executor is something to do: time stands still until it is done, so that a timeout around it
/// does not pass in no time. One that itself waits for what the loop does later waits for ever, then. Nothing else that
/// may come from other threads holds the clock up.
#[derive(Clone, Debug, Default)]
pub struct VirtualClock {
    now: Rc<Cell<Time>>,
}

impl VirtualClock {
    /// A clock that stands at `start`.
    pub fn new(start: Time) -> Self {
        VirtualClock { now: Rc::new(Cell::new(start)) }
    }

    /// Moves on by `by`, as if that long had passed in one callback.
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

    /// Jumps to `deadline`, and stays where it is if that has passed. Without a deadline, or with one that
    /// never comes, only I/O can go on, and that takes real time: the answer is `false`.
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
