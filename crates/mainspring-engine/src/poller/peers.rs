//! Who can make an fd ready: the same loop, or someone else.
//!
//! A virtual clock must not run ahead of a peer that lives in another process or thread. It need not wait for a peer in
//! the same loop: what that peer has sent has arrived, and it sends more only when the loop runs it. Two fds of one loop
//! are peers if:
//!
//! - they are IP sockets, and the peer address of one is the local address of the other;
//! - they are Unix sockets, and the kernel names one as the peer of the other;
//! - they are the two ends of one pipe.
//!
//! A listening socket, and a datagram socket without a peer, do not hold the clock either: whoever sends to them may be
//! in the same loop, and asleep. Every other fd does.

use super::{PeerAddress, local_address, remote_address, sys, unix_diag};
use rustix::fs::{FileType, fstat};
use rustix::net::{SocketType, sockopt};
use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, RawFd};

/// Who can make an fd ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Sender {
    /// Only the loop itself.
    Inside,
    /// Someone who is not known yet.
    Anyone,
    /// The peer of a connection that is being established.
    Connecting,
    /// Another process or thread.
    Outside,
}

/// An fd, as far as its peer is concerned.
enum Kind {
    Pipe { inode: u64 },
    Ip { local: SocketAddr, peer: Peer },
    Unix { inode: u64, peer: Peer },
    Other,
}

enum Peer {
    /// Any number of peers: a listening or an unconnected datagram socket.
    Any,
    Address(SocketAddr),
    /// A Unix peer, or a stream socket that is not connected yet.
    Unknown,
}

impl Kind {
    fn of(fd: BorrowedFd<'_>) -> Kind {
        let Ok(stat) = fstat(fd) else { return Kind::Other };
        let inode = stat.st_ino;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Fifo => Kind::Pipe { inode },
            FileType::Socket => match local_address(fd) {
                PeerAddress::Inet(local) => Kind::Ip { local, peer: Peer::of(fd) },
                PeerAddress::Unix(_) => Kind::Unix { inode, peer: Peer::of(fd) },
                PeerAddress::Other => Kind::Other,
            },
            _ => Kind::Other,
        }
    }

    /// Who can make this fd ready. `set` includes it.
    fn sender(&self, set: &[Kind]) -> Sender {
        match self {
            Kind::Ip { peer: Peer::Any, .. } | Kind::Unix { peer: Peer::Any, .. } => Sender::Anyone,
            Kind::Ip { peer: Peer::Unknown, .. } => Sender::Connecting,
            _ if self.has_peer_in(set) => Sender::Inside,
            _ => Sender::Outside,
        }
    }

    fn has_peer_in(&self, set: &[Kind]) -> bool {
        match self {
            Kind::Ip { peer: Peer::Address(peer), .. } => {
                set.iter().any(|other| matches!(other, Kind::Ip { local, .. } if receives_at(*local, *peer)))
            }
            Kind::Unix { inode, .. } => unix_diag::inode_of_peer(*inode).is_some_and(|peer| {
                set.iter().any(|other| matches!(other, Kind::Unix { inode, .. } if *inode == peer))
            }),
            Kind::Pipe { inode } => {
                let is_same = |other: &&Kind| matches!(other, Kind::Pipe { inode: other } if other == inode);
                set.iter().filter(is_same).count() > 1
            }
            Kind::Ip { .. } | Kind::Other => false,
        }
    }
}

impl Peer {
    fn of(fd: BorrowedFd<'_>) -> Peer {
        match remote_address(fd) {
            Ok(PeerAddress::Inet(address)) => Peer::Address(address),
            Ok(_) => Peer::Unknown,
            Err(_) => {
                let is_datagram = sockopt::socket_type(fd) == Ok(SocketType::DGRAM);
                let is_listening = sockopt::socket_acceptconn(fd) == Ok(true);
                if is_datagram || is_listening { Peer::Any } else { Peer::Unknown }
            }
        }
    }
}

/// Whether a socket that is bound to `local` receives what is sent to `address`.
fn receives_at(local: SocketAddr, address: SocketAddr) -> bool {
    let is_same_host =
        local.ip().is_unspecified() || local.ip().to_canonical() == address.ip().to_canonical();
    is_same_host && local.port() == address.port()
}

/// The fd with its addresses, for messages. It may be closed.
pub fn describe(fd: RawFd) -> String {
    match sys::inspect(fd, Kind::of) {
        Kind::Pipe { .. } => format!("fd {fd} (a pipe)"),
        Kind::Ip { local, peer: Peer::Any } => format!("fd {fd} (a socket at {local})"),
        Kind::Ip { local, peer: Peer::Address(peer) } => format!("fd {fd} (a socket from {local} to {peer})"),
        Kind::Ip { local, peer: Peer::Unknown } => {
            format!("fd {fd} (a socket at {local} that is connecting)")
        }
        Kind::Unix { .. } => format!("fd {fd} (a Unix socket)"),
        Kind::Other => format!("fd {fd}"),
    }
}

/// The sender that the `registered` fds wait for: of several, the one that is most independent of the loop; and the fds
/// that wait for it. `all` are the fds of the loop. An fd may be closed.
pub(crate) fn sender(registered: &[RawFd], all: &[RawFd]) -> (Sender, Vec<RawFd>) {
    let kind = |&fd: &RawFd| sys::inspect(fd, Kind::of);
    let all: Vec<_> = all.iter().map(kind).collect();
    let senders: Vec<_> = registered.iter().map(|fd| (kind(fd).sender(&all), *fd)).collect();
    let sender = senders.iter().map(|&(sender, _)| sender).max().unwrap_or(Sender::Inside);
    (sender, senders.into_iter().filter(|&(other, _)| other == sender).map(|(_, fd)| fd).collect())
}
