//! Faults: which operation fails, on which descriptor, at which call, how often.

use mainspring_engine::testing as engine;
use std::os::fd::RawFd;

/// The operations of a back end for which faults can be planned.
///
/// ```
/// use mainspring::testing::{FaultPlan, Op};
///
/// assert_eq!(FaultPlan::short_send(1).fault.op(), Op::Send);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// A change of the events that the kernel reports for a descriptor.
    Update,
    /// Receiving from a stream socket.
    Recv,
    /// Sending to a stream socket.
    Send,
    /// Flushing data that the kernel holds back for the next packet.
    Push,
    /// Accepting a connection.
    Accept,
    /// Receiving a datagram.
    RecvFrom,
    /// Sending a datagram.
    SendTo,
    /// Reading from a pipe.
    Read,
    /// Writing to a pipe.
    Write,
    /// Polling for events.
    Park,
}

impl Op {
    pub(super) const fn from_engine(op: engine::Op) -> Self {
        match op {
            engine::Op::Update => Op::Update,
            engine::Op::Recv => Op::Recv,
            engine::Op::Send => Op::Send,
            engine::Op::Push => Op::Push,
            engine::Op::Accept => Op::Accept,
            engine::Op::RecvFrom => Op::RecvFrom,
            engine::Op::SendTo => Op::SendTo,
            engine::Op::Read => Op::Read,
            engine::Op::Write => Op::Write,
            engine::Op::Park => Op::Park,
        }
    }

    pub(super) const fn engine_op(self) -> engine::Op {
        match self {
            Op::Update => engine::Op::Update,
            Op::Recv => engine::Op::Recv,
            Op::Send => engine::Op::Send,
            Op::Push => engine::Op::Push,
            Op::Accept => engine::Op::Accept,
            Op::RecvFrom => engine::Op::RecvFrom,
            Op::SendTo => engine::Op::SendTo,
            Op::Read => engine::Op::Read,
            Op::Write => engine::Op::Write,
            Op::Park => engine::Op::Park,
        }
    }
}

/// How an operation fails.
///
/// ```
/// use mainspring::testing::{Fault, Op};
///
/// let reset = Fault::Fail { op: Op::Recv, errno: 104 };
/// assert_eq!(reset.op(), Op::Recv);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The operation is not performed and fails with this error number.
    Fail {
        /// The operation.
        op: Op,
        /// The system's error number, such as `ECONNRESET`.
        errno: i32,
    },
    /// The operation transfers at most this many bytes. With zero it would block.
    Short {
        /// The operation.
        op: Op,
        /// The limit.
        bytes: usize,
    },
}

impl Fault {
    /// The operation that fails.
    pub const fn op(self) -> Op {
        match self {
            Fault::Fail { op, .. } | Fault::Short { op, .. } => op,
        }
    }
}

/// A fault and the calls that it applies to: by default the next one, on any descriptor.
///
/// Each plan counts its matching calls itself. Plans are checked in the order of planning, and a call that one plan
/// fails is not counted by the later ones: two plans for "the next call" fail two calls.
///
/// ```
/// use mainspring::testing::{FakePoller, FaultPlan, Op};
/// use mainspring::{Builder, EventLoop};
/// use std::os::{fd::AsRawFd, unix::net::UnixStream};
///
/// let (backend, control) = FakePoller::open()?;
/// let event_loop = Builder::new().backend(backend).build()?;
/// let (socket, peer) = UnixStream::pair()?;
/// socket.set_nonblocking(true)?;
/// // One byte at a time; the second call fails.
/// control.plan(FaultPlan::short_recv(1).on(socket.as_raw_fd()).times(2));
/// control.plan(FaultPlan::fail(Op::Send, 104).after(1));
/// event_loop.run_until_complete(async {
///     let event_loop = EventLoop::current();
///     event_loop.sock_sendall(&peer, b"ab").await?;
///     assert_eq!(event_loop.sock_recv(&socket, 100).await?, b"a");
///     assert_eq!(event_loop.sock_recv(&socket, 100).await?, b"b");
///     let error = event_loop.sock_sendall(&peer, b"c").await.unwrap_err();
///     assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
///     std::io::Result::Ok(())
/// })??;
/// assert_eq!(control.pending_faults(), 0);
/// # Ok::<(), mainspring::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultPlan {
    /// How the call fails.
    pub fault: Fault,
    /// If set, only calls on this descriptor match. [`Op::Park`] has no descriptor and never matches one.
    pub fd: Option<RawFd>,
    /// The number of matching calls that succeed first.
    pub after: usize,
    /// The number of matching calls that fail after those; `usize::MAX` for all.
    pub times: usize,
}

impl FaultPlan {
    /// The next matching call fails like this.
    ///
    /// ```
    /// use mainspring::testing::{Fault, FaultPlan, Op};
    ///
    /// let plan = FaultPlan::new(Fault::Fail { op: Op::Accept, errno: 24 });
    /// assert_eq!(plan, FaultPlan::fail(Op::Accept, 24));
    /// ```
    pub const fn new(fault: Fault) -> Self {
        FaultPlan { fault, fd: None, after: 0, times: 1 }
    }

    /// The next `op` fails with the error number `errno`.
    pub const fn fail(op: Op, errno: i32) -> Self {
        Self::new(Fault::Fail { op, errno })
    }

    /// The next `op` transfers at most `bytes`.
    ///
    /// ```
    /// use mainspring::testing::{FaultPlan, Op};
    ///
    /// assert_eq!(FaultPlan::short(Op::Recv, 1), FaultPlan::short_recv(1));
    /// assert_eq!(FaultPlan::short(Op::Send, 1), FaultPlan::short_send(1));
    /// ```
    pub const fn short(op: Op, bytes: usize) -> Self {
        Self::new(Fault::Short { op, bytes })
    }

    /// The next receive returns at most `bytes`.
    pub const fn short_recv(bytes: usize) -> Self {
        Self::short(Op::Recv, bytes)
    }

    /// The next send takes at most `bytes`.
    pub const fn short_send(bytes: usize) -> Self {
        Self::short(Op::Send, bytes)
    }

    /// Matches only calls on this descriptor.
    #[must_use]
    pub const fn on(self, fd: RawFd) -> Self {
        FaultPlan { fd: Some(fd), ..self }
    }

    /// Lets this many matching calls succeed first.
    #[must_use]
    pub const fn after(self, calls: usize) -> Self {
        FaultPlan { after: calls, ..self }
    }

    /// Fails this many matching calls.
    #[must_use]
    pub const fn times(self, times: usize) -> Self {
        FaultPlan { times, ..self }
    }

    /// Fails every matching call.
    ///
    /// ```
    /// use mainspring::testing::{FaultPlan, Op};
    ///
    /// assert_eq!(FaultPlan::fail(Op::Park, 4).every_time().times, usize::MAX);
    /// ```
    #[must_use]
    pub const fn every_time(self) -> Self {
        self.times(usize::MAX)
    }

    pub(super) const fn engine_plan(self) -> engine::FaultPlan {
        let fault = match self.fault {
            Fault::Fail { op, errno } => engine::Fault::Fail { op: op.engine_op(), errno },
            Fault::Short { op, bytes } => engine::Fault::Short { op: op.engine_op(), bytes },
        };
        engine::FaultPlan { fault, fd: self.fd, after: self.after, times: self.times }
    }
}
