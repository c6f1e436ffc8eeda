//! `Buffered`: the protocol of every stream. It keeps what arrives until somebody reads it.
//!
//! When more than twice the limit waits the transport is paused, and the peer comes to wait; it is resumed when the reader
//! is down to the limit, or waits for more than is there: asyncio's `StreamReader`.
//!
//! What somebody waits for who would take any number of bytes is received while the events of the kernel are sorted, before
//! anybody's turn: all receiving in a row takes the kernel less time than a bit of it in every turn. Where much arrives at a
//! time, it is worth more to spare a copy: then who waits is called to fetch it, straight from the kernel into its own buffer.
//! Who was called and does not come (a wait that was given up) leaves it there; it is announced again, and then kept here as
//! for everybody else.

use super::super::again;
use super::super::protocol::Protocol;
use super::super::transport::Transport;
use super::buffer::ByteBuffer;
use super::received::Received;
use super::write_turn::WriteTurn;
use crate::error::Error;
use crate::sync::wait_list::WaitList;
use mainspring_engine::Readiness;
use mainspring_engine::transport::Early;
use std::cell::{Cell, OnceCell};
use std::io;

/// asyncio's limit for a reader's buffer.
pub(crate) const LIMIT: usize = 64 * 1024;

/// From here on it is worth more to spare a copy than to receive early.
const MUCH: usize = 16 * 1024;

/// See the module's text. Laid out as it is written: what every event touches is together.
#[repr(C)]
pub(crate) struct Buffered {
    arrival: Cell<Arrival>,
    /// Whether what arrived last was [`MUCH`].
    is_much_at_once: Cell<bool>,
    is_reading_paused: Cell<bool>,
    is_at_eof: Cell<bool>,
    is_writing_paused: Cell<bool>,
    is_lost: Cell<bool>,
    /// What waits to be read. Not here while it is worked on, for which nothing foreign runs.
    kept: Cell<Option<Box<Received>>>,
    pub(super) readers: WaitList,
    /// How many bytes were read before those that wait.
    position: Cell<u64>,
    pub(super) limit: Cell<usize>,
    error: OnceCell<io::Error>,
    /// Those who wait to write on, and for the connection's end.
    pub(super) writers: WaitList,
    /// There from the first message on that had to wait.
    pub(super) turn: OnceCell<Box<WriteTurn>>,
}

/// What is known of bytes that the kernel has and nobody has received.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Arrival {
    /// Nothing. What arrives is received at once, and kept.
    Unknown,
    /// Somebody waits who would fetch them.
    Awaited,
    /// There are some, and who waits was called to fetch them.
    Announced,
    /// They were more than who came for them had a place for.
    MaybeMore,
}

impl Buffered {
    pub(crate) fn new(limit: usize) -> Self {
        Buffered {
            kept: Cell::default(),
            position: Cell::new(0),
            limit: Cell::new(limit),
            arrival: Cell::new(Arrival::Unknown),
            is_much_at_once: Cell::new(false),
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

    /// Works on what has arrived, for which nothing foreign may run.
    pub(super) fn with_received<R>(&self, work: impl FnOnce(&mut ByteBuffer) -> R) -> R {
        let mut kept = self.kept.take().unwrap_or_else(Received::spare);
        let buffer = kept.buffer(self.position.get());
        let result = work(buffer);
        self.position.set(buffer.position());
        if buffer.is_empty() {
            kept.give_back();
        } else {
            self.kept.set(Some(kept));
        }
        result
    }

    /// Why the connection was lost, if it was for a reason.
    pub(super) fn error(&self) -> Option<io::Error> {
        self.error.get().map(again)
    }

    pub(super) fn is_lost(&self) -> bool {
        self.is_lost.get()
    }

    pub(super) fn is_writing_paused(&self) -> bool {
        self.is_writing_paused.get()
    }

    /// Something has arrived. If somebody waits for it, it is received at once; or who waits is called to fetch it, where
    /// that is worth it.
    #[inline]
    pub(crate) fn receive_early(&self, receive: impl FnOnce(&mut [u8]) -> io::Result<usize>) -> Early {
        if self.arrival.replace(Arrival::Unknown) != Arrival::Awaited {
            return Early::No;
        }
        if self.is_much_at_once.get() {
            return self.call_to_fetch();
        }
        let mut morsel = Received::spare();
        let received = morsel.fill(receive);
        match received {
            Ok(1..) => {
                let is_all = !morsel.is_full();
                self.kept.set(Some(morsel));
                self.readers.wake_all();
                // The rest is received in its turn.
                if is_all { Early::Received(received) } else { Early::No }
            }
            _ => {
                morsel.give_back();
                Early::Received(received)
            }
        }
    }

    #[inline(never)]
    fn call_to_fetch(&self) -> Early {
        self.arrival.set(Arrival::Announced);
        if self.readers.wake_all() > 0 {
            return Early::Fetches;
        }
        self.arrival.set(Arrival::Unknown);
        Early::No
    }

    /// Keeps what was received, and says how much it is with what was kept before. Fails if there is no memory for it.
    fn keep(&self, data: &[u8]) -> io::Result<usize> {
        self.arrival.set(Arrival::Unknown);
        self.is_much_at_once.set(data.len() >= MUCH);
        self.with_received(|received| {
            received.try_push(data)?;
            Ok(received.len())
        })
    }

    /// Reads what is kept, as much as there is and fits.
    #[inline(always)]
    pub(super) fn read(&self, transport: &Transport, buffer: &mut [u8]) -> usize {
        let Some(mut kept) = self.kept.take() else { return 0 };
        if let Some(count) = kept.read_morsel(buffer) {
            self.position.set(self.position.get() + count as u64);
            kept.give_back();
            return count;
        }
        self.kept.set(Some(kept));
        self.read_some_of_it(transport, buffer)
    }

    #[cold]
    #[inline(never)]
    fn read_some_of_it(&self, transport: &Transport, buffer: &mut [u8]) -> usize {
        let (count, left) = self.with_received(|received| (received.read(buffer), received.len()));
        self.shrunk(transport, left);
        count
    }

    /// For somebody who reads and finds nothing here: fetches into `buffer` what the kernel is known to have, once for
    /// every announcement. So a peer who sends without end keeps no reader from giving way.
    #[inline]
    pub(super) fn fetch(&self, transport: &Transport, buffer: &mut [u8]) -> Option<usize> {
        match self.arrival.replace(Arrival::Unknown) {
            Arrival::Unknown | Arrival::Awaited => None,
            Arrival::Announced => self.fetch_announced(transport, buffer),
            Arrival::MaybeMore => self.fetch_rest(transport, buffer),
        }
    }

    #[inline(never)]
    fn fetch_announced(&self, transport: &Transport, buffer: &mut [u8]) -> Option<usize> {
        let fetched = transport.with(|below, cx| below.fetch(cx, buffer))??;
        if fetched == buffer.len() {
            self.arrival.set(Arrival::MaybeMore);
        }
        self.is_much_at_once.set(fetched >= MUCH);
        self.position.set(self.position.get() + fetched as u64);
        Some(fetched)
    }

    /// The rest is taken in pieces of a good size, whatever that of the reader's are.
    #[inline(never)]
    fn fetch_rest(&self, transport: &Transport, buffer: &mut [u8]) -> Option<usize> {
        transport.with(|below, cx| below.io_ready(cx, Readiness::INBOUND))?;
        Some(self.read(transport, buffer)).filter(|&count| count > 0)
    }

    /// Who waits now would fetch what comes.
    pub(super) fn await_to_fetch(&self) {
        self.arrival.set(Arrival::Awaited);
    }

    /// Whether nothing more can come, or why; asked when what has come is not enough.
    pub(super) fn end(&self, transport: &Transport) -> Option<io::Result<()>> {
        self.arrival.set(Arrival::Unknown);
        // A transport that is just being lost will tell why: until then its end is not the stream's.
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

    /// Receives more, for somebody who waits for more than is there.
    pub(super) fn want_more(&self, transport: &Transport) {
        if self.is_reading_paused.replace(false) {
            transport.resume_reading();
        }
    }

    /// `waiting` bytes are left to read.
    pub(super) fn shrunk(&self, transport: &Transport, waiting: usize) {
        if waiting <= self.limit.get() {
            self.want_more(transport);
        }
    }
}

impl Protocol for Buffered {
    fn data_received(&self, transport: &Transport, data: &[u8]) {
        let kept = match self.keep(data) {
            Ok(kept) => kept,
            Err(error) => {
                // What was received is lost, and with it the connection: its readers are told why.
                let _ = self.error.set(error);
                return transport.abort();
            }
        };
        let is_too_much = kept / 2 > self.limit.get();
        if is_too_much && !self.is_reading_paused.replace(true) {
            transport.pause_reading();
        }
        self.readers.wake_all();
    }

    fn eof_received(&self, transport: &Transport) -> bool {
        self.is_at_eof.set(true);
        self.readers.wake_all();
        // Where one direction cannot end alone, the end of this one is the end of both.
        transport.can_write_eof()
    }

    fn connection_lost(&self, _: &Transport, error: Option<io::Error>) {
        self.is_lost.set(true);
        if let Some(error) = error {
            // The one end of the connection is told once.
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
