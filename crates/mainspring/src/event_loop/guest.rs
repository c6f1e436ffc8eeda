//! `Guest`: a loop that another loop drives.

use super::EventLoop;
use crate::error::Error;
use mainspring_engine::poller::Event;
use std::fmt;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::time::Duration;

/// A loop that another loop drives: that of a user interface, a game, or another [`EventLoop`]. The other loop waits for
/// the file descriptor of the guest beside its own events, on the same thread. It stays on its thread (`!Send`).
///
/// One turn:
///
/// 1. wait until the file descriptor is readable, at most for [`next_timeout`](Guest::next_timeout);
/// 2. [`poll_events`](Guest::poll_events) with a timeout of zero;
/// 3. [`process_events`](Guest::process_events);
/// 4. [`process_ready`](Guest::process_ready).
///
/// While the other loop waits, everything that makes a call ready makes the file descriptor readable: events, calls of
/// other threads, and calls that callbacks of the other loop schedule on this one.
///
/// ```
/// use mainspring::{EventLoop, sleep};
/// use std::time::Duration;
///
/// let event_loop = EventLoop::new()?;
/// let task = event_loop.spawn(async {
///     sleep(Duration::from_millis(1)).await;
///     42
/// })?;
/// let guest = event_loop.guest()?;
/// while !task.is_finished() {
///     // This host has no events of its own: it lets the guest wait.
///     let events = guest.poll_events(guest.next_timeout())?;
///     guest.process_events(events)?;
///     guest.process_ready()?;
/// }
/// # Ok::<(), mainspring::Error>(())
/// ```
pub struct Guest {
    event_loop: EventLoop,
    /// A duplicate, so that it stays open if the loop is closed.
    fd: OwnedFd,
}

/// What [`Guest::poll_events`] found, for [`Guest::process_events`].
#[derive(Debug, Default)]
pub struct PolledEvents(Vec<Event>);

impl PolledEvents {
    /// The number of events.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl EventLoop {
    /// Lets another loop drive this one: see [`Guest`].
    ///
    /// # Errors
    ///
    /// [`Error::Closed`]; [`Error::Io`] if the system has no file descriptor left.
    pub fn guest(&self) -> Result<Guest, Error> {
        self.core().check_open()?;
        Ok(Guest { fd: self.core().engine.duplicate_pollable_fd()?, event_loop: self.clone() })
    }
}

impl Guest {
    /// The loop.
    pub fn event_loop(&self) -> &EventLoop {
        &self.event_loop
    }

    /// How long the host may wait for the file descriptor; `None`: without limit. Zero if there is work to do. To be
    /// called before each wait.
    pub fn next_timeout(&self) -> Option<Duration> {
        if self.event_loop.is_closed() { None } else { self.event_loop.core().engine.next_timeout() }
    }

    /// Waits for events, at most for `timeout`; not at all if there is work to do. Events that are not processed are
    /// reported again.
    pub fn poll_events(&self, timeout: Option<Duration>) -> Result<PolledEvents, Error> {
        let core = self.event_loop.core();
        core.check_open()?;
        core.engine.poll_events(timeout).map(PolledEvents).map_err(|failure| Error::Io(failure.into()))
    }

    /// Makes the calls of `events` ready.
    pub fn process_events(&self, events: PolledEvents) -> Result<(), Error> {
        let _running = self.event_loop.enter_nested(true)?;
        let processed = self.event_loop.core().engine.process_events(events.0);
        processed.map_err(|failure| Error::Io(failure.into()))
    }

    /// Runs the calls that are ready now and the timers that are due. Returns `false` if [`EventLoop::stop`] was called.
    ///
    /// In a callback of the loop itself this is a nested run.
    pub fn process_ready(&self) -> Result<bool, Error> {
        let _running = self.event_loop.enter_nested(true)?;
        self.event_loop.core().engine.process_ready().map_err(|failure| Error::Io(failure.into()))
    }
}

/// Readable while there is something to do, between [`Guest::next_timeout`] and the next turn.
impl AsFd for Guest {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl AsRawFd for Guest {
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

impl fmt::Debug for Guest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guest").field("event_loop", &self.event_loop).field("fd", &self.fd).finish()
    }
}
