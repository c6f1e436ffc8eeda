//! For comparison: asyncio's own way, a binary heap in which cancelled timers stay until they come to the top
//! or are more than half of it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use mainspring_engine::clock::Time;

use crate::{Item, Queue};

pub struct LazyHeap {
    heap: BinaryHeap<Reverse<(Time, u64, usize)>>,
    items: slab::Slab<(u64, Item)>,
    sequence: u64,
}

impl Queue for LazyHeap {
    type Key = (usize, u64);

    fn new() -> Self {
        LazyHeap { heap: BinaryHeap::new(), items: slab::Slab::new(), sequence: 0 }
    }

    fn insert(&mut self, when: Time, item: Item) -> Self::Key {
        let sequence = self.sequence;
        self.sequence += 1;
        let slot = self.items.insert((sequence, item));
        self.heap.push(Reverse((when, sequence, slot)));
        (slot, sequence)
    }

    fn cancel(&mut self, (slot, sequence): Self::Key) -> Option<Item> {
        self.items.get(slot).filter(|entry| entry.0 == sequence)?;
        let (_, item) = self.items.remove(slot);
        if self.heap.len() > 100 && self.heap.len() > 2 * self.items.len() {
            let items = &self.items;
            self.heap.retain(|Reverse((_, sequence, slot))| {
                items.get(*slot).is_some_and(|entry| entry.0 == *sequence)
            });
        }
        Some(item)
    }

    fn next_wakeup(&mut self) -> Option<Time> {
        while let Some(&Reverse((when, sequence, slot))) = self.heap.peek() {
            if self.items.get(slot).is_some_and(|entry| entry.0 == sequence) {
                return Some(when);
            }
            self.heap.pop();
        }
        None
    }

    fn pop_due(&mut self, now: Time) -> Option<Item> {
        if self.next_wakeup()? > now {
            return None;
        }
        let Reverse((_, _, slot)) = self.heap.pop()?;
        Some(self.items.remove(slot).1)
    }
}
