//! The queue of unsent datagrams, each with its destination.

use std::collections::VecDeque;

/// A datagram and its destination.
pub struct Queued<C, D> {
    /// Its bytes.
    pub chunk: C,
    /// The destination.
    pub destination: D,
}

/// Datagrams in order, and their total weight.
pub(super) struct DatagramQueue<C, D> {
    datagrams: VecDeque<Queued<C, D>>,
    weight: usize,
    /// The weight of a datagram in addition to its bytes, so that empty datagrams count too.
    header: usize,
}

impl<C: AsRef<[u8]>, D> DatagramQueue<C, D> {
    pub fn new(header: usize) -> Self {
        DatagramQueue { datagrams: VecDeque::new(), weight: 0, header }
    }

    /// Queued bytes, including headers.
    pub fn weight(&self) -> usize {
        self.weight
    }

    pub fn is_empty(&self) -> bool {
        self.datagrams.is_empty()
    }

    fn weigh(&self, datagram: &Queued<C, D>) -> usize {
        datagram.chunk.as_ref().len() + self.header
    }

    /// Reserves room for one more datagram; `false` if there is no memory.
    pub fn try_reserve_one(&mut self) -> bool {
        self.datagrams.try_reserve(1).is_ok()
    }

    pub fn push(&mut self, datagram: Queued<C, D>) {
        self.weight += self.weigh(&datagram);
        self.datagrams.push_back(datagram);
    }

    /// Removes the first datagram, to be sent without a borrow.
    pub fn pop(&mut self) -> Option<Queued<C, D>> {
        let datagram = self.datagrams.pop_front()?;
        self.weight -= self.weigh(&datagram);
        Some(datagram)
    }

    /// Puts a datagram that could not be sent back to the front.
    pub fn put_back(&mut self, datagram: Queued<C, D>) {
        self.weight += self.weigh(&datagram);
        self.datagrams.push_front(datagram);
    }

    /// Empties the queue and returns its datagrams.
    #[must_use = "dropping a chunk may run user code: do it outside of the borrow"]
    pub fn take(&mut self) -> VecDeque<Queued<C, D>> {
        self.weight = 0;
        std::mem::take(&mut self.datagrams)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Queued<C, D>> {
        self.datagrams.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn datagram(chunk: &[u8], destination: u32) -> Queued<Vec<u8>, u32> {
        Queued { chunk: chunk.to_vec(), destination }
    }

    #[test]
    fn the_weight_counts_bytes_and_headers_and_returns_to_zero() {
        let mut queue = DatagramQueue::new(8);
        queue.push(datagram(b"abc", 1));
        queue.push(datagram(b"", 2));
        assert_eq!(queue.weight(), 3 + 8 + 8);
        let first = queue.pop().unwrap();
        assert_eq!((first.destination, queue.weight()), (1, 8));
        queue.put_back(first);
        assert_eq!(queue.weight(), 19);
        assert_eq!([queue.pop(), queue.pop()].map(|datagram| datagram.unwrap().destination), [1, 2]);
        assert_eq!((queue.weight(), queue.is_empty(), queue.pop().is_none()), (0, true, true));
    }

    #[test]
    fn take_resets_the_weight() {
        let mut queue = DatagramQueue::new(0);
        queue.push(datagram(b"abc", 1));
        assert_eq!(queue.take().len(), 1);
        assert_eq!((queue.weight(), queue.is_empty()), (0, true));
    }
}
