//! The transport that writes to a pipe: the write end of a `pipe(2)` or fifo, a socket that is only written, a terminal.
//!
//! It closes by `close` or `write_eof`, which are one here, after what is queued has gone out; by `abort`; by a failed
//! write; and when the reader is gone. The kernel tells that last one as an event in the direction of reading, so that
//! one is asked for from the start: whatever comes there is the end, an error if something was still to be read.

use super::PipeKind;
use crate::Readiness;
use crate::poller::Interest;
use crate::transport::endpoint::Endpoint;
use crate::transport::write_buffer::{WriteBuffer, Written};
use crate::transport::{Cx, FlowControl, Notice, TransportHost, Upper, WaterMarks, count_lost_write};
use std::cell::Cell;
use std::io::{self, IoSlice};
use std::os::fd::{BorrowedFd, RawFd};

/// The end of a pipe that is written, or what can be written like one, and the protocol above it ([`Upper`]).
pub struct WritePipe<H: TransportHost, U> {
    upper: U,
    end: Endpoint<H>,
    write_buffer: WriteBuffer<H::Chunk>,
    flow: FlowControl,
    /// Writes that failed, or came too late.
    lost_writes: Cell<u32>,
    watches_reader: bool,
}

impl<H: TransportHost, U: Upper<H>> WritePipe<H, U> {
    /// A transport on a non-blocking pipe of this kind ([`prepare_pipe`](super::prepare_pipe)). Nothing happens before
    /// [`WritePipe::open`].
    pub fn new(channel: H::Channel, kind: PipeKind, upper: U) -> Self {
        WritePipe {
            upper,
            end: Endpoint::new(channel),
            write_buffer: WriteBuffer::default(),
            flow: FlowControl::default(),
            lost_writes: Cell::new(0),
            watches_reader: kind.reports_reader_close(),
        }
    }

    /// Schedules `connection_made`, and the look-out for the reader's end after it.
    pub fn open(&self, cx: Cx<'_, H>) -> Result<(), H::Error> {
        cx.call_soon(cx.host().notice(cx.this, Notice::ConnectionMade)?)?;
        if self.watches_reader {
            cx.call_soon(cx.host().notice(cx.this, Notice::StartReading)?)?;
        }
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

    /// Whether the protocol was told to pause writing, and not yet to resume.
    pub fn is_writing_paused(&self) -> bool {
        self.flow.is_paused()
    }

    /// What the kernel is asked for at this moment.
    pub fn interest(&self) -> Interest {
        self.end.interest()
    }

    /// Bytes that wait to be written.
    pub fn write_buffer_size(&self) -> usize {
        self.write_buffer.len()
    }

    /// The marks in force.
    pub fn water_marks(&self) -> WaterMarks {
        self.flow.marks()
    }

    /// Sets the marks, and pauses the protocol if more than the new high mark waits already.
    pub fn set_water_marks(&self, cx: Cx<'_, H>, marks: WaterMarks) -> Result<(), H::Error> {
        self.flow.set_marks(marks);
        self.flow.grown(cx, self.write_buffer.len(), || self.upper.pause_writing(cx))
    }

    /// Shows the chunks that wait, to the garbage collector; none if they are being changed at this moment.
    pub fn for_each_chunk(&self, show: &mut dyn FnMut(&H::Chunk)) {
        self.write_buffer.for_each_chunk(show);
    }

    /// Runs a deferred step.
    pub fn notified(&self, cx: Cx<'_, H>, notice: Notice) -> Result<(), H::Error> {
        match notice {
            Notice::ConnectionMade => self.upper.connection_made(cx),
            // Closed meanwhile: if data still waits, its reader is of interest all the same.
            Notice::StartReading => self.want(cx, Interest::READ, !self.end.is_lost()),
            Notice::ConnectionLost => self.end.finish_with(cx, &self.upper),
            _ => Ok(()),
        }
    }

    /// Something happened on the descriptor.
    pub fn io_ready(&self, cx: Cx<'_, H>, readiness: Readiness) -> Result<(), H::Error> {
        if readiness.inbound && self.end.interest().is_inbound() {
            self.reader_left(cx)?;
        }
        if readiness.outbound && self.end.interest().is_outbound() {
            self.flush(cx)?;
        }
        Ok(())
    }

    /// Writes `data`: now if nothing waits before it, and what the kernel does not take later. `keep` gives the chunk
    /// that holds all of `data` for that case; without memory it is as in [`Stream::write`](crate::transport::Stream::write).
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
        self.flow.grown(cx, self.write_buffer.len(), || self.upper.pause_writing(cx))
    }

    /// Closes after what is queued: the reader sees the end. The same as `write_eof`.
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

    /// Closes at once: drops what is queued. `error` is what `connection_lost` will be told.
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

    /// Goes on writing what is queued.
    fn flush(&self, cx: Cx<'_, H>) -> Result<(), H::Error> {
        match self.write_buffer.flush(|pieces| self.send(cx, pieces)) {
            Ok(true) => {}
            Ok(false) => return Ok(()),
            Err(error) => return self.write_failed(cx, error),
        }
        self.flow.shrunk(cx, self.write_buffer.len(), || self.upper.resume_writing(cx))?;
        // The protocol may have written again when it was resumed, or aborted.
        if !self.write_buffer.is_empty() || self.end.is_lost() {
            return Ok(());
        }
        if self.end.is_closing() {
            // The kernel has called us: nobody is in the middle of anything, and the end can be told at once.
            self.end.mark_lost(None);
            return self.end.finish_with(cx, &self.upper);
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
        self.end.with_fd(|fd| cx.engine.with_poller(|poller| poller.write(fd, pieces)))
    }
}
