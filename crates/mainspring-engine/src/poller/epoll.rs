//! The epoll back end.
//!
//! Level-triggered: a wait reports an fd for as long as it is ready. Edge-triggered polling needs to know when an fd
//! is drained, and only `EAGAIN` proves that (`epoll(7)`): a short `recv` does not, so every message would cost a
//! second `recv`.
//!
//! # Kernel facts
//!
//! - The kernel reports `EPOLLERR` and `EPOLLHUP` even for an empty event mask. An fd without interest is therefore
//!   removed from the set; otherwise a peer's hang-up would end every wait at once.
//! - A peer that shuts down only its sending side causes `EPOLLIN`, and `recv` then returns 0. `EPOLLRDHUP` adds no
//!   information, and would end every wait of a transport that has read EOF and only sends. It is not requested.
//! - A registration belongs to the open file description, not to the fd number. Closing the last fd of a file removes
//!   the registration, and the next file under that number is not registered: `MOD` may then fail with `ENOENT`, and
//!   `DEL` with `ENOENT` or `EBADF`. If a duplicate keeps the file open, the registration stays under its old key,
//!   and no call can reach it any more. Deregister before closing.
//! - A wait moves the fds that it reports to the tail of the ready list. With more ready fds than the buffer holds,
//!   the next wait returns the others first, and no fd starves.
//! - `epoll_wait` takes milliseconds. `epoll_pwait2` (Linux 5.11) takes nanoseconds, but an old kernel or a seccomp
//!   profile may refuse it, so it is tried once when the back end is opened. Without it timeouts are rounded up: late
//!   by less than a millisecond, never early.
//! - An epoll fd can itself be polled: it is readable while its ready list is not empty. An edge-triggered fd leaves the
//!   list when a wait reports it.
//! - Regular files cannot be polled: `ADD` fails with `EPERM`, which is returned (a `PermissionError` in Python).

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::epoll::{self, CreateFlags, EventFlags};
use rustix::io::Errno;

use super::sys::{self, EventBuffer, Operation};
use super::{Backend, Event, Interest, Key, Parker, Poller, Readiness};

/// The most events that one wait returns (libuv's and tokio's limit; asyncio has none). The next wait returns the
/// others first.
const EVENTS_PER_WAIT: usize = 1024;
/// The longest timeout of one system call, about 24 days; longer timeouts take several calls.
const MAX_SINGLE_WAIT: Duration = Duration::from_millis(i32::MAX as u64);

/// Opens an epoll back end.
pub fn open() -> io::Result<Backend> {
    let epoll = create()?;
    let has_pwait2 = EventBuffer::with_capacity(1).wait_nanos(epoll.as_fd(), 1, Duration::ZERO).is_ok();
    Ok(backend(epoll, has_pwait2))
}

/// Opens an epoll back end without `epoll_pwait2`, as on kernels before 5.11 and under some seccomp profiles:
/// timeouts are rounded up to milliseconds.
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

/// The event mask for an interest.
fn flags_of(interest: Interest) -> EventFlags {
    let mut flags = EventFlags::empty();
    flags.set(EventFlags::IN, interest.is_inbound());
    flags.set(EventFlags::OUT, interest.is_outbound());
    flags.set(EventFlags::ET, interest.intersects(Interest::WAKE));
    flags
}

/// The readiness that `flags` announce. Anything but plain writability may concern a reader, anything but plain
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

    fn pollable_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.epoll.as_fd())
    }
}

struct EpollParker {
    epoll: Arc<OwnedFd>,
    /// Whether the kernel accepts `epoll_pwait2`.
    has_pwait2: bool,
    buffer: EventBuffer,
}

impl EpollParker {
    /// One system call that waits for at least `timeout`, which is at most [`MAX_SINGLE_WAIT`].
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
        // Without memory for all events the others are dropped: the next wait reports them again.
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

/// Waits until there are events or `timeout` has passed, at most `longest` per system call.
fn wait_in_pieces(
    timeout: Option<Duration>,
    longest: Duration,
    mut wait: impl FnMut(Option<Duration>) -> io::Result<usize>,
) -> io::Result<()> {
    let mut remaining = timeout;
    loop {
        let piece = remaining.map(|left| left.min(longest));
        let brought = wait(piece)?;
        // No wait is shorter than its timeout, so the pieces add up to the whole without a clock.
        remaining = remaining.zip(piece).map(|(left, waited)| left - waited);
        if brought > 0 || remaining == Some(Duration::ZERO) {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The waits for a timeout of `seconds` if none may exceed four seconds and the first `silent` of them return no
    /// events.
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
