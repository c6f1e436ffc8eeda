//! `ExitWatcher`: waits for the exit of a child process and reaps it.
//!
//! # Rules
//!
//! - The loop watches a child from its spawn on, and reaps it as soon as it exits, even if nothing waits for its
//!   status. So a running loop leaves no zombies.
//! - The loop drops the watch when the child has exited or the loop is closed. After a close, waiting fails, but
//!   [`ExitWatcher::try_exit_status`] and signals still work. Dropping the last reference passes the child to the
//!   [`reaper`].

use super::reaper;
use crate::error::Error;
use crate::event_loop::Core;
use crate::future::Future;
use crate::host::{Call, Watch};
use mainspring_engine::child::{ChildExit, ChildWatch};
use mainspring_engine::{Direction, WatchTicket};
use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::rc::{Rc, Weak};

/// The exit of a child.
#[derive(Clone, Copy, Debug)]
enum ExitResult {
    Status(ExitStatus),
    /// An errno: another part of the program has reaped the child.
    Error(i32),
}

impl ExitResult {
    fn from_exit(watch: &ChildWatch, exit: ChildExit) -> Self {
        /// The core-dump flag of a `wait(2)` status.
        const CORE_DUMPED: i32 = 0x80;
        let dumped = if watch.has_dumped_core() { CORE_DUMPED } else { 0 };
        match exit {
            ChildExit::Exited(status) => ExitResult::Status(ExitStatus::from_raw((status & 0xff) << 8)),
            ChildExit::Signaled(signum) => ExitResult::Status(ExitStatus::from_raw(signum | dumped)),
            ChildExit::Unknown => ExitResult::Error(libc::ECHILD),
        }
    }

    fn result(self) -> io::Result<ExitStatus> {
        match self {
            ExitResult::Status(status) => Ok(status),
            ExitResult::Error(number) => Err(io::Error::from_raw_os_error(number)),
        }
    }
}

/// Called by the loop when the child has exited.
pub(super) trait OnExit {
    fn process_exited(self: Rc<Self>);
}

/// See the module documentation.
pub(super) struct ExitWatcher {
    core: Weak<Core>,
    /// `None` once dropped.
    watch: Option<ChildWatch>,
    pid: u32,
    ticket: Cell<Option<WatchTicket>>,
    exited: Future<ExitResult>,
    on_exit: RefCell<Option<Weak<dyn OnExit>>>,
}

impl ExitWatcher {
    /// Watches a child that was just spawned. On failure the child is killed, because it could not be tracked.
    pub(super) fn start(core: &Rc<Core>, mut child: std::process::Child) -> io::Result<Rc<Self>> {
        let pid = child.id();
        let opened = i32::try_from(pid).map_err(io::Error::other).and_then(ChildWatch::open);
        let watch = match opened {
            Ok(watch) => watch,
            Err(error) => {
                // A child that was just spawned and killed exits at once, so this does not block.
                let _ = child.kill();
                let _ = child.wait();
                return Err(error);
            }
        };
        let watcher = Rc::new(ExitWatcher {
            core: Rc::downgrade(core),
            watch: Some(watch),
            pid,
            ticket: Cell::new(None),
            exited: Future::new(core),
            on_exit: RefCell::new(None),
        });
        match watcher.register(core) {
            Ok(()) => Ok(watcher),
            Err(error) => {
                let _ = watcher.send_signal(libc::SIGKILL);
                Err(error)
            }
        }
    }

    fn register(self: &Rc<Self>, core: &Core) -> io::Result<()> {
        let Some(watch) = &self.watch else { return Ok(()) };
        let registered: Rc<dyn Watch> = Rc::new(Registered(Rc::clone(self)));
        let fd = watch.as_fd().as_raw_fd();
        let (ticket, replaced) = core.engine.watch_with_ticket(fd, Direction::Inbound, registered)?;
        // The former owner of this fd number has closed it without unregistering.
        if let Some(replaced) = replaced {
            replaced.cancel();
        }
        self.ticket.set(Some(ticket));
        Ok(())
    }

    /// Sets the callback for the exit.
    pub(super) fn set_on_exit(&self, on_exit: Weak<dyn OnExit>) {
        let former = self.on_exit.replace(Some(on_exit));
        drop(former);
    }

    pub(super) fn pid(&self) -> u32 {
        self.pid
    }

    pub(super) fn has_exited(&self) -> bool {
        self.exited.done() && !self.exited.cancelled()
    }

    /// The exit status, if it is known.
    pub(super) fn exit_status(&self) -> Option<io::Result<ExitStatus>> {
        self.exited.result()?.ok().map(ExitResult::result)
    }

    /// Checks for the exit and returns the status. Waiting tasks are woken.
    pub(super) fn try_exit_status(&self) -> Option<io::Result<ExitStatus>> {
        self.check_exit();
        match self.exited.result() {
            Some(Ok(exit_result)) => Some(exit_result.result()),
            // The loop was closed before the exit: query the kernel.
            Some(Err(_)) => {
                let watch = self.watch.as_ref()?;
                match watch.try_wait() {
                    Ok(exit) => Some(ExitResult::from_exit(watch, exit?).result()),
                    Err(error) => Some(Err(error)),
                }
            }
            None => None,
        }
    }

    /// Waits for the exit.
    pub(super) async fn wait(&self) -> io::Result<ExitStatus> {
        let waiting = self.exited.clone();
        match waiting.await {
            Ok(exit_result) => exit_result.result(),
            Err(_) => Err(Error::Closed.into()),
        }
    }

    /// Sends a signal to the child, if it still exists.
    pub(super) fn send_signal(&self, signum: i32) -> io::Result<()> {
        match &self.watch {
            Some(watch) => watch.send_signal(signum).map(drop),
            None => Ok(()),
        }
    }

    fn check_exit(&self) {
        if self.exited.done() {
            return;
        }
        let Some(watch) = &self.watch else { return };
        let exit_result = match watch.try_wait() {
            Ok(None) => return,
            Ok(Some(exit)) => ExitResult::from_exit(watch, exit),
            // Store the error, so that later events do not call `try_wait` again.
            Err(error) => ExitResult::Error(error.raw_os_error().unwrap_or(libc::ECHILD)),
        };
        let on_exit = self.on_exit.take().and_then(|on_exit| on_exit.upgrade());
        let core = self.core.upgrade();
        let registered = core
            .as_ref()
            .zip(self.ticket.take())
            .and_then(|(core, ticket)| core.engine.unwatch_ticket(ticket));
        // Cannot fail: the check above saw no result, and only this function sets it.
        let _ = self.exited.set_result(exit_result);
        if let (Some(core), Some(on_exit)) = (core, on_exit) {
            core.call_soon(Call::Once(Box::new(move || on_exit.process_exited())));
        }
        drop(registered);
    }
}

impl Drop for ExitWatcher {
    fn drop(&mut self) {
        if let Some(watch) = self.watch.take()
            && !self.has_exited()
        {
            reaper::adopt(watch);
        }
    }
}

/// The entry in the loop's table, until the child has exited or the loop is closed.
struct Registered(Rc<ExitWatcher>);

impl Watch for Registered {
    fn fire(&self) {
        self.0.check_exit();
    }

    fn cancel(&self) {}
}

impl Drop for Registered {
    fn drop(&mut self) {
        // Waiters fail because the loop was closed. A no-op if the child has exited.
        self.0.exited.cancel();
    }
}
