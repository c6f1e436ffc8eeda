//! The loop in a forked child.
//!
//! `fork(2)` copies fds, not the kernel objects behind them: parent and child share the epoll set, the eventfd and
//! the signal pipe. A registration that the child changes, a wake-up that it reads or a signal number that it writes
//! would affect the parent. The child's loop therefore gets kernel objects of its own before it does anything else,
//! and closes its fds of the shared ones. Closing one of two fds of an epoll set does not change the set.

use super::{Engine, Host, Parking, SIGNAL_KEY, WAKE_KEY};
use crate::poller::{Backend, ClosedPoller, Interest};
use crate::signals::SignalPipe;
use crate::wakeup::EventFd;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::rc::Rc;
use std::sync::Arc;

impl<H: Host> Engine<H> {
    /// Separates the child's loop from the parent's. Called in the child, right after the fork, on the thread that
    /// forked.
    ///
    /// Registrations move to the new `backend`; scheduled calls stay scheduled. If this fails (no fds left), the loop
    /// is separated all the same but can only be closed.
    ///
    /// A loop that another thread was running is separated too. That thread does not exist in the child: its current
    /// calls are lost, and the epoll fd of its wait stays open.
    pub fn after_fork(&self, backend: impl FnOnce() -> io::Result<Backend>) -> io::Result<()> {
        if self.closed.get() {
            return Ok(());
        }
        self.driver_waits.set(false);
        let parents = (
            self.poller.replace(Box::new(ClosedPoller)),
            self.parking.take(),
            self.wake.take(),
            self.signal_pipe.take(),
        );
        self.inbox.waker().close();
        drop(parents);

        let Backend { mut poller, parker } = backend()?;
        let wake = Arc::new(EventFd::new()?);
        let signal_pipe = SignalPipe::new()?;
        poller.update(wake.as_fd().as_raw_fd(), WAKE_KEY, Interest::NONE, Interest::WAKE)?;
        poller.update(signal_pipe.as_fd().as_raw_fd(), SIGNAL_KEY, Interest::NONE, Interest::READ)?;
        for (key, entry) in self.table.borrow().iter() {
            // Fails for an fd that was closed without being deregistered. Such a registration is dead anyway.
            let _ = poller.update(entry.fd, key, Interest::NONE, entry.interest);
        }
        self.poller.replace(poller);
        self.parking.set(Some(Parking { parker, events: Vec::new() }));
        self.inbox.waker().replace(Arc::clone(&wake));
        self.wake.replace(Some(wake));
        self.signal_pipe.replace(Some(Rc::new(signal_pipe)));
        Ok(())
    }
}
