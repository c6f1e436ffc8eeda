//! The listener of a server: accepts in bounded batches, and pauses when the system is out of resources.

use super::{Cx, DeferredCall, TransportHost, is_retryable};
use crate::Registration;
use crate::poller::{Interest, PeerAddress};
use crate::timers::TimerKey;
use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::time::Duration;

/// The pause after the system ran out of fds or memory, or failed to accept for another reason (asyncio's number).
const ACCEPT_RETRY_DELAY: Duration = Duration::from_secs(1);

/// The receiver of connections.
pub trait Acceptor<H: TransportHost> {
    /// Takes a connection, which is non-blocking and close-on-exec.
    fn accepted(&self, cx: Cx<'_, H>, connection: OwnedFd, peer: PeerAddress) -> Result<(), H::Error>;

    /// Whether it takes another connection. If not, connections wait in the kernel until the listener is started
    /// again.
    fn has_room(&self) -> bool {
        true
    }
}

/// A listening socket.
pub struct Listener<H: TransportHost, A> {
    acceptor: A,
    /// Declared before the channel, so that it is dropped first.
    registration: Registration<H>,
    channel: RefCell<Option<H::Channel>>,
    fd: RawFd,
    batch: usize,
    retry_timer: Cell<Option<TimerKey>>,
}

impl<H: TransportHost, A: Acceptor<H>> Listener<H, A> {
    /// A listener on a bound, listening, non-blocking socket. It accepts at most `backlog` + 1 connections per event,
    /// so that a burst does not starve the loop. Inactive before [`Listener::start`].
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

    /// The receiver of connections.
    pub fn acceptor(&self) -> &A {
        &self.acceptor
    }

    /// Shows the channel to a garbage collector, unless it is mutably borrowed.
    pub fn show_channel(&self, show: &mut dyn FnMut(&H::Channel)) {
        if let Ok(channel) = self.channel.try_borrow() {
            channel.iter().for_each(show);
        }
    }

    /// The fd number, also after it is closed.
    pub fn fd(&self) -> RawFd {
        self.fd
    }

    /// Lends the fd for one system call; `NotConnected` after [`Listener::close`].
    pub fn with_fd<R>(&self, use_it: impl FnOnce(BorrowedFd<'_>) -> io::Result<R>) -> io::Result<R> {
        match self.channel.borrow().as_ref() {
            Some(channel) => use_it(channel.as_fd()),
            None => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    /// Starts to accept. No effect during a pause, which runs to its end.
    pub fn start(&self, cx: Cx<'_, H>) -> io::Result<()> {
        if self.retry_timer.get().is_some() {
            return Ok(());
        }
        if self.channel.borrow().is_some() {
            self.registration.own(cx.engine, self.fd, None);
        }
        self.set_interest(cx, Interest::READ)
    }

    /// Continues to accept after [`Acceptor::has_room`] was `false`. If the socket cannot be registered, tries again
    /// after a pause.
    pub fn resume(&self, cx: Cx<'_, H>) -> Result<(), H::Error> {
        match self.start(cx) {
            Ok(()) => Ok(()),
            Err(error) => self.pause_accepting(cx, error),
        }
    }

    /// Stops accepting and returns the channel; `None` if it was already closed.
    pub fn close(&self, cx: Cx<'_, H>) -> Option<H::Channel> {
        if let Some(timer) = self.retry_timer.take() {
            let call = cx.engine.cancel_timer(timer);
            drop(call);
        }
        // On failure the kernel removes the fd when it is closed.
        let _ = self.set_interest(cx, Interest::NONE);
        self.registration.give_up();
        self.channel.borrow_mut().take()
    }

    /// Runs a deferred step.
    pub fn run_deferred(&self, cx: Cx<'_, H>, deferred: DeferredCall) -> Result<(), H::Error> {
        if deferred == DeferredCall::ResumeAccepting && self.channel.borrow().is_some() {
            self.retry_timer.set(None);
            if self.acceptor.has_room() {
                return self.resume(cx);
            }
        }
        Ok(())
    }

    /// Accepts pending connections.
    pub fn io_ready(&self, cx: Cx<'_, H>) -> Result<(), H::Error> {
        // Accepting may have stopped since the event.
        if !self.registration.interest().is_inbound() {
            return Ok(());
        }
        for _ in 0..self.batch {
            if !self.acceptor.has_room() {
                return self.set_interest(cx, Interest::NONE).map_err(|error| cx.host().os_error(error));
            }
            // Check the channel each time: `accepted` may close the listener.
            let accepted = match self.channel.borrow().as_ref() {
                Some(channel) => cx.engine.with_poller(|poller| poller.accept(channel.as_fd())),
                None => return Ok(()),
            };
            match accepted {
                Ok((connection, peer)) => self.acceptor.accepted(cx, connection, peer)?,
                Err(error) if is_retryable(&error) => return Ok(()),
                // This peer has given up; others may be waiting.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                // Pause: the connection stays pending, and every event would fail again.
                Err(error) => return self.pause_accepting(cx, error),
            }
        }
        Ok(())
    }

    fn pause_accepting(&self, cx: Cx<'_, H>, error: io::Error) -> Result<(), H::Error> {
        let _ = self.set_interest(cx, Interest::NONE);
        let call = cx.host().deferred_call(cx.this, DeferredCall::ResumeAccepting)?;
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

/// Whether the system is temporarily out of a resource.
fn is_exhaustion(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM))
}
