//! Guest mode: another loop, the driver, runs this one. It waits for the fd of this loop beside its own events.
//!
//! One turn of the driver is:
//!
//! 1. [`Engine::next_timeout`], then wait until [`Engine::pollable_fd`] is readable or the timeout has passed;
//! 2. [`Engine::poll_events`] with timeout zero;
//! 3. [`Engine::process_events`];
//! 4. [`Engine::process_ready`].
//!
//! These are the steps of [`Engine::run_once`]. The driver may also run code on this thread while it waits: a button's
//! callback that schedules a call on this loop. `next_timeout` therefore sets `driver_waits` and raises the hint of the
//! inbox. The next function that makes a call ready then looks into the inbox, as for a call from another thread, and
//! makes the fd readable. So functions that make a call ready need no check of their own.
//!
//! To a virtual clock the driver is outside of the loop: it may continue the program at any moment. The clock moves to
//! the next deadline when the driver has waited in real time for as long as that needs.

use super::iteration::MAX_WAIT;
use super::{Engine, Host};
use crate::clock::Time;
use crate::poller::Event;
use crate::wakeup::Waker;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::time::Duration;

impl<H: Host> Engine<H> {
    /// How long a driver may wait for the fd; `None`: without limit. Zero if there is work to do. Called before each
    /// wait.
    pub fn next_timeout(&self) -> Option<Duration> {
        self.end_driver_wait();
        self.receive_pending();
        let timeout = self.time_until_work();
        if timeout == Some(Duration::ZERO) || !self.inbox.prepare_sleep() {
            return Some(Duration::ZERO);
        }
        self.driver_waits.set(true);
        self.inbox.raise_hint();
        self.begin_real_wait();
        timeout
    }

    /// Waits for events, at most for `timeout`; not at all if there is work to do. Does not dispatch them: a driver may
    /// call this on another thread. Events that are not passed to [`Engine::process_events`] are reported again.
    pub fn poll_events(&self, timeout: Option<Duration>) -> Result<Vec<Event>, H::Error> {
        self.check_open()?;
        self.end_driver_wait();
        self.receive_pending();
        let timeout = if self.is_busy() { Some(Duration::ZERO) } else { timeout };
        let mut parking = self.take_parking()?;
        self.begin_real_wait();
        let outcome = self.sleep(&mut parking, timeout.map(|timeout| timeout.min(MAX_WAIT)));
        self.end_real_wait();
        let events = std::mem::take(&mut parking.events);
        self.return_parking(parking);
        self.after_wait(outcome, false).map(|()| events)
    }

    /// Makes the calls of `events` ready.
    pub fn process_events(&self, mut events: Vec<Event>) -> Result<(), H::Error> {
        self.check_open()?;
        let signalled = self.dispatch(&mut events);
        self.after_wait(Ok(()), signalled)
    }

    /// Makes due timers ready and runs the calls that are ready now. Returns `false` if [`Engine::stop`] was called.
    pub fn process_ready(&self) -> Result<bool, H::Error> {
        self.check_open()?;
        let _run = self.begin_run()?;
        self.counters.count_iteration();
        self.as_run(|| self.with_iteration_hooks(|| self.run_due_and_ready()))?;
        Ok(!self.stopping.get())
    }

    /// The number of the fd that is readable while there are events. `None` if the loop is closed.
    pub fn pollable_fd(&self) -> Option<RawFd> {
        self.poller.borrow().pollable_fd().map(|fd| fd.as_raw_fd())
    }

    /// A duplicate of that fd.
    pub fn duplicate_pollable_fd(&self) -> io::Result<OwnedFd> {
        let poller = self.poller.borrow();
        let unsupported = || io::Error::new(io::ErrorKind::Unsupported, "the back end has no pollable fd");
        poller.pollable_fd().ok_or_else(unsupported)?.try_clone_to_owned()
    }

    /// Whether a driver waits: items from other threads have to go through the inbox, which makes the fd readable.
    pub fn is_driver_waiting(&self) -> bool {
        self.driver_waits.get()
    }

    /// The time until the loop has something to do without an event; `None`: never.
    pub(super) fn time_until_work(&self) -> Option<Duration> {
        if self.is_busy() {
            return Some(Duration::ZERO);
        }
        let deadline = self.timers.borrow_mut().next_wakeup().filter(|&when| when != Time::NEVER)?;
        Some(self.time_until(deadline).min(MAX_WAIT))
    }

    /// The driver has stopped waiting.
    pub(super) fn end_driver_wait(&self) {
        if self.driver_waits.replace(false) {
            self.inbox.awake();
        }
        self.end_real_wait();
    }

    /// Ends the wait of the driver, if it waits.
    #[inline(always)]
    pub(super) fn wake_waiting_driver(&self) {
        if self.driver_waits.get() {
            self.wake_driver();
        }
    }

    #[cold]
    fn wake_driver(&self) {
        self.driver_waits.set(false);
        self.inbox.waker().wake();
    }
}
