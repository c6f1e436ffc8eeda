//! `WriteTurn`: serialises the messages of several tasks on one connection.
//!
//! `write_all` sends a long message in chunks and waits between them, which limits the write buffer. The turn keeps
//! other messages out of the gaps. A message that fits into one chunk needs no turn.
//!
//! - Turns are granted in order. A dropped wait leaves the queue; a dropped holder ends its turn.
//! - `write` cannot wait. Data written during a turn is deferred until the turn ends.
//! - When the connection is lost, all waiters fail with its error.

use super::StreamWriter;
use crate::sync::{Semaphore, SemaphorePermit};
use std::cell::RefCell;
use std::io;

/// See the module documentation. Allocated when a message has to wait for the first time.
pub(super) struct WriteTurn {
    /// One permit: the turn. Closed when the connection is lost.
    semaphore: Semaphore,
    /// Data of `write` calls during the turn.
    deferred: RefCell<Vec<u8>>,
}

impl Default for WriteTurn {
    fn default() -> Self {
        WriteTurn { semaphore: Semaphore::new(1), deferred: RefCell::default() }
    }
}

impl WriteTurn {
    /// Whether a message would have to wait. On a lost connection it fails at once instead.
    fn is_held(&self) -> bool {
        self.semaphore.locked() && !self.semaphore.is_closed()
    }

    /// Called when the connection is lost.
    pub(super) fn close(&self) {
        drop(self.deferred.take());
        self.semaphore.close();
    }
}

/// Holds the turn until it is dropped.
pub(crate) struct Turn<'a> {
    writer: &'a StreamWriter,
    // Dropped after `Drop::drop` has queued the deferred data, so that the data precedes waiting messages.
    _permit: SemaphorePermit<'a>,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.writer.queue_deferred();
    }
}

impl StreamWriter {
    /// Whether a message is being written.
    #[inline]
    pub(super) fn is_turn_held(&self) -> bool {
        self.shared.buffered.turn.get().is_some_and(|turn| turn.is_held())
    }

    /// Waits for the turn. Fails if the connection is lost.
    pub(crate) async fn take_turn(&self) -> io::Result<Turn<'_>> {
        let turn = self.shared.buffered.turn.get_or_init(Box::default);
        match turn.semaphore.acquire().await {
            Ok(permit) => Ok(Turn { writer: self, _permit: permit }),
            Err(_) => Err(self.lost()),
        }
    }

    /// Defers `pieces` until the turn ends. `false` if there is no turn.
    pub(super) fn defer(&self, pieces: &[&[u8]]) -> bool {
        let Some(turn) = self.shared.buffered.turn.get().filter(|turn| turn.is_held()) else { return false };
        let length = pieces.iter().map(|piece| piece.len()).sum();
        if turn.deferred.borrow_mut().try_reserve(length).is_err() {
            // Out of memory ends the connection, as it does in the transport.
            self.shared.transport().abort();
            return true;
        }
        let mut deferred = turn.deferred.borrow_mut();
        pieces.iter().for_each(|piece| deferred.extend_from_slice(piece));
        true
    }

    /// Whether data is deferred.
    pub(super) fn has_deferred(&self) -> bool {
        self.shared.buffered.turn.get().is_some_and(|turn| !turn.deferred.borrow().is_empty())
    }

    /// Moves the deferred data to the write buffer.
    pub(super) fn queue_deferred(&self) {
        let Some(turn) = self.shared.buffered.turn.get() else { return };
        let deferred = turn.deferred.take();
        if !deferred.is_empty() {
            self.shared.transport().write(&deferred);
            self.shared.buffered.writers.wake_all();
        }
    }
}
