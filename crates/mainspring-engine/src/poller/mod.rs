//! The poller contract: how the engine asks the kernel for I/O, and the back ends that answer.
//!
//! # The shape
//!
//! Stream operations are completion-shaped. The engine says what it wants to happen on a descriptor with an
//! [`Interest`] (`RECV`, `ACCEPT`, `SEND`), the back end answers with an [`Event`] when some of it has happened
//! or can happen at once, and the engine then *claims* the outcome with [`Poller::recv`], [`Poller::accept`] or
//! [`Poller::send`]. What happens between is the back end's business:
//!
//! - epoll and kqueue arm readiness, and claiming is the system call;
//! - io_uring keeps a multishot operation under way, and claiming takes what has arrived;
//! - IOCP keeps an overlapped operation under way, likewise.
//!
//! So a claim may answer `WouldBlock` even after an event (somebody else took the data, or a back end was
//! wrong): the engine then simply waits for the next event. `READ` and `WRITE` are the plain watch, readiness
//! and nothing more, for descriptors that the program itself reads and writes (`add_reader`), and for datagrams:
//! a datagram has an address and a border, and waits in the kernel well enough until it is asked for. So
//! [`Poller::recv_from`] and [`Poller::send_to`] are plain system calls on every back end.
//!
//! # Rules
//!
//! - Events are level-triggered: the next wait announces again what was not claimed. A short `recv` does not mean that
//!   nothing is left: Linux also returns short at the TCP urgent mark and at a Unix message with ancillary data. Only
//!   [`Interest::WAKE`] is announced once, and costs no claim.
//! - An event names a [`Key`], a slot and its generation. A descriptor number is reused by the kernel at once;
//!   a key is never reused, so a late event for a closed descriptor finds nobody.
//! - Errors and hang-ups are announced as every direction that was asked for: the claim tells what it was. They
//!   may be announced in a direction that was not asked for, too, so the engine looks at an event through the
//!   interest in its own table.
//! - A descriptor is taken out before it is closed. The back ends put up with those that were not, as far as
//!   the kernel lets them: see [`Poller::update`].
//! - Blocking is a separate object, the [`Parker`], so that nothing of the poller is borrowed while a thread
//!   sleeps in the kernel: other code may register descriptors meanwhile.
//!
//! ```
//! use mainspring_engine::poller::{Backend, Event, Interest, Key, Readiness, open_epoll};
//! use std::io::Write;
//! use std::os::fd::AsFd;
//! use std::os::unix::net::UnixStream;
//!
//! let Backend { mut poller, mut parker } = open_epoll()?;
//! let (here, mut there) = UnixStream::pair()?;
//! let key = Key { slot: 0, generation: 1 };
//! poller.update(here.as_fd(), key, Interest::NONE, Interest::RECV)?;
//! there.write_all(b"hello")?;
//!
//! let mut events = Vec::new();
//! parker.park(None, usize::MAX, &mut events)?;
//! assert_eq!(events, [Event { key, readiness: Readiness::INBOUND }]);
//!
//! let mut buffer = [0; 16];
//! assert_eq!(poller.recv(here.as_fd(), key, &mut buffer)?, 5);
//! assert!(poller.recv(here.as_fd(), key, &mut buffer).is_err(), "it would block");
//! # Ok::<(), std::io::Error>(())
//! ```

mod closed;
pub(crate) mod epoll;
mod file;
pub(crate) mod socket;
mod sys;

pub(crate) use closed::ClosedPoller;
pub use epoll::open as open_epoll;
pub use socket::{local_address, peer_address};
pub use socket::{peek_from, remote_address};

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, OwnedFd};
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
    /// What a claim is made with on a descriptor that is not registered; no registration ever has it.
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

/// What is wanted of a descriptor: any union of the constants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Interest(u8);

impl Interest {
    /// Nothing: the descriptor is not with the kernel at all.
    pub const NONE: Interest = Interest(0);
    /// Tell when it is readable; the program reads.
    pub const READ: Interest = Interest(1);
    /// Tell when it is writable; the program writes.
    pub const WRITE: Interest = Interest(2);
    /// Receive from the stream; claimed with [`Poller::recv`].
    pub const RECV: Interest = Interest(4);
    /// Accept connections; claimed with [`Poller::accept`].
    pub const ACCEPT: Interest = Interest(8);
    /// Tell when the stream takes more; then go on with [`Poller::send`].
    pub const SEND: Interest = Interest(16);
    /// Tell once of every write to an eventfd that nobody reads: the loop's own wake-ups. The one interest that is not
    /// level-triggered, and never together with another.
    pub const WAKE: Interest = Interest(32);

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
        self.intersects(Interest(1 | 4 | 8 | 32))
    }

    /// Whether an outbound direction is wanted.
    pub const fn is_outbound(self) -> bool {
        self.intersects(Interest(2 | 16))
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

/// A back end: registrations and claims. Never blocks, never calls out.
///
/// A back end may stand on another one:
pub trait Poller {
    /// Changes what is wanted of `fd` under `key` from `old` to `new`. `old` is `NONE` for a descriptor that is
    /// not registered, `new` is `NONE` to take it out.
    ///
    /// A descriptor that was closed behind the poller's back must not make this fail on the way out: taking
    /// out what is no longer there is a success, and changing what is no longer there registers it anew. But a
    /// change between interests that are one to the back end need not reach the kernel at all, and then notices
    /// nothing: say `NONE` for `old` whenever the number may have come to mean another file.
    ///
    /// The key stays with the registration. To give a descriptor another one, take it out and put it in again.
    fn update(&mut self, fd: BorrowedFd<'_>, key: Key, old: Interest, new: Interest) -> io::Result<()>;

    /// Claims received bytes into `buffer`; `Ok(0)` for a non-empty buffer is the end of the stream. `fd` is a
    /// stream socket, as it is for [`Poller::send`].
    fn recv(&mut self, fd: BorrowedFd<'_>, key: Key, buffer: &mut [u8]) -> io::Result<usize>;

    /// Sends as much of `chunks` as the kernel takes now, in order; `WouldBlock` if that is nothing. `Ok(0)` only
    /// if there was nothing to send. A peer that is gone is an error (`BrokenPipe`), never a signal.
    fn send(&mut self, fd: BorrowedFd<'_>, key: Key, chunks: &[IoSlice<'_>]) -> io::Result<usize>;

    /// Sends as [`Poller::send`] does, but the kernel may wait for more before it makes a packet of it. A `send` is to
    /// follow at once, or a [`Poller::push`]; without one the bytes leave when the kernel's patience ends (Linux: after
    /// 200 ms), or with the descriptor.
    fn send_more(&mut self, fd: BorrowedFd<'_>, key: Key, chunks: &[IoSlice<'_>]) -> io::Result<usize>;

    /// Lets go what [`Poller::send_more`] left with the kernel.
    fn push(&mut self, fd: BorrowedFd<'_>, key: Key) -> io::Result<()>;

    /// Claims one connection, which comes non-blocking and close-on-exec. The listener must be non-blocking:
    /// this is the one claim that the kernel would let block.
    fn accept(&mut self, fd: BorrowedFd<'_>, key: Key) -> io::Result<(OwnedFd, PeerAddress)>;

    /// Takes one datagram into `buffer`, and tells who sent it; what of it does not fit is lost. `Ok` with no bytes
    /// is an empty datagram.
    fn recv_from(
        &mut self,
        fd: BorrowedFd<'_>,
        key: Key,
        buffer: &mut [u8],
    ) -> io::Result<(usize, PeerAddress)> {
        let _ = key;
        socket::recv_from(fd, buffer)
    }

    /// Sends one datagram, to the peer that the socket is connected to where there is no `destination`.
    fn send_to(
        &mut self,
        fd: BorrowedFd<'_>,
        key: Key,
        data: &[u8],
        destination: Option<&PeerAddress>,
    ) -> io::Result<()> {
        let _ = key;
        socket::send_to(fd, data, destination)
    }

    /// Reads from a pipe or a terminal, non-blocking and watched with [`Interest::READ`]; `Ok(0)` for a non-empty
    /// buffer is the end. A plain system call on every back end, and here so that it can be made to fail.
    fn read(&mut self, fd: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<usize> {
        file::read(fd, buffer)
    }

    /// Writes to a pipe or a terminal, non-blocking, what the kernel takes of `chunks` now; as [`Poller::read`].
    fn write(&mut self, fd: BorrowedFd<'_>, chunks: &[IoSlice<'_>]) -> io::Result<usize> {
        file::write(fd, chunks)
    }

    /// The back end's name, as `MAINSPRING_BACKEND` and diagnostics spell it.
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
    /// Registrations and claims.
    pub poller: Box<dyn Poller>,
    /// The blocking wait.
    pub parker: Box<dyn Parker>,
}
