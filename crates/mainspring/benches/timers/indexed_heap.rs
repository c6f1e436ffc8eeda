//! For comparison: a 4-ary heap in which every entry knows its place, so that cancelling removes it at once.

use mainspring_engine::clock::Time;

use crate::{Item, Queue};

const ARITY: usize = 4;

struct Entry {
    place: usize,
    sequence: u64,
    item: Item,
}

pub struct IndexedHeap {
    heap: Vec<(Time, u64, usize)>,
    entries: slab::Slab<Entry>,
    sequence: u64,
}

impl IndexedHeap {
    fn set(&mut self, place: usize, key: (Time, u64, usize)) {
        self.heap[place] = key;
        self.entries[key.2].place = place;
    }

    fn sift_up(&mut self, mut place: usize, key: (Time, u64, usize)) {
        while place > 0 {
            let parent = (place - 1) / ARITY;
            if self.heap[parent] <= key {
                break;
            }
            self.set(place, self.heap[parent]);
            place = parent;
        }
        self.set(place, key);
    }

    fn sift_down(&mut self, mut place: usize, key: (Time, u64, usize)) {
        loop {
            let first = place * ARITY + 1;
            let children = first..(first + ARITY).min(self.heap.len());
            let Some(least) = children.min_by_key(|&child| self.heap[child]) else { break };
            if key <= self.heap[least] {
                break;
            }
            self.set(place, self.heap[least]);
            place = least;
        }
        self.set(place, key);
    }

    fn remove(&mut self, slot: usize) -> Item {
        let entry = self.entries.remove(slot);
        let last = self.heap.pop().expect("an entry is in the heap");
        if entry.place < self.heap.len() {
            let removed = self.heap[entry.place];
            if last < removed {
                self.sift_up(entry.place, last);
            } else {
                self.sift_down(entry.place, last);
            }
        }
        entry.item
    }
}

impl Queue for IndexedHeap {
    type Key = (usize, u64);

    fn new() -> Self {
        IndexedHeap { heap: Vec::new(), entries: slab::Slab::new(), sequence: 0 }
    }

    fn insert(&mut self, when: Time, item: Item) -> Self::Key {
        let sequence = self.sequence;
        self.sequence += 1;
        let place = self.heap.len();
        let slot = self.entries.insert(Entry { place, sequence, item });
        let key = (when, sequence, slot);
        self.heap.push(key);
        self.sift_up(place, key);
        (slot, sequence)
    }

    fn cancel(&mut self, (slot, sequence): Self::Key) -> Option<Item> {
        self.entries.get(slot).filter(|entry| entry.sequence == sequence)?;
        Some(self.remove(slot))
    }

    fn next_wakeup(&mut self) -> Option<Time> {
        self.heap.first().map(|key| key.0)
    }

    fn pop_due(&mut self, now: Time) -> Option<Item> {
        let &(when, _, slot) = self.heap.first()?;
        (when <= now).then(|| self.remove(slot))
    }
}
