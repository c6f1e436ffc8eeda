//! The poller contract: how the engine learns of I/O; and the back ends.
//!
//! The contract is readiness-based, as epoll and kqueue are: the engine registers an [`Interest`] in an fd, a wait
//! reports an [`Event`] when the fd is ready, and the engine then makes the system call ([`Poller::recv`],
//! [`Poller::send`], [`Poller::accept`]…). A system call may return `WouldBlock` even after an event; the engine then
//! waits for the next one. The system calls are methods of the back end so that tests can make them fail:
//! `testing::FakePoller` runs the same code as the epoll back end, and changes the results.
//!
//! # Rules
//!
//! - Events are level-triggered: a wait reports an fd for as long as it is ready. A short `recv` does not mean that
//!   nothing is left: Linux also returns short at the TCP urgent mark and at a Unix message with ancillary data. Only
//!   [`Interest::WAKE`] is edge-triggered: one event per write, and the eventfd is never read.
//! - An event names a [`Key`]: a slot and its generation. The kernel reuses fd numbers at once, the engine never
//!   reuses a key, so a late event for a closed fd finds no registration.
//! - Errors and hang-ups are reported in every registered direction; the system call returns the error. They may also
//!   be reported in a direction that is not registered, so the engine masks events with the registered interest.
//! - An fd is deregistered before it is closed. The back ends tolerate a violation as far as the kernel allows: see
//!   [`Poller::update`].
//! - Blocking is a separate object, the [`Parker`], so that the poller is not borrowed while a thread sleeps in the
//!   kernel: other code may register fds meanwhile.
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
pub(crate) mod peers;
pub(crate) mod socket;
#[allow(unsafe_code, reason = "system calls")]
mod sys;
mod unix_diag;

pub(crate) use closed::ClosedPoller;
pub use epoll::open as open_epoll;
pub use peers::describe;
pub use socket::{local_address, peer_address};
pub use socket::{peek_from, remote_address};

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, OwnedFd, RawFd};
use std::time::Duration;

/// Identifies one registration: a slot of the engine's table and the generation of its use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// Index into the engine's table of sources.
    pub slot: u32,
    /// The use of that slot; an event of an earlier use is stale and ignored.
    pub generation: u32,
}

impl Key {
    /// The key of an fd that is not registered; no registration ever has it.
    pub const UNREGISTERED: Key = Key { slot: u32::MAX, generation: 0 };

    /// The key packed into the 64 bits that epoll carries.
    pub const fn to_bits(self) -> u64 {
        (self.generation as u64) << 32 | self.slot as u64
    }

    /// The key that [`Key::to_bits`] packed.
    pub const fn from_bits(bits: u64) -> Self {
        Key { slot: bits as u32, generation: (bits >> 32) as u32 }
    }
}

/// The events that an fd is registered for: any union of the constants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Interest(u8);

impl Interest {
    /// Nothing: the fd is not registered.
    pub const NONE: Interest = Interest(0);
    /// Readability.
    pub const READ: Interest = Interest(1);
    /// Writability.
    pub const WRITE: Interest = Interest(2);
    /// One event per write to an eventfd, which is never read. For the loop's own wake-ups. The only edge-triggered
    /// interest; never combined with another.
    pub const WAKE: Interest = Interest(4);

    /// The union.
    #[must_use]
    pub const fn with(self, other: Interest) -> Interest {
        Interest(self.0 | other.0)
    }

    /// The difference.
    #[must_use]
    pub const fn without(self, other: Interest) -> Interest {
        Interest(self.0 & !other.0)
    }

    /// Whether the two have something in common.
    pub const fn intersects(self, other: Interest) -> bool {
        self.0 & other.0 != 0
    }

    /// Whether this is [`Interest::NONE`].
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }

    /// Whether this includes an inbound direction.
    pub const fn is_inbound(self) -> bool {
        self.intersects(Interest::READ.with(Interest::WAKE))
    }

    /// Whether this includes an outbound direction.
    pub const fn is_outbound(self) -> bool {
        self.intersects(Interest::WRITE)
    }
}

/// The directions that an event announces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Readiness {
    /// Data or a connection is available, or the system call will return an error.
    pub inbound: bool,
    /// There is room to write, or the system call will return an error.
    pub outbound: bool,
}

impl Readiness {
    /// Inbound only.
    pub const INBOUND: Readiness = Readiness { inbound: true, outbound: false };
    /// Outbound only.
    pub const OUTBOUND: Readiness = Readiness { inbound: false, outbound: true };
    /// Both directions, as for an error or a hang-up.
    pub const BOTH: Readiness = Readiness { inbound: true, outbound: true };
}

/// One readiness event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// The registration.
    pub key: Key,
    /// The ready directions.
    pub readiness: Readiness,
}

/// The origin of a connection or a datagram, or the destination of a datagram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PeerAddress {
    /// An IPv4 or IPv6 peer.
    Inet(SocketAddr),
    /// A Unix peer: its path or abstract name (with a leading zero byte), empty for an unnamed socket.
    Unix(Vec<u8>),
    /// No address (a Unix datagram from an unbound socket), or one of an unsupported family.
    Other,
}

/// A back end: registrations, and the system calls on registered fds. Never blocks, never runs user code.
pub trait Poller {
    /// Changes the interest in `fd` under `key` from `old` to `new`. `old` is `NONE` for an fd that is not registered,
    /// `new` is `NONE` to deregister it.
    ///
    /// An fd that was closed without being deregistered must not cause an error: removing a missing registration
    /// succeeds, and changing one adds it. A change that makes no difference to the back end need not reach the
    /// kernel, and then detects nothing: pass `NONE` for `old` if the number may refer to another file by now.
    ///
    /// `fd` is a number, because the program may have closed the fd that it registered with `add_reader()`.
    ///
    /// The key is fixed for the registration. To change it, deregister the fd and register it again.
    fn update(&mut self, fd: RawFd, key: Key, old: Interest, new: Interest) -> io::Result<()>;

    /// An fd that is readable while a wait would return an event. `None` if the back end has none.
    fn pollable_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Receives from a stream socket into `buffer`; `Ok(0)` for a non-empty buffer is EOF.
    fn recv(&mut self, fd: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<usize> {
        socket::recv(fd, buffer)
    }

    /// Sends as much of `chunks` on a stream socket as the kernel accepts now, in order; `WouldBlock` if that is
    /// nothing. `Ok(0)` only if there is nothing to send. A closed peer is an error (`BrokenPipe`), never a signal.
    fn send(&mut self, fd: BorrowedFd<'_>, chunks: &[IoSlice<'_>]) -> io::Result<usize> {
        socket::send(fd, chunks)
    }

    /// As [`Poller::send`], but the kernel may delay the last packet (`MSG_MORE`). A `send` or a [`Poller::push`]
    /// must follow at once; otherwise Linux sends the bytes after 200 ms, or when the fd is closed.
    fn send_more(&mut self, fd: BorrowedFd<'_>, chunks: &[IoSlice<'_>]) -> io::Result<usize> {
        socket::send_more(fd, chunks)
    }

    /// Sends the bytes that [`Poller::send_more`] left in the kernel.
    fn push(&mut self, fd: BorrowedFd<'_>) -> io::Result<()> {
        socket::push(fd)
    }

    /// Accepts one connection, which is non-blocking and close-on-exec. The listener must be non-blocking: this
    /// system call has no per-call flag for that.
    fn accept(&mut self, fd: BorrowedFd<'_>) -> io::Result<(OwnedFd, PeerAddress)> {
        socket::accept(fd)
    }

    /// Receives one datagram into `buffer`, with its sender; bytes that do not fit are lost. `Ok` without bytes is an
    /// empty datagram.
    fn recv_from(&mut self, fd: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<(usize, PeerAddress)> {
        socket::recv_from(fd, buffer)
    }

    /// Sends one datagram; without a `destination` to the connected peer.
    fn send_to(
        &mut self,
        fd: BorrowedFd<'_>,
        data: &[u8],
        destination: Option<&PeerAddress>,
    ) -> io::Result<()> {
        socket::send_to(fd, data, destination)
    }

    /// Reads from a non-blocking pipe or terminal; `Ok(0)` for a non-empty buffer is EOF.
    fn read(&mut self, fd: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<usize> {
        file::read(fd, buffer)
    }

    /// Writes as much of `chunks` to a non-blocking pipe or terminal as the kernel accepts now.
    fn write(&mut self, fd: BorrowedFd<'_>, chunks: &[IoSlice<'_>]) -> io::Result<usize> {
        file::write(fd, chunks)
    }
}

/// The part of a back end that blocks. One thread at a time uses it, while no other part is borrowed.
pub trait Parker {
    /// Waits for events until `timeout` has passed (`None`: without limit), and appends at most `max_events` to
    /// `events`. The next wait returns the others first. A signal ends the wait with `Interrupted`. Otherwise the
    /// wait never ends early without events; it may end late by the system's timer slack.
    fn park(
        &mut self,
        timeout: Option<Duration>,
        max_events: usize,
        events: &mut Vec<Event>,
    ) -> io::Result<()>;
}

/// The two parts of a back end. It stays on its thread (`!Send`).
pub struct Backend {
    /// Registrations and system calls.
    pub poller: Box<dyn Poller>,
    /// The blocking wait.
    pub parker: Box<dyn Parker>,
}
