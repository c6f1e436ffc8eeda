//! The exact end of the queue: a binary heap of the near deadlines, keyed `(when, sequence)`.
//!
//! A cancelled timer leaves the slab at once and its key stays behind here, stale: the slab no longer holds
//! that sequence number at that slot. Stale keys are dropped when they come to the top, and all together when
//! they are more than half of a large heap.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::slab::Slab;
use crate::clock::Time;

/// A heap no larger than this is not worth compacting.
const MIN_COMPACT_LEN: usize = 64;
/// Above this capacity a heap that ran nearly empty gives memory back.
const KEEP_CAPACITY: usize = 1024;

/// One timer's place in the order of firing; the fields' order is that order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Due {
    pub(super) when: Time,
    pub(super) sequence: u64,
    pub(super) slot: u32,
}

/// The heap and the number of its keys whose timers are gone.
#[derive(Debug, Default)]
pub(super) struct ExactHeap {
    keys: BinaryHeap<Reverse<Due>>,
    stale: usize,
}

impl ExactHeap {
    /// Makes room for `count` more; `false` if there is no memory for it.
    pub(super) fn try_reserve(&mut self, count: usize) -> bool {
        self.keys.try_reserve(count).is_ok()
    }

    /// Room was made for it.
    pub(super) fn push(&mut self, due: Due) {
        self.keys.push(Reverse(due));
    }

    /// Adds many at once, for which room was made; that costs less than adding each.
    pub(super) fn extend(&mut self, dues: impl Iterator<Item = Due>) {
        self.keys.extend(dues.map(Reverse));
    }

    /// The earliest timer that is still there.
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

    /// Takes off what [`ExactHeap::peek`] showed.
    pub(super) fn pop(&mut self) {
        self.keys.pop();
        self.give_memory_back();
    }

    /// Notes that the slab has dropped one of the timers in here.
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
