//! `Buffered`: the protocol of every stream. It buffers what arrives until a task reads it.
//!
//! As in asyncio's `StreamReader`, the transport is paused when more than twice the limit is buffered, and resumed when the
//! buffer is down to the limit, or when a task waits for more than is buffered.
//!
//! A task that waits in `read()` for any number of bytes is woken when the socket is readable, and receives into its own
//! buffer: this saves a copy and one iteration of the loop. If the task does not come (its wait was cancelled), the
//! level-triggered poller reports the socket again, and the bytes are buffered. A task that read as much as its buffer
//! holds gets the next bytes through this buffer, so that small reads do not cost a system call each.

use super::buffer::ByteBuffer;
use super::write_turn::WriteTurn;
use crate::error::Error;
use crate::net::clone_error as again;
use crate::net::connection::Protocol;
use crate::net::connection::Transport;
use crate::sync::wait_list::WaitList;
use std::cell::{Cell, OnceCell, RefCell};
use std::io;

/// asyncio's limit for a reader's buffer.
pub(crate) const LIMIT: usize = 64 * 1024;

/// See the module comment.
pub(crate) struct Buffered {
    received: RefCell<ByteBuffer>,
    readiness: Cell<Readiness>,
    is_reading_paused: Cell<bool>,
    is_at_eof: Cell<bool>,
    is_writing_paused: Cell<bool>,
    is_lost: Cell<bool>,
    pub(super) readers: WaitList,
    pub(super) limit: Cell<usize>,
    error: OnceCell<io::Error>,
    /// Tasks that wait to write, or for the end of the connection.
    pub(super) writers: WaitList,
    /// Set when a message first has to wait for another one.
    pub(super) turn: OnceCell<Box<WriteTurn>>,
}

/// What a task that reads knows of the socket.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Readiness {
    /// Nothing. The transport receives what arrives, and it is buffered.
    Unknown,
    /// As `Unknown`; a task has just filled its whole buffer.
    MayHaveMore,
    /// A task waits, and receives by itself.
    Awaited,
    /// The socket is readable, and the task that waited was woken.
    Readable,
}

impl Buffered {
    pub(crate) fn new(limit: usize) -> Self {
        Buffered {
            received: RefCell::default(),
            readiness: Cell::new(Readiness::Unknown),
            limit: Cell::new(limit),
            is_reading_paused: Cell::new(false),
            is_at_eof: Cell::new(false),
            is_writing_paused: Cell::new(false),
            is_lost: Cell::new(false),
            error: OnceCell::new(),
            readers: WaitList::default(),
            writers: WaitList::default(),
            turn: OnceCell::new(),
        }
    }

    /// Works on what is buffered. `work` must not run user code.
    pub(super) fn with_received<R>(&self, work: impl FnOnce(&mut ByteBuffer) -> R) -> R {
        work(&mut self.received.borrow_mut())
    }

    /// The error that the connection was lost with.
    pub(super) fn error(&self) -> Option<io::Error> {
        self.error.get().map(again)
    }

    pub(super) fn is_lost(&self) -> bool {
        self.is_lost.get()
    }

    pub(super) fn is_writing_paused(&self) -> bool {
        self.is_writing_paused.get()
    }

    /// The socket is readable. Returns whether a task was woken that will receive.
    #[inline]
    pub(crate) fn wake_reader(&self) -> bool {
        if self.readiness.get() != Readiness::Awaited {
            return false;
        }
        self.readiness.set(Readiness::Readable);
        if self.readers.wake_all() > 0 {
            return true;
        }
        self.readiness.set(Readiness::Unknown);
        false
    }

    /// Reads what is buffered, as much as fits.
    #[inline]
    pub(super) fn read(&self, transport: &Transport, buffer: &mut [u8]) -> usize {
        let (count, left) = self.with_received(|received| (received.read(buffer), received.len()));
        if count > 0 {
            self.shrunk(transport, left);
        }
        count
    }

    /// Receives into `buffer` if the socket is known to be readable, once for every event. So a peer that sends without
    /// end does not keep the task from yielding.
    #[inline]
    pub(super) fn recv(&self, transport: &Transport, buffer: &mut [u8]) -> Option<usize> {
        if self.readiness.get() != Readiness::Readable {
            return None;
        }
        self.readiness.set(Readiness::Unknown);
        let count = transport.with(|below, cx| below.recv_into(cx, buffer))??;
        if count == buffer.len() {
            self.readiness.set(Readiness::MayHaveMore);
        }
        self.with_received(|received| received.skip(count));
        Some(count)
    }

    /// The task that now waits receives by itself.
    pub(super) fn await_readable(&self) {
        let is_small_reader = self.readiness.get() == Readiness::MayHaveMore;
        self.readiness.set(if is_small_reader { Readiness::Unknown } else { Readiness::Awaited });
    }

    /// The end of the stream, or the error; `None` while more can come. Called when the buffer does not have enough.
    pub(super) fn end(&self, transport: &Transport) -> Option<io::Result<()>> {
        if self.readiness.get() != Readiness::MayHaveMore {
            self.readiness.set(Readiness::Unknown);
        }
        // A transport that is being lost reports its error soon. Until then the stream has not ended.
        if !self.is_at_eof.get() && !self.is_lost.get() && transport.is_over() == Some(false) {
            return None;
        }
        Some(self.how_it_ended(transport))
    }

    #[cold]
    #[inline(never)]
    fn how_it_ended(&self, transport: &Transport) -> io::Result<()> {
        if self.is_at_eof.get() || self.is_lost.get() {
            return self.error().map_or(Ok(()), Err);
        }
        transport.is_over().map(drop).ok_or_else(|| Error::Closed.into())
    }

    /// Resumes reading, for a task that waits for more than is buffered.
    pub(super) fn want_more(&self, transport: &Transport) {
        if self.is_reading_paused.replace(false) {
            transport.resume_reading();
        }
    }

    /// `waiting` bytes are left in the buffer.
    pub(super) fn shrunk(&self, transport: &Transport, waiting: usize) {
        if waiting <= self.limit.get() {
            self.want_more(transport);
        }
    }
}

impl Protocol for Buffered {
    fn data_received(&self, transport: &Transport, data: &[u8]) {
        self.readiness.set(Readiness::Unknown);
        let pushed = self.with_received(|received| received.try_push(data).map(|()| received.len()));
        let buffered = match pushed {
            Ok(buffered) => buffered,
            Err(error) => {
                // The received bytes are lost, so the connection is aborted. Its readers get the error.
                let _ = self.error.set(error);
                return transport.abort();
            }
        };
        let is_too_much = buffered / 2 > self.limit.get();
        if is_too_much && !self.is_reading_paused.replace(true) {
            transport.pause_reading();
        }
        self.readers.wake_all();
    }

    fn eof_received(&self, transport: &Transport) -> bool {
        self.is_at_eof.set(true);
        self.readers.wake_all();
        // If one direction cannot be shut down alone, the end of this one ends both.
        transport.can_write_eof()
    }

    fn connection_lost(&self, _: &Transport, error: Option<io::Error>) {
        self.is_lost.set(true);
        if let Some(error) = error {
            // The connection ends once.
            let _ = self.error.set(error);
        }
        self.readers.wake_all();
        self.writers.wake_all();
        if let Some(turn) = self.turn.get() {
            turn.close();
        }
    }

    fn pause_writing(&self, _: &Transport) {
        self.is_writing_paused.set(true);
    }

    fn resume_writing(&self, _: &Transport) {
        self.is_writing_paused.set(false);
        self.writers.wake_all();
    }
}
