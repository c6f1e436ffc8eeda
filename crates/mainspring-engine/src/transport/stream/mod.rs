//! The stream transport: TCP and Unix stream sockets.
//!
//! # Life cycle
//!
//! `open` schedules `connection_made` and then the start of reading. The transport ends once: by `close` (after
//! queued bytes are sent), by `abort`, or by an error. All lead to one `connection_lost`, scheduled, or called from
//! the flush that sent the last byte. The fd is closed after that ([`Endpoint`]).
//!
//! | flag | set by | effect |
//! | --- | --- | --- |
//! | `closing` | `close`, `abort` or an error | no more data is delivered |
//! | `lost` | scheduling `connection_lost` | no more data is sent; writes are counted and dropped |
//! | `eof_written` | `write_eof` | writing is an error; the socket is shut down once the queue is empty |
//! | `reserved` | `reserve_writing`, until `release_writing` | writing is an error: other code sends on the fd |
//! | `reading_paused` | `pause_reading`, until `resume_reading` | no data is received |

mod detach;
mod send;

use super::endpoint::{Endpoint, Transport};
use super::write_buffer::{WriteBuffer, Written, length_of};
use super::write_coalescing::WriteCoalescing;
use super::{
    Cx, DeferredCall, FlowControl, ProtocolSink, TransportHost, WaterMarks, WriteRefused, count_lost_write,
    is_retryable,
};
use crate::Readiness;
use crate::poller::Interest;
use std::cell::Cell;
use std::io::{self, IoSlice};
use std::os::fd::AsFd;

/// A connection: a TCP or Unix stream socket, and the protocol above it ([`ProtocolSink`]).
pub struct Stream<H: TransportHost, U> {
    write_buffer: WriteBuffer<H::Chunk>,
    coalescing: WriteCoalescing,
    eof_written: Cell<bool>,
    reserved: Cell<bool>,
    reading_paused: Cell<bool>,
    lost_writes: Cell<u32>,
    end: Endpoint<H>,
    sink: U,
    flow: FlowControl,
}

impl<H: TransportHost, U: ProtocolSink<H>> Transport<H> for Stream<H, U> {
    fn endpoint(&self) -> &Endpoint<H> {
        &self.end
    }
}

impl<H: TransportHost, U: ProtocolSink<H>> Stream<H, U> {
    /// A transport on a connected, non-blocking stream socket. Inactive before [`Stream::open`].
    pub fn new(channel: H::Channel, sink: U) -> Self {
        Stream {
            sink,
            end: Endpoint::new(channel),
            write_buffer: WriteBuffer::default(),
            flow: FlowControl::default(),
            coalescing: WriteCoalescing::default(),
            lost_writes: Cell::new(0),
            eof_written: Cell::new(false),
            reserved: Cell::new(false),
            reading_paused: Cell::new(false),
        }
    }

    /// Schedules `connection_made`, and the start of reading after it.
    pub fn open(&self, cx: Cx<'_, H>) -> Result<(), H::Error> {
        // Small writes are sent without waiting for an acknowledgement. Other stream sockets than TCP refuse the option.
        let _ = self.end.with_fd(|fd| Ok(rustix::net::sockopt::set_tcp_nodelay(fd, true)?));
        cx.call_soon(cx.host().deferred_call(cx.this, DeferredCall::ConnectionMade)?)?;
        cx.call_soon(cx.host().deferred_call(cx.this, DeferredCall::StartReading)?)?;
        self.end.own(cx);
        Ok(())
    }

    /// The protocol.
    pub fn sink(&self) -> &U {
        &self.sink
    }

    /// Borrows the channel; `None` once the fd is closed. `look` must not run user code: the channel is borrowed.
    pub fn with_channel<R>(&self, look: impl FnOnce(&H::Channel) -> R) -> Option<R> {
        self.end.lend().ok().map(|channel| look(&channel))
    }

    /// Replaces the channel by another owner of the same fd. No effect once the fd is closed. `exchange` must not run
    /// user code: the channel is borrowed.
    pub fn replace_channel(&self, exchange: impl FnOnce(H::Channel) -> H::Channel) {
        self.end.replace_channel(exchange);
    }

    /// Whether the transport receives, or will after [`DeferredCall::StartReading`].
    pub fn is_reading(&self) -> bool {
        !self.end.is_closing() && !self.reading_paused.get()
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
        self.maybe_pause_protocol(cx)
    }

    /// Shows the queued chunks to the garbage collector; none while the queue is mutably borrowed.
    pub fn for_each_chunk(&self, show: &mut dyn FnMut(&H::Chunk)) {
        self.write_buffer.for_each_chunk(show);
    }

    /// Runs a deferred step.
    pub fn run_deferred(&self, cx: Cx<'_, H>, deferred: DeferredCall) -> Result<(), H::Error> {
        match deferred {
            DeferredCall::ConnectionMade => self.sink.connection_made(cx),
            DeferredCall::StartReading if self.is_reading() => self.want_inbound(cx, true),
            DeferredCall::ConnectionLost => self.finish(cx),
            _ => Ok(()),
        }
    }

    /// Handles readiness of the fd.
    pub fn io_ready(&self, cx: Cx<'_, H>, readiness: Readiness) -> Result<(), H::Error> {
        // Use the current interest, not that of the event: reading may have been paused, or EOF received, since then.
        if readiness.inbound && self.end.interest().is_inbound() {
            self.receive(cx)?;
        }
        // The protocol may have closed the transport, or sent everything, during `receive`.
        if readiness.outbound && self.end.interest().is_outbound() {
            self.flush(cx)?;
        }
        Ok(())
    }

    /// Whether the fd is registered for reading.
    pub fn is_receiving(&self) -> bool {
        self.end.interest().is_inbound()
    }

    /// Receives into `buffer`, for a task that waits in `read()`. `None` if there is nothing: reading is paused, the
    /// event was spurious, or it was EOF or an error, which goes to the protocol as usual.
    pub fn recv_into(&self, cx: Cx<'_, H>, buffer: &mut [u8]) -> Result<Option<usize>, H::Error> {
        if buffer.is_empty() || !self.end.interest().is_inbound() {
            return Ok(None);
        }
        match self.recv(cx, buffer) {
            Ok(0) => self.receive_eof(cx).map(|()| None),
            Ok(filled) => Ok(Some(filled)),
            Err(error) => self.receive_failed(cx, error).map(|()| None),
        }
    }

    /// Stops receiving. Returns `false` if nothing changed.
    pub fn pause_reading(&self, cx: Cx<'_, H>) -> Result<bool, H::Error> {
        if !self.is_reading() {
            return Ok(false);
        }
        self.reading_paused.set(true);
        self.want_inbound(cx, false)?;
        Ok(true)
    }

    /// Receives again. Returns `false` if nothing changed.
    pub fn resume_reading(&self, cx: Cx<'_, H>) -> Result<bool, H::Error> {
        if self.end.is_closing() || !self.reading_paused.get() {
            return Ok(false);
        }
        self.reading_paused.set(false);
        self.want_inbound(cx, true)?;
        Ok(true)
    }

    /// Whether a write would be refused; checked before the data is evaluated.
    pub fn check_write(&self) -> Result<(), WriteRefused> {
        if self.eof_written.get() {
            Err(WriteRefused::AfterEof)
        } else if self.reserved.get() {
            Err(WriteRefused::Reserved)
        } else {
            Ok(())
        }
    }

    /// Reserves the sending direction for other code, which sends on the fd once the queue is empty. Writes are
    /// refused meanwhile. Returns whether the queue is empty now; if not, [`ProtocolSink::drained`] is called then.
    pub fn reserve_writing(&self) -> bool {
        self.reserved.set(true);
        self.write_buffer.is_empty()
    }

    /// Ends the reservation.
    pub fn release_writing(&self) {
        self.reserved.set(false);
    }

    /// Sends `data` at once if the queue is empty, and queues the rest. `keep` returns the chunk with all of `data`
    /// for the queue, `None` if there is no memory. Then the write fails with [`io::ErrorKind::OutOfMemory`]; if a
    /// part was already sent, the connection is lost.
    pub fn write(
        &self,
        cx: Cx<'_, H>,
        data: &[u8],
        keep: impl FnOnce() -> Option<H::Chunk>,
    ) -> Result<(), H::Error> {
        let mut keep = Some(keep);
        self.write_vectored(cx, &[IoSlice::new(data)], |_| keep.take().and_then(|keep| keep()))
    }

    /// Sends several pieces as one write; `keep` returns the chunk of one piece, as in [`Stream::write`].
    #[inline(always)]
    pub fn write_vectored(
        &self,
        cx: Cx<'_, H>,
        pieces: &[IoSlice<'_>],
        keep: impl FnMut(usize) -> Option<H::Chunk>,
    ) -> Result<(), H::Error> {
        let length = length_of(pieces);
        if length == 0 {
            return Ok(());
        }
        if self.end.is_lost() {
            return count_lost_write(cx, &self.lost_writes);
        }
        let sent =
            if self.write_buffer.is_empty() { Some(self.send_or_coalesce(cx, pieces, length)) } else { None };
        if matches!(sent, Some(Ok(count)) if count == length) {
            return Ok(());
        }
        self.handle_partial_write(cx, self.write_buffer.keep_rest(pieces, sent, keep))
    }

    fn handle_partial_write(&self, cx: Cx<'_, H>, written: io::Result<Written>) -> Result<(), H::Error> {
        match written {
            Ok(Written::All) => return Ok(()),
            Ok(Written::Begun) => self.want_outbound(cx, true)?,
            Ok(Written::Behind) => {}
            Ok(Written::Refused) => return Err(cx.out_of_memory()),
            Err(error) => return self.fatal_os(cx, error, "Fatal write error on socket transport"),
        }
        self.maybe_pause_protocol(cx)
    }

    /// Shuts the sending direction down after queued bytes are sent. Receiving continues. If the queue is empty,
    /// fails as `shutdown(2)` does.
    pub fn write_eof(&self, cx: Cx<'_, H>) -> Result<(), H::Error> {
        if self.end.is_closing() || self.eof_written.get() {
            return Ok(());
        }
        self.eof_written.set(true);
        if !self.write_buffer.is_empty() {
            return Ok(());
        }
        self.shutdown_write().map_err(|error| cx.host().os_error(error))
    }

    /// Closes in order: stops receiving, sends queued data, then calls `connection_lost`.
    pub fn close(&self, cx: Cx<'_, H>) -> Result<(), H::Error> {
        if self.end.begin_closing() {
            return Ok(());
        }
        self.want_inbound(cx, false)?;
        if self.write_buffer.is_empty() {
            self.lose(cx, None)?;
        }
        Ok(())
    }

    /// Closes at once: drops queued data. `connection_lost` gets `error`.
    pub fn abort(&self, cx: Cx<'_, H>, error: Option<H::Error>) -> Result<(), H::Error> {
        if self.end.is_lost() {
            return Ok(());
        }
        self.end.begin_closing();
        self.end.deregister(cx);
        let scheduled = self.lose(cx, error);
        self.write_buffer.clear();
        scheduled
    }

    fn receive(&self, cx: Cx<'_, H>) -> Result<(), H::Error> {
        if self.sink.is_buffered() {
            let claim = &mut |buffer: &mut [u8]| self.recv(cx, buffer);
            return match self.sink.receive_into(cx, claim) {
                Err(error) => self.fatal(cx, error, "Fatal error: protocol.get_buffer() call failed."),
                Ok(Ok(0)) => self.receive_eof(cx),
                Ok(Ok(filled)) => match self.sink.buffer_updated(cx, filled) {
                    Ok(()) => Ok(()),
                    Err(error) => {
                        self.fatal(cx, error, "Fatal error: protocol.buffer_updated() call failed.")
                    }
                },
                Ok(Err(error)) => self.receive_failed(cx, error),
            };
        }
        cx.engine.with_read_buffer(|scratch| match self.recv(cx, scratch) {
            Ok(0) => self.receive_eof(cx),
            Ok(filled) => {
                let data = scratch.get(..filled).unwrap_or_default();
                match self.sink.data_received(cx, data) {
                    Ok(()) => Ok(()),
                    Err(error) => self.fatal(cx, error, "Fatal error: protocol.data_received() call failed."),
                }
            }
            Err(error) => self.receive_failed(cx, error),
        })
    }

    #[cold]
    fn receive_failed(&self, cx: Cx<'_, H>, error: io::Error) -> Result<(), H::Error> {
        if is_retryable(&error) {
            return Ok(());
        }
        self.fatal_os(cx, error, "Fatal read error on socket transport")
    }

    fn receive_eof(&self, cx: Cx<'_, H>) -> Result<(), H::Error> {
        match self.sink.eof_received(cx) {
            // Open for writing only.
            Ok(true) => self.want_inbound(cx, false),
            Ok(false) => self.close(cx),
            Err(error) => self.fatal(cx, error, "Fatal error: protocol.eof_received() call failed."),
        }
    }

    /// Sends queued data.
    fn flush(&self, cx: Cx<'_, H>) -> Result<(), H::Error> {
        match self.write_buffer.flush(|pieces| self.send(cx, pieces)) {
            Ok(true) => {}
            Ok(false) => return Ok(()),
            Err(error) => return self.fatal_os(cx, error, "Fatal write error on socket transport"),
        }
        self.maybe_resume_protocol(cx)?;
        // The protocol may have written, closed or aborted when it was resumed.
        if !self.write_buffer.is_empty() || self.end.is_lost() {
            return Ok(());
        }
        self.want_outbound(cx, false)?;
        if self.reserved.get() && !self.end.is_closing() {
            self.sink.drained(cx)?;
        }
        if self.end.is_lost() {
            // The registration failed, and `connection_lost` is scheduled.
            Ok(())
        } else if self.end.is_closing() {
            // Called from the loop, not from the protocol, so `connection_lost` can run at once.
            self.lost_writes.set(1);
            self.end.mark_lost(None);
            self.finish(cx)
        } else if self.eof_written.get()
            && let Err(error) = self.shutdown_write()
        {
            // The peer may have closed since the send: that ends this connection, not the loop.
            self.fatal_os(cx, error, "Fatal write error on socket transport")
        } else {
            Ok(())
        }
    }

    fn maybe_pause_protocol(&self, cx: Cx<'_, H>) -> Result<(), H::Error> {
        self.flow.grown(cx, self.write_buffer_size(), || self.sink.pause_writing(cx))
    }

    fn maybe_resume_protocol(&self, cx: Cx<'_, H>) -> Result<(), H::Error> {
        self.flow.shrunk(cx, self.write_buffer_size(), || self.sink.resume_writing(cx))
    }

    /// Ends the transport with a system error.
    fn fatal_os(&self, cx: Cx<'_, H>, error: io::Error, message: &str) -> Result<(), H::Error> {
        let error = cx.host().os_error(error);
        self.fatal(cx, error, message)
    }

    fn fatal(&self, cx: Cx<'_, H>, error: H::Error, message: &str) -> Result<(), H::Error> {
        let error = cx.host().report_fatal(cx.this, error, message)?;
        self.abort(cx, Some(error))
    }

    /// Schedules the one `connection_lost`.
    fn lose(&self, cx: Cx<'_, H>, error: Option<H::Error>) -> Result<(), H::Error> {
        self.lost_writes.set(self.lost_writes.get().max(1));
        self.end.lose(cx, error)
    }

    fn finish(&self, cx: Cx<'_, H>) -> Result<(), H::Error> {
        let detach = || {
            let drained = if self.reserved.get() { self.sink.drained(cx) } else { Ok(()) };
            cx.host().merge_outcomes(drained, self.sink.detach(cx))
        };
        self.end.finish(cx, |error| self.sink.connection_lost(cx, error), detach)
    }

    fn shutdown_write(&self) -> io::Result<()> {
        self.end.with_fd(|fd| Ok(rustix::net::shutdown(fd, rustix::net::Shutdown::Write)?))
    }

    fn want_inbound(&self, cx: Cx<'_, H>, wanted: bool) -> Result<(), H::Error> {
        self.want(cx, Interest::READ, wanted)
    }

    fn want_outbound(&self, cx: Cx<'_, H>, wanted: bool) -> Result<(), H::Error> {
        self.want(cx, Interest::WRITE, wanted)
    }

    fn want(&self, cx: Cx<'_, H>, direction: Interest, wanted: bool) -> Result<(), H::Error> {
        match self.end.want(cx, direction, wanted) {
            Ok(()) => Ok(()),
            Err(error) => self.fatal_os(cx, error, "Fatal error: the socket cannot be watched"),
        }
    }

    #[inline(always)]
    fn recv(&self, cx: Cx<'_, H>, buffer: &mut [u8]) -> io::Result<usize> {
        let result = cx.engine.with_poller(|poller| poller.recv(self.end.lend()?.as_fd(), buffer));
        cx.engine.count_received(result)
    }
}
