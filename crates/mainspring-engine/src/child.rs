//! Watching one child process: an fd that becomes readable when it ends, and its exit status.
//!
//! # Rules
//!
//! - Only the watched process is waited for, by its own id. Other children are never reaped.
//! - Only [`ChildWatch::try_wait`] reaps the child. Until then the kernel does not reuse its process id, so a signal
//!   cannot reach another process. [`ChildWatch::send_signal`] sends nothing to a process that this process cannot
//!   wait for: the child was reaped, or this process is a fork of its parent.
//! - Linux 5.3 has pidfds but cannot wait for one. The first attempt fails, and later ones use the process id.
//! - Without pidfds (before Linux 5.3, or forbidden in a sandbox) a thread per child blocks in `waitid` and writes an
//!   eventfd. It uses `WNOWAIT` and leaves the reaping to `try_wait`; it ends with the child.
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
//! // A loop would watch the fd; this thread waits for it.
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
    /// It exited with this status.
    Exited(i32),
    /// This signal terminated it.
    Signaled(i32),
    /// Other code has waited for it and has the status. asyncio warns of this.
    Unknown,
}

impl ChildExit {
    /// asyncio's `returncode`: the status, the negative signal number, or 255 if the status is unknown.
    pub const fn returncode(self) -> i32 {
        match self {
            ChildExit::Exited(status) => status,
            ChildExit::Signaled(signum) => -signum,
            ChildExit::Unknown => 255,
        }
    }

    /// Converts the result of `waitid`.
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

/// A watched child of this process. The fd is readable once the child has ended.
///
/// Dropping it ends the watch and leaves the child as it is; a child that is not waited for becomes a zombie.
///
/// It is `Send` and not `Sync`.
#[derive(Debug)]
pub struct ChildWatch {
    pid: Pid,
    announcer: Announcer,
    /// Set when the child is known to be reaped, here or by other code. The `Cell` makes the watch `!Sync`: of two
    /// threads that ask at once, one would reap the child and the other find nothing.
    exit: Cell<Option<ChildExit>>,
    /// The kernel has refused to wait for a pidfd.
    waits_by_pid: Cell<bool>,
    has_dumped_core: Cell<bool>,
}

/// The fd that reports the child's end.
#[derive(Debug)]
enum Announcer {
    PidFd(OwnedFd),
    EventFd(Arc<EventFd>),
}

impl ChildWatch {
    /// Watches the child `pid`, with a pidfd if the kernel has them.
    ///
    /// A child that other code has already waited for counts as ended, with an unknown status.
    pub fn open(pid: i32) -> io::Result<Self> {
        let child = checked(pid)?;
        match pidfd_open(child, PidfdFlags::empty()) {
            Ok(pidfd) => Ok(Self::announced_by(child, Announcer::PidFd(pidfd))),
            // pidfds are missing or forbidden, or the process does not exist any more.
            Err(Errno::NOSYS | Errno::PERM | Errno::ACCESS | Errno::SRCH) => Self::open_with_thread(pid),
            Err(error) => Err(error.into()),
        }
    }

    /// Watches the child `pid` with a thread that waits for it, as [`open`](ChildWatch::open) does without pidfds.
    pub fn open_with_thread(pid: i32) -> io::Result<Self> {
        let pid = checked(pid)?;
        let event = Arc::new(EventFd::new()?);
        let announced = Arc::clone(&event);
        thread::Builder::new().name(format!("waitpid-{pid}")).spawn(move || {
            let looking = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            // An error means that the child does not exist any more, which counts as its end.
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

    /// The child's process id. The kernel does not reuse it before [`try_wait`](ChildWatch::try_wait) has returned
    /// the exit.
    pub fn pid(&self) -> i32 {
        self.pid.as_raw_pid()
    }

    /// How the child ended, or `None` while it runs. The first result reaps the child; later calls repeat it. Never
    /// blocks.
    pub fn try_wait(&self) -> io::Result<Option<ChildExit>> {
        if self.exit.get().is_none() {
            self.exit.set(self.wait(WaitIdOptions::empty())?);
        }
        Ok(self.exit.get())
    }

    /// As [`try_wait`](ChildWatch::try_wait), but does not reap the child: other code can still wait for it, and the
    /// process id stays reserved until then, unless the result is [`ChildExit::Unknown`].
    pub fn look(&self) -> io::Result<Option<ChildExit>> {
        match self.exit.get() {
            None => self.wait(WaitIdOptions::NOWAIT),
            exit => Ok(exit),
        }
    }

    /// Whether the child dumped core, once its exit is known.
    pub fn has_dumped_core(&self) -> bool {
        self.has_dumped_core.get()
    }

    /// Sends `signum` to the child. Returns `false` without sending if the child was reaped, here or by other code:
    /// the kernel may have reused its process id. A zombie accepts any signal without effect.
    ///
    /// `InvalidInput` for an invalid signal number, `PermissionDenied` for a child that changed its user id.
    pub fn send_signal(&self, signum: i32) -> io::Result<bool> {
        check_signal(signum)?;
        if self.look()? == Some(ChildExit::Unknown) || self.exit.get().is_some() {
            return Ok(false);
        }
        let sent = match &self.announcer {
            Announcer::PidFd(pidfd) => match send_to_pidfd(pidfd, signum) {
                // A sandbox may allow `pidfd_open` and forbid `pidfd_send_signal`.
                Err(error) if error.raw_os_error() == Some(libc::ENOSYS) => send_to_pid(self.pid, signum),
                sent => sent,
            },
            Announcer::EventFd(_) => send_to_pid(self.pid, signum),
        };
        match sent {
            Ok(()) => Ok(true),
            // Other code has reaped it since the check.
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

/// Checks that `pid` is positive; zero and negative numbers mean process groups in `waitid`.
fn checked(pid: i32) -> io::Result<Pid> {
    if pid > 0 { Pid::from_raw(pid) } else { None }
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, format!("invalid process id {pid}")))
}

/// Through libc, because rustix has no real-time signals.
fn send_to_pidfd(pidfd: &OwnedFd, signum: i32) -> io::Result<()> {
    let (fd, no_info, flags) = (pidfd.as_raw_fd(), std::ptr::null::<libc::siginfo_t>(), 0_u32);
    // SAFETY: the fd is open, the other arguments are numbers, and with a null info pointer the kernel reads no
    // memory.
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

    /// Behaves as Linux 5.3: refuses to wait for a pidfd.
    fn wait_of_5_3(
        asked: &Cell<u32>,
        id: WaitId<'_>,
        how: WaitIdOptions,
    ) -> rustix::io::Result<Option<WaitIdStatus>> {
        asked.set(asked.get() + 1);
        if matches!(id, WaitId::PidFd(_)) { Err(Errno::INVAL) } else { waitid(id, how) }
    }

    // The watch reaps the child; the lint cannot see that.
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
