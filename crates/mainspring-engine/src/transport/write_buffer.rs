//! `WriteBuffer`: how a transport sends: at once when nothing waits, else in order, as the kernel takes it.
//!
//! The queue is borrowed for the system call and for nothing else; chunks that are done are dropped outside of the
//! borrow, because dropping one may run user code that writes again.

use super::{WriteQueue, is_retryable};
use crate::memory;
use std::cell::RefCell;
use std::io::{self, IoSlice};

/// What became of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Written {
    /// The kernel took all of it.
    All,
    /// Some of it waits, and nothing did before: the kernel has to be asked when it takes more.
    Begun,
    /// It waits behind what waited before.
    Behind,
    /// There is no memory to keep it. Nothing of it was sent, and nothing waits.
    Refused,
}

/// See the module's text. There is a queue while something waits: most connections have none most of the time.
pub(super) struct WriteBuffer<C>(RefCell<Option<Box<WriteQueue<C>>>>);

/// How many bytes that is in all.
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
    /// Bytes that wait.
    pub fn len(&self) -> usize {
        self.0.borrow().as_ref().map_or(0, |queue| queue.len())
    }

    pub fn is_empty(&self) -> bool {
        self.0.borrow().as_ref().is_none_or(|queue| queue.is_empty())
    }

    /// Keeps what is left of `pieces` when `sent` came of sending them, which is tried when nothing waits. `keep` gives the
    /// chunks, `None` if there is no memory for one. Then the write is refused, or fails if some of it was sent already.
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

    /// Puts a chunk at the end; `false` if there is no memory for it.
    fn push(&self, chunk: C, skip: usize) -> bool {
        // A chunk without room is dropped when nothing is borrowed.
        if !self.0.borrow_mut().get_or_insert_default().try_reserve(1) {
            return false;
        }
        self.0.borrow_mut().get_or_insert_default().push(chunk, skip);
        true
    }

    /// Sends with `send` what one call takes of the queue; `false` if the kernel took nothing.
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

    /// Drops what waits.
    pub fn clear(&self) {
        let unsent = self.0.take();
        drop(unsent);
    }

    /// Shows the chunks that wait, to the garbage collector; none if they are being changed at this moment.
    pub fn for_each_chunk(&self, show: &mut dyn FnMut(&C)) {
        if let Ok(queue) = self.0.try_borrow() {
            queue.iter().flat_map(|queue| queue.iter()).for_each(show);
        }
    }
}
