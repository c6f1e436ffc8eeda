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
use crate::sync::wait_list::{WaitList, WaiterSlot};
use std::cell::{Cell, OnceCell};
use std::io;

/// asyncio's limit for a reader's buffer.
pub(crate) const DEFAULT_LIMIT: usize = 64 * 1024;

/// See the module comment.
pub(crate) struct Buffered {
    /// Allocated when bytes are stored for the first time: tasks that wait in `read()` do not need it. Then kept, so that
    /// the stream position only grows.
    received: Cell<Option<Box<ByteBuffer>>>,
    reader_state: Cell<ReaderState>,
    is_reading_paused: Cell<bool>,
    is_at_eof: Cell<bool>,
    is_writing_paused: Cell<bool>,
    is_lost: Cell<bool>,
    /// The connection has a new owner, which closes it. Here, where it takes no more memory.
    pub(super) is_released: Cell<bool>,
    pub(super) readers: WaitList,
    extras: OnceCell<Box<Extras>>,
}

/// Data that few idle connections have: row `memory` of `bench/peers`.
struct Extras {
    limit: Cell<usize>,
    error: OnceCell<io::Error>,
    /// Tasks that wait to write, or until the connection is closed.
    writers: WaitList,
    /// Allocated when a message has to wait for the first time.
    write_lock: OnceCell<Box<WriteLock>>,
    waiter_slots: Cell<WaiterSlots>,
}

impl Default for Extras {
    fn default() -> Self {
        Extras {
            limit: Cell::new(DEFAULT_LIMIT),
            error: OnceCell::new(),
            writers: WaitList::default(),
            write_lock: OnceCell::new(),
            waiter_slots: Cell::default(),
        }
    }
}

/// The slots of tasks that poll (futures-io) instead of awaiting: one each for reading, writing and closing.
#[derive(Default)]
pub(super) struct WaiterSlots {
    pub(super) reading: WaiterSlot,
    pub(super) writing: WaiterSlot,
    pub(super) closing: WaiterSlot,
}

/// Selects one of the slots.
pub(super) type SelectSlot = fn(&mut WaiterSlots) -> &mut WaiterSlot;

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
        let buffered = Buffered {
            received: Cell::default(),
            reader_state: Cell::new(ReaderState::Buffering),
            is_reading_paused: Cell::new(false),
            is_at_eof: Cell::new(false),
            is_writing_paused: Cell::new(false),
            is_lost: Cell::new(false),
            is_released: Cell::new(false),
            readers: WaitList::default(),
            extras: OnceCell::new(),
        };
        if limit != DEFAULT_LIMIT {
            buffered.set_limit(limit);
        }
        buffered
    }

    fn extras(&self) -> &Extras {
        self.extras.get_or_init(Box::default)
    }

    /// Whether it has allocated anything.
    #[cfg(all(test, not(loom)))]
    pub(super) fn has_allocated(&self) -> bool {
        self.extras.get().is_some() || self.with_received(|received| !received.is_unused())
    }

    /// Calls `f` with the receive buffer, which is taken out of the cell: `f` must not run user code.
    #[inline]
    pub(super) fn with_received<R>(&self, f: impl FnOnce(&mut ByteBuffer) -> R) -> R {
        match self.received.take() {
            Some(mut received) => {
                let result = f(&mut received);
                self.received.set(Some(received));
                result
            }
            None => {
                let mut received = ByteBuffer::default();
                let result = f(&mut received);
                if !received.is_unused() {
                    self.received.set(Some(Box::new(received)));
                }
                result
            }
        }
    }

    /// The limit of the receive buffer.
    #[inline]
    pub(super) fn limit(&self) -> usize {
        self.extras.get().map_or(DEFAULT_LIMIT, |extras| extras.limit.get())
    }

    pub(super) fn set_limit(&self, limit: usize) {
        self.extras().limit.set(limit);
    }

    /// Tasks that wait to write, or until the connection is closed.
    pub(super) fn writers(&self) -> &WaitList {
        &self.extras().writers
    }

    /// Wakes the tasks in [`Buffered::writers`].
    pub(super) fn wake_writers(&self) {
        if let Some(extras) = self.extras.get() {
            extras.writers.wake_all();
        }
    }

    /// The write lock, if a message has had to wait.
    #[inline]
    pub(super) fn write_lock(&self) -> Option<&WriteLock> {
        self.extras.get()?.write_lock.get().map(|write_lock| &**write_lock)
    }

    /// The write lock, for a message that has to wait.
    pub(super) fn make_write_lock(&self) -> &WriteLock {
        self.extras().write_lock.get_or_init(Box::default)
    }

    /// Takes the slot of a task that polls.
    pub(super) fn take_slot(&self, select: SelectSlot) -> WaiterSlot {
        let Some(extras) = self.extras.get() else { return WaiterSlot::default() };
        let mut waiter_slots = extras.waiter_slots.take();
        let slot = std::mem::take(select(&mut waiter_slots));
        extras.waiter_slots.set(waiter_slots);
        slot
    }

    /// Stores the slot of a task that polls.
    pub(super) fn store_slot(&self, select: SelectSlot, slot: WaiterSlot) {
        let extras = self.extras();
        let mut waiter_slots = extras.waiter_slots.take();
        *select(&mut waiter_slots) = slot;
        extras.waiter_slots.set(waiter_slots);
    }

    /// The error that ended the connection.
    pub(super) fn error(&self) -> Option<io::Error> {
        self.extras.get()?.error.get().map(clone_error)
    }

    /// Only the first error is kept.
    fn set_error(&self, error: io::Error) {
        let _ = self.extras().error.set(error);
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
        if let Some(mut received) = self.received.take() {
            received.skip(count);
            self.received.set(Some(received));
        }
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
        if buffered <= self.limit() {
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
                self.set_error(error);
                return transport.abort();
            }
        };
        let is_too_much = buffered / 2 > self.limit();
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
            self.set_error(error);
        }
        self.readers.wake_all();
        self.wake_writers();
        if let Some(write_lock) = self.write_lock() {
            write_lock.close();
        }
    }

    fn pause_writing(&self, _: &Transport) {
        self.is_writing_paused.set(true);
    }

    fn resume_writing(&self, _: &Transport) {
        self.is_writing_paused.set(false);
        self.wake_writers();
    }
}
