//! A loop in a process that was forked.
//!
//! `fork(2)` copies descriptors, not what they refer to: the child's epoll set, eventfd and signal pipe are the
//! parent's own. A registration that the child changed, a wake-up that it read, a signal number that it wrote would all
//! be the parent's. So the child's copy of the loop is given kernel objects of its own before anything else happens to
//! it, and only lets go of its descriptors of the others: closing one of two descriptors of an epoll set changes
//! nothing in the set.

use super::{Engine, Host, Parking, SIGNAL_KEY, WAKE_KEY};
use crate::poller::{Backend, ClosedPoller, Interest};
use crate::signals::SignalPipe;
use crate::wakeup::EventFd;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::rc::Rc;
use std::sync::Arc;

impl<H: Host> Engine<H> {
    /// Parts this loop from the one it is a copy of; for the child, right after the fork, on the thread that forked.
    ///
    /// What was registered is registered with the new `backend`, what was scheduled stays so. If the system has no more
    /// descriptors the loop is parted all the same, but can only be closed.
    ///
    /// A loop that another thread was running is parted too. That thread is not in the child: nobody will run what it
    /// was about to, and the one descriptor that its wait held stays open.
    pub fn after_fork(&self, backend: impl FnOnce() -> io::Result<Backend>) -> io::Result<()> {
        if self.closed.get() {
            return Ok(());
        }
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
            // This fails for an fd that was closed without being deregistered; nothing is lost by that.
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
