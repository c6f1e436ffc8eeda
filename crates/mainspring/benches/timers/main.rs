//! The deadline queue beside two other ways to build one, on what programs do with timers.
//!
//! `cargo bench -p mainspring --bench timers`; the results that decided are in `docs/timers.md`.

mod indexed_heap;
mod lazy_heap;

use std::collections::VecDeque;
use std::num::NonZeroU64;
use std::time::Duration;

use divan::Bencher;
use divan::counter::ItemsCount;
use indexed_heap::IndexedHeap;
use lazy_heap::LazyHeap;
use mainspring_engine::clock::Time;
use mainspring_engine::timers::{TimerKey, TimerQueue};

/// The size of a pointer and never zero, like what the loop holds.
type Item = NonZeroU64;

type Wheel = TimerQueue<Item>;

/// What the candidates have in common.
trait Queue {
    type Key: Copy;

    fn new() -> Self;
    fn insert(&mut self, when: Time, item: Item) -> Self::Key;
    fn cancel(&mut self, key: Self::Key) -> Option<Item>;
    fn next_wakeup(&mut self) -> Option<Time>;
    fn pop_due(&mut self, now: Time) -> Option<Item>;
}

impl Queue for Wheel {
    type Key = TimerKey;

    fn new() -> Self {
        TimerQueue::new()
    }

    fn insert(&mut self, when: Time, item: Item) -> TimerKey {
        TimerQueue::insert(self, when, item)
    }

    fn cancel(&mut self, key: TimerKey) -> Option<Item> {
        TimerQueue::cancel(self, key)
    }

    fn next_wakeup(&mut self) -> Option<Time> {
        TimerQueue::next_wakeup(self)
    }

    fn pop_due(&mut self, now: Time) -> Option<Item> {
        TimerQueue::pop_due(self, now)
    }
}

/// A boot some hours ago.
const START: Time = Time::from_nanos(12_345_678_901_234);
const SECOND: u64 = 1_000_000_000;

/// Fixed-seed pseudo-random numbers (xorshift), so that every candidate sees the same load.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((u128::from(self.0) * u128::from(limit)) >> 64) as u64
    }
}

fn after(now: Time, nanos: u64) -> Time {
    now.saturating_add(Duration::from_nanos(nanos))
}

fn fresh<Q: Queue>() -> Q {
    let mut queue = Q::new();
    queue.pop_due(START);
    queue
}

/// Restart a random one of the resident timers, with delays up to a minute.
#[divan::bench(types = [Wheel, LazyHeap, IndexedHeap], args = [1_000, 100_000, 1_000_000], sample_count = 400, sample_size = 10_000)]
fn cancel_and_insert<Q: Queue>(bencher: Bencher, resident: usize) {
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    let mut queue: Q = fresh();
    let mut keys: Vec<Q::Key> =
        (0..resident).map(|_| queue.insert(after(START, random.below(60 * SECOND)), Item::MIN)).collect();
    bencher.bench_local(|| {
        let chosen = random.below(resident as u64) as usize;
        let item = queue.cancel(keys[chosen]).unwrap_or(Item::MIN);
        keys[chosen] = queue.insert(after(START, random.below(60 * SECOND)), item);
    });
}

/// Insert random deadlines within a minute, then let them all come, a millisecond to a pass.
#[divan::bench(types = [Wheel, LazyHeap, IndexedHeap], args = [100_000, 1_000_000], sample_count = 8, sample_size = 1)]
fn insert_and_fire<Q: Queue>(bencher: Bencher, count: u64) {
    bencher.counter(ItemsCount::new(count)).bench_local(|| {
        let mut random = Random(0x9E37_79B9_7F4A_7C15);
        let mut queue: Q = fresh();
        for _ in 0..count {
            queue.insert(after(START, random.below(60 * SECOND)), Item::MIN);
        }
        let mut now = START;
        let mut fired = 0;
        while let Some(wakeup) = queue.next_wakeup() {
            now = wakeup.max(after(now, 1_000_000));
            while let Some(item) = queue.pop_due(now) {
                fired += item.get();
            }
        }
        assert_eq!(fired, count);
    });
}

/// A busy server: every request sets a timeout of 30 to 60 s and takes it back when it is answered, a
/// thousand (or ten thousand) requests later; a pass of the loop for every 16 requests.
#[divan::bench(types = [Wheel, LazyHeap, IndexedHeap], args = [1_000, 10_000], sample_count = 50, sample_size = 10_000)]
fn set_and_cancel_timeouts<Q: Queue>(bencher: Bencher, under_way: usize) {
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    let mut queue: Q = fresh();
    let mut now = START;
    let mut requests = 0u64;
    let mut keys = VecDeque::with_capacity(under_way + 1);
    bencher.bench_local(|| {
        requests += 1;
        now = after(now, 10_000);
        keys.push_back(queue.insert(after(now, 30 * SECOND + random.below(30 * SECOND)), Item::MIN));
        if keys.len() > under_way {
            keys.pop_front().and_then(|key| queue.cancel(key));
        }
        if requests.is_multiple_of(16) {
            divan::black_box(queue.next_wakeup());
            divan::black_box(queue.pop_due(now));
        }
    });
}

/// Sleeps of up to 20 ms on an otherwise idle loop: set one, wait for it, set the next.
#[divan::bench(types = [Wheel, LazyHeap, IndexedHeap], sample_count = 50, sample_size = 10_000)]
fn one_short_sleep_after_another<Q: Queue>(bencher: Bencher) {
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    let mut queue: Q = fresh();
    let mut now = START;
    bencher.bench_local(|| {
        queue.insert(after(now, random.below(20_000_000)), Item::MIN);
        while let Some(wakeup) = queue.next_wakeup() {
            now = now.max(wakeup);
            while queue.pop_due(now).is_some() {}
        }
    });
}

fn main() {
    divan::main();
}
