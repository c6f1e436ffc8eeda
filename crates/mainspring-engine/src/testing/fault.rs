//! Faults: which operation of a back end goes wrong, on which descriptor, at which call, how often.
//!
//! A plan counts the calls that match it by itself. Plans are asked in the order they were made; a call that
//! one plan strikes is not seen by those after it, so two plans for "the next call" strike two calls in turn.

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

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The operation is not done and fails with this error number.
    Fail {
        /// Which operation.
        op: Op,
        /// The system's number of the error, such as `ECONNRESET`.
        errno: i32,
    },
    /// The operation moves no more than so many bytes; with zero it would block.
    Short {
        /// Which operation.
        op: Op,
        /// The most it brings or takes.
        bytes: usize,
    },
}

impl Fault {
    /// The operation this happens to.
    pub const fn op(self) -> Op {
        match self {
            Fault::Fail { op, .. } | Fault::Short { op, .. } => op,
        }
    }
}

/// A fault and the calls it strikes: unless told otherwise, the next one, on any descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultPlan {
    /// What goes wrong.
    pub fault: Fault,
    /// Only calls on this descriptor match, if there is one. `park` has no descriptor and never matches one.
    pub fd: Option<RawFd>,
    /// How many matching calls are let through first.
    pub after: usize,
    /// How many matching calls are struck then; `usize::MAX` is all of them.
    pub times: usize,
}

impl FaultPlan {
    /// This fault, at the next call.
    pub const fn new(fault: Fault) -> Self {
        FaultPlan { fault, fd: None, after: 0, times: 1 }
    }

    /// The next `op` fails with the error number `errno`.
    pub const fn fail(op: Op, errno: i32) -> Self {
        Self::new(Fault::Fail { op, errno })
    }

    /// The next `op` moves no more than `bytes`.
    pub const fn short(op: Op, bytes: usize) -> Self {
        Self::new(Fault::Short { op, bytes })
    }

    /// The next `recv` brings no more than `bytes`.
    pub const fn short_recv(bytes: usize) -> Self {
        Self::short(Op::Recv, bytes)
    }

    /// The next `send` takes no more than `bytes`.
    pub const fn short_send(bytes: usize) -> Self {
        Self::short(Op::Send, bytes)
    }

    /// Only on this descriptor.
    #[must_use]
    pub const fn on(self, fd: RawFd) -> Self {
        FaultPlan { fd: Some(fd), ..self }
    }

    /// Only after so many matching calls.
    #[must_use]
    pub const fn after(self, calls: usize) -> Self {
        FaultPlan { after: calls, ..self }
    }

    /// So many times in turn.
    #[must_use]
    pub const fn times(self, times: usize) -> Self {
        FaultPlan { times, ..self }
    }

    /// Every time.
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

    /// Counts a call and gives the most bytes it may move, or the error it fails with.
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
