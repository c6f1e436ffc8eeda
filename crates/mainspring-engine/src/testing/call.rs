//! The log of a [`FakePoller`](super::FakePoller): each call to the back end and its result.

use std::os::fd::RawFd;
use std::time::Duration;

use super::fault::Op;
use crate::poller::{Interest, Key, PeerAddress};

/// One call to the back end, with its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// A change of a registration.
    Update {
        /// The fd.
        fd: RawFd,
        /// Its key.
        key: Key,
        /// The previous interest.
        old: Interest,
        /// The new interest.
        new: Interest,
    },
    /// Receiving bytes.
    Recv {
        /// The fd.
        fd: RawFd,
        /// The size of the buffer.
        room: usize,
    },
    /// Sending bytes.
    Send {
        /// The fd.
        fd: RawFd,
        /// The length of each chunk.
        chunks: Vec<usize>,
    },
    /// Sending bytes with `MSG_MORE`.
    SendMore {
        /// The fd.
        fd: RawFd,
        /// The length of each chunk.
        chunks: Vec<usize>,
    },
    /// Sending pending bytes.
    Push {
        /// The fd.
        fd: RawFd,
    },
    /// Accepting a connection.
    Accept {
        /// The listener.
        fd: RawFd,
    },
    /// Receiving a datagram.
    RecvFrom {
        /// The fd.
        fd: RawFd,
        /// The size of the buffer.
        room: usize,
    },
    /// Sending a datagram.
    SendTo {
        /// The fd.
        fd: RawFd,
        /// Its length.
        length: usize,
        /// The destination; `None` for the connected peer.
        destination: Option<PeerAddress>,
    },
    /// Reading from a pipe.
    Read {
        /// The fd.
        fd: RawFd,
        /// The size of the buffer.
        room: usize,
    },
    /// Writing to a pipe.
    Write {
        /// The fd.
        fd: RawFd,
        /// The length of each chunk.
        chunks: Vec<usize>,
    },
    /// A wait.
    Park {
        /// The timeout.
        timeout: Option<Duration>,
    },
}

impl Call {
    /// The operation.
    pub const fn op(&self) -> Op {
        match self {
            Call::Update { .. } => Op::Update,
            Call::Recv { .. } => Op::Recv,
            Call::Send { .. } | Call::SendMore { .. } => Op::Send,
            Call::Push { .. } => Op::Push,
            Call::Accept { .. } => Op::Accept,
            Call::RecvFrom { .. } => Op::RecvFrom,
            Call::SendTo { .. } => Op::SendTo,
            Call::Read { .. } => Op::Read,
            Call::Write { .. } => Op::Write,
            Call::Park { .. } => Op::Park,
        }
    }

    /// The fd; `None` for a wait.
    pub const fn fd(&self) -> Option<RawFd> {
        match self {
            Call::Update { fd, .. }
            | Call::Recv { fd, .. }
            | Call::Send { fd, .. }
            | Call::SendMore { fd, .. }
            | Call::Push { fd }
            | Call::Accept { fd }
            | Call::RecvFrom { fd, .. }
            | Call::SendTo { fd, .. }
            | Call::Read { fd, .. }
            | Call::Write { fd, .. } => Some(*fd),
            Call::Park { .. } => None,
        }
    }
}

/// A call and its result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEntry {
    /// The call.
    pub call: Call,
    /// The number of bytes, the accepted fd, or the number of events (zero for an update); or the error number (zero
    /// if the error has none).
    pub result: Result<usize, i32>,
}
