//! The transport that writes to a pipe: a `pipe(2)` or fifo, a socket that is only written, or a terminal.
//!
//! It closes by `close` or `write_eof`, which are the same here, after queued bytes are written; by `abort`; by a
//! failed write; and when the reader closes. The kernel reports the latter as readability, so the fd is registered
//! for reading from the start: any such event is the end, an error if bytes are queued.

use super::PipeKind;
use crate::Readiness;
use crate::poller::Interest;
use crate::transport::endpoint::{Endpoint, Transport};
use crate::transport::write_buffer::{WriteBuffer, Written};
use crate::transport::{
    Cx, DeferredCall, FlowControl, ProtocolSink, TransportHost, WaterMarks, count_lost_write,
};
use std::cell::Cell;
use std::io::{self, IoSlice};

/// The writing end of a pipe, or a file like it, and its protocol ([`ProtocolSink`]).
pub struct WritePipe<H: TransportHost, U> {
    sink: U,
    end: Endpoint<H>,
    write_buffer: WriteBuffer<H::Chunk>,
    flow: FlowControl,
    /// Writes that failed, or followed the close.
    lost_writes: Cell<u32>,
    watches_reader: bool,
}

impl<H: TransportHost, U: ProtocolSink<H>> Transport<H> for WritePipe<H, U> {
    fn endpoint(&self) -> &Endpoint<H> {
        &self.end
    }
}

impl<H: TransportHost, U: ProtocolSink<H>> WritePipe<H, U> {
    /// A transport on a non-blocking pipe of this kind ([`prepare_pipe`](super::prepare_pipe)). Inactive before
    /// [`WritePipe::open`].
    pub fn new(channel: H::Channel, kind: PipeKind, sink: U) -> Self {
        WritePipe {
            sink,
            end: Endpoint::new(channel),
            write_buffer: WriteBuffer::default(),
            flow: FlowControl::default(),
            lost_writes: Cell::new(0),
            watches_reader: kind.reports_reader_close(),
        }
    }

    /// Schedules `connection_made`, and then the registration that detects the reader's close.
    pub fn open(&self, cx: Cx<'_, H>) -> Result<(), H::Error> {
        cx.call_soon(cx.host().deferred_call(cx.this, DeferredCall::ConnectionMade)?)?;
        if self.watches_reader {
            cx.call_soon(cx.host().deferred_call(cx.this, DeferredCall::StartReading)?)?;
        }
        self.end.own(cx);
        Ok(())
    }

    /// The protocol.
    pub fn sink(&self) -> &U {
        &self.sink
    }

    /// Whether the protocol is paused by back-pressure.
    pub fn is_writing_paused(&self) -> bool {
        self.flow.is_paused()
    }

    /// Unsent bytes.
    pub fn write_buffer_size(&self) -> usize {
        self.write_buffer.len()
    }

    /// The water marks.
    pub fn water_marks(&self) -> WaterMarks {
        self.flow.marks()
    }

    /// Sets the water marks, and pauses the protocol if the queue exceeds the new high mark.
    pub fn set_water_marks(&self, cx: Cx<'_, H>, marks: WaterMarks) -> Result<(), H::Error> {
        self.flow.set_marks(marks);
        self.flow.grown(cx, self.write_buffer.len(), || self.sink.pause_writing(cx))
    }

    /// Shows the queued chunks to the garbage collector; none while the queue is mutably borrowed.
    pub fn for_each_chunk(&self, show: &mut dyn FnMut(&H::Chunk)) {
        self.write_buffer.for_each_chunk(show);
    }

    /// Runs a deferred step.
    pub fn run_deferred(&self, cx: Cx<'_, H>, deferred: DeferredCall) -> Result<(), H::Error> {
        match deferred {
            DeferredCall::ConnectionMade => self.sink.connection_made(cx),
            // Also while closing: if bytes are queued, the reader's close still matters.
            DeferredCall::StartReading => self.want(cx, Interest::READ, !self.end.is_lost()),
            DeferredCall::ConnectionLost => self.end.finish_with(cx, &self.sink),
            _ => Ok(()),
        }
    }

    /// Handles readiness of the fd.
    pub fn io_ready(&self, cx: Cx<'_, H>, readiness: Readiness) -> Result<(), H::Error> {
        if readiness.inbound && self.end.interest().is_inbound() {
            self.reader_left(cx)?;
        }
        if readiness.outbound && self.end.interest().is_outbound() {
            self.flush(cx)?;
        }
        Ok(())
    }

    /// Writes `data` at once if the queue is empty, and queues the rest. `keep` returns the chunk with all of `data`
    /// for the queue; without memory as in [`Stream::write`](crate::transport::Stream::write).
    pub fn write(
        &self,
        cx: Cx<'_, H>,
        data: &[u8],
        keep: impl FnOnce() -> Option<H::Chunk>,
    ) -> Result<(), H::Error> {
        if data.is_empty() {
            return Ok(());
        }
        if self.end.is_closing() || self.lost_writes.get() > 0 {
            return count_lost_write(cx, &self.lost_writes);
        }
        let mut keep = Some(keep);
        let pieces = [IoSlice::new(data)];
        let sent = if self.write_buffer.is_empty() { Some(self.send(cx, &pieces)) } else { None };
        if matches!(sent, Some(Ok(count)) if count == data.len()) {
            return Ok(());
        }
        match self.write_buffer.keep_rest(&pieces, sent, |_| keep.take().and_then(|keep| keep())) {
            Ok(Written::All) => return Ok(()),
            Ok(Written::Begun) => self.want(cx, Interest::WRITE, true)?,
            Ok(Written::Behind) => {}
            Ok(Written::Refused) => return Err(cx.out_of_memory()),
            Err(error) => return self.write_failed(cx, error),
        }
        self.flow.grown(cx, self.write_buffer.len(), || self.sink.pause_writing(cx))
    }

    /// Closes after queued bytes are written: the reader sees EOF. The same as `write_eof`.
    pub fn close(&self, cx: Cx<'_, H>) -> Result<(), H::Error> {
        if self.end.begin_closing() {
            return Ok(());
        }
        if self.write_buffer.is_empty() {
            self.end.deregister(cx);
            self.end.lose(cx, None)?;
        }
        Ok(())
    }

    /// Closes at once: drops queued data. `connection_lost` gets `error`.
    pub fn abort(&self, cx: Cx<'_, H>, error: Option<H::Error>) -> Result<(), H::Error> {
        self.end.begin_closing();
        self.end.deregister(cx);
        let scheduled = self.end.lose(cx, error);
        self.write_buffer.clear();
        scheduled
    }

    fn reader_left(&self, cx: Cx<'_, H>) -> Result<(), H::Error> {
        let broken = io::Error::from_raw_os_error(libc::EPIPE);
        let error = (!self.write_buffer.is_empty()).then(|| cx.host().os_error(broken));
        self.abort(cx, error)
    }

    /// Writes queued bytes.
    fn flush(&self, cx: Cx<'_, H>) -> Result<(), H::Error> {
        match self.write_buffer.flush(|pieces| self.send(cx, pieces)) {
            Ok(true) => {}
            Ok(false) => return Ok(()),
            Err(error) => return self.write_failed(cx, error),
        }
        self.flow.shrunk(cx, self.write_buffer.len(), || self.sink.resume_writing(cx))?;
        // The protocol may have written or aborted when it was resumed.
        if !self.write_buffer.is_empty() || self.end.is_lost() {
            return Ok(());
        }
        if self.end.is_closing() {
            // Called from the loop, not from the protocol, so `connection_lost` can run at once.
            self.end.mark_lost(None);
            return self.end.finish_with(cx, &self.sink);
        }
        self.want(cx, Interest::WRITE, false)
    }

    fn write_failed(&self, cx: Cx<'_, H>, error: io::Error) -> Result<(), H::Error> {
        self.lost_writes.set(self.lost_writes.get().saturating_add(1));
        self.fatal_os(cx, error, "Fatal write error on pipe transport")
    }

    fn fatal_os(&self, cx: Cx<'_, H>, error: io::Error, message: &str) -> Result<(), H::Error> {
        let error = cx.host().os_error(error);
        let error = cx.host().report_fatal(cx.this, error, message)?;
        self.abort(cx, Some(error))
    }

    fn want(&self, cx: Cx<'_, H>, direction: Interest, wanted: bool) -> Result<(), H::Error> {
        match self.end.want(cx, direction, wanted) {
            Ok(()) => Ok(()),
            Err(error) => self.fatal_os(cx, error, "Fatal error: the pipe cannot be watched"),
        }
    }

    fn send(&self, cx: Cx<'_, H>, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        let result = self.end.with_fd(|fd| cx.engine.with_poller(|poller| poller.write(fd, pieces)));
        cx.engine.count_sent(result)
    }
}
