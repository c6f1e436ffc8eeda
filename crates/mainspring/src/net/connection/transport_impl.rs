//! `TransportImpl`: one kind of connection behind a [`Transport`](crate::net::Transport).
//!
//! A transport is a handle on any kind of connection: a stream socket (`socket.rs`), one end of a pipe, a TLS session
//! over another transport. Each kind is a struct that contains a state machine of the engine. It implements
//! [`TransportImpl`], and thereby [`Source`], and its protocol is a [`ProtocolSlot`].
//!
//! Every [`Cx`] passed to a [`ProtocolSlot`] names the connection itself, never an underlying one: the protocol's
//! transport handle is made from `cx.this`.
//!
//! The methods that take a [`Cx`] require an open loop and may run user code. The others do neither.

use super::protocol::ProtocolSlot;

use crate::event_loop::Core;
use crate::host::{Failure, RustHost, Source};
use mainspring_engine::Readiness;
use mainspring_engine::poller::PeerAddress;
use mainspring_engine::transport::{Cx, DeferredCall, WaterMarks, WriteRefused};
use std::any::Any;
use std::io::{self, IoSlice};
use std::os::fd::{BorrowedFd, OwnedFd, RawFd};
use std::rc::{Rc, Weak};

/// A function that gets the fd for one system call.
pub(crate) type WithFd<'a> = &'a mut dyn FnMut(BorrowedFd<'_>) -> io::Result<()>;

/// The outcome of [`TransportImpl::try_write_vectored`].
pub(crate) enum WriteOutcome {
    /// The bytes are sent or queued.
    Accepted,
    /// The write failed; `connection_lost` is scheduled.
    Lost,
    /// The connection is closed or closing.
    Closing,
    /// The loop is closed.
    LoopClosed,
    Refused(WriteRefused),
}

/// See the module comment. The defaults are for a kind that does not support the operation.
#[allow(dead_code, reason = "some kinds of connection, and their callers, need optional features")]
pub(crate) trait TransportImpl {
    /// The loop of the connection.
    fn core(&self) -> &Weak<Core>;

    /// The protocol.
    fn protocol_slot(&self) -> &ProtocolSlot;

    /// Handles an event of the fd. Never called for a kind without a registered fd.
    fn io_ready(&self, cx: Cx<'_, RustHost>, readiness: Readiness) -> Result<(), Failure> {
        let _ = (cx, readiness);
        Ok(())
    }

    /// Runs after the current callback has returned, if requested with `Engine::at_scope_end`.
    fn scope_ended(&self, cx: Cx<'_, RustHost>) -> Result<(), Failure> {
        let _ = cx;
        Ok(())
    }

    /// The fd is ready. Returns `true` if this woke a task that waits to receive; [`TransportImpl::io_ready`] is then
    /// skipped.
    fn wake_reader(&self, readiness: Readiness) -> bool {
        let _ = readiness;
        false
    }

    /// Receives into the buffer of a task that [`TransportImpl::wake_reader`] woke. `None` if nothing is available, or
    /// at the end of the stream, which is reported to the protocol.
    fn recv_into(&self, cx: Cx<'_, RustHost>, buffer: &mut [u8]) -> Result<Option<usize>, Failure> {
        let _ = (cx, buffer);
        Ok(None)
    }

    /// Runs a deferred call.
    fn run_deferred(&self, cx: Cx<'_, RustHost>, deferred: DeferredCall) -> Result<(), Failure>;

    /// Sends `data`, and queues the rest that the kernel does not accept. Fails if [`TransportImpl::check_write`]
    /// fails.
    fn write(&self, cx: Cx<'_, RustHost>, data: &[u8]) -> Result<(), Failure>;

    /// Sends several pieces as one write.
    fn write_vectored(&self, cx: Cx<'_, RustHost>, pieces: &[IoSlice<'_>]) -> Result<(), Failure> {
        self.check_write().map_err(write_refused_error)?;
        self.write_checked(cx, pieces)
    }

    /// As [`TransportImpl::write_vectored`], after [`TransportImpl::check_write`].
    fn write_checked(&self, cx: Cx<'_, RustHost>, pieces: &[IoSlice<'_>]) -> Result<(), Failure> {
        pieces.iter().try_for_each(|piece| self.write(cx, piece))
    }

    /// Whether a write would be refused. A write to a lost connection is dropped, not refused.
    fn check_write(&self) -> Result<(), WriteRefused> {
        Ok(())
    }

    /// Sends `pieces` as one write and returns the outcome.
    #[inline(always)]
    fn try_write_vectored(
        &self,
        cx: Cx<'_, RustHost>,
        pieces: &[IoSlice<'_>],
    ) -> Result<WriteOutcome, Failure> {
        if let Err(refusal) = self.check_write() {
            return Ok(WriteOutcome::Refused(refusal));
        }
        if self.is_closing() {
            return Ok(WriteOutcome::Closing);
        }
        self.write_checked(cx, pieces)?;
        Ok(if self.is_lost() { WriteOutcome::Lost } else { WriteOutcome::Accepted })
    }

    /// Whether the sending direction can be shut down alone.
    fn can_write_eof(&self) -> bool {
        false
    }

    /// Shuts down the sending direction after the queue is sent.
    fn write_eof(&self, cx: Cx<'_, RustHost>) -> Result<(), Failure> {
        let _ = cx;
        let text = "this connection cannot end one direction alone";
        Err(Failure::Io(io::Error::new(io::ErrorKind::Unsupported, text)))
    }

    /// Closes gracefully: sends the queue first.
    fn close(&self, cx: Cx<'_, RustHost>) -> Result<(), Failure>;

    /// Closes at once. `connection_lost` gets `failure`.
    fn abort(&self, cx: Cx<'_, RustHost>, failure: Option<Failure>) -> Result<(), Failure>;

    /// Whether the connection is closed or closing.
    fn is_closing(&self) -> bool;

    /// Whether `connection_lost` has run or is scheduled.
    fn is_lost(&self) -> bool;

    /// Stops receiving; `false` if nothing changed.
    fn pause_reading(&self, cx: Cx<'_, RustHost>) -> Result<bool, Failure> {
        let _ = cx;
        Ok(false)
    }

    /// Resumes receiving; `false` if nothing changed.
    fn resume_reading(&self, cx: Cx<'_, RustHost>) -> Result<bool, Failure> {
        let _ = cx;
        Ok(false)
    }

    /// Whether the transport is receiving.
    fn is_reading(&self) -> bool {
        false
    }

    /// Whether `pause_writing` was called, and `resume_writing` not since.
    fn is_writing_paused(&self) -> bool {
        false
    }

    /// The number of queued bytes.
    fn write_buffer_size(&self, cx: Cx<'_, RustHost>) -> Result<usize, Failure> {
        let _ = cx;
        Ok(0)
    }

    /// The water marks of the write buffer.
    fn water_marks(&self) -> WaterMarks {
        WaterMarks::default()
    }

    /// The default high-water mark.
    fn default_high_water(&self) -> usize {
        WaterMarks::default().high
    }

    /// Sets the water marks, and pauses the protocol if more than the new high mark is queued.
    fn set_water_marks(&self, cx: Cx<'_, RustHost>, marks: WaterMarks) -> Result<(), Failure> {
        let _ = (cx, marks);
        Ok(())
    }

    /// The local address. Stays available after the connection is lost.
    fn local_address(&self) -> PeerAddress {
        PeerAddress::Other
    }

    /// The peer's address. Stays available after the connection is lost.
    fn peer_address(&self) -> PeerAddress {
        PeerAddress::Other
    }

    /// The fd is about to be closed: caches data that is needed afterwards.
    fn before_close(&self) {}

    /// The fd number. After close it is only for messages.
    fn fd(&self) -> RawFd;

    /// Calls `f` with the fd, for one system call. `NotConnected` after it was closed.
    fn with_fd(&self, f: WithFd<'_>) -> io::Result<()>;

    /// Refuses further writes, for a caller that sends on the fd directly (`sendfile`). Returns whether the queue is
    /// empty; if not, `ProtocolSink::drained` is called later. `None` if the fd cannot be written directly.
    fn reserve_writing(&self) -> Option<bool> {
        None
    }

    /// Accepts writes again.
    fn release_writing(&self) {}

    /// Detaches the fd from the loop without calling the protocol; the connection stays open. `None` if it is lost, if
    /// the fd is reserved or in use, or if the fd is not the whole connection.
    fn detach_fd(&self, cx: Cx<'_, RustHost>) -> Option<OwnedFd> {
        let _ = cx;
        None
    }

    /// The lowest underlying transport, if this one runs over another. It must be kept alive.
    fn lowest_transport(&self) -> Option<Rc<dyn Source>> {
        None
    }

    /// Information specific to this kind.
    fn extra(&self) -> Option<&dyn Any> {
        None
    }
}

impl<B: TransportImpl + 'static> Source for B {
    fn io_ready(self: Rc<Self>, core: &Core, readiness: Readiness) -> Result<(), Failure> {
        let this: Rc<dyn Source> = Rc::<B>::clone(&self);
        TransportImpl::io_ready(&*self, Cx { engine: &core.engine, this: &this }, readiness)
    }

    fn scope_ended(self: Rc<Self>, core: &Core) -> Result<(), Failure> {
        let this: Rc<dyn Source> = Rc::<B>::clone(&self);
        TransportImpl::scope_ended(&*self, Cx { engine: &core.engine, this: &this })
    }

    fn run_deferred(self: Rc<Self>, core: &Core, deferred: DeferredCall) -> Result<(), Failure> {
        let this: Rc<dyn Source> = Rc::<B>::clone(&self);
        TransportImpl::run_deferred(&*self, Cx { engine: &core.engine, this: &this }, deferred)
    }

    fn transport_impl(&self) -> Option<&dyn TransportImpl> {
        Some(self)
    }

    fn on_open_loop(&self) -> Option<(Rc<Core>, &dyn TransportImpl)> {
        Some((open_loop(self)?, self))
    }

    fn try_write_vectored(&self, this: &Rc<dyn Source>, pieces: &[IoSlice<'_>]) -> WriteOutcome {
        let Some(core) = open_loop(self) else { return WriteOutcome::LoopClosed };
        match TransportImpl::try_write_vectored(self, Cx { engine: &core.engine, this }, pieces) {
            Ok(outcome) => outcome,
            Err(failure) => {
                core.transport_failed(failure);
                WriteOutcome::Lost
            }
        }
    }

    fn is_closing_locally(&self) -> Option<bool> {
        open_loop(self).map(|_| self.is_closing() && !self.is_lost())
    }
}

/// The loop of a connection, if it is open.
#[inline]
fn open_loop(transport: &impl TransportImpl) -> Option<Rc<Core>> {
    transport.core().upgrade().filter(|core| core.check_open().is_ok())
}

/// The error for a refused write.
pub(crate) fn write_refused_error(refusal: WriteRefused) -> Failure {
    let text = match refusal {
        WriteRefused::AfterEof => "cannot write after write_eof()",
        WriteRefused::Reserved => "cannot write while a file is being sent",
    };
    Failure::Io(io::Error::new(io::ErrorKind::BrokenPipe, text))
}
