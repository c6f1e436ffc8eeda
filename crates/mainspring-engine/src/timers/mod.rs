//! The timer queue: hierarchical wheel plus exact heap.
//!
//! # Structure
//!
//! Entries live in a slab. Near deadlines are also in a small exact heap keyed `(when, sequence)`, far ones in a
//! hierarchical wheel. As time passes, the wheel feeds the heap, one millisecond at a time. Most timers of a network
//! program are timeouts that are cancelled long before they are due: these enter and leave a bucket and are never
//! sorted.
//!
//! # Rules
//!
//! - Timers fire in the order of `(when, insertion)`, never before `when`.
//! - A deadline whose tick is before the wheel's cursor is in the heap, any other in the wheel, and one at
//!   [`Time::NEVER`] in neither. The head of a non-empty heap is therefore the earliest deadline of all.
//! - The cursor is at most one wheel level (67 ms) ahead of the last `now` passed to the queue: further ahead, every
//!   new deadline would land in the heap.
//! - The queue runs no user code and drops items only with itself: removed items are returned, so that a destructor
//!   may call the queue again.
//!
//! `docs/timers.md` has the measurements.
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

/// A far bucket with at most this many entries is searched for its exact earliest deadline.
const MAX_SEARCHED_ENTRIES: usize = 8;

/// Identifies one timer while it is in the queue; stale afterwards.
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

    /// The key that [`TimerKey::to_bits`] packed. Any other number is a key too, most likely a stale one.
    pub const fn from_bits(bits: u64) -> Self {
        TimerKey { slot: bits as u32, generation: (bits >> 32) as u32 }
    }
}

/// Items with deadlines.
#[derive(Debug)]
pub struct TimerQueue<T> {
    slab: Slab<T>,
    heap: ExactHeap,
    wheel: Wheel,
    /// The tick of the latest `now`.
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

    /// The number of timers.
    pub fn len(&self) -> usize {
        self.slab.len()
    }

    /// Whether the queue is empty.
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

    /// As [`TimerQueue::insert`]; returns the item if there is no memory for it.
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
            // On failure the timer goes to a bucket like any other.
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

    /// Removes a timer and returns its item; `None` if it has fired or was cancelled.
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

    /// The time of the next [`TimerQueue::pop_due`]; `None` if no timer will be due.
    ///
    /// It is the earliest deadline if that is within 67 ms of the last `now` of [`TimerQueue::pop_due`], or if it has
    /// few others around it. Otherwise it is early, and becomes exact after one wake-up per wheel level in between:
    /// two for a minute, seven for centuries.
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
                // No memory to sort the bucket: try again at its start.
                return Some(start_of(first.start));
            }
            let slots = self.wheel.slots(first);
            if slots.len() > MAX_SEARCHED_ENTRIES {
                return Some(start_of(first.start));
            }
            return slots.iter().map(|&slot| self.slab.entry(slot).when).min();
        }
    }

    /// Removes and returns the next timer that is due at `now`. Call it until it returns `None`.
    pub fn pop_due(&mut self, now: Time) -> Option<T> {
        self.pop_due_at(now).map(|(_, item)| item)
    }

    /// As [`TimerQueue::pop_due`], with the deadline.
    pub fn pop_due_at(&mut self, now: Time) -> Option<(Time, T)> {
        let now_tick = tick_of(now);
        self.now_tick = self.now_tick.max(now_tick);
        loop {
            if let Some(due) = self.heap.peek(&self.slab) {
                if due.when > now {
                    return None;
                }
                self.heap.pop();
                return Some((due.when, self.slab.remove(due.slot)?));
            }
            match self.wheel.first() {
                Some(first) if first.start <= now_tick => {
                    if !self.wheel.open(first, &mut self.slab, &mut self.heap) {
                        // No memory to sort the bucket: its timers stay due.
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

    /// Removes and returns all timers, in no order.
    #[must_use = "dropping an item may run user code: do it outside of the borrow"]
    pub fn clear(&mut self) -> Vec<T> {
        self.heap.clear();
        self.wheel.clear();
        self.slab.clear()
    }

    /// All items in the queue, in no order.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.slab.iter()
    }

    /// Whether a deadline in `tick` may skip the wheel: it is near, and earlier than all others there.
    fn is_next_and_near(&self, tick: u64) -> bool {
        self.wheel.cursor() <= tick
            && tick < self.now_tick + FIRST_LEVEL_TICKS
            && self.wheel.first().is_none_or(|first| tick < first.start)
    }
}
