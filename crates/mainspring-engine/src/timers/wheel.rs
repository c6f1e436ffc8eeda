//! The coarse part of the queue: a hierarchical wheel of far deadlines.
//!
//! A tick is 2^20 ns, about a millisecond. A tick number has eight digits of six bits. The wheel has one level per
//! digit, with 64 buckets each, so every `Time` has a bucket.
//!
//! # Invariants
//!
//! - Every entry's tick is at or after the `cursor`.
//! - An entry is on the level of the highest digit in which its tick differs from the cursor (level 0 if none), in
//!   the bucket of its own digit there. The occupied buckets of a level are therefore ahead of the cursor's digit,
//!   all entries of a level are due before those of the next, and the first occupied bucket on the lowest occupied
//!   level has the earliest deadline.
//! - The cursor moves at most to the start of a bucket; that bucket's entries then move to lower levels. A timer
//!   moves down at most once per level.

use super::heap::{Due, ExactHeap};
use super::slab::{Bag, Place, Slab};
use crate::clock::Time;

const TICK_BITS: u32 = 20;
const DIGIT_BITS: u32 = 6;
const BUCKETS: usize = 1 << DIGIT_BITS;
const LEVELS: usize = 8;

/// The number of ticks that the first level spans.
pub(super) const FIRST_LEVEL_TICKS: u64 = BUCKETS as u64;

// A tick number has at most this many bits, and the cursor may be one past the last tick.
const _: () = assert!(u64::BITS - TICK_BITS < DIGIT_BITS * LEVELS as u32);

/// The tick of `when`.
pub(super) const fn tick_of(when: Time) -> u64 {
    when.as_nanos() >> TICK_BITS
}

/// The start of `tick`.
pub(super) const fn start_of(tick: u64) -> Time {
    Time::from_nanos(tick << TICK_BITS)
}

/// The earliest occupied bucket.
#[derive(Clone, Copy, Debug)]
pub(super) struct First {
    /// The first tick of the bucket.
    pub(super) start: u64,
    level: usize,
    index: usize,
}

/// The buckets and their occupancy.
#[derive(Debug)]
pub(super) struct Wheel {
    cursor: u64,
    /// One bit per level with an occupied bucket.
    levels: u8,
    /// One bit per occupied bucket, by level.
    occupied: [u64; LEVELS],
    buckets: Box<[Bag]>,
}

impl Wheel {
    pub(super) fn new() -> Self {
        let buckets = vec![Bag::new(); BUCKETS * LEVELS].into_boxed_slice();
        Wheel { cursor: 0, levels: 0, occupied: [0; LEVELS], buckets }
    }

    /// The first tick of the wheel; earlier deadlines are in the heap.
    pub(super) fn cursor(&self) -> u64 {
        self.cursor
    }

    /// The bucket for `tick`, which is not before the cursor.
    pub(super) fn bucket_for(&self, tick: u64) -> u16 {
        // With the lowest bit set, an equal tick counts as differing in the lowest digit.
        let differing = (tick ^ self.cursor) | 1;
        let level = differing.ilog2() / DIGIT_BITS;
        let digit = tick >> (level * DIGIT_BITS) & (BUCKETS as u64 - 1);
        (level as u16) << DIGIT_BITS | digit as u16
    }

    /// Reserves room for one more slot in `bucket`; `false` if there is no memory.
    pub(super) fn try_reserve_one(&mut self, bucket: u16) -> bool {
        self.buckets[bucket as usize].try_reserve(1)
    }

    /// Adds `slot` to `bucket`; `false`, without effect, if there is no memory.
    #[must_use]
    pub(super) fn put<T>(&mut self, slab: &mut Slab<T>, bucket: u16, slot: u32) -> bool {
        if !slab.put(&mut self.buckets[bucket as usize], slot) {
            return false;
        }
        let (level, index) = split(bucket);
        self.mark_used(level, index);
        true
    }

    /// Removes `slot` from `bucket`.
    pub(super) fn take<T>(&mut self, slab: &mut Slab<T>, bucket: u16, slot: u32) {
        let bag = &mut self.buckets[bucket as usize];
        slab.take(bag, slot);
        if bag.is_empty() {
            let (level, index) = split(bucket);
            self.mark_empty(level, index);
        }
    }

    /// The earliest occupied bucket.
    pub(super) fn first(&self) -> Option<First> {
        if self.levels == 0 {
            return None;
        }
        let level = self.levels.trailing_zeros() as usize;
        let index = self.occupied[level].trailing_zeros() as usize;
        let shift = level as u32 * DIGIT_BITS;
        let above = self.cursor >> (shift + DIGIT_BITS) << (shift + DIGIT_BITS);
        Some(First { start: above | (index as u64) << shift, level, index })
    }

    /// The slots of that bucket.
    pub(super) fn slots(&self, first: First) -> &[u32] {
        self.buckets[first.level * BUCKETS + first.index].slots()
    }

    /// Moves the entries of the earliest bucket: from the first level to the heap, from a higher level to lower ones.
    /// The cursor follows. `false`, without effect, if there is no memory.
    #[must_use]
    pub(super) fn open<T>(&mut self, first: First, slab: &mut Slab<T>, heap: &mut ExactHeap) -> bool {
        if first.level > 0 {
            return self.advance(first.start, slab);
        }
        if !heap.try_reserve(self.slots(first).len()) {
            return false;
        }
        let bag = self.empty(first.level, first.index);
        if !self.advance(first.start + 1, slab) {
            self.buckets[first.index] = bag;
            self.mark_used(first.level, first.index);
            return false;
        }
        heap.extend(bag.slots().iter().map(|&slot| {
            slab.set_place(slot, Place::Heap);
            let entry = slab.entry(slot);
            Due { when: entry.when, sequence: entry.sequence, slot }
        }));
        self.recycle(first.level, first.index, bag);
        true
    }

    /// Moves the cursor forward to `tick`; no entry is before it. `false`, without effect, if there is no memory.
    pub(super) fn advance<T>(&mut self, tick: u64, slab: &mut Slab<T>) -> bool {
        if tick <= self.cursor {
            return true;
        }
        let former = self.cursor;
        let level = ((tick ^ self.cursor).ilog2() / DIGIT_BITS) as usize;
        let index = (tick >> (level as u32 * DIGIT_BITS)) as usize & (BUCKETS - 1);
        self.cursor = tick;
        // On the first level the entries of the cursor's bucket stay there.
        if level == 0 || self.occupied[level] & 1 << index == 0 {
            return true;
        }
        let bag = self.empty(level, index);
        for (moved, &slot) in bag.slots().iter().enumerate() {
            let bucket = self.bucket_for(tick_of(slab.entry(slot).when));
            if !self.put(slab, bucket, slot) {
                self.put_back(slab, level, index, bag, moved);
                self.cursor = former;
                return false;
            }
            slab.set_place(slot, Place::Bucket(bucket));
        }
        self.recycle(level, index, bag);
        true
    }

    /// Reverts the move of the first `moved` entries of `bag`.
    #[cold]
    fn put_back<T>(&mut self, slab: &mut Slab<T>, level: usize, index: usize, bag: Bag, moved: usize) {
        let own = (level << DIGIT_BITS | index) as u16;
        for (position, &slot) in bag.slots().iter().enumerate().take(moved) {
            if let Place::Bucket(bucket) = slab.entry(slot).place {
                self.take(slab, bucket, slot);
            }
            slab.set_place(slot, Place::Bucket(own));
            slab.set_position(slot, position as u32);
        }
        self.buckets[own as usize] = bag;
        self.mark_used(level, index);
    }

    /// Removes all entries; the cursor stays.
    pub(super) fn clear(&mut self) {
        if self.levels == 0 {
            return;
        }
        self.levels = 0;
        self.occupied = [0; LEVELS];
        self.buckets.fill(Bag::new());
    }

    fn empty(&mut self, level: usize, index: usize) -> Bag {
        self.mark_empty(level, index);
        std::mem::take(&mut self.buckets[level * BUCKETS + index])
    }

    /// Returns its memory to an emptied bucket, unless the bucket is in use again.
    fn recycle(&mut self, level: usize, index: usize, mut bag: Bag) {
        let bucket = &mut self.buckets[level * BUCKETS + index];
        if bucket.is_empty() {
            bag.clear();
            *bucket = bag;
        }
    }

    fn mark_used(&mut self, level: usize, index: usize) {
        self.occupied[level] |= 1 << index;
        self.levels |= 1 << level;
    }

    fn mark_empty(&mut self, level: usize, index: usize) {
        self.occupied[level] &= !(1 << index);
        if self.occupied[level] == 0 {
            self.levels &= !(1 << level);
        }
    }
}

/// The level and index of a bucket.
const fn split(bucket: u16) -> (usize, usize) {
    (bucket as usize / BUCKETS, bucket as usize % BUCKETS)
}
