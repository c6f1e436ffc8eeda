//! The transport that reads from a pipe: the read end of a `pipe(2)` or fifo, a socket that is only read, a terminal.
//!
//! `open` schedules `connection_made` and then the start of reading. The end of the pipe schedules `eof_received`, whose
//! answer does not matter, and `connection_lost` after it; so does `close` without the former. Unlike a connection, a
//! pipe survives a `data_received` that fails: the failure is the caller's to report.

use crate::Readiness;
use crate::poller::Interest;
use crate::transport::endpoint::Endpoint;
use crate::transport::{Cx, Notice, TransportHost, Upper, is_retryable};
use std::cell::Cell;
use std::io;
use std::os::fd::{BorrowedFd, RawFd};

/// The end of a pipe that is read, or what can be read like one, and the protocol above it ([`Upper`]).
pub struct ReadPipe<H: TransportHost, U> {
    upper: U,
    end: Endpoint<H>,
    paused: Cell<bool>,
}

impl<H: TransportHost, U: Upper<H>> ReadPipe<H, U> {
    /// A transport on a non-blocking pipe ([`prepare_pipe`](super::prepare_pipe)). Nothing happens before
    /// [`ReadPipe::open`].
    pub fn new(channel: H::Channel, upper: U) -> Self {
        ReadPipe { upper, end: Endpoint::new(channel), paused: Cell::new(false) }
    }

    /// Schedules `connection_made`, and the start of reading after it.
    pub fn open(&self, cx: Cx<'_, H>) -> Result<(), H::Error> {
        cx.call_soon(cx.host().notice(cx.this, Notice::ConnectionMade)?)?;
        cx.call_soon(cx.host().notice(cx.this, Notice::StartReading)?)?;
        self.end.own(cx);
        Ok(())
    }

    /// The protocol above.
    pub fn upper(&self) -> &U {
        &self.upper
    }

    /// The descriptor's number; still told after it is closed, for messages.
    pub fn fd(&self) -> RawFd {
        self.end.fd()
    }

    /// Takes the channel out, from a transport that goes without having been closed, and that nothing is wanted of.
    pub fn take_channel(&self) -> Option<H::Channel> {
        self.end.take_channel()
    }

    /// Takes the channel out of a transport that may still be asked for something.
    pub fn release(&self, cx: Cx<'_, H>) -> Option<H::Channel> {
        self.end.deregister(cx);
        self.end.take_channel()
    }

    /// Shows the channel to the garbage collector, unless it is being changed at this moment.
    pub fn show_channel(&self, show: &mut dyn FnMut(&H::Channel)) {
        self.end.show_channel(show);
    }

    /// Shows what the connection was lost by and the protocol was not told yet, likewise.
    pub fn show_failure(&self, show: &mut dyn FnMut(&H::Error)) {
        self.end.show_failure(show);
    }

    /// Whether the transport is closed or on the way there.
    pub fn is_closing(&self) -> bool {
        self.end.is_closing()
    }

    /// Whether `connection_lost` has run, or will in the next pass.
    pub fn is_lost(&self) -> bool {
        self.end.is_lost()
    }

    /// Lends the descriptor for one system call; `NotConnected` once it is closed.
    pub fn with_fd<R>(&self, use_it: impl FnOnce(BorrowedFd<'_>) -> io::Result<R>) -> io::Result<R> {
        self.end.with_fd(use_it)
    }

    /// Whether `connection_lost` has run and the descriptor is closed.
    pub fn is_finished(&self) -> bool {
        self.end.is_finished()
    }

    /// Whether the transport reads, or will after [`Notice::StartReading`].
    pub fn is_reading(&self) -> bool {
        !self.end.is_closing() && !self.paused.get()
    }

    /// Never: it does not write.
    pub fn is_writing_paused(&self) -> bool {
        false
    }

    /// What the kernel is asked for at this moment.
    pub fn interest(&self) -> Interest {
        self.end.interest()
    }

    /// Runs a deferred step.
    pub fn notified(&self, cx: Cx<'_, H>, notice: Notice) -> Result<(), H::Error> {
        match notice {
            Notice::ConnectionMade => self.upper.connection_made(cx),
            Notice::StartReading => self.want_reading(cx, self.is_reading()),
            Notice::EofReceived => self.upper.eof_received(cx).map(drop),
            Notice::ConnectionLost => self.end.finish_with(cx, &self.upper),
            _ => Ok(()),
        }
    }

    /// Something happened on the descriptor.
    pub fn io_ready(&self, cx: Cx<'_, H>, readiness: Readiness) -> Result<(), H::Error> {
        // Reading may have been paused since the kernel was asked.
        if !readiness.inbound || !self.end.interest().is_inbound() {
            return Ok(());
        }
        let read = |buffer: &mut [u8]| {
            self.end.with_fd(|fd| cx.engine.with_poller(|poller| poller.read(fd, buffer)))
        };
        cx.engine.with_scratch(|scratch| match read(scratch) {
            Ok(0) => self.receive_eof(cx),
            Ok(filled) => self.upper.data_received(cx, scratch.get(..filled).unwrap_or_default()),
            Err(error) if is_retryable(&error) => Ok(()),
            Err(error) => self.fatal_os(cx, error, "Fatal read error on pipe transport"),
        })
    }

    /// Stops reading. Repeating it changes nothing; `false` if nothing changed.
    pub fn pause_reading(&self, cx: Cx<'_, H>) -> Result<bool, H::Error> {
        if !self.is_reading() {
            return Ok(false);
        }
        self.paused.set(true);
        self.want_reading(cx, false)?;
        Ok(true)
    }

    /// Reads again. Repeating it changes nothing; `false` if nothing changed.
    pub fn resume_reading(&self, cx: Cx<'_, H>) -> Result<bool, H::Error> {
        if self.end.is_closing() || !self.paused.get() {
            return Ok(false);
        }
        self.paused.set(false);
        self.want_reading(cx, true)?;
        Ok(true)
    }

    /// Reads no more; `connection_lost` follows.
    pub fn close(&self, cx: Cx<'_, H>) -> Result<(), H::Error> {
        self.end_with(cx, None)
    }

    /// The same; `error` is what `connection_lost` will be told.
    pub fn abort(&self, cx: Cx<'_, H>, error: Option<H::Error>) -> Result<(), H::Error> {
        self.end_with(cx, error)
    }

    fn receive_eof(&self, cx: Cx<'_, H>) -> Result<(), H::Error> {
        cx.call_soon(cx.host().notice(cx.this, Notice::EofReceived)?)?;
        self.end_with(cx, None)
    }

    fn end_with(&self, cx: Cx<'_, H>, error: Option<H::Error>) -> Result<(), H::Error> {
        if self.end.begin_closing() {
            return Ok(());
        }
        self.end.deregister(cx);
        self.end.lose(cx, error)
    }

    fn fatal_os(&self, cx: Cx<'_, H>, error: io::Error, message: &str) -> Result<(), H::Error> {
        let error = cx.host().os_error(error);
        let error = cx.host().report_fatal(cx.this, error, message)?;
        self.end_with(cx, Some(error))
    }

    fn want_reading(&self, cx: Cx<'_, H>, wanted: bool) -> Result<(), H::Error> {
        match self.end.want(cx, Interest::READ, wanted) {
            Ok(()) => Ok(()),
            Err(error) => self.fatal_os(cx, error, "Fatal error: the pipe cannot be watched"),
        }
    }
}
