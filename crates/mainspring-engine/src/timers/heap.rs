//! The exact part of the queue: a binary heap of near deadlines, keyed `(when, sequence)`.
//!
//! A cancelled timer leaves the slab at once; its heap key becomes stale: the slab no longer has that sequence number
//! at that slot. Stale keys are removed when they reach the top, and all at once when they are more than half of a
//! large heap.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::slab::Slab;
use crate::clock::Time;

/// Only a heap with more keys than this is compacted.
const MIN_COMPACT_LEN: usize = 64;
/// Only a heap with more capacity than this shrinks.
const KEEP_CAPACITY: usize = 1024;

/// The sort key of a timer; the derived order is the firing order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Due {
    pub(super) when: Time,
    pub(super) sequence: u64,
    pub(super) slot: u32,
}

/// The heap, and the number of its stale keys.
#[derive(Debug, Default)]
pub(super) struct ExactHeap {
    keys: BinaryHeap<Reverse<Due>>,
    stale: usize,
}

impl ExactHeap {
    /// Reserves room for `count` more keys; `false` if there is no memory.
    pub(super) fn try_reserve(&mut self, count: usize) -> bool {
        self.keys.try_reserve(count).is_ok()
    }

    /// Adds a key, for which room was reserved.
    pub(super) fn push(&mut self, due: Due) {
        self.keys.push(Reverse(due));
    }

    /// Adds many keys, for which room was reserved; cheaper than adding each.
    pub(super) fn extend(&mut self, dues: impl Iterator<Item = Due>) {
        self.keys.extend(dues.map(Reverse));
    }

    /// The earliest timer that was not cancelled.
    pub(super) fn peek<T>(&mut self, slab: &Slab<T>) -> Option<Due> {
        while let Some(&Reverse(due)) = self.keys.peek() {
            if self.stale == 0 || slab.holds(due.slot, due.sequence) {
                return Some(due);
            }
            self.keys.pop();
            self.stale -= 1;
        }
        None
    }

    /// Removes the key that [`ExactHeap::peek`] returned.
    pub(super) fn pop(&mut self) {
        self.keys.pop();
        self.give_memory_back();
    }

    /// Records that the slab has removed one of these timers.
    pub(super) fn forget_one<T>(&mut self, slab: &Slab<T>) {
        self.stale += 1;
        if self.stale == self.keys.len() {
            self.keys.clear();
            self.stale = 0;
        } else if self.keys.len() > MIN_COMPACT_LEN && self.stale > self.keys.len() / 2 {
            self.keys.retain(|Reverse(due)| slab.holds(due.slot, due.sequence));
            self.stale = 0;
        }
        self.give_memory_back();
    }

    pub(super) fn clear(&mut self) {
        *self = ExactHeap::default();
    }

    fn give_memory_back(&mut self) {
        let capacity = self.keys.capacity();
        if capacity > KEEP_CAPACITY && self.keys.len() < capacity / 4 {
            self.keys.shrink_to(capacity / 2);
        }
    }
}
