//! What a transport still has to send.

use std::collections::VecDeque;
use std::io::IoSlice;

/// How many chunks one system call takes; the kernel's own limit is 1024, and past some dozens the call is as
/// long as two.
const MAX_CHUNKS_PER_SEND: usize = 64;

/// Chunks in order, the first of them possibly sent in part.
pub struct WriteQueue<C> {
    chunks: VecDeque<C>,
    /// How much of the first chunk is sent.
    offset: usize,
    /// Bytes not yet sent, over all chunks.
    len: usize,
}

impl<C> Default for WriteQueue<C> {
    fn default() -> Self {
        WriteQueue { chunks: VecDeque::new(), offset: 0, len: 0 }
    }
}

impl<C: AsRef<[u8]>> WriteQueue<C> {
    /// Bytes not yet sent.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether all is sent.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Makes room for `count` more chunks, so that appending them needs no memory. `false` if there is none.
    pub fn try_reserve(&mut self, count: usize) -> bool {
        self.chunks.try_reserve(count).is_ok()
    }

    /// Appends a chunk of which the first `sent` bytes are sent already (only the first chunk may be so).
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

    /// Takes the first chunk out, with how much of it is sent.
    pub fn pop_front(&mut self) -> Option<(C, usize)> {
        let chunk = self.chunks.pop_front()?;
        let sent = std::mem::take(&mut self.offset);
        self.len -= chunk.as_ref().len().saturating_sub(sent);
        Some((chunk, sent))
    }

    /// Puts a chunk that was taken out back to the front.
    pub fn push_front(&mut self, chunk: C, sent: usize) {
        self.len += chunk.as_ref().len().saturating_sub(sent);
        self.offset = sent;
        self.chunks.push_front(chunk);
    }

    /// Lends the front of the queue to `send`, as many chunks as one system call takes.
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

    /// Marks `sent` bytes at the front as sent. The chunks that are done come back, to be dropped by the caller
    /// when the queue is no longer borrowed.
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

    /// Empties the queue; its chunks come back.
    #[must_use = "dropping a chunk may run user code: do it outside of the borrow"]
    pub fn take(&mut self) -> VecDeque<C> {
        self.offset = 0;
        self.len = 0;
        std::mem::take(&mut self.chunks)
    }

    /// The chunks that wait, for the garbage collector.
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
