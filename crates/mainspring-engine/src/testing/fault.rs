//! Fault plans: which operation fails, on which fd, at which call, how often.
//!
//! A plan counts matching calls by itself. Plans are checked in the order of their creation. A call that triggers a
//! plan is not counted by later plans, so two plans for "the next call" trigger on two successive calls.

use std::io;
use std::os::fd::RawFd;

/// The operations of a back end that faults can be planned for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// [`Poller::update`](crate::poller::Poller::update)
    Update,
    /// [`Poller::recv`](crate::poller::Poller::recv)
    Recv,
    /// [`Poller::send`](crate::poller::Poller::send), [`Poller::send_more`](crate::poller::Poller::send_more)
    Send,
    /// [`Poller::push`](crate::poller::Poller::push)
    Push,
    /// [`Poller::accept`](crate::poller::Poller::accept)
    Accept,
    /// [`Poller::recv_from`](crate::poller::Poller::recv_from)
    RecvFrom,
    /// [`Poller::send_to`](crate::poller::Poller::send_to)
    SendTo,
    /// [`Poller::read`](crate::poller::Poller::read)
    Read,
    /// [`Poller::write`](crate::poller::Poller::write)
    Write,
    /// [`Parker::park`](crate::poller::Parker::park)
    Park,
}

/// The fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The operation is not performed and fails with this error number.
    Fail {
        /// The operation.
        op: Op,
        /// The error number, such as `ECONNRESET`.
        errno: i32,
    },
    /// The operation moves at most this many bytes; zero means `WouldBlock`.
    Short {
        /// The operation.
        op: Op,
        /// The limit.
        bytes: usize,
    },
}

impl Fault {
    /// The operation.
    pub const fn op(self) -> Op {
        match self {
            Fault::Fail { op, .. } | Fault::Short { op, .. } => op,
        }
    }
}

/// A fault and the calls it applies to: by default the next one, on any fd.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultPlan {
    /// The fault.
    pub fault: Fault,
    /// Only calls on this fd match, if set. `park` has no fd and then never matches.
    pub fd: Option<RawFd>,
    /// The number of matching calls to skip.
    pub after: usize,
    /// The number of matching calls to fault after that; `usize::MAX` for all.
    pub times: usize,
}

impl FaultPlan {
    /// Plans the fault for the next call.
    pub const fn new(fault: Fault) -> Self {
        FaultPlan { fault, fd: None, after: 0, times: 1 }
    }

    /// The next `op` fails with the error number `errno`.
    pub const fn fail(op: Op, errno: i32) -> Self {
        Self::new(Fault::Fail { op, errno })
    }

    /// The next `op` moves at most `bytes`.
    pub const fn short(op: Op, bytes: usize) -> Self {
        Self::new(Fault::Short { op, bytes })
    }

    /// The next `recv` returns at most `bytes`.
    pub const fn short_recv(bytes: usize) -> Self {
        Self::short(Op::Recv, bytes)
    }

    /// The next `send` sends at most `bytes`.
    pub const fn short_send(bytes: usize) -> Self {
        Self::short(Op::Send, bytes)
    }

    /// Restricts the plan to this fd.
    #[must_use]
    pub const fn on(self, fd: RawFd) -> Self {
        FaultPlan { fd: Some(fd), ..self }
    }

    /// Skips this many matching calls.
    #[must_use]
    pub const fn after(self, calls: usize) -> Self {
        FaultPlan { after: calls, ..self }
    }

    /// Faults this many matching calls.
    #[must_use]
    pub const fn times(self, times: usize) -> Self {
        FaultPlan { times, ..self }
    }

    /// Faults all matching calls.
    #[must_use]
    pub const fn every_time(self) -> Self {
        self.times(usize::MAX)
    }

    fn matches(&self, op: Op, fd: Option<RawFd>) -> bool {
        self.fault.op() == op && (self.fd.is_none() || self.fd == fd)
    }
}

/// The plans that have not run out.
#[derive(Debug, Default)]
pub(super) struct Faults(Vec<FaultPlan>);

impl Faults {
    pub(super) fn plan(&mut self, plan: FaultPlan) {
        if plan.times > 0 {
            self.0.push(plan);
        }
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Counts a call. Returns the most bytes that it may move, or its error.
    pub(super) fn strike(&mut self, op: Op, fd: Option<RawFd>) -> io::Result<usize> {
        let mut fault = None;
        for (index, plan) in self.0.iter_mut().enumerate() {
            if !plan.matches(op, fd) {
                continue;
            }
            if plan.after > 0 {
                plan.after -= 1;
                continue;
            }
            fault = Some(plan.fault);
            if plan.times < usize::MAX {
                plan.times -= 1;
            }
            if plan.times == 0 {
                self.0.remove(index);
            }
            break;
        }
        match fault {
            None => Ok(usize::MAX),
            Some(Fault::Fail { errno, .. }) => Err(io::Error::from_raw_os_error(errno)),
            Some(Fault::Short { bytes: 0, .. }) => Err(io::Error::from_raw_os_error(libc::EAGAIN)),
            Some(Fault::Short { bytes, .. }) => Ok(bytes),
        }
    }
}
