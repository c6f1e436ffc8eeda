//! Watching one child process: a descriptor that tells when it has ended, and its exit status.
//!
//! # Rules
//!
//! - Only the watched process is waited for, by its own id: the children of others are never reaped.
//! - The child is reaped in [`ChildWatch::try_wait`], and nowhere else here. Until then its process id is its own, so
//!   a signal sent to it reaches it or nobody, never a stranger.
//! - Where the kernel has no pidfds (before Linux 5.4, or forbidden in a sandbox) a thread per child blocks in
//!   `waitid` and writes an eventfd. It only looks (`WNOWAIT`) and leaves the reaping to `try_wait`; it ends when
//!   the child does.

use std::cell::Cell;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::thread;

use rustix::io::{Errno, retry_on_intr};
use rustix::process::{Pid, PidfdFlags, WaitId, WaitIdOptions, WaitIdStatus, pidfd_open, waitid};

use crate::wakeup::EventFd;

/// How a child ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ChildExit {
    /// By itself, with this status.
    Exited(i32),
    /// By this signal.
    Signaled(i32),
    /// Somebody else has waited for it, and knows. asyncio warns of this.
    Unknown,
}

impl ChildExit {
    /// The number that asyncio calls `returncode`: the status, the signal's number below zero, or 255 when
    /// nobody knows.
    pub const fn returncode(self) -> i32 {
        match self {
            ChildExit::Exited(status) => status,
            ChildExit::Signaled(signum) => -signum,
            ChildExit::Unknown => 255,
        }
    }

    /// What a wait for ended children has reported.
    fn from_status(status: &WaitIdStatus) -> Self {
        if let Some(status) = status.exit_status() {
            ChildExit::Exited(status)
        } else if let Some(signum) = status.terminating_signal() {
            ChildExit::Signaled(signum)
        } else {
            ChildExit::Unknown
        }
    }
}

/// A child of this process that is watched. Its descriptor is readable when the child has ended.
///
/// Dropping it ends the watch and leaves the child as it is; if nobody waits for it then, it stays a zombie.
#[derive(Debug)]
pub struct ChildWatch {
    pid: Pid,
    announcer: Announcer,
    /// Set when the child is known to be reaped, by us or by somebody else. A cell keeps the watch to one
    /// thread: of two that asked at once, one would reap and the other find nothing.
    exit: Cell<Option<ChildExit>>,
}

/// What tells that the child has ended.
#[derive(Debug)]
enum Announcer {
    PidFd(OwnedFd),
    EventFd(Arc<EventFd>),
}

impl ChildWatch {
    /// Watches the child `pid`, with a pidfd if the kernel gives one.
    ///
    /// A child that somebody else has already waited for counts as ended, with an unknown status.
    pub fn open(pid: i32) -> io::Result<Self> {
        let child = checked(pid)?;
        match pidfd_open(child, PidfdFlags::empty()) {
            Ok(pidfd) => {
                Ok(ChildWatch { pid: child, announcer: Announcer::PidFd(pidfd), exit: Cell::new(None) })
            }
            // Where a pidfd is missing or forbidden, and where there is nothing left to make one of.
            Err(Errno::NOSYS | Errno::PERM | Errno::ACCESS | Errno::SRCH) => Self::open_with_thread(pid),
            Err(error) => Err(error.into()),
        }
    }

    /// Watches the child `pid` with a thread that waits for it: what [`open`](ChildWatch::open) does where there
    /// are no pidfds.
    pub fn open_with_thread(pid: i32) -> io::Result<Self> {
        let pid = checked(pid)?;
        let event = Arc::new(EventFd::new()?);
        let announced = Arc::clone(&event);
        thread::Builder::new().name(format!("waitpid-{pid}")).spawn(move || {
            let looking = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            // An error says that there is no such child any more, which is an end to announce as well.
            let _ = retry_on_intr(|| waitid(WaitId::Pid(pid), looking));
            let _ = announced.write();
        })?;
        Ok(ChildWatch { pid, announcer: Announcer::EventFd(event), exit: Cell::new(None) })
    }

    /// The child's process id. It is the child's own until [`try_wait`](ChildWatch::try_wait) has given its end.
    pub fn pid(&self) -> i32 {
        self.pid.as_raw_pid()
    }

    /// How the child ended, or `None` while it runs. The first answer reaps the child and is repeated from
    /// then on. Never blocks.
    pub fn try_wait(&self) -> io::Result<Option<ChildExit>> {
        if self.exit.get().is_none() {
            self.exit.set(self.wait(WaitIdOptions::empty())?);
        }
        Ok(self.exit.get())
    }

    /// As [`try_wait`](ChildWatch::try_wait), but leaves the child to be waited for by somebody else: its process id is
    /// its own until they have, unless the answer is [`ChildExit::Unknown`].
    pub fn look(&self) -> io::Result<Option<ChildExit>> {
        match self.exit.get() {
            None => self.wait(WaitIdOptions::NOWAIT),
            exit => Ok(exit),
        }
    }

    fn wait(&self, how: WaitIdOptions) -> io::Result<Option<ChildExit>> {
        let id = || match &self.announcer {
            Announcer::PidFd(pidfd) => WaitId::PidFd(pidfd.as_fd()),
            Announcer::EventFd(_) => WaitId::Pid(self.pid),
        };
        match retry_on_intr(|| waitid(id(), WaitIdOptions::EXITED | WaitIdOptions::NOHANG | how)) {
            Ok(status) => Ok(status.as_ref().map(ChildExit::from_status)),
            Err(Errno::CHILD) => Ok(Some(ChildExit::Unknown)),
            Err(error) => Err(error.into()),
        }
    }
}

impl AsFd for ChildWatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.announcer {
            Announcer::PidFd(pidfd) => pidfd.as_fd(),
            Announcer::EventFd(event) => event.as_fd(),
        }
    }
}

/// A process id as `waitid` takes one: not zero and not negative, which would mean groups of processes.
fn checked(pid: i32) -> io::Result<Pid> {
    if pid > 0 { Pid::from_raw(pid) } else { None }
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, format!("invalid process id {pid}")))
}
