//! The queue of unsent chunks.

use std::collections::VecDeque;
use std::io::IoSlice;

/// The most chunks per system call. The kernel's limit is 1024, but beyond some dozens one call costs as much as two.
const MAX_CHUNKS_PER_SEND: usize = 64;

/// Chunks in order; the first one may be partly sent.
pub struct WriteQueue<C> {
    chunks: VecDeque<C>,
    /// Sent bytes of the first chunk.
    offset: usize,
    /// Unsent bytes of all chunks.
    len: usize,
}

impl<C> Default for WriteQueue<C> {
    fn default() -> Self {
        WriteQueue { chunks: VecDeque::new(), offset: 0, len: 0 }
    }
}

impl<C: AsRef<[u8]>> WriteQueue<C> {
    /// Unsent bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing is queued.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Reserves room for `count` more chunks, so that appending them does not allocate. `false` if there is no
    /// memory.
    pub fn try_reserve(&mut self, count: usize) -> bool {
        self.chunks.try_reserve(count).is_ok()
    }

    /// Appends a chunk, of which the first `sent` bytes are already sent (only the first chunk of a queue may have
    /// any).
    pub fn push(&mut self, chunk: C, sent: usize) {
        let remaining = chunk.as_ref().len().saturating_sub(sent);
        if remaining == 0 {
            return;
        }
        if self.chunks.is_empty() {
            self.offset = sent;
        }
        self.len += remaining;
        self.chunks.push_back(chunk);
    }

    /// Removes the first chunk. Returns it and its number of sent bytes.
    pub fn pop_front(&mut self) -> Option<(C, usize)> {
        let chunk = self.chunks.pop_front()?;
        let sent = std::mem::take(&mut self.offset);
        self.len -= chunk.as_ref().len().saturating_sub(sent);
        Some((chunk, sent))
    }

    /// Puts a removed chunk back to the front.
    pub fn push_front(&mut self, chunk: C, sent: usize) {
        self.len += chunk.as_ref().len().saturating_sub(sent);
        self.offset = sent;
        self.chunks.push_front(chunk);
    }

    /// Lends the front of the queue to `send`, up to the limit of one system call.
    pub fn with_front<R>(&self, send: impl FnOnce(&[IoSlice<'_>]) -> R) -> R {
        let mut slices = [IoSlice::new(&[]); MAX_CHUNKS_PER_SEND];
        let mut count = 0;
        for (slice, chunk) in slices.iter_mut().zip(&self.chunks) {
            let skip = if count == 0 { self.offset } else { 0 };
            *slice = IoSlice::new(chunk.as_ref().get(skip..).unwrap_or_default());
            count += 1;
        }
        send(slices.get(..count).unwrap_or_default())
    }

    /// Marks `sent` bytes at the front as sent. Returns the finished chunks; the caller drops them after releasing
    /// the borrow.
    #[must_use = "dropping a chunk may run user code: do it outside of the borrow"]
    pub fn advance(&mut self, sent: usize) -> Vec<C> {
        let sent = sent.min(self.len);
        self.len -= sent;
        self.offset += sent;
        let mut done = Vec::new();
        while let Some(first) = self.chunks.front() {
            let length = first.as_ref().len();
            if self.offset < length {
                break;
            }
            self.offset -= length;
            done.extend(self.chunks.pop_front());
        }
        done
    }

    /// Empties the queue and returns its chunks.
    #[must_use = "dropping a chunk may run user code: do it outside of the borrow"]
    pub fn take(&mut self) -> VecDeque<C> {
        self.offset = 0;
        self.len = 0;
        std::mem::take(&mut self.chunks)
    }

    /// The queued chunks, for the garbage collector.
    pub fn iter(&self) -> impl Iterator<Item = &C> {
        self.chunks.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn front(queue: &WriteQueue<Vec<u8>>) -> Vec<u8> {
        queue.with_front(|slices| slices.iter().flat_map(|slice| slice.to_vec()).collect())
    }

    #[test]
    fn bytes_leave_in_the_order_they_came_across_chunk_borders() {
        let mut queue = WriteQueue::default();
        queue.push(b"xxab".to_vec(), 2);
        queue.push(b"cde".to_vec(), 0);
        queue.push(b"f".to_vec(), 0);
        assert_eq!((front(&queue), queue.len()), (b"abcdef".to_vec(), 6));
        assert_eq!(queue.advance(3), [b"xxab".to_vec()]);
        assert_eq!(front(&queue), b"def");
        assert_eq!(queue.advance(3).len(), 2);
        assert!(queue.is_empty());
    }

    #[test]
    fn an_empty_chunk_is_not_queued() {
        let mut queue = WriteQueue::default();
        queue.push(Vec::new(), 0);
        queue.push(b"ab".to_vec(), 2);
        assert_eq!(queue.iter().count(), 0);
    }

    #[test]
    fn a_send_is_offered_a_bounded_number_of_chunks() {
        let mut queue = WriteQueue::default();
        for _ in 0..1000 {
            queue.push(vec![1], 0);
        }
        assert_eq!(queue.with_front(|slices| slices.len()), MAX_CHUNKS_PER_SEND);
    }

    #[test]
    fn advancing_past_the_end_is_advancing_to_the_end() {
        let mut queue = WriteQueue::default();
        queue.push(b"ab".to_vec(), 0);
        assert_eq!(queue.advance(100).len(), 1);
        queue.push(b"c".to_vec(), 0);
        assert_eq!(front(&queue), b"c");
    }
}
