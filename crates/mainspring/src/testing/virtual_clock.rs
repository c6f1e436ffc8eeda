//! `VirtualClock`: virtual time for tests.

use crate::clock::{Clock, Time};
use mainspring_engine::clock::Clock as _;
use mainspring_engine::testing::VirtualClock as EngineClock;
use std::time::Duration;

/// A clock that stands still while callbacks run, and jumps to the next deadline when no call is ready. All clones are
/// the same clock. It stays on its thread (`!Send`).
///
/// A call that runs in the executor holds the clock until it returns, so that a timeout around it does not expire at
/// once. If that call itself waits for a later timer of the loop, both wait forever. Other work on other threads does
/// not hold the clock.
///
/// ```
/// use mainspring::clock::Clock;
/// use mainspring::testing::VirtualClock;
/// use mainspring::{Builder, Time, sleep};
/// use std::time::Duration;
///
/// let clock = VirtualClock::new(Time::ZERO);
/// let event_loop = Builder::new().clock(clock.clone()).build()?;
/// event_loop.run_until_complete(sleep(Duration::from_secs(3600)))?;
/// clock.advance(Duration::from_secs(60));
/// assert_eq!(clock.now(), Time::ZERO + Duration::from_secs(3660));
/// # Ok::<(), mainspring::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct VirtualClock(EngineClock);

impl VirtualClock {
    /// A clock that shows `start`.
    pub fn new(start: Time) -> Self {
        VirtualClock(EngineClock::new(start.0))
    }

    /// Moves the clock by `by`, as if one callback had taken that long.
    pub fn advance(&self, by: Duration) {
        self.0.advance(by);
    }
}

impl Clock for VirtualClock {
    fn now(&self) -> Time {
        Time(self.0.now())
    }

    fn is_virtual(&self) -> bool {
        self.0.is_virtual()
    }

    /// Moves to `deadline` if that is later. Returns `false` without a deadline, or with [`Time::NEVER`]: then only
    /// I/O can continue the program, and I/O takes real time.
    fn skip_to(&self, deadline: Option<Time>) -> bool {
        self.0.skip_to(deadline.map(|deadline| deadline.0))
    }
}
