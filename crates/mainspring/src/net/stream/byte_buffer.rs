//! `ByteBuffer`: received bytes that are not read yet, contiguous in memory.
//!
//! Reading advances an index. The space before it is reused when space is needed, and freed with the last byte. So each
//! byte is copied in once and out once, and moved at most as often as the buffer doubles.

use mainspring_engine::memory;
use std::io;

/// An empty buffer keeps at most this capacity.
const MAX_IDLE_CAPACITY_BYTES: usize = 4 * 1024;

/// From this size on, the whole buffer is moved out instead of copied.
const MIN_MOVE_BYTES: usize = 4 * 1024;

/// See the module documentation.
#[derive(Default)]
pub(super) struct ByteBuffer {
    bytes: Vec<u8>,
    /// Number of bytes at the front that are read.
    read: usize,
    /// Position of the first unread byte in the stream.
    position: u64,
}

impl ByteBuffer {
    /// Whether it has never had a byte, and has no memory.
    pub(super) fn is_unused(&self) -> bool {
        self.position == 0 && self.bytes.capacity() == 0
    }

    /// Advances the stream position by `count` bytes that bypassed this buffer, which is empty.
    pub(super) fn skip(&mut self, count: usize) {
        self.position += count as u64;
    }

    pub(super) fn len(&self) -> usize {
        self.bytes.len() - self.read
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The unread bytes.
    pub(super) fn unread(&self) -> &[u8] {
        self.bytes.get(self.read..).unwrap_or_default()
    }

    /// The stream position of the first unread byte.
    pub(super) fn position(&self) -> u64 {
        self.position
    }

    pub(super) fn push(&mut self, data: &[u8]) {
        self.compact_for(data.len());
        self.bytes.extend_from_slice(data);
    }

    /// As [`push`](ByteBuffer::push), but fails without a change if there is no memory.
    pub(super) fn try_push(&mut self, data: &[u8]) -> io::Result<()> {
        self.compact_for(data.len());
        memory::append(&mut self.bytes, data)
    }

    /// Moves the unread bytes to the front if `count` more would not fit otherwise.
    fn compact_for(&mut self, count: usize) {
        let is_full = self.bytes.capacity() - self.bytes.len() < count;
        if is_full && self.read >= self.len() {
            // Moves at most as many bytes as were read since the last move.
            self.bytes.copy_within(self.read.., 0);
            self.bytes.truncate(self.bytes.len() - self.read);
            self.read = 0;
        }
    }

    /// Marks the first `count` bytes as read, or all if there are fewer.
    pub(super) fn consume(&mut self, count: usize) {
        let count = count.min(self.len());
        self.position += count as u64;
        self.read += count;
        if self.is_empty() {
            self.read = 0;
            self.bytes.clear();
            if self.bytes.capacity() > MAX_IDLE_CAPACITY_BYTES {
                self.bytes = Vec::new();
            }
        }
    }

    /// Copies as many bytes as fit into `into`, and marks them as read.
    pub(super) fn read(&mut self, into: &mut [u8]) -> usize {
        let count = self.len().min(into.len());
        if let (Some(to), Some(from)) = (into.get_mut(..count), self.unread().get(..count)) {
            to.copy_from_slice(from);
        }
        self.consume(count);
        count
    }

    /// Takes the first `count` bytes, or all if there are fewer. Fails without a change if there is no memory.
    pub(super) fn take(&mut self, count: usize) -> io::Result<Vec<u8>> {
        let count = count.min(self.len());
        if count == self.len() && count >= MIN_MOVE_BYTES {
            return Ok(self.take_all());
        }
        let taken = memory::copy(self.unread().get(..count).unwrap_or_default())?;
        self.consume(count);
        Ok(taken)
    }

    /// Takes all bytes without copying them.
    pub(super) fn take_all(&mut self) -> Vec<u8> {
        let mut taken = std::mem::take(&mut self.bytes);
        taken.drain(..self.read.min(taken.len()));
        self.read = 0;
        self.position += taken.len() as u64;
        taken
    }

    /// Moves everything into `empty`, to be read there. The stream position advances.
    pub(super) fn lend_to(&mut self, empty: &mut ByteBuffer) {
        std::mem::swap(self, empty);
        self.position = empty.position + empty.len() as u64;
    }

    /// Puts the rest of a lent buffer back in front of the newer bytes.
    pub(super) fn take_back(&mut self, lent: &mut ByteBuffer) {
        lent.push(self.unread());
        self.bytes.clear();
        self.read = 0;
        std::mem::swap(self, lent);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_read_in_order_by_every_read_method() {
        let mut buffer = ByteBuffer::default();
        let (mut pushed, mut taken) = (0_u32, Vec::new());
        for round in 0..2_000_usize {
            let data: Vec<u8> = (0..round % 97).map(|step| (pushed + step as u32) as u8).collect();
            pushed += data.len() as u32;
            buffer.push(&data);
            match round % 3 {
                0 => taken.extend(buffer.take(round % 41).unwrap()),
                1 => {
                    let mut into = [0; 50];
                    let count = buffer.read(&mut into);
                    taken.extend_from_slice(&into[..count]);
                }
                _ => {
                    let count = (round % 31).min(buffer.len());
                    taken.extend_from_slice(&buffer.unread()[..count]);
                    buffer.consume(count);
                }
            }
            assert_eq!(buffer.position(), taken.len() as u64);
            assert_eq!(buffer.len(), pushed as usize - taken.len());
        }
        taken.extend(buffer.take_all());
        assert_eq!(taken.len(), pushed as usize);
        assert!(taken.iter().enumerate().all(|(index, &byte)| byte == index as u8));
    }

    #[test]
    fn a_buffer_that_is_read_as_it_fills_does_not_grow() {
        let mut buffer = ByteBuffer::default();
        for _ in 0..10_000 {
            buffer.push(&[1; 100]);
            buffer.read(&mut [0; 99]);
            buffer.consume(1);
        }
        assert!(buffer.bytes.capacity() < 1_000);
    }

    #[test]
    fn memory_is_freed_when_everything_is_read() {
        let mut buffer = ByteBuffer::default();
        buffer.push(&vec![0; 1_000_000]);
        buffer.consume(999_999);
        assert_eq!(buffer.len(), 1);
        buffer.consume(1);
        assert_eq!(buffer.bytes.capacity(), 0);
    }

    #[test]
    fn lent_bytes_return_in_front_of_newer_bytes() {
        let (mut buffer, mut lent) = (ByteBuffer::default(), ByteBuffer::default());
        buffer.push(b"abcd");
        buffer.consume(1);
        buffer.lend_to(&mut lent);
        assert_eq!((lent.unread(), lent.position(), buffer.position()), (&b"bcd"[..], 1, 4));
        buffer.push(b"ef");
        lent.consume(1);
        buffer.take_back(&mut lent);
        assert_eq!((buffer.unread(), buffer.position()), (&b"cdef"[..], 2));
        assert!(lent.is_empty());
        buffer.push(b"g");
        assert_eq!(buffer.take(10).unwrap(), b"cdefg");
    }
}
