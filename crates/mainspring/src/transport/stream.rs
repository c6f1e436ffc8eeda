//! The stream transport: TCP and Unix stream sockets, for both faces.
//!
//! # Its life
//!
//! `open` schedules `connection_made` and then the start of reading. It ends once, by `close` (what is queued
//! goes out first), by `abort`, or by a failure; all three lead to the one `connection_lost`, scheduled, or called
//! out of the flush that sent the last byte. The descriptor is closed after that has run, never before: while the transport owns it,
//! its number cannot be given to somebody else.
//!
//! | flag | set when | then |
//! | --- | --- | --- |
//! | `closing` | by `close`, `abort` or a failure | nothing is delivered any more |
//! | `lost` | when `connection_lost` is scheduled | nothing is sent any more, writes are counted and dropped |
//! | `eof_written` | by `write_eof` | writing is an error; the socket is shut down once the queue is empty |
//! | `reserved` | between `reserve_writing` and `release_writing` | writing is an error: somebody sends past the queue |
//! | `reading_paused` | by `pause_reading` | nothing is received until `resume_reading` |

use super::{
    Cx, FlowControl, Notice, TransportHost, Upper, WARN_AFTER_LOST_WRITES, WaterMarks, WriteQueue,
    is_to_be_repeated,
};
use crate::engine::{Readiness, Registration};
use crate::poller::Interest;
use std::cell::{Cell, RefCell};
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

/// Why a call on a transport was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteRefused {
    /// `write_eof` was called before.
    AfterEof,
    /// Somebody has reserved the sending end.
    Reserved,
}

/// See the module's text.
pub struct Stream<H: TransportHost, U> {
    upper: U,
    channel: RefCell<Option<H::Channel>>,
    fd: RawFd,
    registration: Registration,
    queue: RefCell<WriteQueue<H::Chunk>>,
    flow: FlowControl,
    failure: Cell<Option<H::Error>>,
    lost_writes: Cell<u32>,
    closing: Cell<bool>,
    lost: Cell<bool>,
    eof_written: Cell<bool>,
    reserved: Cell<bool>,
    reading_paused: Cell<bool>,
}

impl<H: TransportHost, U: Upper<H>> Stream<H, U> {
    /// A transport on a connected, non-blocking stream socket. Nothing happens before [`Stream::open`].
    pub fn new(channel: H::Channel, upper: U) -> Self {
        let fd = channel.as_fd().as_raw_fd();
        Stream {
            upper,
            channel: RefCell::new(Some(channel)),
            fd,
            registration: Registration::default(),
            queue: RefCell::default(),
            flow: FlowControl::default(),
            failure: Cell::new(None),
            lost_writes: Cell::new(0),
            closing: Cell::new(false),
            lost: Cell::new(false),
            eof_written: Cell::new(false),
            reserved: Cell::new(false),
            reading_paused: Cell::new(false),
        }
    }

    /// Schedules `connection_made`, and the start of reading after it.
    pub fn open(&self, cx: Cx<'_, H>) -> Result<(), H::Error> {
        cx.engine.call_soon(cx.host().notice(cx.this, Notice::ConnectionMade)?);
        cx.engine.call_soon(cx.host().notice(cx.this, Notice::StartReading)?);
        Ok(())
    }

    /// The protocol above.
    pub fn upper(&self) -> &U {
        &self.upper
    }

    /// The descriptor's number; still told after it is closed, for messages.
    pub fn fd(&self) -> RawFd {
        self.fd
    }

    /// Takes the channel out, from a transport that goes without having been closed, or to put another owner of
    /// the same descriptor in its place.
    pub fn take_channel(&self) -> Option<H::Channel> {
        self.channel.borrow_mut().take()
    }

    /// Puts a channel back.
    pub fn put_channel(&self, channel: H::Channel) {
        let former = self.channel.borrow_mut().replace(channel);
        drop(former);
    }

    /// Whether the transport is closed or on the way there.
    pub fn is_closing(&self) -> bool {
        self.closing.get()
    }

    /// Whether `connection_lost` has run, or will in the next pass.
    pub fn is_lost(&self) -> bool {
        self.lost.get()
    }

    /// Whether `connection_lost` has run and the descriptor is closed.
    pub fn is_finished(&self) -> bool {
        self.channel.borrow().is_none()
    }

    /// Whether the transport receives, or will after [`Notice::StartReading`].
    pub fn is_reading(&self) -> bool {
        !self.closing.get() && !self.reading_paused.get()
    }

    /// Whether the protocol was told to pause writing, and not yet to resume.
    pub fn is_writing_paused(&self) -> bool {
        self.flow.is_paused()
    }

    /// What the kernel is asked for at this moment.
    pub fn interest(&self) -> Interest {
        self.registration.interest()
    }

    /// Bytes that wait to be sent.
    pub fn write_buffer_size(&self) -> usize {
        self.queue.borrow().len()
    }

    /// The marks in force.
    pub fn water_marks(&self) -> WaterMarks {
        self.flow.marks()
    }

    /// Sets the marks, and pauses the protocol if more than the new high mark waits already.
    pub fn set_water_marks(&self, cx: Cx<'_, H>, marks: WaterMarks) -> Result<(), H::Error> {
        self.flow.set_marks(marks);
        self.maybe_pause_protocol(cx)
    }

    /// Shows the chunks that wait, to the garbage collector; none if they are being changed at this moment.
    pub fn for_each_chunk(&self, show: &mut dyn FnMut(&H::Chunk)) {
        if let Ok(queue) = self.queue.try_borrow() {
            queue.iter().for_each(show);
        }
    }

    /// Runs a deferred step.
    pub fn notified(&self, cx: Cx<'_, H>, notice: Notice) -> Result<(), H::Error> {
        match notice {
            Notice::ConnectionMade => self.upper.connection_made(cx),
            Notice::StartReading => self.want_inbound(cx, self.is_reading()),
            Notice::ConnectionLost => self.finish(cx),
            Notice::ResumeAccepting => Ok(()),
        }
    }

    /// Something happened on the descriptor.
    pub fn io_ready(&self, cx: Cx<'_, H>, readiness: Readiness) -> Result<(), H::Error> {
        // What the kernel is asked now, not what it was asked when it answered: reading may have been paused, or the
        // end of the stream seen, since then.
        if readiness.inbound && self.registration.interest().is_inbound() {
            self.receive(cx)?;
        }
        // The protocol may have closed, or written everything, while it took what arrived.
        if readiness.outbound && self.registration.interest().is_outbound() {
            self.flush(cx)?;
        }
        Ok(())
    }

    /// Stops receiving. Repeating it changes nothing; `false` if nothing changed.
    pub fn pause_reading(&self, cx: Cx<'_, H>) -> Result<bool, H::Error> {
        if !self.is_reading() {
            return Ok(false);
        }
        self.reading_paused.set(true);
        self.want_inbound(cx, false)?;
        Ok(true)
    }

    /// Receives again. Repeating it changes nothing; `false` if nothing changed.
    pub fn resume_reading(&self, cx: Cx<'_, H>) -> Result<bool, H::Error> {
        if self.closing.get() || !self.reading_paused.get() {
            return Ok(false);
        }
        self.reading_paused.set(false);
        self.want_inbound(cx, true)?;
        Ok(true)
    }

    /// Whether a write would be refused; asked before the data is looked at.
    pub fn check_write(&self) -> Result<(), WriteRefused> {
        if self.eof_written.get() {
            Err(WriteRefused::AfterEof)
        } else if self.reserved.get() {
            Err(WriteRefused::Reserved)
        } else {
            Ok(())
        }
    }

    /// Refuses writes from here on, for somebody who will send on the descriptor when the queue is empty. Whether it is
    /// already; if not, [`Upper::drained`] tells.
    pub fn reserve_writing(&self) -> bool {
        self.reserved.set(true);
        self.queue.borrow().is_empty()
    }

    /// Takes writes again.
    pub fn release_writing(&self) {
        self.reserved.set(false);
    }

    /// Sends `data`: now if nothing waits before it, and what the kernel does not take later. `keep` gives the
    /// chunk that holds all of `data` for that case.
    pub fn write(&self, cx: Cx<'_, H>, data: &[u8], keep: impl FnOnce() -> H::Chunk) -> Result<(), H::Error> {
        let mut keep = Some(keep);
        self.write_vectored(cx, &[IoSlice::new(data)], |_| keep.take().map(|keep| keep()))
    }

    /// Sends several pieces as one write; `keep` gives the chunk of one of them.
    pub fn write_vectored(
        &self,
        cx: Cx<'_, H>,
        pieces: &[IoSlice<'_>],
        mut keep: impl FnMut(usize) -> Option<H::Chunk>,
    ) -> Result<(), H::Error> {
        if pieces.iter().all(|piece| piece.is_empty()) {
            return Ok(());
        }
        if self.lost.get() {
            let writes = self.lost_writes.get();
            if writes >= WARN_AFTER_LOST_WRITES {
                cx.host().warn_write_after_loss(cx.this)?;
            }
            self.lost_writes.set(writes.saturating_add(1));
            return Ok(());
        }
        let mut sent = 0;
        let was_empty = self.queue.borrow().is_empty();
        if was_empty {
            match self.send(cx, pieces) {
                Ok(count) => sent = count,
                Err(error) if is_to_be_repeated(&error) => {}
                Err(error) => return self.fatal_os(cx, error, "Fatal write error on socket transport"),
            }
        }
        for (index, piece) in pieces.iter().enumerate() {
            let skip = sent.min(piece.len());
            sent -= skip;
            if skip < piece.len() {
                let Some(chunk) = keep(index) else { continue };
                self.queue.borrow_mut().push(chunk, skip);
            }
        }
        if self.queue.borrow().is_empty() {
            return Ok(());
        }
        if was_empty {
            self.want_outbound(cx, true)?;
        }
        self.maybe_pause_protocol(cx)
    }

    /// Sends no more after what is queued; the peer sees the end of the stream. Receiving goes on.
    pub fn write_eof(&self, cx: Cx<'_, H>) -> Result<(), H::Error> {
        if self.closing.get() || self.eof_written.get() {
            return Ok(());
        }
        self.eof_written.set(true);
        if !self.queue.borrow().is_empty() {
            return Ok(());
        }
        self.shutdown_write().map_err(|error| cx.host().os_error(error))
    }

    /// Closes in order: receives no more, sends what is queued, then `connection_lost`.
    pub fn close(&self, cx: Cx<'_, H>) -> Result<(), H::Error> {
        if self.closing.replace(true) {
            return Ok(());
        }
        self.want_inbound(cx, false)?;
        if self.queue.borrow().is_empty() {
            self.lose(cx, None)?;
        }
        Ok(())
    }

    /// Closes at once: drops what is queued. `error` is what `connection_lost` will be told.
    pub fn abort(&self, cx: Cx<'_, H>, error: Option<H::Error>) -> Result<(), H::Error> {
        if self.lost.get() {
            return Ok(());
        }
        let unsent = self.queue.borrow_mut().take();
        self.closing.set(true);
        // The descriptor is closed in a moment; what the kernel makes of this no longer matters.
        let _ = self.set_interest(cx, Interest::NONE);
        let scheduled = self.lose(cx, error);
        drop(unsent);
        scheduled
    }

    fn receive(&self, cx: Cx<'_, H>) -> Result<(), H::Error> {
        if self.upper.is_buffered() {
            let claim = &mut |buffer: &mut [u8]| self.recv(cx, buffer);
            return match self.upper.receive_into(cx, claim) {
                Err(error) => self.fatal(cx, error, "Fatal error: protocol.get_buffer() call failed."),
                Ok(Ok(0)) => self.receive_eof(cx),
                Ok(Ok(filled)) => match self.upper.buffer_updated(cx, filled) {
                    Ok(()) => Ok(()),
                    Err(error) => {
                        self.fatal(cx, error, "Fatal error: protocol.buffer_updated() call failed.")
                    }
                },
                Ok(Err(error)) => self.receive_failed(cx, error),
            };
        }
        cx.engine.with_scratch(|scratch| match self.recv(cx, scratch) {
            Ok(0) => self.receive_eof(cx),
            Ok(filled) => {
                let data = scratch.get(..filled).unwrap_or_default();
                match self.upper.data_received(cx, data) {
                    Ok(()) => Ok(()),
                    Err(error) => self.fatal(cx, error, "Fatal error: protocol.data_received() call failed."),
                }
            }
            Err(error) => self.receive_failed(cx, error),
        })
    }

    fn receive_failed(&self, cx: Cx<'_, H>, error: io::Error) -> Result<(), H::Error> {
        if is_to_be_repeated(&error) {
            return Ok(());
        }
        self.fatal_os(cx, error, "Fatal read error on socket transport")
    }

    fn receive_eof(&self, cx: Cx<'_, H>) -> Result<(), H::Error> {
        match self.upper.eof_received(cx) {
            // Open for writing, but there is nothing more to receive.
            Ok(true) => self.want_inbound(cx, false),
            Ok(false) => self.close(cx),
            Err(error) => self.fatal(cx, error, "Fatal error: protocol.eof_received() call failed."),
        }
    }

    /// Goes on sending what is queued.
    fn flush(&self, cx: Cx<'_, H>) -> Result<(), H::Error> {
        let sent = self.queue.borrow().with_front(|slices| self.send(cx, slices));
        match sent {
            Ok(count) => {
                let done = self.queue.borrow_mut().advance(count);
                drop(done);
            }
            Err(error) if is_to_be_repeated(&error) => return Ok(()),
            Err(error) => {
                let unsent = self.queue.borrow_mut().take();
                drop(unsent);
                return self.fatal_os(cx, error, "Fatal write error on socket transport");
            }
        }
        self.maybe_resume_protocol(cx)?;
        // The protocol may have written again when it was resumed, or closed or aborted.
        if !self.queue.borrow().is_empty() || self.lost.get() {
            return Ok(());
        }
        self.want_outbound(cx, false)?;
        if self.reserved.get() && !self.closing.get() {
            self.upper.drained(cx)?;
        }
        if self.lost.get() {
            // The kernel refused, and the end is on its way.
            Ok(())
        } else if self.closing.get() {
            // The kernel has called us: nobody is in the middle of anything, and the end can be told at once.
            self.mark_lost(None);
            self.finish(cx)
        } else if self.eof_written.get()
            && let Err(error) = self.shutdown_write()
        {
            // The peer may be gone since the send: that ends this connection, not the loop.
            self.fatal_os(cx, error, "Fatal write error on socket transport")
        } else {
            Ok(())
        }
    }

    fn maybe_pause_protocol(&self, cx: Cx<'_, H>) -> Result<(), H::Error> {
        self.flow.grown(cx, self.write_buffer_size(), || self.upper.pause_writing(cx))
    }

    fn maybe_resume_protocol(&self, cx: Cx<'_, H>) -> Result<(), H::Error> {
        self.flow.shrunk(cx, self.write_buffer_size(), || self.upper.resume_writing(cx))
    }

    /// Ends the transport for a failure of the system's.
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
        if self.lost.get() {
            return Ok(());
        }
        self.mark_lost(error);
        cx.engine.call_soon(cx.host().notice(cx.this, Notice::ConnectionLost)?);
        Ok(())
    }

    fn mark_lost(&self, error: Option<H::Error>) {
        self.lost.set(true);
        self.lost_writes.set(1);
        self.failure.set(error);
    }

    fn finish(&self, cx: Cx<'_, H>) -> Result<(), H::Error> {
        let result = self.upper.connection_lost(cx, self.failure.take());
        let _ = self.set_interest(cx, Interest::NONE);
        let channel = self.channel.borrow_mut().take();
        drop(channel);
        let told = if self.reserved.get() { self.upper.drained(cx) } else { Ok(()) };
        result.and(told).and(self.upper.detach(cx))
    }

    fn shutdown_write(&self) -> io::Result<()> {
        self.with_fd(|fd| Ok(rustix::net::shutdown(fd, rustix::net::Shutdown::Write)?))
    }

    fn want_inbound(&self, cx: Cx<'_, H>, wanted: bool) -> Result<(), H::Error> {
        self.want(cx, Interest::RECV, wanted)
    }

    fn want_outbound(&self, cx: Cx<'_, H>, wanted: bool) -> Result<(), H::Error> {
        self.want(cx, Interest::SEND, wanted)
    }

    fn want(&self, cx: Cx<'_, H>, direction: Interest, wanted: bool) -> Result<(), H::Error> {
        let now = self.registration.interest();
        let interest = if wanted { now.with(direction) } else { now.without(direction) };
        match self.set_interest(cx, interest) {
            Ok(()) => Ok(()),
            Err(error) => self.fatal_os(cx, error, "Fatal error: the socket cannot be watched"),
        }
    }

    fn set_interest(&self, cx: Cx<'_, H>, interest: Interest) -> io::Result<()> {
        self.with_fd(|fd| self.registration.set(cx.engine, fd, cx.this, interest))
    }

    fn recv(&self, cx: Cx<'_, H>, buffer: &mut [u8]) -> io::Result<usize> {
        self.with_fd(|fd| cx.engine.recv(fd, self.registration.key(), buffer))
    }

    fn send(&self, cx: Cx<'_, H>, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        self.with_fd(|fd| cx.engine.send(fd, self.registration.key(), pieces))
    }

    fn with_fd<R>(&self, use_it: impl FnOnce(BorrowedFd<'_>) -> io::Result<R>) -> io::Result<R> {
        match self.channel.borrow().as_ref() {
            Some(channel) => use_it(channel.as_fd()),
            None => Err(io::ErrorKind::NotConnected.into()),
        }
    }
}
