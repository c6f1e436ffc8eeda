//! `Below`: one kind of connection, as a [`Transport`](crate::net::Transport) uses it.
//!
//! A transport is a handle on any kind: a socket's stream (`socket.rs`), one end of a pipe, a TLS session over another
//! transport. A kind is a struct with the machine of the engine in it, and two things about it:
//!
//! - it implements [`Below`], by which programs call it, and so does the engine: every kind is a [`Source`] by that;
//! - the protocol above its machine is an [`Above`], the same for every kind.
//!
//! Every [`Cx`] that reaches an [`Above`] names the connection itself, never one below it: the transport that the
//! protocol is shown is made of `cx.this`.
//!
//! The methods that take a [`Cx`] are called on a loop that is open, and may call out. The others only look.

use super::protocol::Above;

use crate::event_loop::Core;
use crate::host::{Failure, RustHost, Source};
use mainspring_engine::Readiness;
use mainspring_engine::poller::PeerAddress;
use mainspring_engine::transport::{Cx, Notice, WaterMarks, WriteRefused};
use std::any::Any;
use std::io::{self, IoSlice};
use std::os::fd::{BorrowedFd, OwnedFd, RawFd};
use std::rc::{Rc, Weak};

/// What is done with a descriptor that is lent for one call.
pub(crate) type WithFd<'a> = &'a mut dyn FnMut(BorrowedFd<'_>) -> io::Result<()>;

/// What became of bytes that were offered to a connection ([`Below::offer`]).
pub(crate) enum Offered {
    /// They are sent or queued.
    Taken,
    /// The connection was lost over them, and tells so soon.
    Lost,
    /// It is closed, or about to be.
    TooLate,
    /// Its loop is closed.
    LoopClosed,
    Refused(WriteRefused),
}

/// See the module's text. The defaults are those of a kind that does not have the thing at all.
#[allow(dead_code, reason = "not every kind of connection, nor every use of one, is in every build")]
pub(crate) trait Below {
    /// The loop it lives on.
    fn core(&self) -> &Weak<Core>;

    /// The protocol.
    fn above(&self) -> &Above;

    /// Something happened on the descriptor; not for a kind that has none with the kernel.
    fn io_ready(&self, cx: Cx<'_, RustHost>, readiness: Readiness) -> Result<(), Failure> {
        let _ = (cx, readiness);
        Ok(())
    }

    /// The turn is over whose end this has asked to be told of.
    fn turn_ended(&self, cx: Cx<'_, RustHost>) -> Result<(), Failure> {
        let _ = cx;
        Ok(())
    }

    /// The fd is ready. Returns `true` if a task that waits to receive was woken: then [`Below::io_ready`] is not called.
    fn wake_reader(&self, readiness: Readiness) -> bool {
        let _ = readiness;
        false
    }

    /// Receives into the buffer of a task that was woken with [`Below::wake_reader`]; `None` if there is nothing, or the
    /// end, which the protocol is told.
    fn recv_into(&self, cx: Cx<'_, RustHost>, buffer: &mut [u8]) -> Result<Option<usize>, Failure> {
        let _ = (cx, buffer);
        Ok(None)
    }

    /// A deferred step is due.
    fn notified(&self, cx: Cx<'_, RustHost>, notice: Notice) -> Result<(), Failure>;

    /// Sends `data`, or queues what cannot be sent at once. `Err` where [`Below::check_write`] says so.
    fn write(&self, cx: Cx<'_, RustHost>, data: &[u8]) -> Result<(), Failure>;

    /// Sends several pieces as one write.
    fn write_vectored(&self, cx: Cx<'_, RustHost>, pieces: &[IoSlice<'_>]) -> Result<(), Failure> {
        self.check_write().map_err(refused)?;
        self.write_checked(cx, pieces)
    }

    /// The same for who knows that it is not refused.
    fn write_checked(&self, cx: Cx<'_, RustHost>, pieces: &[IoSlice<'_>]) -> Result<(), Failure> {
        pieces.iter().try_for_each(|piece| self.write(cx, piece))
    }

    /// Whether a write would be refused. A write to a connection that is gone is not: it is dropped.
    fn check_write(&self) -> Result<(), WriteRefused> {
        Ok(())
    }

    /// Sends `pieces` as one write for who awaits that, and tells what a write does not.
    #[inline(always)]
    fn offer(&self, cx: Cx<'_, RustHost>, pieces: &[IoSlice<'_>]) -> Result<Offered, Failure> {
        if let Err(refusal) = self.check_write() {
            return Ok(Offered::Refused(refusal));
        }
        if self.is_closing() {
            return Ok(Offered::TooLate);
        }
        self.write_checked(cx, pieces)?;
        Ok(if self.is_lost() { Offered::Lost } else { Offered::Taken })
    }

    /// Whether it can end its sending side alone.
    fn can_write_eof(&self) -> bool {
        false
    }

    /// Sends no more after what is queued.
    fn write_eof(&self, cx: Cx<'_, RustHost>) -> Result<(), Failure> {
        let _ = cx;
        let text = "this connection cannot end one direction alone";
        Err(Failure::Io(io::Error::new(io::ErrorKind::Unsupported, text)))
    }

    /// Closes in order: what is queued goes out first.
    fn close(&self, cx: Cx<'_, RustHost>) -> Result<(), Failure>;

    /// Closes at once. `failure` is what `connection_lost` will be told.
    fn abort(&self, cx: Cx<'_, RustHost>, failure: Option<Failure>) -> Result<(), Failure>;

    /// Whether it is closed or on the way there.
    fn is_closing(&self) -> bool;

    /// Whether `connection_lost` has run, or will in the next pass.
    fn is_lost(&self) -> bool;

    /// Receives no more for now; `false` if nothing changed.
    fn pause_reading(&self, cx: Cx<'_, RustHost>) -> Result<bool, Failure> {
        let _ = cx;
        Ok(false)
    }

    /// Receives again; `false` if nothing changed.
    fn resume_reading(&self, cx: Cx<'_, RustHost>) -> Result<bool, Failure> {
        let _ = cx;
        Ok(false)
    }

    /// Whether it receives.
    fn is_reading(&self) -> bool {
        false
    }

    /// Whether the protocol was told to pause writing, and not yet to resume.
    fn is_writing_paused(&self) -> bool {
        false
    }

    /// Bytes that wait to be sent.
    fn write_buffer_size(&self, cx: Cx<'_, RustHost>) -> Result<usize, Failure> {
        let _ = cx;
        Ok(0)
    }

    /// The marks in force for what is written.
    fn water_marks(&self) -> WaterMarks {
        WaterMarks::default()
    }

    /// The high mark of somebody who sets none.
    fn default_high_water(&self) -> usize {
        WaterMarks::default().high
    }

    /// Sets the marks, and pauses the protocol if more than the new high one waits.
    fn set_water_marks(&self, cx: Cx<'_, RustHost>, marks: WaterMarks) -> Result<(), Failure> {
        let _ = (cx, marks);
        Ok(())
    }

    /// The address of this end; also told after the connection is gone.
    fn local_address(&self) -> PeerAddress {
        PeerAddress::Other
    }

    /// The peer's address; also told after the connection is gone.
    fn peer_address(&self) -> PeerAddress {
        PeerAddress::Other
    }

    /// The descriptor is closed in a moment: what is told of it afterwards has to be known by now.
    fn about_to_go(&self) {}

    /// The descriptor's number; still told after it is closed, for messages.
    fn fd(&self) -> RawFd;

    /// Lends the descriptor for one system call; `NotConnected` once it is closed.
    fn with_fd(&self, use_it: WithFd<'_>) -> io::Result<()>;

    /// Refuses writes from here on, for somebody who will send on the descriptor past the queue. Whether that is empty;
    /// if it is not, the protocol side is told when it is. `None` where nobody may send past the machine.
    fn reserve_writing(&self) -> Option<bool> {
        None
    }

    /// Takes writes again.
    fn release_writing(&self) {}

    /// Takes the descriptor off the loop, without a word to the protocol; the connection goes on. `None` where it is over, where
    /// the descriptor is reserved or lent at this moment, or where it is not the whole connection.
    fn dismantle(&self, cx: Cx<'_, RustHost>) -> Option<OwnedFd> {
        let _ = cx;
        None
    }

    /// What has to be kept for this connection to go on, if it lives on another: the lowest transport under it.
    fn carrier(&self) -> Option<Rc<dyn Source>> {
        None
    }

    /// What only this kind knows of itself, for those who know the kind.
    fn extra(&self) -> Option<&dyn Any> {
        None
    }
}

impl<B: Below + 'static> Source for B {
    fn io_ready(self: Rc<Self>, core: &Core, readiness: Readiness) -> Result<(), Failure> {
        let this: Rc<dyn Source> = Rc::<B>::clone(&self);
        Below::io_ready(&*self, Cx { engine: &core.engine, this: &this }, readiness)
    }

    fn turn_ended(self: Rc<Self>, core: &Core) -> Result<(), Failure> {
        let this: Rc<dyn Source> = Rc::<B>::clone(&self);
        Below::turn_ended(&*self, Cx { engine: &core.engine, this: &this })
    }

    #[inline]
    fn wake_reader(&self, readiness: Readiness) -> bool {
        Below::wake_reader(self, readiness)
    }

    fn notified(self: Rc<Self>, core: &Core, notice: Notice) -> Result<(), Failure> {
        let this: Rc<dyn Source> = Rc::<B>::clone(&self);
        Below::notified(&*self, Cx { engine: &core.engine, this: &this }, notice)
    }

    fn below(&self) -> Option<&dyn Below> {
        Some(self)
    }

    fn on_open_loop(&self) -> Option<(Rc<Core>, &dyn Below)> {
        Some((open_loop(self)?, self))
    }

    fn offer(&self, this: &Rc<dyn Source>, pieces: &[IoSlice<'_>]) -> Offered {
        let Some(core) = open_loop(self) else { return Offered::LoopClosed };
        match Below::offer(self, Cx { engine: &core.engine, this }, pieces) {
            Ok(offered) => offered,
            Err(failure) => {
                core.transport_failed(failure);
                Offered::Lost
            }
        }
    }

    fn is_over(&self) -> Option<bool> {
        open_loop(self).map(|_| self.is_closing() && !self.is_lost())
    }
}

/// The loop of a connection, while it is open.
#[inline]
fn open_loop(below: &impl Below) -> Option<Rc<Core>> {
    below.core().upgrade().filter(|core| core.check_open().is_ok())
}

/// A refusal, in this face's words.
pub(crate) fn refused(refusal: WriteRefused) -> Failure {
    let text = match refusal {
        WriteRefused::AfterEof => "cannot write after write_eof()",
        WriteRefused::Reserved => "cannot write while a file is being sent",
    };
    Failure::Io(io::Error::new(io::ErrorKind::BrokenPipe, text))
}
