//! `WriteLock`: serialises the messages of several tasks on one connection.
//!
//! `write_all` sends a long message in chunks and waits between them, which limits the write buffer. The lock keeps
//! other messages out of the gaps. A message that fits into one chunk does not lock.
//!
//! - The lock is granted in order. Dropping a waiting future leaves the queue; dropping the guard unlocks.
//! - `write` cannot wait. Data written while locked is deferred until the lock is released.
//! - When the connection is lost, all waiters fail with its error.

use super::StreamWriter;
use crate::sync::{Semaphore, SemaphorePermit};
use std::cell::RefCell;
use std::io;

/// See the module documentation. Allocated when a message has to wait for the first time.
pub(super) struct WriteLock {
    /// One permit. Closed when the connection is lost.
    semaphore: Semaphore,
    /// Data of `write` calls while locked.
    deferred: RefCell<Vec<u8>>,
}

impl Default for WriteLock {
    fn default() -> Self {
        WriteLock { semaphore: Semaphore::new(1), deferred: RefCell::default() }
    }
}

impl WriteLock {
    /// Whether a message would have to wait. On a lost connection it fails at once instead.
    fn is_locked(&self) -> bool {
        self.semaphore.locked() && !self.semaphore.is_closed()
    }

    /// Called when the connection is lost.
    pub(super) fn close(&self) {
        drop(self.deferred.take());
        self.semaphore.close();
    }
}

/// Holds the lock until it is dropped.
pub(crate) struct WriteLockGuard<'a> {
    writer: &'a StreamWriter,
    // Dropped after `Drop::drop` has queued the deferred data, so that the data precedes waiting messages.
    _permit: SemaphorePermit<'a>,
}

impl Drop for WriteLockGuard<'_> {
    fn drop(&mut self) {
        self.writer.queue_deferred();
    }
}

impl StreamWriter {
    /// Whether a message is being written.
    #[inline]
    pub(super) fn is_write_locked(&self) -> bool {
        self.shared.buffered.write_lock().is_some_and(WriteLock::is_locked)
    }

    /// Waits for the lock. Fails if the connection is lost.
    pub(crate) async fn lock_writing(&self) -> io::Result<WriteLockGuard<'_>> {
        let write_lock = self.shared.buffered.make_write_lock();
        match write_lock.semaphore.acquire().await {
            Ok(permit) => Ok(WriteLockGuard { writer: self, _permit: permit }),
            Err(_) => Err(self.lost_error()),
        }
    }

    /// Defers `pieces` until the lock is released. `false` if it is not locked.
    pub(super) fn defer(&self, pieces: &[&[u8]]) -> bool {
        let Some(write_lock) = self.shared.buffered.write_lock().filter(|write_lock| write_lock.is_locked())
        else {
            return false;
        };
        let length = pieces.iter().map(|chunk| chunk.len()).sum();
        if write_lock.deferred.borrow_mut().try_reserve(length).is_err() {
            // Out of memory ends the connection, as it does in the transport.
            self.shared.transport().abort();
            return true;
        }
        let mut deferred = write_lock.deferred.borrow_mut();
        pieces.iter().for_each(|chunk| deferred.extend_from_slice(chunk));
        true
    }

    /// Whether data is deferred.
    pub(super) fn has_deferred(&self) -> bool {
        let write_lock = self.shared.buffered.write_lock();
        write_lock.is_some_and(|write_lock| !write_lock.deferred.borrow().is_empty())
    }

    /// Moves the deferred data to the write buffer.
    pub(super) fn queue_deferred(&self) {
        let Some(write_lock) = self.shared.buffered.write_lock() else { return };
        let deferred = write_lock.deferred.take();
        if !deferred.is_empty() {
            self.shared.transport().write(&deferred);
            self.shared.buffered.wake_writers();
        }
    }
}
