//! The slab of timer entries, and the bags that group its slots.
//!
//! An entry keeps its slot from insertion to removal, so a [`TimerKey`] finds it in one step. Invariants:
//!
//! - `item` is `None` exactly when the place is one of the three free ones.
//! - A slot is in at most one bag, and its entry knows its position there, so that removal needs no search: the bag's
//!   last slot moves into the gap. Bags are arrays, not linked lists: walking a list of a million scattered entries
//!   would cost a million cache misses.
//! - `sequence` counts insertions over the life of the table and is never reused. Its low half is the key's
//!   generation, so a stale key stays stale even after the table has released its memory.
//! - The table shrinks from its end. For that, slots near the end must fall out of use: a slot far above the number
//!   of live entries goes to a second free bag, which is used last.

use super::TimerKey;
use crate::clock::Time;

/// Memory for this many entries is kept.
const KEEP_CAPACITY: usize = 1024;
/// Memory for this many slots is kept in each bag.
const KEEP_BAG_CAPACITY: usize = 64;
/// The most free entries that one removal trims from the end, to bound its duration.
const TRIM_STEPS: usize = 16;

/// The structure that an entry is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// In the free bag that is used first.
    FreeLow,
    /// In the free bag that is used last.
    FreeHigh,
    /// Free, but unusable until the table is emptied: there was no memory to add it to a bag.
    Lost,
    /// In the slab only: its deadline is never reached.
    Parked,
    /// In the exact heap.
    Heap,
    /// In this bucket of the wheel.
    Bucket(u16),
}

/// One timer, or a free slot. 32 bytes around a pointer-sized item: two to a cache line.
#[derive(Debug)]
pub(super) struct Entry<T> {
    pub(super) when: Time,
    pub(super) sequence: u64,
    /// The position in its bag.
    position: u32,
    pub(super) place: Place,
    item: Option<T>,
}

/// A set of slots, unordered.
#[derive(Clone, Debug, Default)]
pub(super) struct Bag(Vec<u32>);

impl Bag {
    pub(super) const fn new() -> Self {
        Bag(Vec::new())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn slots(&self) -> &[u32] {
        &self.0
    }

    /// Empties the bag and keeps a small capacity.
    pub(super) fn clear(&mut self) {
        self.0.clear();
        self.0.shrink_to(KEEP_BAG_CAPACITY);
    }

    /// Reserves room for `count` more; `false` if there is no memory.
    #[inline]
    pub(super) fn try_reserve(&mut self, count: usize) -> bool {
        self.0.capacity() - self.0.len() >= count || self.0.try_reserve(count).is_ok()
    }

    /// Adds `slot`, whose entry is `entry`; `false`, without effect, if there is no memory.
    #[must_use]
    fn put<T>(&mut self, slot: u32, entry: &mut Entry<T>) -> bool {
        if !self.try_reserve(1) {
            return false;
        }
        entry.position = self.0.len() as u32;
        self.0.push(slot);
        true
    }

    /// Removes the slot at `position`. Returns the slot that moved there, if any.
    fn take(&mut self, position: u32) -> Option<u32> {
        let last = self.0.pop()?;
        let capacity = self.0.capacity();
        if capacity > KEEP_BAG_CAPACITY && self.0.len() < capacity / 4 {
            self.0.shrink_to(capacity / 2);
        }
        // Write the gap without reading it: it is probably in no cache.
        let gap = self.0.get_mut(position as usize)?;
        *gap = last;
        Some(last)
    }
}

/// The table of entries.
#[derive(Debug)]
pub(super) struct Slab<T> {
    entries: Vec<Entry<T>>,
    free_low: Bag,
    free_high: Bag,
    live: usize,
    /// The next insertion's sequence number.
    sequence: u64,
}

impl<T> Slab<T> {
    pub(super) const fn new() -> Self {
        Slab { entries: Vec::new(), free_low: Bag::new(), free_high: Bag::new(), live: 0, sequence: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.live
    }

    /// The entry at `slot`, which the caller got from a bag or from [`Slab::find`].
    pub(super) fn entry(&self, slot: u32) -> &Entry<T> {
        &self.entries[slot as usize]
    }

    /// Makes room for one more; `false` if there is no memory for it.
    pub(super) fn try_reserve_one(&mut self) -> bool {
        !self.free_low.is_empty()
            || !self.free_high.is_empty()
            || self.entries.len() < self.entries.capacity()
            || self.entries.try_reserve(1).is_ok()
    }

    /// Takes a slot for `item`, for which room was made. The caller puts it where `place` says.
    pub(super) fn insert(&mut self, when: Time, place: Place, item: T) -> u32 {
        let sequence = self.sequence;
        self.sequence += 1;
        self.live += 1;
        let new = Entry { when, sequence, position: 0, place, item: Some(item) };
        if let Some(slot) = self.free_low.0.pop().or_else(|| self.free_high.0.pop()) {
            self.entries[slot as usize] = new;
            return slot;
        }
        // Cannot overflow: 2^32 entries of at least 32 bytes exceed memory.
        let slot = self.entries.len() as u32;
        self.entries.push(new);
        slot
    }

    /// Frees `slot`, which is in no bag, and returns its item.
    pub(super) fn remove(&mut self, slot: u32) -> Option<T> {
        let large = self.entries.capacity() > KEEP_CAPACITY;
        let entry = &mut self.entries[slot as usize];
        let item = entry.item.take()?;
        self.live -= 1;
        if self.live == 0 && large {
            self.release();
        } else if slot as usize <= self.live.saturating_mul(2) {
            let is_noted = self.free_low.put(slot, entry);
            entry.place = if is_noted { Place::FreeLow } else { Place::Lost };
        } else {
            let is_noted = self.free_high.put(slot, entry);
            entry.place = if is_noted { Place::FreeHigh } else { Place::Lost };
            self.trim();
        }
        Some(item)
    }

    /// The slot of `key`, if the timer exists.
    pub(super) fn find(&self, key: TimerKey) -> Option<u32> {
        let entry = self.entries.get(key.slot as usize)?;
        (entry.sequence as u32 == key.generation && entry.item.is_some()).then_some(key.slot)
    }

    /// Whether the timer with `sequence` is still at `slot`.
    pub(super) fn holds(&self, slot: u32, sequence: u64) -> bool {
        let entry = self.entries.get(slot as usize);
        entry.is_some_and(|entry| entry.sequence == sequence && entry.item.is_some())
    }

    pub(super) fn key(&self, slot: u32) -> TimerKey {
        TimerKey { slot, generation: self.entry(slot).sequence as u32 }
    }

    pub(super) fn item(&self, slot: u32) -> Option<&T> {
        self.entry(slot).item.as_ref()
    }

    pub(super) fn set_place(&mut self, slot: u32, place: Place) {
        self.entries[slot as usize].place = place;
    }

    /// Adds `slot` to `bag`; `false`, without effect, if there is no memory.
    #[must_use]
    pub(super) fn put(&mut self, bag: &mut Bag, slot: u32) -> bool {
        bag.put(slot, &mut self.entries[slot as usize])
    }

    /// Sets the position of `slot` in its bag.
    pub(super) fn set_position(&mut self, slot: u32, position: u32) {
        self.entries[slot as usize].position = position;
    }

    /// Removes `slot` from `bag`, which contains it.
    pub(super) fn take(&mut self, bag: &mut Bag, slot: u32) {
        let position = self.entry(slot).position;
        if let Some(moved) = bag.take(position) {
            self.entries[moved as usize].position = position;
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.entries.iter().filter_map(|entry| entry.item.as_ref())
    }

    /// Empties the table and returns all items.
    pub(super) fn clear(&mut self) -> Vec<T> {
        let entries = std::mem::take(&mut self.entries);
        self.live = 0;
        self.release();
        entries.into_iter().filter_map(|entry| entry.item).collect()
    }

    /// Trims free entries from the end, and shrinks the table when three quarters of its memory are unused.
    fn trim(&mut self) {
        for _ in 0..TRIM_STEPS {
            let Some(last) = self.entries.last() else { break };
            let bag = match last.place {
                Place::FreeLow => &mut self.free_low,
                Place::FreeHigh => &mut self.free_high,
                _ => break,
            };
            let position = last.position;
            if let Some(moved) = bag.take(position) {
                self.entries[moved as usize].position = position;
            }
            self.entries.pop();
        }
        let capacity = self.entries.capacity();
        if capacity > KEEP_CAPACITY && self.entries.len() < capacity / 4 {
            self.entries.shrink_to(capacity / 2);
        }
    }

    /// Drops all entries, which are free.
    fn release(&mut self) {
        self.entries.clear();
        self.entries.shrink_to(KEEP_CAPACITY);
        for bag in [&mut self.free_low, &mut self.free_high] {
            bag.0.clear();
            bag.0.shrink_to(KEEP_CAPACITY);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(count: u32) -> (Slab<u32>, Vec<u32>) {
        let mut slab = Slab::new();
        let slots = (0..count).map(|item| slab.insert(Time::NEVER, Place::Parked, item)).collect();
        (slab, slots)
    }

    #[test]
    fn an_emptied_table_keeps_only_a_small_capacity() {
        let (mut slab, slots) = filled(100_000);
        for slot in slots {
            slab.remove(slot);
        }
        assert_eq!(slab.len(), 0);
        assert!(slab.entries.capacity() <= KEEP_CAPACITY);
    }

    #[test]
    fn a_few_scattered_survivors_do_not_pin_the_peak_once_they_are_replaced() {
        let (mut slab, slots) = filled(100_000);
        let (survivors, others): (Vec<u32>, Vec<u32>) = slots.into_iter().partition(|slot| slot % 1000 == 7);
        for slot in others {
            slab.remove(slot);
        }
        let mut residents = std::collections::VecDeque::from(survivors);
        for round in 0..200_000 {
            residents.push_back(slab.insert(Time::NEVER, Place::Parked, round));
            residents.pop_front().and_then(|slot| slab.remove(slot));
        }
        assert_eq!(slab.len(), 100);
        assert!(slab.entries.capacity() <= 4 * KEEP_CAPACITY, "{}", slab.entries.capacity());
    }

    #[test]
    fn a_key_of_a_released_table_stays_stale_when_its_slot_is_used_again() {
        let mut slab = Slab::new();
        let first = slab.insert(Time::ZERO, Place::Parked, 'a');
        let key = slab.key(first);
        assert_eq!(slab.remove(first), Some('a'));
        let second = slab.insert(Time::ZERO, Place::Parked, 'b');
        assert_eq!(first, second);
        assert_eq!(slab.find(key), None);
        assert_eq!(slab.find(slab.key(second)), Some(second));
    }
}
