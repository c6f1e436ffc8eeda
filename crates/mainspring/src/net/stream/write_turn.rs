//! `WriteTurn`: messages of several tasks on one connection, one after the other.
//!
//! `write_all` sends a long message in pieces and waits between them, so that little is queued and the loop is not kept
//! busy. The turn keeps other messages out of the gaps. A message that goes out in one piece without waiting needs none.
//!
//! - Turns are given in the order in which they were asked for. A wait that is dropped leaves the line; a holder that is
//!   dropped ends its turn.
//! - `write` cannot wait. What it is given during a turn is kept here, and queued when the turn ends.
//! - When the connection is lost, everybody who waits for a turn is woken, and is told the error.

use super::StreamWriter;
use crate::sync::{Semaphore, SemaphorePermit};
use std::cell::RefCell;
use std::io;

/// See the module's text. A connection has one from the first message on that had to wait.
pub(super) struct WriteTurn {
    /// One permit: the turn. Closed when the connection is lost.
    semaphore: Semaphore,
    /// What `write` was given during the turn.
    deferred: RefCell<Vec<u8>>,
}

impl Default for WriteTurn {
    fn default() -> Self {
        WriteTurn { semaphore: Semaphore::new(1), deferred: RefCell::default() }
    }
}

impl WriteTurn {
    /// Whether a message would have to wait. On a connection that is lost none does: it fails at once.
    fn is_held(&self) -> bool {
        self.semaphore.locked() && !self.semaphore.is_closed()
    }

    /// The connection is lost.
    pub(super) fn close(&self) {
        drop(self.deferred.take());
        self.semaphore.close();
    }
}

/// A turn, which ends when this is dropped.
pub(crate) struct Turn<'a> {
    writer: &'a StreamWriter,
    // Given back after what was deferred is queued, which is before the messages that wait.
    _permit: SemaphorePermit<'a>,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.writer.queue_deferred();
    }
}

impl StreamWriter {
    /// Whether a message is being written at this moment.
    #[inline]
    pub(super) fn is_turn_held(&self) -> bool {
        self.ends.buffered.turn.get().is_some_and(|turn| turn.is_held())
    }

    /// Waits for the turn. The error that the connection was lost by, if it was.
    pub(crate) async fn take_turn(&self) -> io::Result<Turn<'_>> {
        let turn = self.ends.buffered.turn.get_or_init(Box::default);
        match turn.semaphore.acquire().await {
            Ok(permit) => Ok(Turn { writer: self, _permit: permit }),
            Err(_) => Err(self.lost()),
        }
    }

    /// Keeps `pieces` until the turn of somebody else ends; `false` if nobody has it.
    pub(super) fn defer(&self, pieces: &[&[u8]]) -> bool {
        let Some(turn) = self.ends.buffered.turn.get().filter(|turn| turn.is_held()) else { return false };
        let length = pieces.iter().map(|piece| piece.len()).sum();
        if turn.deferred.borrow_mut().try_reserve(length).is_err() {
            // The connection ends, as it does where the transport has no memory for its queue.
            self.ends.transport().abort();
            return true;
        }
        let mut deferred = turn.deferred.borrow_mut();
        pieces.iter().for_each(|piece| deferred.extend_from_slice(piece));
        true
    }

    /// Whether something waits for the end of a turn.
    pub(super) fn has_deferred(&self) -> bool {
        self.ends.buffered.turn.get().is_some_and(|turn| !turn.deferred.borrow().is_empty())
    }

    /// Queues what was deferred.
    pub(super) fn queue_deferred(&self) {
        let Some(turn) = self.ends.buffered.turn.get() else { return };
        let deferred = turn.deferred.take();
        if !deferred.is_empty() {
            self.ends.transport().write(&deferred);
            self.ends.buffered.writers.wake_all();
        }
    }
}
