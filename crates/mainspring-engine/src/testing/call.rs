//! What a [`FakePoller`](super::FakePoller) writes down: each call to the back end, and its outcome.

use std::os::fd::RawFd;
use std::time::Duration;

use super::fault::Op;
use crate::poller::{Interest, Key, PeerAddress};

/// One call to the back end, with what it was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// A registration changed.
    Update {
        /// The descriptor.
        fd: RawFd,
        /// Its key.
        key: Key,
        /// What was wanted of it.
        old: Interest,
        /// What is wanted from now on.
        new: Interest,
    },
    /// Bytes were claimed.
    Recv {
        /// The descriptor.
        fd: RawFd,
        /// The size of the buffer.
        room: usize,
    },
    /// Bytes were sent.
    Send {
        /// The descriptor.
        fd: RawFd,
        /// The length of each chunk.
        chunks: Vec<usize>,
    },
    /// Bytes were sent, of which the kernel may keep the last for a packet with what follows.
    SendMore {
        /// The descriptor.
        fd: RawFd,
        /// The length of each chunk.
        chunks: Vec<usize>,
    },
    /// The kernel was told to keep nothing.
    Push {
        /// The descriptor.
        fd: RawFd,
    },
    /// A connection was claimed.
    Accept {
        /// The listener.
        fd: RawFd,
    },
    /// A datagram was taken.
    RecvFrom {
        /// The descriptor.
        fd: RawFd,
        /// The size of the buffer.
        room: usize,
    },
    /// A datagram was sent.
    SendTo {
        /// The descriptor.
        fd: RawFd,
        /// Its length.
        length: usize,
        /// Where it went; `None` for the peer that the socket is connected to.
        destination: Option<PeerAddress>,
    },
    /// Bytes were read from a pipe.
    Read {
        /// The descriptor.
        fd: RawFd,
        /// The size of the buffer.
        room: usize,
    },
    /// Bytes were written to a pipe.
    Write {
        /// The descriptor.
        fd: RawFd,
        /// The length of each chunk.
        chunks: Vec<usize>,
    },
    /// The loop waited.
    Park {
        /// For how long at most.
        timeout: Option<Duration>,
    },
}

impl Call {
    /// Which operation this is.
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

    /// The descriptor it was about; a wait is about none.
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

/// A call and its outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEntry {
    /// What was asked.
    pub call: Call,
    /// The answer: bytes moved, the number of the accepted descriptor, or events brought (zero for an update);
    /// or the error's number (zero if it was not the system's).
    pub result: Result<usize, i32>,
}
