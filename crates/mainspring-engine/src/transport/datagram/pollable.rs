//! A datagram transport without a protocol, for a face whose users *ask* for datagrams.
//!
//! Such a transport is never [opened](Datagram::open); it begins with [`Datagram::own`]. Its upper takes [`DatagramUpper::receive_foreign`] as the word that
//! something is there. Whoever asks does it with [`Datagram::try_receive`] and [`Datagram::try_send`], which queue
//! nothing; waits after [`Datagram::want_readable`], or for [`DatagramUpper::resume_writing`]; and ends with
//! [`Datagram::dismantle`]. Datagrams that nobody has asked for are still the kernel's, so nothing is lost by giving up.

use super::{Datagram, DatagramUpper};
use crate::poller::{Interest, PeerAddress, peek_from};
use crate::transport::{Cx, TransportHost, is_retryable};
use std::io;
use std::os::fd::BorrowedFd;

impl<H: TransportHost, U: DatagramUpper<H>> Datagram<H, U> {
    /// Begins: the descriptor is the transport's own, and nobody else may watch it.
    pub fn own(&self, cx: Cx<'_, H>) {
        self.endpoint.own(cx);
    }

    /// Receives one datagram into `buffer`, for whoever asks: `WouldBlock` if there is none.
    pub fn try_receive(&self, cx: Cx<'_, H>, buffer: &mut [u8]) -> io::Result<(usize, PeerAddress)> {
        let received =
            self.endpoint.with_fd(|fd| cx.engine.with_poller(|poller| poller.recv_from(fd, buffer)));
        received.map_err(or_would_block)
    }

    /// Receives one datagram and leaves it with the kernel; else as [`Datagram::try_receive`].
    pub fn try_peek(&self, buffer: &mut [u8]) -> io::Result<(usize, PeerAddress)> {
        self.endpoint.with_fd(|fd| peek_from(fd, buffer)).map_err(or_would_block)
    }

    /// Has the upper told when there is something to receive, or no longer. A kernel that refuses ends nothing.
    pub fn want_readable(&self, cx: Cx<'_, H>, wanted: bool) -> io::Result<()> {
        self.endpoint.want(cx, Interest::READ, wanted)
    }

    /// Sends one datagram now or not at all: `WouldBlock` if the kernel does not take it, and then the protocol counts as
    /// paused and is resumed when the kernel takes more.
    pub fn try_send(&self, cx: Cx<'_, H>, data: &[u8], destination: Option<&PeerAddress>) -> io::Result<()> {
        let sent = if self.queue.borrow().is_empty() {
            self.with_fd(|fd| cx.engine.with_poller(|poller| poller.send_to(fd, data, destination)))
                .map_err(or_would_block)
        } else {
            Err(io::ErrorKind::WouldBlock.into())
        };
        if let Err(error) = &sent
            && error.kind() == io::ErrorKind::WouldBlock
            && !self.is_closing()
        {
            self.endpoint.want(cx, Interest::WRITE, true)?;
            self.flow.pause();
        }
        sent
    }

    /// Lends the descriptor, for what the transport knows nothing of: options, names. `NotConnected` after the end.
    pub fn with_fd<R>(&self, use_it: impl FnOnce(BorrowedFd<'_>) -> io::Result<R>) -> io::Result<R> {
        self.endpoint.with_fd(use_it)
    }

    /// Ends at once and without a word to the protocol: the loop knows the descriptor no more, and its owner comes back.
    /// What is queued is dropped.
    pub fn dismantle(&self, cx: Cx<'_, H>) -> Option<H::Channel> {
        self.endpoint.begin_closing();
        self.endpoint.mark_lost(None);
        self.endpoint.deregister(cx);
        let unsent = self.queue.borrow_mut().take();
        drop(unsent);
        self.endpoint.take_channel()
    }
}

/// What is to be repeated is told in one way.
fn or_would_block(error: io::Error) -> io::Error {
    if is_retryable(&error) { io::ErrorKind::WouldBlock.into() } else { error }
}
