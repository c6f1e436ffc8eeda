//! The poller contract: how the engine learns of I/O, and the back ends.
//!
//! The contract is readiness-based, as epoll and kqueue are: the engine registers an [`Interest`] in an fd, a wait reports
//! an [`Event`] when the fd is ready, and the engine then makes the system call ([`Poller::recv`], [`Poller::send`],
//! [`Poller::accept`]…). A system call may answer `WouldBlock` even after an event; the engine then waits for the next
//! one. The system calls are methods of the back end so that tests can make them fail: `testing::FakePoller` runs the
//! same code as the epoll back end, and changes the answers.
//!
//! # Rules
//!
//! - Events are level-triggered: a wait reports an fd for as long as it is ready. A short `recv` does not mean that
//!   nothing is left: Linux also returns short at the TCP urgent mark and at a Unix message with ancillary data. Only
//!   [`Interest::WAKE`] is reported once per write, and nobody reads it.
//! - An event names a [`Key`]: a slot and its generation. The kernel reuses the number of an fd at once; a key is never
//!   reused, so a late event for a closed fd finds no registration.
//! - Errors and hang-ups are reported in every registered direction: the system call tells what happened. They may also
//!   be reported in a direction that is not registered, so the engine masks events with the interest in its own table.
//! - An fd is deregistered before it is closed. The back ends tolerate one that was not, as far as the kernel lets them:
//!   see [`Poller::update`].
//! - Blocking is a separate object, the [`Parker`], so that nothing of the poller is borrowed while a thread sleeps in
//!   the kernel: other code may register fds meanwhile.
//!
//! ```
//! use mainspring_engine::poller::{Backend, Event, Interest, Key, Readiness, open_epoll};
//! use std::io::Write;
//! use std::os::fd::{AsFd, AsRawFd};
//! use std::os::unix::net::UnixStream;
//!
//! let Backend { mut poller, mut parker } = open_epoll()?;
//! let (here, mut there) = UnixStream::pair()?;
//! let key = Key { slot: 0, generation: 1 };
//! poller.update(here.as_raw_fd(), key, Interest::NONE, Interest::READ)?;
//! there.write_all(b"hello")?;
//!
//! let mut events = Vec::new();
//! parker.park(None, usize::MAX, &mut events)?;
//! assert_eq!(events, [Event { key, readiness: Readiness::INBOUND }]);
//!
//! let mut buffer = [0; 16];
//! assert_eq!(poller.recv(here.as_fd(), &mut buffer)?, 5);
//! assert!(poller.recv(here.as_fd(), &mut buffer).is_err(), "it would block");
//! # Ok::<(), std::io::Error>(())
//! ```

mod closed;
pub(crate) mod epoll;
mod file;
pub(crate) mod socket;
#[allow(unsafe_code, reason = "system calls")]
mod sys;

pub(crate) use closed::ClosedPoller;
pub use epoll::open as open_epoll;
pub use socket::{local_address, peer_address};
pub use socket::{peek_from, remote_address};

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, OwnedFd, RawFd};
use std::time::Duration;

/// Names one registration: a slot of the engine's table and the generation of its use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// Index into the engine's table of sources.
    pub slot: u32,
    /// Which use of that slot; an event of an earlier use is stale and dropped.
    pub generation: u32,
}

impl Key {
    /// The key of an fd that is not registered; no registration ever has it.
    pub const UNREGISTERED: Key = Key { slot: u32::MAX, generation: 0 };

    /// The key as the kernel carries it.
    pub const fn to_bits(self) -> u64 {
        (self.generation as u64) << 32 | self.slot as u64
    }

    /// The key that [`Key::to_bits`] packed.
    pub const fn from_bits(bits: u64) -> Self {
        Key { slot: bits as u32, generation: (bits >> 32) as u32 }
    }
}

/// What an fd is registered for: any union of the constants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Interest(u8);

impl Interest {
    /// Nothing: the fd is not registered.
    pub const NONE: Interest = Interest(0);
    /// Report when it is readable.
    pub const READ: Interest = Interest(1);
    /// Report when it is writable.
    pub const WRITE: Interest = Interest(2);
    /// Report every write to an eventfd once; nobody reads it. For the loop's own wake-ups. The one interest that is not
    /// level-triggered; never combined with another.
    pub const WAKE: Interest = Interest(4);

    /// Both together.
    #[must_use]
    pub const fn with(self, other: Interest) -> Interest {
        Interest(self.0 | other.0)
    }

    /// This without the other.
    #[must_use]
    pub const fn without(self, other: Interest) -> Interest {
        Interest(self.0 & !other.0)
    }

    /// Whether anything of `other` is in this.
    pub const fn intersects(self, other: Interest) -> bool {
        self.0 & other.0 != 0
    }

    /// Whether nothing is wanted.
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }

    /// Whether an inbound direction is wanted.
    pub const fn is_inbound(self) -> bool {
        self.intersects(Interest::READ.with(Interest::WAKE))
    }

    /// Whether an outbound direction is wanted.
    pub const fn is_outbound(self) -> bool {
        self.intersects(Interest::WRITE)
    }
}

/// Which directions an event announces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Readiness {
    /// There is something to read, receive or accept, or the attempt will tell an error.
    pub inbound: bool,
    /// It takes more to write, or the attempt will tell an error.
    pub outbound: bool,
}

impl Readiness {
    /// Inbound only.
    pub const INBOUND: Readiness = Readiness { inbound: true, outbound: false };
    /// Outbound only.
    pub const OUTBOUND: Readiness = Readiness { inbound: false, outbound: true };
    /// Both directions, as an error or a hang-up is announced.
    pub const BOTH: Readiness = Readiness { inbound: true, outbound: true };
}

/// One thing that happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Whose it is.
    pub key: Key,
    /// What happened.
    pub readiness: Readiness,
}

/// Where a connection or a datagram came from, or where a datagram goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PeerAddress {
    /// An IPv4 or IPv6 peer.
    Inet(SocketAddr),
    /// A Unix peer: its path or abstract name (which begins with a zero byte), empty when it has none.
    Unix(Vec<u8>),
    /// No address at all (a Unix datagram of a socket that is not bound), or one of a family this engine has no
    /// words for.
    Other,
}

/// A back end: registrations, and the system calls on registered fds. Never blocks, never calls out.
pub trait Poller {
    /// Changes the interest in `fd` under `key` from `old` to `new`. `old` is `NONE` for an fd that is not registered,
    /// `new` is `NONE` to deregister it.
    ///
    /// An fd that was closed without being deregistered must not make this fail on the way out: deregistering what is no
    /// longer there is a success, and changing what is no longer there registers it anew. But a change that makes no
    /// difference to the back end need not reach the kernel at all, and then notices nothing: say `NONE` for `old`
    /// whenever the number may have come to mean another file.
    ///
    /// `fd` is a number, because the program may have closed the fd that it registered with `add_reader()`.
    ///
    /// The key stays with the registration. To give an fd another one, deregister it and register it again.
    fn update(&mut self, fd: RawFd, key: Key, old: Interest, new: Interest) -> io::Result<()>;

    /// Receives from a stream socket into `buffer`; `Ok(0)` for a non-empty buffer is the end of the stream.
    fn recv(&mut self, fd: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<usize> {
        socket::recv(fd, buffer)
    }

    /// Sends on a stream socket as much of `chunks` as the kernel takes now, in order; `WouldBlock` if that is nothing.
    /// `Ok(0)` only if there was nothing to send. A peer that is gone is an error (`BrokenPipe`), never a signal.
    fn send(&mut self, fd: BorrowedFd<'_>, chunks: &[IoSlice<'_>]) -> io::Result<usize> {
        socket::send(fd, chunks)
    }

    /// Sends as [`Poller::send`] does, but the kernel may wait for more before it sends a packet (`MSG_MORE`). A `send`
    /// or a [`Poller::push`] must follow at once; without one the bytes leave after 200 ms (Linux), or with the fd.
    fn send_more(&mut self, fd: BorrowedFd<'_>, chunks: &[IoSlice<'_>]) -> io::Result<usize> {
        socket::send_more(fd, chunks)
    }

    /// Sends what [`Poller::send_more`] left in the kernel.
    fn push(&mut self, fd: BorrowedFd<'_>) -> io::Result<()> {
        socket::push(fd)
    }

    /// Accepts one connection, which is non-blocking and close-on-exec. The listener must be non-blocking: this is the
    /// one call that the kernel would let block.
    fn accept(&mut self, fd: BorrowedFd<'_>) -> io::Result<(OwnedFd, PeerAddress)> {
        socket::accept(fd)
    }

    /// Receives one datagram into `buffer`, with its sender; bytes that do not fit are lost. `Ok` with no bytes is an
    /// empty datagram.
    fn recv_from(&mut self, fd: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<(usize, PeerAddress)> {
        socket::recv_from(fd, buffer)
    }

    /// Sends one datagram; to the peer that the socket is connected to if there is no `destination`.
    fn send_to(
        &mut self,
        fd: BorrowedFd<'_>,
        data: &[u8],
        destination: Option<&PeerAddress>,
    ) -> io::Result<()> {
        socket::send_to(fd, data, destination)
    }

    /// Reads from a non-blocking pipe or terminal; `Ok(0)` for a non-empty buffer is the end.
    fn read(&mut self, fd: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<usize> {
        file::read(fd, buffer)
    }

    /// Writes to a non-blocking pipe or terminal what the kernel takes of `chunks` now.
    fn write(&mut self, fd: BorrowedFd<'_>, chunks: &[IoSlice<'_>]) -> io::Result<usize> {
        file::write(fd, chunks)
    }

    /// The name of the back end, for diagnostics.
    fn name(&self) -> &'static str;
}

/// The part of a back end that blocks. Used by one thread at a time, while no other part of it is borrowed.
pub trait Parker {
    /// Waits until something happens or `timeout` has passed (`None`: for ever), and appends what happened to
    /// `events`, `max_events` at most. What it does not return comes first in the next wait. A signal ends the wait with `Interrupted`. Never returns early with nothing, but for that;
    /// late by as much as the system's timers are.
    fn park(
        &mut self,
        timeout: Option<Duration>,
        max_events: usize,
        events: &mut Vec<Event>,
    ) -> io::Result<()>;
}

/// A back end in its two parts. It stays on its thread (`!Send`).
pub struct Backend {
    /// Registrations and system calls.
    pub poller: Box<dyn Poller>,
    /// The blocking wait.
    pub parker: Box<dyn Parker>,
}
