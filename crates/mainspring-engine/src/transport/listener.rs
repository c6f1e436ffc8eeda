//! The listening end of a server: accepts in bounded batches, and rests when the system cannot.

use super::{Cx, Notice, TransportHost, is_retryable};
use crate::Registration;
use crate::poller::{Interest, PeerAddress};
use crate::timers::TimerKey;
use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::time::Duration;

/// How long a listener rests after the system ran out of descriptors or memory, or failed to accept for any other
/// reason (asyncio's number).
const ACCEPT_RETRY_DELAY: Duration = Duration::from_secs(1);

/// Who takes the connections.
pub trait Acceptor<H: TransportHost> {
    /// A connection came, non-blocking and close-on-exec.
    fn accepted(&self, cx: Cx<'_, H>, connection: OwnedFd, peer: PeerAddress) -> Result<(), H::Error>;

    /// Whether it takes another one. If not, the listener lets them wait in the kernel until it is started again.
    fn has_room(&self) -> bool {
        true
    }
}

/// A listening socket on the loop.
pub struct Listener<H: TransportHost, A> {
    acceptor: A,
    /// Before the channel, which it is dropped before.
    registration: Registration,
    channel: RefCell<Option<H::Channel>>,
    fd: RawFd,
    batch: usize,
    retry_timer: Cell<Option<TimerKey>>,
}

impl<H: TransportHost, A: Acceptor<H>> Listener<H, A> {
    /// A listener on a bound, listening, non-blocking socket. It accepts at most `backlog` connections (and
    /// one) at a time, so that a storm of them leaves room for everybody else. Nothing happens before
    /// [`Listener::start`].
    pub fn new(channel: H::Channel, acceptor: A, backlog: usize) -> Self {
        let fd = channel.as_fd().as_raw_fd();
        Listener {
            acceptor,
            channel: RefCell::new(Some(channel)),
            fd,
            registration: Registration::default(),
            batch: backlog.saturating_add(1),
            retry_timer: Cell::new(None),
        }
    }

    /// Who takes the connections.
    pub fn acceptor(&self) -> &A {
        &self.acceptor
    }

    /// Shows the channel to a garbage collector, unless it is being changed at this moment.
    pub fn show_channel(&self, show: &mut dyn FnMut(&H::Channel)) {
        if let Ok(channel) = self.channel.try_borrow() {
            channel.iter().for_each(show);
        }
    }

    /// The descriptor's number; still told after it is closed.
    pub fn fd(&self) -> RawFd {
        self.fd
    }

    /// Lends the descriptor for one system call; `NotConnected` once it is given up.
    pub fn with_fd<R>(&self, use_it: impl FnOnce(BorrowedFd<'_>) -> io::Result<R>) -> io::Result<R> {
        match self.channel.borrow().as_ref() {
            Some(channel) => use_it(channel.as_fd()),
            None => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    /// Begins to accept. A listener that rests does so to the end.
    pub fn start(&self, cx: Cx<'_, H>) -> io::Result<()> {
        if self.retry_timer.get().is_some() {
            return Ok(());
        }
        if self.channel.borrow().is_some() {
            self.registration.own(cx.engine, self.fd);
        }
        self.set_interest(cx, Interest::READ)
    }

    /// Goes on accepting after there was no room; later, if the kernel cannot watch the socket now.
    pub fn resume(&self, cx: Cx<'_, H>) -> Result<(), H::Error> {
        match self.start(cx) {
            Ok(()) => Ok(()),
            Err(error) => self.pause_accepting(cx, error),
        }
    }

    /// Accepts no more and gives the socket up to the caller; `None` if that has happened.
    pub fn close(&self, cx: Cx<'_, H>) -> Option<H::Channel> {
        if let Some(timer) = self.retry_timer.take() {
            let call = cx.engine.cancel_timer(timer);
            drop(call);
        }
        // The descriptor leaves the kernel's set with its last owner in any case.
        let _ = self.set_interest(cx, Interest::NONE);
        self.registration.give_up();
        self.channel.borrow_mut().take()
    }

    /// Runs a deferred step.
    pub fn notified(&self, cx: Cx<'_, H>, notice: Notice) -> Result<(), H::Error> {
        if notice == Notice::ResumeAccepting && self.channel.borrow().is_some() {
            self.retry_timer.set(None);
            if self.acceptor.has_room() {
                return self.resume(cx);
            }
        }
        Ok(())
    }

    /// Connections wait.
    pub fn io_ready(&self, cx: Cx<'_, H>) -> Result<(), H::Error> {
        // It may have stopped accepting since the event.
        if !self.registration.interest().is_inbound() {
            return Ok(());
        }
        for _ in 0..self.batch {
            if !self.acceptor.has_room() {
                return self.set_interest(cx, Interest::NONE).map_err(|error| cx.host().os_error(error));
            }
            // Looked at anew each time: taking a connection may close the listener.
            let accepted = match self.channel.borrow().as_ref() {
                Some(channel) => cx.engine.with_poller(|poller| poller.accept(channel.as_fd())),
                None => return Ok(()),
            };
            match accepted {
                Ok((connection, peer)) => self.acceptor.accepted(cx, connection, peer)?,
                Err(error) if is_retryable(&error) => return Ok(()),
                // The peer gave up while it waited; the next one may not have.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                // What fails now fails again at once: the kernel goes on announcing the connection.
                Err(error) => return self.pause_accepting(cx, error),
            }
        }
        Ok(())
    }

    fn pause_accepting(&self, cx: Cx<'_, H>, error: io::Error) -> Result<(), H::Error> {
        let _ = self.set_interest(cx, Interest::NONE);
        let call = cx.host().notice(cx.this, Notice::ResumeAccepting)?;
        let timer = cx.engine.call_at(cx.engine.now().saturating_add(ACCEPT_RETRY_DELAY), call);
        self.retry_timer.set(Some(timer));
        let message = match is_exhaustion(&error) {
            true => "socket.accept() out of system resource",
            false => "socket.accept() failed",
        };
        let error = cx.host().os_error(error);
        cx.host().report(cx.this, error, message)
    }

    fn set_interest(&self, cx: Cx<'_, H>, interest: Interest) -> io::Result<()> {
        match self.channel.borrow().as_ref() {
            Some(channel) => self.registration.set(cx.engine, channel.as_fd(), cx.this, interest),
            None => Ok(()),
        }
    }
}

/// Whether the system lacks something that may be there again in a moment.
fn is_exhaustion(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM))
}
