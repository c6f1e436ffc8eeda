//! The deadline queue: when each delayed call is due, and which are due now.
//!
//! # The shape
//!
//! Entries live in a slab. Near deadlines are also in a small exact heap keyed `(when, sequence)`, far ones in
//! a hierarchical wheel, and as time passes the wheel feeds the heap, a millisecond's worth at a time. Most
//! timers of a network program are timeouts that are cancelled long before they are due: those are put into a
//! bucket and taken out again, without ever being sorted.
//!
//! # Rules
//!
//! - Timers come out in the order of `(when, insertion)`, never before `when`.
//! - A deadline whose tick is before the wheel's cursor is in the heap, any other in the wheel, and one at
//!   [`Time::NEVER`] in neither: it is kept until it is cancelled. So the head of a heap that is not empty is
//!   the earliest deadline of all.
//! - The cursor is at most one wheel level (67 ms) ahead of the last `now` the queue was told: were it to run
//!   further, every new deadline would land in the heap.
//! - Nothing here calls out, and no item is dropped inside, but with the queue itself: what is taken out is
//!   returned, so that a destructor may call the queue again.
//!
//! What this was measured against is in `docs/timers.md`.
//!
//! ```
//! use mainspring_engine::clock::Time;
//! use mainspring_engine::timers::TimerQueue;
//!
//! let mut timers = TimerQueue::new();
//! let late = timers.insert(Time::from_nanos(2_000), "late");
//! timers.insert(Time::from_nanos(1_000), "soon");
//! timers.insert(Time::from_nanos(1_000), "and right after it");
//! assert_eq!(timers.next_wakeup(), Some(Time::from_nanos(1_000)));
//! assert_eq!(timers.pop_due(Time::from_nanos(999)), None, "never early");
//!
//! assert_eq!(timers.get(late), Some(&"late"));
//! assert_eq!(timers.cancel(late), Some("late"));
//! assert_eq!(timers.cancel(late), None);
//!
//! let now = Time::from_nanos(5_000);
//! assert_eq!(timers.pop_due(now), Some("soon"));
//! assert_eq!(timers.pop_due(now), Some("and right after it"));
//! assert_eq!(timers.pop_due(now), None);
//! ```

mod heap;
mod slab;
mod wheel;

use crate::clock::Time;
use heap::{Due, ExactHeap};
use slab::{Place, Slab};
use std::alloc::{Layout, handle_alloc_error};
use wheel::{FIRST_LEVEL_TICKS, Wheel, start_of, tick_of};

/// A far bucket with no more entries than this is searched for its exact earliest deadline.
const MAX_SEARCHED_ENTRIES: usize = 8;

/// Names one timer, for as long as it is in the queue; afterwards it names nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TimerKey {
    slot: u32,
    generation: u32,
}

impl TimerKey {
    /// The key as one number.
    pub const fn to_bits(self) -> u64 {
        (self.generation as u64) << 32 | self.slot as u64
    }

    /// The key that [`TimerKey::to_bits`] packed. Any other number is a key as well, and most likely stale.
    pub const fn from_bits(bits: u64) -> Self {
        TimerKey { slot: bits as u32, generation: (bits >> 32) as u32 }
    }
}

/// Items with deadlines, handed out when they are due.
#[derive(Debug)]
pub struct TimerQueue<T> {
    slab: Slab<T>,
    heap: ExactHeap,
    wheel: Wheel,
    /// The latest tick the queue was told as `now`.
    now_tick: u64,
}

impl<T> Default for TimerQueue<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> TimerQueue<T> {
    /// An empty queue.
    pub fn new() -> Self {
        TimerQueue { slab: Slab::new(), heap: ExactHeap::default(), wheel: Wheel::new(), now_tick: 0 }
    }

    /// How many timers are in the queue.
    pub fn len(&self) -> usize {
        self.slab.len()
    }

    /// Whether there is no timer in the queue.
    pub fn is_empty(&self) -> bool {
        self.slab.len() == 0
    }

    /// Adds `item`, due at `when`, which may be in the past. At [`Time::NEVER`] it is never due.
    pub fn insert(&mut self, when: Time, item: T) -> TimerKey {
        match self.try_insert(when, item) {
            Ok(key) => key,
            Err(_) => handle_alloc_error(Layout::new::<T>()),
        }
    }

    /// As [`TimerQueue::insert`]; gives the item back if there is no memory for it.
    pub fn try_insert(&mut self, when: Time, item: T) -> Result<TimerKey, T> {
        if !self.slab.try_reserve_one() {
            return Err(item);
        }
        if when == Time::NEVER {
            let slot = self.slab.insert(when, Place::Parked, item);
            return Ok(self.slab.key(slot));
        }
        let tick = tick_of(when);
        if self.is_next_and_near(tick) {
            // Where that fails, it goes to a bucket like any other.
            self.wheel.advance(tick + 1, &mut self.slab);
        }
        let slot = if tick < self.wheel.cursor() {
            if !self.heap.try_reserve(1) {
                return Err(item);
            }
            let slot = self.slab.insert(when, Place::Heap, item);
            self.heap.push(Due { when, sequence: self.slab.entry(slot).sequence, slot });
            slot
        } else {
            let bucket = self.wheel.bucket_for(tick);
            if !self.wheel.try_reserve_one(bucket) {
                return Err(item);
            }
            let slot = self.slab.insert(when, Place::Bucket(bucket), item);
            let is_put = self.wheel.put(&mut self.slab, bucket, slot);
            debug_assert!(is_put, "room was made for it");
            slot
        };
        Ok(self.slab.key(slot))
    }

    /// Takes a timer out before it is due; `None` if it is no longer there.
    pub fn cancel(&mut self, key: TimerKey) -> Option<T> {
        let slot = self.slab.find(key)?;
        match self.slab.entry(slot).place {
            Place::Bucket(bucket) => {
                self.wheel.take(&mut self.slab, bucket, slot);
                self.slab.remove(slot)
            }
            Place::Heap => {
                let item = self.slab.remove(slot);
                self.heap.forget_one(&self.slab);
                item
            }
            Place::Parked => self.slab.remove(slot),
            Place::FreeLow | Place::FreeHigh | Place::Lost => None,
        }
    }

    /// The item under `key`, if it is still there.
    pub fn get(&self, key: TimerKey) -> Option<&T> {
        self.slab.item(self.slab.find(key)?)
    }

    /// When the loop has to look again at the latest; `None` if nothing will ever be due.
    ///
    /// This is the earliest deadline if that is near: due within 67 ms of the last `now` that
    /// [`TimerQueue::pop_due`] was given. It is also exact for a far deadline with few others around it.
    /// Otherwise it is early, and exact after a few looks: one for each level of the wheel between, two for a
    /// minute, seven for centuries.
    pub fn next_wakeup(&mut self) -> Option<Time> {
        loop {
            if let Some(due) = self.heap.peek(&self.slab) {
                return Some(due.when);
            }
            let first = self.wheel.first()?;
            if first.start < self.now_tick + FIRST_LEVEL_TICKS {
                if self.wheel.open(first, &mut self.slab, &mut self.heap) {
                    continue;
                }
                // No memory: to be tried again then.
                return Some(start_of(first.start));
            }
            let slots = self.wheel.slots(first);
            if slots.len() > MAX_SEARCHED_ENTRIES {
                return Some(start_of(first.start));
            }
            return slots.iter().map(|&slot| self.slab.entry(slot).when).min();
        }
    }

    /// Takes out the next timer that is due at `now`; called until it answers `None`.
    pub fn pop_due(&mut self, now: Time) -> Option<T> {
        let now_tick = tick_of(now);
        self.now_tick = self.now_tick.max(now_tick);
        loop {
            if let Some(due) = self.heap.peek(&self.slab) {
                if due.when > now {
                    return None;
                }
                self.heap.pop();
                return self.slab.remove(due.slot);
            }
            match self.wheel.first() {
                Some(first) if first.start <= now_tick => {
                    if !self.wheel.open(first, &mut self.slab, &mut self.heap) {
                        // No memory. They are due the next time too.
                        return None;
                    }
                }
                _ => {
                    self.wheel.advance(now_tick + 1, &mut self.slab);
                    return None;
                }
            }
        }
    }

    /// Takes out all timers, due or not, in no order.
    #[must_use = "the items are to be dropped where no borrow of the queue is held"]
    pub fn clear(&mut self) -> Vec<T> {
        self.heap.clear();
        self.wheel.clear();
        self.slab.clear()
    }

    /// All items in the queue, in no order.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.slab.iter()
    }

    /// Whether a deadline in `tick` belongs in the wheel but may skip it: it would be taken out next, and soon.
    fn is_next_and_near(&self, tick: u64) -> bool {
        self.wheel.cursor() <= tick
            && tick < self.now_tick + FIRST_LEVEL_TICKS
            && self.wheel.first().is_none_or(|first| tick < first.start)
    }
}
