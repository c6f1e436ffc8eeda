//! A datagram transport without a protocol, for a host whose users *poll* for datagrams.
//!
//! Such a transport is not [opened](Datagram::open) but starts with [`Datagram::own`]. Its protocol sink takes
//! [`DatagramSink::receive_foreign`] as readiness. Users call [`Datagram::try_receive`] and [`Datagram::try_send`],
//! which queue nothing; wait after [`Datagram::want_readable`] or for [`DatagramSink::resume_writing`]; and end with
//! [`Datagram::detach_fd`]. Datagrams that were not received stay in the kernel, so cancellation loses nothing.

use super::{Datagram, DatagramSink};
use crate::poller::{Interest, PeerAddress, peek_from};
use crate::transport::{Cx, TransportHost, is_retryable};
use std::io;
use std::os::fd::BorrowedFd;

impl<H: TransportHost, U: DatagramSink<H>> Datagram<H, U> {
    /// Takes ownership of the fd: it cannot be watched otherwise.
    pub fn own(&self, cx: Cx<'_, H>) {
        self.endpoint.own(cx);
    }

    /// Receives one datagram into `buffer`; `WouldBlock` if there is none.
    pub fn try_receive(&self, cx: Cx<'_, H>, buffer: &mut [u8]) -> io::Result<(usize, PeerAddress)> {
        let received =
            self.endpoint.with_fd(|fd| cx.engine.with_poller(|poller| poller.recv_from(fd, buffer)));
        received.inspect(|(length, _)| cx.engine.add_received(*length)).map_err(or_would_block)
    }

    /// As [`Datagram::try_receive`], but leaves the datagram in the kernel.
    pub fn try_peek(&self, buffer: &mut [u8]) -> io::Result<(usize, PeerAddress)> {
        self.endpoint.with_fd(|fd| peek_from(fd, buffer)).map_err(or_would_block)
    }

    /// Registers or deregisters for reading. An error does not end the transport.
    pub fn want_readable(&self, cx: Cx<'_, H>, wanted: bool) -> io::Result<()> {
        self.endpoint.want(cx, Interest::READ, wanted)
    }

    /// Sends one datagram now or not at all. On `WouldBlock` the protocol counts as paused, and is resumed when the
    /// fd is writable.
    pub fn try_send(&self, cx: Cx<'_, H>, data: &[u8], destination: Option<&PeerAddress>) -> io::Result<()> {
        let sent = if self.queue.borrow().is_empty() {
            self.with_fd(|fd| cx.engine.with_poller(|poller| poller.send_to(fd, data, destination)))
                .inspect(|()| cx.engine.add_sent(data.len()))
                .map_err(or_would_block)
        } else {
            Err(io::ErrorKind::WouldBlock.into())
        };
        if let Err(error) = &sent
            && error.kind() == io::ErrorKind::WouldBlock
            && !self.endpoint.is_closing()
        {
            self.endpoint.want(cx, Interest::WRITE, true)?;
            self.flow.pause();
        }
        sent
    }

    /// Lends the fd for one system call, such as a socket option. `NotConnected` after the end.
    pub fn with_fd<R>(&self, use_it: impl FnOnce(BorrowedFd<'_>) -> io::Result<R>) -> io::Result<R> {
        self.endpoint.with_fd(use_it)
    }

    /// Ends the transport at once, without a call to the protocol. Deregisters the fd and returns its owner. Queued
    /// datagrams are dropped.
    pub fn detach_fd(&self, cx: Cx<'_, H>) -> Option<H::Channel> {
        self.endpoint.begin_closing();
        self.endpoint.mark_lost(None);
        self.endpoint.deregister(cx);
        let unsent = self.queue.borrow_mut().take();
        drop(unsent);
        self.endpoint.take_channel()
    }
}

/// Maps all retryable errors to `WouldBlock`.
fn or_would_block(error: io::Error) -> io::Error {
    if is_retryable(&error) { io::ErrorKind::WouldBlock.into() } else { error }
}
