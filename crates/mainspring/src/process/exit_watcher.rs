//! `ExitWatcher`: a child process and the loop that waits for its end.
//!
//! # Rules
//!
//! - The loop watches a child from the moment it is spawned, and reaps it as soon as it ends, whether somebody asks
//!   for its status or not: a loop that runs leaves no zombies.
//! - The loop lets go of the watch when the child has ended, or when it is closed. Then waiting is an error, looking
//!   ([`ExitWatcher::try_exit_status`]) and signals still work, and who drops the child last hands it to the [`reaper`].

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

/// How it ended, as far as it is known.
#[derive(Clone, Copy, Debug)]
enum ExitResult {
    Status(ExitStatus),
    /// The number of the system's error: somebody else has waited for the child.
    Error(i32),
}

impl ExitResult {
    fn of(watch: &ChildWatch, exit: ChildExit) -> Self {
        /// Of a wait status, as `wait(2)` gives it.
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

/// Who is told of the end by a call of the loop.
pub(super) trait OnExit {
    fn process_exited(self: Rc<Self>);
}

/// See the module's text.
pub(super) struct ExitWatcher {
    core: Weak<Core>,
    /// Taken when this is dropped.
    watch: Option<ChildWatch>,
    pid: u32,
    ticket: Cell<Option<WatchTicket>>,
    exited: Future<ExitResult>,
    on_exit: RefCell<Option<Weak<dyn OnExit>>>,
}

impl ExitWatcher {
    /// Watches a child that was just spawned. If that fails the child is killed, since nobody would ever know of it.
    pub(super) fn start(core: &Rc<Core>, mut child: std::process::Child) -> io::Result<Rc<Self>> {
        let pid = child.id();
        let opened = i32::try_from(pid).map_err(io::Error::other).and_then(ChildWatch::open);
        let watch = match opened {
            Ok(watch) => watch,
            Err(error) => {
                // A process that has just begun and is killed ends at once.
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
        // Whoever had watched a descriptor of this number has closed it without a word.
        if let Some(replaced) = replaced {
            replaced.cancel();
        }
        self.ticket.set(Some(ticket));
        Ok(())
    }

    /// Has `on_exit` called on the loop when the child has ended.
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

    /// Its end, if it is known.
    pub(super) fn exit_status(&self) -> Option<io::Result<ExitStatus>> {
        self.exited.result()?.ok().map(ExitResult::result)
    }

    /// Its end, if it has come. The first who sees it tells all who wait.
    pub(super) fn try_exit_status(&self) -> Option<io::Result<ExitStatus>> {
        self.check_exit();
        match self.exited.result() {
            Some(Ok(end)) => Some(end.result()),
            // The loop is gone, and has not seen it.
            Some(Err(_)) => {
                let watch = self.watch.as_ref()?;
                match watch.try_wait() {
                    Ok(exit) => Some(ExitResult::of(watch, exit?).result()),
                    Err(error) => Some(Err(error)),
                }
            }
            None => None,
        }
    }

    /// Waits for its end.
    pub(super) async fn wait(&self) -> io::Result<ExitStatus> {
        let waiting = self.exited.clone();
        match waiting.await {
            Ok(end) => end.result(),
            Err(_) => Err(Error::Closed.into()),
        }
    }

    /// Sends a signal to the child, if there is one still.
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
        let end = match watch.try_wait() {
            Ok(None) => return,
            Ok(Some(exit)) => ExitResult::of(watch, exit),
            // Not to be asked again at every event.
            Err(error) => ExitResult::Error(error.raw_os_error().unwrap_or(libc::ECHILD)),
        };
        let on_exit = self.on_exit.take().and_then(|on_exit| on_exit.upgrade());
        let core = self.core.upgrade();
        let registered = core
            .as_ref()
            .zip(self.ticket.take())
            .and_then(|(core, ticket)| core.engine.unwatch_ticket(ticket));
        // It has not been set before, by the check above, and nobody else sets it.
        let _ = self.exited.set_result(end);
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

/// A child in the table of the loop, until it has ended or the loop is closed.
struct Registered(Rc<ExitWatcher>);

impl Watch for Registered {
    fn fire(&self) {
        self.0.check_exit();
    }

    fn cancel(&self) {}
}

impl Drop for Registered {
    fn drop(&mut self) {
        // Who waits learns that nobody is there to tell; not if it has ended.
        self.0.exited.cancel();
    }
}
