//! The timer queue against a naive model, a sorted list: same items, same order, never early.
#![cfg(not(loom))]

#[macro_use]
extern crate test_support;

use std::time::Duration;

use mainspring_engine::clock::Time;
use mainspring_engine::timers::{TimerKey, TimerQueue};
use proptest::prelude::*;

/// How far ahead of the last `now` the queue knows the earliest deadline exactly: the first level of its wheel.
const EXACT_NANOS: u64 = 64 << 20;
/// The maximum number of wake-ups until a deadline is reached: one for each level of the wheel.
const MAX_WAKEUPS: usize = 8;

/// An operation on the queue.
#[derive(Clone, Debug)]
enum Step {
    /// Inserts a timer that is due this long after now.
    After(u64),
    /// Inserts a timer that was due this long before now.
    Ago(u64),
    /// Inserts a timer with the deadline of an earlier one.
    Again(prop::sample::Index),
    /// Inserts a timer that is never due.
    Never,
    /// Inserts a timer at the last nanosecond before never.
    LastMoment,
    /// Cancels a timer, which may have fired already.
    Cancel(prop::sample::Index),
    /// Asks for the next wake-up.
    Look,
    /// Advances time and pops at most this many due timers.
    Advance(u64, usize),
    /// Advances time and pops all due timers.
    AdvanceAll(u64),
    /// Advances to the next wake-up and pops the due timers.
    Follow,
    /// Removes all timers.
    Clear,
}

/// Durations of every magnitude, all equally likely.
fn span() -> impl Strategy<Value = u64> {
    (0u32..63, any::<u64>()).prop_map(|(bits, random)| random & ((1 << bits) - 1))
}

/// Durations that are common in programs: up to a minute.
fn common_span() -> impl Strategy<Value = u64> {
    prop_oneof![0..2_000_000u64, 0..100_000_000u64, 0..60_000_000_000u64]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => common_span().prop_map(Step::After),
        4 => span().prop_map(Step::After),
        2 => span().prop_map(Step::Ago),
        4 => any::<prop::sample::Index>().prop_map(Step::Again),
        1 => Just(Step::Never),
        1 => Just(Step::LastMoment),
        8 => any::<prop::sample::Index>().prop_map(Step::Cancel),
        6 => Just(Step::Look),
        4 => (common_span(), 0..4usize).prop_map(|(by, most)| Step::Advance(by, most)),
        3 => common_span().prop_map(Step::AdvanceAll),
        1 => (0u32..50, any::<u64>()).prop_map(|(bits, by)| Step::AdvanceAll(by & ((1 << bits) - 1))),
        6 => Just(Step::Follow),
        1 => (0..20u8).prop_map(|luck| if luck == 0 { Step::Clear } else { Step::Look }),
    ]
}

/// The queue and the model. An item is the number of its insertion.
struct Pair {
    now: Time,
    queue: TimerQueue<usize>,
    /// Sorted by deadline; equal deadlines in order of insertion.
    model: Vec<(Time, usize)>,
    inserted: Vec<(Time, TimerKey)>,
}

impl Pair {
    fn new(now: u64) -> Self {
        Pair { now: Time::from_nanos(now), queue: TimerQueue::new(), model: Vec::new(), inserted: Vec::new() }
    }

    fn insert(&mut self, when: Time) {
        let item = self.inserted.len();
        let key = self.queue.insert(when, item);
        assert_eq!(TimerKey::from_bits(key.to_bits()), key);
        let place = self.model.partition_point(|&(other, _)| other <= when);
        self.model.insert(place, (when, item));
        self.inserted.push((when, key));
    }

    fn cancel(&mut self, item: usize) {
        let key = self.inserted[item].1;
        let place = self.model.iter().position(|&(_, other)| other == item);
        let expected = place.map(|place| self.model.remove(place).1);
        assert_eq!(self.queue.get(key).copied(), expected);
        assert_eq!(self.queue.cancel(key), expected);
        assert_eq!(self.queue.get(key), None);
        assert_eq!(self.queue.cancel(key), None);
    }

    /// The earliest deadline that is not "never".
    fn earliest(&self) -> Option<Time> {
        self.model.first().map(|&(when, _)| when).filter(|&when| when != Time::NEVER)
    }

    fn look(&mut self, queue_time: Time) -> Option<Time> {
        let wakeup = self.queue.next_wakeup();
        let earliest = self.earliest();
        assert_eq!(wakeup.is_some(), earliest.is_some());
        if let (Some(wakeup), Some(earliest)) = (wakeup, earliest) {
            assert!(wakeup <= earliest, "{wakeup:?} is later than {earliest:?}");
            if earliest.saturating_duration_since(queue_time) < Duration::from_nanos(EXACT_NANOS - (1 << 20))
            {
                assert_eq!(wakeup, earliest);
            }
        }
        wakeup
    }

    /// Pops due timers; returns their number.
    fn pop(&mut self, most: usize) -> usize {
        for count in 0..most {
            let due = self.model.first().is_some_and(|&(when, _)| when <= self.now && when != Time::NEVER);
            let expected = due.then(|| self.model.remove(0).1);
            assert_eq!(self.queue.pop_due(self.now), expected);
            if expected.is_none() {
                return count;
            }
        }
        most
    }

    fn advance(&mut self, by: u64) {
        self.now = self.now.saturating_add(Duration::from_nanos(by));
    }

    /// Advances to `next_wakeup` until a timer is due.
    fn follow(&mut self) {
        for look in 0.. {
            let Some(wakeup) = self.look(self.now) else { return };
            assert!(look <= MAX_WAKEUPS, "too many wake-ups for one deadline");
            self.now = self.now.max(wakeup);
            if self.pop(usize::MAX) > 0 {
                return;
            }
        }
    }

    fn check_contents(&self) {
        assert_eq!(self.queue.len(), self.model.len());
        assert_eq!(self.queue.is_empty(), self.model.is_empty());
        let mut held: Vec<usize> = self.queue.iter().copied().collect();
        let mut expected: Vec<usize> = self.model.iter().map(|&(_, item)| item).collect();
        held.sort_unstable();
        expected.sort_unstable();
        assert_eq!(held, expected);
    }

    fn clear(&mut self) {
        let mut held = self.queue.clear();
        let mut expected: Vec<usize> = self.model.drain(..).map(|(_, item)| item).collect();
        held.sort_unstable();
        expected.sort_unstable();
        assert_eq!(held, expected);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_queue_behaves_like_the_model(
        start in prop_oneof![Just(0), span()],
        steps in prop::collection::vec(step(), 1..160),
    ) {
        let mut pair = Pair::new(start);
        // The time of the queue's last update.
        let mut queue_time = Time::ZERO;
        for step in steps {
            match step {
                Step::After(by) => pair.insert(pair.now.saturating_add(Duration::from_nanos(by))),
                Step::Ago(by) => pair.insert(Time::from_nanos(pair.now.as_nanos().saturating_sub(by))),
                Step::Again(index) if !pair.inserted.is_empty() => {
                    pair.insert(index.get(&pair.inserted).0);
                }
                Step::Cancel(index) if !pair.inserted.is_empty() => {
                    pair.cancel(index.index(pair.inserted.len()));
                }
                Step::Again(_) | Step::Cancel(_) => {}
                Step::Never => pair.insert(Time::NEVER),
                Step::LastMoment => pair.insert(Time::from_nanos(u64::MAX - 1)),
                Step::Look => {
                    pair.look(queue_time);
                }
                Step::Advance(by, most) => {
                    pair.advance(by);
                    if most > 0 {
                        queue_time = pair.now;
                    }
                    pair.pop(most);
                }
                Step::AdvanceAll(by) => {
                    pair.advance(by);
                    queue_time = pair.now;
                    pair.pop(usize::MAX);
                }
                Step::Follow => {
                    queue_time = pair.now;
                    if pair.pop(usize::MAX) == 0 {
                        pair.follow();
                        queue_time = pair.now;
                    }
                }
                Step::Clear => pair.clear(),
            }
            pair.check_contents();
        }
        pair.pop(usize::MAX);
        while pair.earliest().is_some() {
            pair.follow();
        }
        prop_assert!(pair.model.iter().all(|&(when, _)| when == Time::NEVER));
        pair.check_contents();
    }

    #[test]
    fn close_deadlines_fire_in_order_despite_cancellations(
        delays in prop::collection::vec(0..5_000_000_000u64, 200..600),
        cancelled in prop::collection::vec(any::<prop::sample::Index>(), 0..400),
        strides in prop::collection::vec(1..300_000_000u64, 1..10),
    ) {
        let mut pair = Pair::new(0);
        pair.pop(1);
        for delay in delays {
            pair.insert(Time::from_nanos(delay / 1_000_000 * 700_000));
        }
        pair.look(Time::ZERO);
        for index in cancelled {
            pair.cancel(index.index(pair.inserted.len()));
        }
        for stride in strides.into_iter().cycle() {
            if pair.model.is_empty() {
                break;
            }
            pair.advance(stride);
            pair.pop(usize::MAX);
            pair.look(pair.now);
        }
        pair.check_contents();
    }
}

#[test]
fn a_single_far_timer_causes_no_early_wakeup() {
    let mut queue = TimerQueue::new();
    assert_eq!(queue.pop_due(Time::from_nanos(123_456_789)), None);
    let when = Time::from_nanos(40 * 365 * 86_400 * 1_000_000_000);
    queue.insert(when, "retirement");
    assert_eq!(queue.next_wakeup(), Some(when));
    assert_eq!(queue.pop_due(Time::from_nanos(when.as_nanos() - 1)), None);
    assert_eq!(queue.pop_due(when), Some("retirement"));
    assert_eq!(queue.next_wakeup(), None);
}

#[test]
fn a_timer_that_is_never_due_causes_no_wakeup_and_can_be_cancelled() {
    let mut queue = TimerQueue::new();
    let key = queue.insert(Time::NEVER, "godot");
    assert_eq!(queue.next_wakeup(), None);
    assert_eq!(queue.pop_due(Time::NEVER), None);
    assert_eq!(queue.cancel(key), Some("godot"));
    assert!(queue.is_empty());
}

#[test]
fn a_stale_key_does_not_match_another_timer() {
    let mut queue = TimerQueue::new();
    let fired = queue.insert(Time::ZERO, 1);
    assert_eq!(queue.pop_due(Time::ZERO), Some(1));
    let next = queue.insert(Time::ZERO, 2);
    assert_eq!(queue.cancel(fired), None);
    assert_eq!(queue.cancel(TimerKey::from_bits(u64::MAX)), None);
    assert_eq!(queue.clear(), [2]);
    assert_eq!(queue.cancel(next), None);
}

#[test]
fn many_near_timers_can_be_cancelled_from_either_end() {
    let mut queue = TimerQueue::new();
    assert_eq!(queue.pop_due(Time::from_nanos(1 << 40)), None);
    let keys: Vec<_> = (0..10_000).map(|nanos| queue.insert(Time::from_nanos(nanos), nanos)).collect();
    for key in keys[..4_000].iter().chain(keys[4_003..].iter().rev()) {
        assert!(queue.cancel(*key).is_some());
    }
    assert_eq!(queue.next_wakeup(), Some(Time::from_nanos(4_000)));
    let rest: Vec<_> = std::iter::from_fn(|| queue.pop_due(Time::from_nanos(1 << 40))).collect();
    assert_eq!(rest, [4_000, 4_001, 4_002]);
}

#[test]
fn many_far_timers_cause_few_early_wakeups_and_no_late_one() {
    let mut pair = Pair::new(1_000_000_007);
    pair.pop(1);
    // The first nanosecond of a wheel bucket, where an off-by-one bound would be late.
    let when = Time::from_nanos(1 << 46);
    for _ in 0..100 {
        pair.insert(when);
    }
    pair.follow();
    assert_eq!(pair.now, when);
    assert!(pair.model.is_empty());
}
