//! The transport that reads from a pipe: a `pipe(2)` or fifo, a socket that is only read, or a terminal.
//!
//! `open` schedules `connection_made` and then the start of reading. EOF schedules `eof_received`, whose result is
//! ignored, and then `connection_lost`; `close` schedules only the latter. Unlike a stream, a pipe survives an error
//! of `data_received`: the caller reports it.

use crate::Readiness;
use crate::poller::Interest;
use crate::transport::endpoint::{Endpoint, Transport};
use crate::transport::{Cx, DeferredCall, ProtocolSink, TransportHost, is_retryable};
use std::cell::Cell;
use std::io;

/// The reading end of a pipe, or a file like it, and its protocol ([`ProtocolSink`]).
pub struct ReadPipe<H: TransportHost, U> {
    sink: U,
    end: Endpoint<H>,
    paused: Cell<bool>,
}

impl<H: TransportHost, U: ProtocolSink<H>> Transport<H> for ReadPipe<H, U> {
    fn endpoint(&self) -> &Endpoint<H> {
        &self.end
    }
}

impl<H: TransportHost, U: ProtocolSink<H>> ReadPipe<H, U> {
    /// A transport on a non-blocking pipe ([`prepare_pipe`](super::prepare_pipe)). Inactive before
    /// [`ReadPipe::open`].
    pub fn new(channel: H::Channel, sink: U) -> Self {
        ReadPipe { sink, end: Endpoint::new(channel), paused: Cell::new(false) }
    }

    /// Schedules `connection_made`, and the start of reading after it.
    pub fn open(&self, cx: Cx<'_, H>) -> Result<(), H::Error> {
        cx.call_soon(cx.host().deferred_call(cx.this, DeferredCall::ConnectionMade)?)?;
        cx.call_soon(cx.host().deferred_call(cx.this, DeferredCall::StartReading)?)?;
        self.end.own(cx);
        Ok(())
    }

    /// The protocol.
    pub fn sink(&self) -> &U {
        &self.sink
    }

    /// Whether the transport reads, or will after [`DeferredCall::StartReading`].
    pub fn is_reading(&self) -> bool {
        !self.end.is_closing() && !self.paused.get()
    }

    /// Always `false`: this transport does not write.
    pub fn is_writing_paused(&self) -> bool {
        false
    }

    /// Runs a deferred step.
    pub fn run_deferred(&self, cx: Cx<'_, H>, deferred: DeferredCall) -> Result<(), H::Error> {
        match deferred {
            DeferredCall::ConnectionMade => self.sink.connection_made(cx),
            DeferredCall::StartReading => self.want_reading(cx, self.is_reading()),
            DeferredCall::EofReceived => self.sink.eof_received(cx).map(drop),
            DeferredCall::ConnectionLost => self.end.finish_with(cx, &self.sink),
            _ => Ok(()),
        }
    }

    /// Handles readiness of the fd.
    pub fn io_ready(&self, cx: Cx<'_, H>, readiness: Readiness) -> Result<(), H::Error> {
        // Reading may have been paused since the event.
        if !readiness.inbound || !self.end.interest().is_inbound() {
            return Ok(());
        }
        let read = |buffer: &mut [u8]| {
            let result = self.end.with_fd(|fd| cx.engine.with_poller(|poller| poller.read(fd, buffer)));
            cx.engine.count_received(result)
        };
        cx.engine.with_read_buffer(|scratch| match read(scratch) {
            Ok(0) => self.receive_eof(cx),
            Ok(filled) => self.sink.data_received(cx, scratch.get(..filled).unwrap_or_default()),
            Err(error) if is_retryable(&error) => Ok(()),
            Err(error) => self.fatal_os(cx, error, "Fatal read error on pipe transport"),
        })
    }

    /// Stops reading. Returns `false` if nothing changed.
    pub fn pause_reading(&self, cx: Cx<'_, H>) -> Result<bool, H::Error> {
        if !self.is_reading() {
            return Ok(false);
        }
        self.paused.set(true);
        self.want_reading(cx, false)?;
        Ok(true)
    }

    /// Reads again. Returns `false` if nothing changed.
    pub fn resume_reading(&self, cx: Cx<'_, H>) -> Result<bool, H::Error> {
        if self.end.is_closing() || !self.paused.get() {
            return Ok(false);
        }
        self.paused.set(false);
        self.want_reading(cx, true)?;
        Ok(true)
    }

    /// Stops reading and schedules `connection_lost`.
    pub fn close(&self, cx: Cx<'_, H>) -> Result<(), H::Error> {
        self.end_with(cx, None)
    }

    /// As [`ReadPipe::close`]; `connection_lost` gets `error`.
    pub fn abort(&self, cx: Cx<'_, H>, error: Option<H::Error>) -> Result<(), H::Error> {
        self.end_with(cx, error)
    }

    fn receive_eof(&self, cx: Cx<'_, H>) -> Result<(), H::Error> {
        cx.call_soon(cx.host().deferred_call(cx.this, DeferredCall::EofReceived)?)?;
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
