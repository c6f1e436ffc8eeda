//! Watching one child process: a descriptor that tells when it has ended, and its exit status.
//!
//! # Rules
//!
//! - Only the watched process is waited for, by its own id: the children of others are never reaped.
//! - The child is reaped in [`ChildWatch::try_wait`], and nowhere else here. Until then its process id is its own, so
//!   a signal sent to it reaches it or nobody, never a stranger. [`ChildWatch::send_signal`] sends none to a child that
//!   is not this process's to wait for: it was reaped, or this process is a fork of its parent.
//! - Linux 5.3 gives pidfds and cannot wait for one. It is asked once, and from then on by process id.
//! - Where the kernel has no pidfds (before Linux 5.4, or forbidden in a sandbox) a thread per child blocks in
//!   `waitid` and writes an eventfd. It only looks (`WNOWAIT`) and leaves the reaping to `try_wait`; it ends when
//!   the child does.
//!
//! ```
//! use mainspring_engine::child::{ChildExit, ChildWatch};
//! use mainspring_engine::poller::{Interest, Key, open_epoll};
//! use std::os::fd::{AsFd, AsRawFd};
//! use std::process::Command;
//!
//! let child = Command::new("sh").args(["-c", "exit 3"]).spawn()?;
//! let watch = ChildWatch::open(child.id() as i32)?;
//!
//! // A loop would watch the descriptor; this thread waits for it.
//! let mut backend = open_epoll()?;
//! let key = Key { slot: 0, generation: 1 };
//! backend.poller.update(watch.as_fd().as_raw_fd(), key, Interest::NONE, Interest::READ)?;
//! backend.parker.park(None, usize::MAX, &mut Vec::new())?;
//! assert_eq!(watch.try_wait()?, Some(ChildExit::Exited(3)));
//! # Ok::<(), std::io::Error>(())
//! ```

use std::cell::Cell;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::thread;

use rustix::io::{Errno, retry_on_intr};
use rustix::process::{Pid, PidfdFlags, WaitId, WaitIdOptions, WaitIdStatus, pidfd_open, waitid};

use crate::signals::check_signal;
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
///
/// It is `Send` and not `Sync`.
#[derive(Debug)]
pub struct ChildWatch {
    pid: Pid,
    announcer: Announcer,
    /// Set when the child is known to be reaped, by us or by somebody else. A cell keeps the watch to one
    /// thread: of two that asked at once, one would reap and the other find nothing.
    exit: Cell<Option<ChildExit>>,
    /// The kernel has refused to wait for a pidfd.
    waits_by_pid: Cell<bool>,
    has_dumped_core: Cell<bool>,
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
            Ok(pidfd) => Ok(Self::announced_by(child, Announcer::PidFd(pidfd))),
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
        Ok(Self::announced_by(pid, Announcer::EventFd(event)))
    }

    fn announced_by(pid: Pid, announcer: Announcer) -> Self {
        ChildWatch {
            pid,
            announcer,
            exit: Cell::new(None),
            waits_by_pid: Cell::new(false),
            has_dumped_core: Cell::new(false),
        }
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

    /// Whether the child left a core dump, once its end is known.
    pub fn has_dumped_core(&self) -> bool {
        self.has_dumped_core.get()
    }

    /// Sends the child the signal `signum`. `false`, and nothing is sent, if it has been waited for, here or by somebody
    /// else: its process id may be a stranger's by now. A child that has ended and was not waited for takes any signal
    /// and does nothing.
    ///
    /// `InvalidInput` for what is no signal, `PermissionDenied` for a child that has become somebody else.
    pub fn send_signal(&self, signum: i32) -> io::Result<bool> {
        check_signal(signum)?;
        if self.look()? == Some(ChildExit::Unknown) || self.exit.get().is_some() {
            return Ok(false);
        }
        let sent = match &self.announcer {
            Announcer::PidFd(pidfd) => match send_to_pidfd(pidfd, signum) {
                // A sandbox that knows one of these calls and not the other.
                Err(error) if error.raw_os_error() == Some(libc::ENOSYS) => send_to_pid(self.pid, signum),
                sent => sent,
            },
            Announcer::EventFd(_) => send_to_pid(self.pid, signum),
        };
        match sent {
            Ok(()) => Ok(true),
            // Somebody else has waited for it since we looked.
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn wait(&self, how: WaitIdOptions) -> io::Result<Option<ChildExit>> {
        self.wait_with(how, |id, how| waitid(id, how))
    }

    fn wait_with(
        &self,
        how: WaitIdOptions,
        waitid: impl Fn(WaitId<'_>, WaitIdOptions) -> rustix::io::Result<Option<WaitIdStatus>>,
    ) -> io::Result<Option<ChildExit>> {
        let id = || match &self.announcer {
            Announcer::PidFd(pidfd) if !self.waits_by_pid.get() => WaitId::PidFd(pidfd.as_fd()),
            _ => WaitId::Pid(self.pid),
        };
        let ask = || retry_on_intr(|| waitid(id(), WaitIdOptions::EXITED | WaitIdOptions::NOHANG | how));
        let mut answer = ask();
        if matches!(answer, Err(Errno::INVAL)) && !self.waits_by_pid.replace(true) {
            answer = ask();
        }
        match answer {
            Ok(None) => Ok(None),
            Ok(Some(status)) => {
                self.has_dumped_core.set(status.dumped());
                Ok(Some(ChildExit::from_status(&status)))
            }
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

/// By way of libc, because rustix names the classic signals only.
fn send_to_pidfd(pidfd: &OwnedFd, signum: i32) -> io::Result<()> {
    let (fd, no_info, flags) = (pidfd.as_raw_fd(), std::ptr::null::<libc::siginfo_t>(), 0_u32);
    // SAFETY: the descriptor is open, the others are numbers, and without an info the kernel reads no memory of ours.
    check(unsafe { libc::syscall(libc::SYS_pidfd_send_signal, fd, signum, no_info, flags) } == 0)
}

fn send_to_pid(pid: Pid, signum: i32) -> io::Result<()> {
    // SAFETY: `kill` takes any two numbers and touches no memory of this process.
    check(unsafe { libc::kill(pid.as_raw_pid(), signum) } == 0)
}

fn check(is_done: bool) -> io::Result<()> {
    if is_done { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, poll};
    use std::process::{Command, Stdio};

    /// Waits as Linux 5.3 does: not for a pidfd.
    fn wait_of_5_3(
        asked: &Cell<u32>,
        id: WaitId<'_>,
        how: WaitIdOptions,
    ) -> rustix::io::Result<Option<WaitIdStatus>> {
        asked.set(asked.get() + 1);
        if matches!(id, WaitId::PidFd(_)) { Err(Errno::INVAL) } else { waitid(id, how) }
    }

    // It is the watch that waits for the child, which the lint cannot know.
    #[allow(clippy::zombie_processes)]
    #[test]
    fn a_kernel_that_cannot_wait_for_a_pidfd_is_asked_once_and_then_by_process_id() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let watch = ChildWatch::open(child.id().try_into().unwrap()).unwrap();
        let asked = Cell::new(0);
        let wait = || watch.wait_with(WaitIdOptions::empty(), |id, how| wait_of_5_3(&asked, id, how));
        assert_eq!(wait().unwrap(), None);
        assert_eq!(asked.get(), 2);
        drop(child.stdin.take());
        poll(&mut [PollFd::new(&watch, PollFlags::IN)], None).unwrap();
        assert_eq!(wait().unwrap(), Some(ChildExit::Exited(0)));
        assert_eq!(asked.get(), 3);
    }

    #[test]
    fn a_refusal_that_is_not_about_the_pidfd_is_an_error() {
        let mut child = Command::new("true").spawn().unwrap();
        let watch = ChildWatch::open(child.id().try_into().unwrap()).unwrap();
        for _ in 0..2 {
            let refused = watch.wait_with(WaitIdOptions::NOWAIT, |_, _| Err(Errno::INVAL));
            assert_eq!(refused.unwrap_err().raw_os_error(), Some(libc::EINVAL));
        }
        assert!(child.wait().unwrap().success());
    }
}
