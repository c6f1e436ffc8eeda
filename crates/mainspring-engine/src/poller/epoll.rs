//! epoll: the back end every Linux has.
//!
//! Level-triggered: a wait reports a descriptor for as long as there is something to do. Edge-triggered polling needs to
//! know when a descriptor is drained, and only `EAGAIN` tells that (`epoll(7)`): a short `recv` does not, so every message
//! would cost a second `recv`.
//!
//! # Facts this file rests on
//!
//! - `EPOLLERR` and `EPOLLHUP` are reported whether asked for or not, even under an empty mask. A descriptor of
//!   which nothing is wanted is therefore taken out altogether; kept in with no interest, a peer's hang-up would
//!   end every wait at once.
//! - A peer that only shuts down its sending side shows as `EPOLLIN`, and `recv` then returns 0. `EPOLLRDHUP`
//!   would tell no more than that, and would end every wait of a transport that has read the end and now only
//!   sends, so it is not asked for.
//! - A registration belongs to the open file, not to the number. Closing the last number of a file takes the
//!   registration out, and the next file under that number is unknown: hence `MOD` may find `ENOENT`, and `DEL`
//!   may find `ENOENT` or `EBADF`. If a *duplicate* keeps the file open, the registration lives on under its old
//!   key, and no call can reach it any more: so take out before closing.
//! - A wait moves what it reports to the tail of the ready list. With more ready descriptors than fit the buffer,
//!   the next wait brings the others first, and nobody starves.
//! - `epoll_wait` counts in milliseconds. `epoll_pwait2` (Linux 5.11) counts in nanoseconds, but a kernel or a
//!   seccomp profile may refuse it, so it is tried once when the back end is opened. Without it timeouts are
//!   rounded up: late by less than a millisecond, never early.
//! - Regular files cannot be polled: `ADD` says `EPERM`, which is handed on (a `PermissionError` in Python).

use std::io;
use std::os::fd::{AsFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::epoll::{self, CreateFlags, EventFlags};
use rustix::io::Errno;

use super::sys::{self, EventBuffer, Operation};
use super::{Backend, Event, Interest, Key, Parker, Poller, Readiness};

/// How many events a wait returns at most; libuv's and tokio's number. asyncio has no limit. The others come first in the
/// next wait.
const EVENTS_PER_WAIT: usize = 1024;
/// The longest single wait asked of the kernel, some 24 days; longer timeouts are waited out in pieces.
const MAX_SINGLE_WAIT: Duration = Duration::from_millis(i32::MAX as u64);

/// Opens an epoll back end.
pub fn open() -> io::Result<Backend> {
    let epoll = create()?;
    let has_pwait2 = EventBuffer::with_capacity(1).wait_nanos(epoll.as_fd(), 1, Duration::ZERO).is_ok();
    Ok(backend(epoll, has_pwait2))
}

/// Opens an epoll back end that does without `epoll_pwait2`, as it must on kernels before 5.11 and under some
/// seccomp profiles: its timeouts are rounded up to milliseconds.
pub fn open_coarse() -> io::Result<Backend> {
    Ok(backend(create()?, false))
}

fn create() -> io::Result<OwnedFd> {
    Ok(epoll::create(CreateFlags::CLOEXEC)?)
}

fn backend(epoll: OwnedFd, has_pwait2: bool) -> Backend {
    let epoll = Arc::new(epoll);
    Backend {
        poller: Box::new(EpollPoller { epoll: Arc::clone(&epoll) }),
        parker: Box::new(EpollParker {
            epoll,
            has_pwait2,
            buffer: EventBuffer::with_capacity(EVENTS_PER_WAIT),
        }),
    }
}

struct EpollPoller {
    epoll: Arc<OwnedFd>,
}

/// What epoll is asked to watch for. Interests of one direction differ only in how the outcome is claimed.
fn flags_of(interest: Interest) -> EventFlags {
    let mut flags = EventFlags::empty();
    flags.set(EventFlags::IN, interest.is_inbound());
    flags.set(EventFlags::OUT, interest.is_outbound());
    flags.set(EventFlags::ET, interest.intersects(Interest::WAKE));
    flags
}

/// What reported flags announce: anything but plain writability may concern a reader, anything but plain
/// readability a writer.
fn readiness_of(flags: EventFlags) -> Readiness {
    Readiness {
        inbound: !flags.difference(EventFlags::OUT).is_empty(),
        outbound: !flags.difference(EventFlags::IN).is_empty(),
    }
}

impl Poller for EpollPoller {
    fn update(&mut self, fd: RawFd, key: Key, old: Interest, new: Interest) -> io::Result<()> {
        let (old, new) = (flags_of(old), flags_of(new));
        if old == new {
            return Ok(());
        }
        let control =
            |operation| sys::epoll_ctl(self.epoll.as_fd(), operation, fd, new.bits(), key.to_bits());
        let done = if new.is_empty() {
            match control(Operation::Delete) {
                Err(Errno::NOENT | Errno::BADF) => Ok(()),
                done => done,
            }
        } else if old.is_empty() {
            match control(Operation::Add) {
                Err(Errno::EXIST) => control(Operation::Modify),
                done => done,
            }
        } else {
            match control(Operation::Modify) {
                Err(Errno::NOENT) => control(Operation::Add),
                done => done,
            }
        };
        Ok(done?)
    }

    fn name(&self) -> &'static str {
        "epoll"
    }
}

struct EpollParker {
    epoll: Arc<OwnedFd>,
    /// Whether the kernel lets us wait with `epoll_pwait2`.
    has_pwait2: bool,
    buffer: EventBuffer,
}

impl EpollParker {
    /// One wait, for `timeout` or a little longer; no longer than [`MAX_SINGLE_WAIT`] may be asked.
    fn wait(&mut self, timeout: Option<Duration>, max_events: usize) -> io::Result<()> {
        let epoll = self.epoll.as_fd();
        match timeout {
            None => self.buffer.wait_millis(epoll, max_events, -1),
            Some(Duration::ZERO) => self.buffer.wait_millis(epoll, max_events, 0),
            Some(timeout) if self.has_pwait2 => self.buffer.wait_nanos(epoll, max_events, timeout),
            Some(timeout) => {
                let millis = timeout.as_nanos().div_ceil(1_000_000);
                self.buffer.wait_millis(epoll, max_events, i32::try_from(millis).unwrap_or(i32::MAX))
            }
        }
    }
}

impl Parker for EpollParker {
    fn park(
        &mut self,
        timeout: Option<Duration>,
        max_events: usize,
        events: &mut Vec<Event>,
    ) -> io::Result<()> {
        wait_in_pieces(timeout, MAX_SINGLE_WAIT, |piece| {
            self.wait(piece, max_events)?;
            Ok(self.buffer.len())
        })?;
        // Without memory for all of them the others are left out: the next wait reports them again.
        let room = match events.try_reserve(self.buffer.len()) {
            Ok(()) => self.buffer.len(),
            Err(_) => events.capacity() - events.len(),
        };
        events.extend(self.buffer.iter().take(room).map(|(flags, data)| Event {
            key: Key::from_bits(data),
            readiness: readiness_of(EventFlags::from_bits_retain(flags)),
        }));
        Ok(())
    }
}

/// Waits, no longer than `longest` at a time, until a wait brings events or `timeout` has passed.
fn wait_in_pieces(
    timeout: Option<Duration>,
    longest: Duration,
    mut wait: impl FnMut(Option<Duration>) -> io::Result<usize>,
) -> io::Result<()> {
    let mut remaining = timeout;
    loop {
        let piece = remaining.map(|left| left.min(longest));
        let brought = wait(piece)?;
        // No wait is shorter than asked, so the pieces add up to the whole without looking at a clock.
        remaining = remaining.zip(piece).map(|(left, waited)| left - waited);
        if brought > 0 || remaining == Some(Duration::ZERO) {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The waits that a timeout of `seconds` comes to, when none may last longer than four and the first
    /// `silent` of them bring nothing.
    fn waits(seconds: u64, silent: usize) -> Vec<u64> {
        let mut waits = Vec::new();
        let longest = Duration::from_secs(4);
        wait_in_pieces(Some(Duration::from_secs(seconds)), longest, |piece| {
            waits.extend(piece.map(|piece| piece.as_secs()));
            Ok(usize::from(waits.len() > silent))
        })
        .unwrap();
        waits
    }

    #[test]
    fn a_timeout_longer_than_the_longest_wait_is_waited_out_in_pieces() {
        assert_eq!(waits(0, 9), [0]);
        assert_eq!(waits(4, 9), [4]);
        assert_eq!(waits(10, 9), [4, 4, 2]);
        assert_eq!(waits(10, 1), [4, 4]);
    }

    #[test]
    fn errors_and_hang_ups_are_announced_in_both_directions() {
        assert_eq!(readiness_of(EventFlags::ERR), Readiness::BOTH);
        assert_eq!(readiness_of(EventFlags::HUP), Readiness::BOTH);
        assert_eq!(readiness_of(EventFlags::IN | EventFlags::OUT), Readiness::BOTH);
        assert_eq!(readiness_of(EventFlags::IN), Readiness::INBOUND);
        assert_eq!(readiness_of(EventFlags::OUT), Readiness::OUTBOUND);
    }
}
