//! Waiting with a virtual clock.
//!
//! If only a timer can make the loop continue, the clock jumps to its deadline. If something outside of the loop can, a
//! job in a thread or a socket whose peer is not in this loop, the loop waits for it in real time. The clock stands still
//! meanwhile. It moves to the deadline when the loop has waited in real time for as long as the timer would have. So
//! virtual time is never ahead of the outside, and a timeout around a job still expires.

use super::iteration::MAX_WAIT;
use super::{Engine, Host};
use crate::clock::Time;
use crate::poller::peers::{self, Sender};
use std::cell::Cell;
use std::os::fd::RawFd;
use std::time::{Duration, Instant};

/// A thread that the engine does not know may end without a wake-up, so the loop checks it at this interval.
const THREAD_CHECK_INTERVAL: Duration = Duration::from_millis(10);

/// With sockets the loop polls for this long before the clock jumps: the kernel may deliver what one socket of the loop
/// sent to another a little later.
const DELIVERY_TIME: Duration = Duration::from_millis(1);

/// How long the loop has waited in real time since the clock moved.
#[derive(Default)]
pub(super) struct RealWait {
    clock: Cell<Time>,
    waited: Cell<Duration>,
    /// When the driver of a loop in guest mode began to wait.
    since: Cell<Option<Instant>>,
}

impl RealWait {
    /// The time waited while the clock showed `now`.
    fn at(&self, now: Time) -> Duration {
        if self.clock.replace(now) != now {
            self.waited.set(Duration::ZERO);
        }
        self.waited.get()
    }

    fn add(&self, waited: Duration) {
        self.waited.set(self.waited.get().saturating_add(waited));
    }
}

impl<H: Host> Engine<H> {
    /// Waits until a call may be ready, or a timer is due at `deadline`.
    #[cold]
    pub(super) fn wait_in_virtual_time(&self, deadline: Option<Time>) -> Result<(), H::Error> {
        self.wait(Some(Duration::ZERO))?;
        if self.is_busy() {
            return Ok(());
        }
        let (mut sender, mut fds) = self.io_sender();
        if sender != Sender::Outside && !fds.is_empty() {
            self.wait(Some(DELIVERY_TIME))?;
            if self.is_busy() {
                return Ok(());
            }
            if sender == Sender::Connecting {
                (sender, fds) = self.io_sender();
            }
        }
        let deadline = deadline.filter(|&when| when != Time::NEVER);
        let threads = self.host.waits_for_threads();
        let is_outside = sender >= Sender::Connecting;
        let is_alone = !threads && !self.inbox.waits_for_work() && !is_outside;
        // The host may have scheduled a call.
        if self.is_busy() || (is_alone && self.clock.skip_to(deadline)) {
            return Ok(());
        }
        if is_alone && sender == Sender::Inside && self.inbox.is_quiet() {
            self.host.deadlocked()?;
        }
        if is_outside || (is_alone && sender == Sender::Anyone) {
            self.host.waits_for_io(&fds)?;
        }
        let left = deadline.map(|when| self.time_until(when));
        if left == Some(Duration::ZERO) && self.clock.skip_to(deadline) {
            return Ok(());
        }
        let check = threads.then_some(THREAD_CHECK_INTERVAL);
        let timeout = left.into_iter().chain(check).min().map(|timeout| timeout.min(MAX_WAIT));
        let started = Instant::now();
        let result = self.wait(timeout);
        self.real_wait.add(started.elapsed());
        result
    }

    /// The real time until the clock shows `deadline`, if nothing else moves it.
    pub(super) fn time_until(&self, deadline: Time) -> Duration {
        let now = self.clock.now();
        let left = deadline.saturating_duration_since(now);
        if self.clock.is_virtual() { left.saturating_sub(self.real_wait.at(now)) } else { left }
    }

    /// In guest mode: the driver begins to wait.
    pub(super) fn begin_real_wait(&self) {
        if self.clock.is_virtual() {
            self.real_wait.since.set(Some(Instant::now()));
        }
    }

    /// In guest mode: the driver has waited. Moves the clock if that was as long as the next timer needs.
    pub(super) fn end_real_wait(&self) {
        let Some(since) = self.real_wait.since.take() else { return };
        // Forgets earlier waits if the clock was moved meanwhile.
        self.real_wait.at(self.clock.now());
        self.real_wait.add(since.elapsed());
        let deadline = self.timers.borrow_mut().next_wakeup().filter(|&when| when != Time::NEVER);
        if deadline.is_some_and(|when| self.time_until(when) == Duration::ZERO) {
            self.clock.skip_to(deadline);
        }
    }

    /// Who can make a registered fd ready, and which fds these are.
    fn io_sender(&self) -> (Sender, Vec<RawFd>) {
        let table = self.table.borrow();
        let registered: Vec<_> = table.iter().map(|(_, entry)| entry.fd).collect();
        if registered.is_empty() {
            return (Sender::Inside, Vec::new());
        }
        peers::sender(&registered, &table.known_fds())
    }
}
