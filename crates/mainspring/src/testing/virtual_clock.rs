//! `VirtualClock`: virtual time for tests.

use crate::clock::{Clock, Time};
use mainspring_engine::clock::Clock as _;
use mainspring_engine::testing::VirtualClock as EngineClock;
use std::time::Duration;

/// A clock that stands still while callbacks run, and jumps to the next deadline when no call is ready. All clones are
/// the same clock. It stays on its thread (`!Send`).
///
/// The clock jumps only if nothing but a timer can continue the program. If something outside of the loop can, the loop
/// waits for it in real time, and the clock stands still: a job in the executor, a child process, or a socket or pipe whose
/// other end is not in the loop. When the loop has waited for as long as the nearest timer, the clock moves to its
/// deadline. So a timeout around a job does not expire at once, but it does expire.
///
/// These do not hold the clock: a socket or pipe whose two ends are in the loop, a listening socket, a datagram socket
/// without a peer, and a thread that the loop does not know of, even if it has a [`Remote`](crate::Remote).
///
/// If nothing can ever continue the program, [`EventLoop::run_until_complete`](crate::EventLoop::run_until_complete)
/// returns [`Error::Deadlock`](crate::Error::Deadlock). [`testing::run`](super::run) runs a future in virtual time, and
/// [`testing::Options`](super::Options) have options for it.
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
    /// the outside can continue the program, and that takes real time.
    fn skip_to(&self, deadline: Option<Time>) -> bool {
        self.0.skip_to(deadline.map(|deadline| deadline.0))
    }
}
