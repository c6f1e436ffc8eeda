//! `WriteBuffer`: the unsent bytes of a transport. A write is sent at once if the buffer is empty; else it is queued
//! behind.
//!
//! The queue is borrowed only for the system call. Chunks that are sent are dropped after the borrow, because a drop
//! may run user code that writes again.

use super::{WriteQueue, is_retryable};
use crate::memory;
use std::cell::RefCell;
use std::io::{self, IoSlice};

/// The outcome of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Written {
    /// The kernel took all bytes.
    All,
    /// Some bytes are queued, and the queue was empty before: register for writability.
    Begun,
    /// The bytes are queued behind others.
    Behind,
    /// There is no memory to queue the bytes. Nothing was sent or queued.
    Refused,
}

/// Unsent bytes. The queue is allocated only while there are any: most connections have none most of the time.
pub(super) struct WriteBuffer<C>(RefCell<Option<Box<WriteQueue<C>>>>);

/// The total length of `pieces`.
#[inline]
pub(super) fn length_of(pieces: &[IoSlice<'_>]) -> usize {
    match pieces {
        [piece] => piece.len(),
        _ => pieces.iter().map(|piece| piece.len()).sum(),
    }
}

impl<C> Default for WriteBuffer<C> {
    fn default() -> Self {
        WriteBuffer(RefCell::default())
    }
}

impl<C: AsRef<[u8]>> WriteBuffer<C> {
    /// Unsent bytes.
    pub fn len(&self) -> usize {
        self.0.borrow().as_ref().map_or(0, |queue| queue.len())
    }

    pub fn is_empty(&self) -> bool {
        self.0.borrow().as_ref().is_none_or(|queue| queue.is_empty())
    }

    /// Queues the part of `pieces` that was not sent. `sent` is the result of the send; `None` if it was not tried
    /// because the queue is not empty. `keep` returns the chunk of a piece, `None` if there is no memory: then the
    /// write is refused, or fails if a part was already sent.
    pub fn keep_rest(
        &self,
        pieces: &[IoSlice<'_>],
        sent: Option<io::Result<usize>>,
        mut keep: impl FnMut(usize) -> Option<C>,
    ) -> io::Result<Written> {
        let was_empty = sent.is_some();
        let mut sent = match sent {
            Some(Err(error)) if !is_retryable(&error) => return Err(error),
            Some(Ok(count)) => count,
            Some(Err(_)) | None => 0,
        };
        let mut is_begun = sent > 0;
        for (index, piece) in pieces.iter().enumerate() {
            let skip = sent.min(piece.len());
            sent -= skip;
            if skip == piece.len() {
                continue;
            }
            let is_kept = keep(index).is_some_and(|chunk| self.push(chunk, skip));
            match (is_kept, is_begun) {
                (true, _) => is_begun = true,
                (false, true) => return Err(memory::out_of_memory()),
                (false, false) => return Ok(Written::Refused),
            }
        }
        Ok(match (self.is_empty(), was_empty) {
            (true, _) => Written::All,
            (false, true) => Written::Begun,
            (false, false) => Written::Behind,
        })
    }

    /// Appends a chunk; `false` if there is no memory.
    fn push(&self, chunk: C, skip: usize) -> bool {
        // On failure the chunk is dropped after the borrow.
        if !self.0.borrow_mut().get_or_insert_default().try_reserve(1) {
            return false;
        }
        self.0.borrow_mut().get_or_insert_default().push(chunk, skip);
        true
    }

    /// Sends the front of the queue with one call of `send`; `false` if the kernel took nothing.
    pub fn flush(&self, send: impl FnOnce(&[IoSlice<'_>]) -> io::Result<usize>) -> io::Result<bool> {
        let sent = match self.0.borrow().as_ref() {
            Some(queue) => queue.with_front(send),
            None => return Ok(true),
        };
        match sent {
            Ok(count) => {
                let done = self.0.borrow_mut().as_mut().map(|queue| queue.advance(count));
                drop(done);
                if self.is_empty() {
                    self.clear();
                }
                Ok(true)
            }
            Err(error) if is_retryable(&error) => Ok(false),
            Err(error) => {
                self.clear();
                Err(error)
            }
        }
    }

    /// Drops all unsent bytes.
    pub fn clear(&self) {
        let unsent = self.0.take();
        drop(unsent);
    }

    /// Shows the queued chunks to the garbage collector; none while the queue is mutably borrowed.
    pub fn for_each_chunk(&self, show: &mut dyn FnMut(&C)) {
        if let Ok(queue) = self.0.try_borrow() {
            queue.iter().flat_map(|queue| queue.iter()).for_each(show);
        }
    }
}
