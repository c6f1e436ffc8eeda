//! `Buffered`: the protocol of every stream. It buffers received bytes until a task reads them.
//!
//! As in asyncio's `StreamReader`, the transport is paused when more than twice the limit is buffered, and resumed when
//! the buffer is down to the limit, or when a task needs more than is buffered.
//!
//! A task that waits in `read()` for any number of bytes is woken when the socket is readable, and receives into its
//! own buffer: this saves a copy and one iteration of the loop. If the task does not receive (it was cancelled), the
//! level-triggered poller reports the socket again, and the bytes are buffered. After a read that filled the task's
//! whole buffer, the next bytes go through this buffer, so that small reads do not cost a system call each.

use super::byte_buffer::ByteBuffer;
use super::write_lock::WriteLock;
use crate::error::Error;
use crate::net::clone_error;
use crate::net::connection::Protocol;
use crate::net::connection::Transport;
use crate::sync::wait_list::WaitList;
use std::cell::{Cell, OnceCell, RefCell};
use std::io;

/// asyncio's limit for a reader's buffer.
pub(crate) const DEFAULT_LIMIT: usize = 64 * 1024;

/// See the module comment.
pub(crate) struct Buffered {
    received: RefCell<ByteBuffer>,
    reader_state: Cell<ReaderState>,
    is_reading_paused: Cell<bool>,
    is_at_eof: Cell<bool>,
    is_writing_paused: Cell<bool>,
    is_lost: Cell<bool>,
    pub(super) readers: WaitList,
    pub(super) limit: Cell<usize>,
    error: OnceCell<io::Error>,
    /// Tasks that wait to write, or until the connection is closed.
    pub(super) writers: WaitList,
    /// Allocated when a message has to wait for the first time.
    pub(super) write_lock: OnceCell<Box<WriteLock>>,
}

/// How the next bytes are received.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ReaderState {
    /// The transport receives them into the buffer.
    Buffering,
    /// As `Buffering`; the last read filled the task's whole buffer.
    FilledReadBuffer,
    /// A task waits, and will receive into its own buffer.
    TaskWaits,
    /// The socket is readable, and the waiting task was woken.
    TaskWoken,
}

impl Buffered {
    pub(crate) fn new(limit: usize) -> Self {
        Buffered {
            received: RefCell::default(),
            reader_state: Cell::new(ReaderState::Buffering),
            limit: Cell::new(limit),
            is_reading_paused: Cell::new(false),
            is_at_eof: Cell::new(false),
            is_writing_paused: Cell::new(false),
            is_lost: Cell::new(false),
            error: OnceCell::new(),
            readers: WaitList::default(),
            writers: WaitList::default(),
            write_lock: OnceCell::new(),
        }
    }

    /// Calls `f` with the receive buffer. `f` must not run user code.
    pub(super) fn with_received<R>(&self, f: impl FnOnce(&mut ByteBuffer) -> R) -> R {
        f(&mut self.received.borrow_mut())
    }

    /// The error that ended the connection.
    pub(super) fn error(&self) -> Option<io::Error> {
        self.error.get().map(clone_error)
    }

    pub(super) fn is_lost(&self) -> bool {
        self.is_lost.get()
    }

    pub(super) fn is_writing_paused(&self) -> bool {
        self.is_writing_paused.get()
    }

    /// The socket is readable. Returns `true` if this woke a task that will receive.
    #[inline]
    pub(crate) fn wake_reader(&self) -> bool {
        if self.reader_state.get() != ReaderState::TaskWaits {
            return false;
        }
        self.reader_state.set(ReaderState::TaskWoken);
        if self.readers.wake_all() > 0 {
            return true;
        }
        self.reader_state.set(ReaderState::Buffering);
        false
    }

    /// Reads buffered bytes, as many as fit.
    #[inline]
    pub(super) fn read(&self, transport: &Transport, buffer: &mut [u8]) -> usize {
        let (count, left) = self.with_received(|received| (received.read(buffer), received.len()));
        if count > 0 {
            self.resume_if_drained(transport, left);
        }
        count
    }

    /// Receives into `buffer`, once per readiness event, so that a fast peer cannot keep the task from yielding.
    #[inline]
    pub(super) fn recv(&self, transport: &Transport, buffer: &mut [u8]) -> Option<usize> {
        if self.reader_state.get() != ReaderState::TaskWoken {
            return None;
        }
        self.reader_state.set(ReaderState::Buffering);
        let count = transport.with(|transport, cx| transport.recv_into(cx, buffer))??;
        if count == buffer.len() {
            self.reader_state.set(ReaderState::FilledReadBuffer);
        }
        self.with_received(|received| received.skip(count));
        Some(count)
    }

    /// A task is about to wait, and will receive into its own buffer.
    pub(super) fn await_readable(&self) {
        let is_small_reader = self.reader_state.get() == ReaderState::FilledReadBuffer;
        self.reader_state.set(if is_small_reader { ReaderState::Buffering } else { ReaderState::TaskWaits });
    }

    /// The end of the stream, or its error. `None` while more bytes can arrive. Called when the buffered bytes are not
    /// enough.
    pub(super) fn end_of_stream(&self, transport: &Transport) -> Option<io::Result<()>> {
        if self.reader_state.get() != ReaderState::FilledReadBuffer {
            self.reader_state.set(ReaderState::Buffering);
        }
        // A transport that is being lost will report its error. Until then the stream has not ended.
        if !self.is_at_eof.get() && !self.is_lost.get() && transport.is_closing_locally() == Some(false) {
            return None;
        }
        Some(self.end_result(transport))
    }

    #[cold]
    #[inline(never)]
    fn end_result(&self, transport: &Transport) -> io::Result<()> {
        if self.is_at_eof.get() || self.is_lost.get() {
            return self.error().map_or(Ok(()), Err);
        }
        transport.is_closing_locally().map(drop).ok_or_else(|| Error::Closed.into())
    }

    /// Resumes reading, for a task that needs more than is buffered.
    pub(super) fn resume_reading(&self, transport: &Transport) {
        if self.is_reading_paused.replace(false) {
            transport.resume_reading();
        }
    }

    /// Resumes reading if at most the limit is buffered.
    pub(super) fn resume_if_drained(&self, transport: &Transport, buffered: usize) {
        if buffered <= self.limit.get() {
            self.resume_reading(transport);
        }
    }
}

impl Protocol for Buffered {
    fn data_received(&self, transport: &Transport, data: &[u8]) {
        self.reader_state.set(ReaderState::Buffering);
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
        // Without half-close, the end of this direction ends both.
        transport.can_write_eof()
    }

    fn connection_lost(&self, _: &Transport, error: Option<io::Error>) {
        self.is_lost.set(true);
        if let Some(error) = error {
            // Only the first error is kept.
            let _ = self.error.set(error);
        }
        self.readers.wake_all();
        self.writers.wake_all();
        if let Some(write_lock) = self.write_lock.get() {
            write_lock.close();
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
