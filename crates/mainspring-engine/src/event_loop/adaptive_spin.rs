//! Adaptive spinning: if recent sleeps were short, poll for a few microseconds before blocking.
//!
//! A sleep and the wake-up that ends it cost several microseconds in the kernel, more on a virtual machine. If the
//! last sleep was shorter than [`MAX_SHORT_SLEEP`], the next event probably arrives as soon, and a loop that spins
//! meanwhile receives it without that cost. A thread that sends to a spinning loop also saves the system call that
//! would wake it. TCP echo with one connection justifies this: spinning about doubles the rate, in Rust (`bench/peers`,
//! `echo-1`) and in Python (row `B.tcp.protocol.1k.c1`), where it halves the CPU time per message.
//!
//! The loop spins on the inbox (calls from other threads) and on I/O. Each has its own [`SpinPredictor`]. These rules
//! bound the cost:
//!
//! - The loop spins only after a short sleep that the same source ended. After a spin that found nothing it takes two
//!   such sleeps until the next spin, then four, up to [`MAX_PENALTY_SLEEPS`]. A spin that found something resets the
//!   penalty.
//! - A spin lasts about as long as a sleep and a wake-up cost, and ends at the next deadline.
//! - A host that holds a lock while the loop is awake does not spin on the inbox ([`Host::MAY_SPIN_ON_INBOX`]): other
//!   threads need the lock to send. It spins on I/O, as part of [`Host::blocking`], in which it has released the lock.
//! - A loop with a virtual clock never spins.

use super::{Engine, Host};
use crate::clock::Time;
use crate::poller::{Event, Parker};
use std::cell::Cell;
use std::io;
use std::time::{Duration, Instant};

/// A sleep below this limit counts as short: a small multiple of the cost of a sleep and a wake-up.
const MAX_SHORT_SLEEP: Duration = Duration::from_micros(100);
/// The longest spin on the inbox.
const MAX_INBOX_SPIN: Duration = Duration::from_micros(5);
/// The longest spin on I/O: about the cost of a sleep that ends at once.
const MAX_IO_SPIN: Duration = Duration::from_micros(20);
/// The most short sleeps between two spins that found nothing.
const MAX_PENALTY_SLEEPS: u32 = 64;
/// Processor pauses between two polls of a spin on I/O: about the duration of one poll. Polling without a pause slows
/// down the code in the kernel that delivers the event.
const PAUSES_BETWEEN_POLLS: u32 = 24;
/// How often the inbox is checked between two reads of the clock.
const INBOX_CHECKS_PER_CLOCK_READ: u32 = 32;

/// Which events ended the last sleep, and whether to spin before the next one.
#[derive(Default)]
pub(super) struct AdaptiveSpin {
    inbox: SpinPredictor,
    io: SpinPredictor,
    has_wakeup: Cell<bool>,
    has_io: Cell<bool>,
}

/// Predicts whether a spin on one source will find an event.
struct SpinPredictor {
    /// Short sleeps until the next spin.
    sleeps_until_spin: Cell<u32>,
    /// Short sleeps required after the last miss.
    penalty_sleeps: Cell<u32>,
}

impl Default for SpinPredictor {
    fn default() -> Self {
        SpinPredictor { sleeps_until_spin: Cell::new(1), penalty_sleeps: Cell::new(1) }
    }
}

impl SpinPredictor {
    fn should_spin(&self) -> bool {
        self.sleeps_until_spin.get() == 0
    }

    /// Records a sleep. `is_short`: it was short, and an event of this source ended it.
    fn record_sleep(&self, is_short: bool) {
        if is_short {
            self.sleeps_until_spin.set(self.sleeps_until_spin.get().saturating_sub(1));
        } else {
            self.sleeps_until_spin.set(self.sleeps_until_spin.get().max(1));
        }
    }

    /// Records a spin that found an event.
    fn record_hit(&self) {
        self.penalty_sleeps.set(1);
    }

    /// Records a spin that found nothing.
    fn record_miss(&self) {
        let penalty = (self.penalty_sleeps.get() * 2).min(MAX_PENALTY_SLEEPS);
        self.penalty_sleeps.set(penalty);
        self.sleeps_until_spin.set(penalty);
    }
}

impl AdaptiveSpin {
    /// Records a wake-up by another thread.
    pub(super) fn record_wakeup(&self) {
        self.has_wakeup.set(true);
    }

    /// Records an I/O event.
    pub(super) fn record_io(&self) {
        self.has_io.set(true);
    }

    /// Begins a sleep. Discards events recorded before it: they do not end it.
    pub(super) fn begin_sleep(&self) {
        self.has_wakeup.set(false);
        self.has_io.set(false);
    }

    /// Ends a sleep that lasted from `begin` to `end`.
    pub(super) fn end_sleep(&self, begin: Time, end: Time) {
        let was_short = end.saturating_duration_since(begin) < MAX_SHORT_SLEEP;
        self.inbox.record_sleep(self.has_wakeup.take() && was_short);
        self.io.record_sleep(self.has_io.take() && was_short);
    }
}

impl<H: Host> Engine<H> {
    /// Spins on the inbox before a sleep from `now` until `deadline`. Returns whether the inbox has items, and the
    /// current time.
    pub(super) fn spin_on_inbox(&self, mut now: Time, deadline: Option<Time>) -> (bool, Time) {
        let predictor = &self.spin.inbox;
        if !H::MAY_SPIN_ON_INBOX || !predictor.should_spin() || self.clock.is_virtual() {
            return (false, now);
        }
        let longest = now.saturating_add(MAX_INBOX_SPIN);
        let end = deadline.map_or(longest, |deadline| longest.min(deadline));
        while now < end {
            for _ in 0..INBOX_CHECKS_PER_CLOCK_READ {
                if self.inbox.has_pending() {
                    predictor.record_hit();
                    return (true, now);
                }
                std::hint::spin_loop();
            }
            now = self.clock.now();
        }
        predictor.record_miss();
        (false, now)
    }

    /// How long to spin on I/O before a sleep of `timeout`; `None` for not at all.
    pub(super) fn io_spin_limit(&self, timeout: Option<Duration>) -> Option<Duration> {
        let should_spin = self.spin.io.should_spin() && !self.clock.is_virtual();
        should_spin.then(|| timeout.map_or(MAX_IO_SPIN, |timeout| timeout.min(MAX_IO_SPIN)))
    }

    /// Records the outcome of a spin on I/O.
    pub(super) fn record_io_spin(&self, found: bool) {
        if found { self.spin.io.record_hit() } else { self.spin.io.record_miss() }
    }
}

/// Polls for up to `spin`, then blocks until an event or until `timeout` since the start of the spin. Returns whether an
/// event ended the spin.
pub(super) fn spin_and_park(
    parker: &mut dyn Parker,
    spin: Duration,
    timeout: Option<Duration>,
    max_events: usize,
    events: &mut Vec<Event>,
) -> io::Result<bool> {
    // Not the loop's clock: the program may have supplied it, and the host may have released the lock that guards it.
    let began = Instant::now();
    loop {
        parker.park(Some(Duration::ZERO), max_events, events)?;
        if !events.is_empty() {
            return Ok(true);
        }
        let passed = began.elapsed();
        if passed >= spin {
            let left = timeout.map(|timeout| timeout.saturating_sub(passed));
            return parker.park(left, max_events, events).map(|()| false);
        }
        for _ in 0..PAUSES_BETWEEN_POLLS {
            std::hint::spin_loop();
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::WAKE_KEY;
    use super::*;
    use crate::poller::Readiness;
    use crate::registrations::tests::{Idle, engine};

    const BEGIN: Time = Time::from_nanos(1_000_000);

    fn short_sleep(spin: &AdaptiveSpin) {
        spin.record_wakeup();
        spin.end_sleep(BEGIN, BEGIN.saturating_add(MAX_SHORT_SLEEP / 2));
    }

    #[test]
    fn a_short_sleep_makes_the_loop_spin_on_the_source_that_ended_it() {
        let spin = AdaptiveSpin::default();
        spin.record_io();
        spin.end_sleep(BEGIN, BEGIN.saturating_add(MAX_SHORT_SLEEP / 2));
        assert!(spin.io.should_spin() && !spin.inbox.should_spin(), "I/O ended the sleep");
        spin.record_wakeup();
        spin.end_sleep(BEGIN, BEGIN.saturating_add(MAX_SHORT_SLEEP));
        assert!(!spin.inbox.should_spin(), "the sleep was long");
        assert!(!spin.io.should_spin(), "a long sleep resets the prediction");
        short_sleep(&spin);
        assert!(spin.inbox.should_spin() && !spin.io.should_spin());
        spin.record_io();
        spin.begin_sleep();
        spin.end_sleep(BEGIN, BEGIN.saturating_add(MAX_SHORT_SLEEP / 2));
        assert!(!spin.io.should_spin(), "the event preceded the sleep, which a timer ended");
    }

    #[test]
    fn a_host_with_a_lock_spins_on_io_but_not_on_the_inbox() {
        const { assert!(!Idle::MAY_SPIN_ON_INBOX) };
        let (engine, _) = engine();
        assert_eq!(engine.io_spin_limit(None), None, "no sleep was short");
        engine.spin.io.record_sleep(true);
        engine.spin.inbox.record_sleep(true);
        assert_eq!(engine.io_spin_limit(None), Some(MAX_IO_SPIN));
        assert_eq!(engine.io_spin_limit(Some(MAX_IO_SPIN / 2)), Some(MAX_IO_SPIN / 2));
        let now = engine.now();
        assert_eq!(engine.spin_on_inbox(now, None), (false, now));
        assert!(engine.spin.inbox.should_spin(), "a spin would have been a miss");
    }

    #[test]
    fn spins_that_find_nothing_become_rare() {
        let spin = AdaptiveSpin::default();
        let mut spins = 0;
        for _ in 0..1_000 {
            short_sleep(&spin);
            if spin.inbox.should_spin() {
                spins += 1;
                spin.inbox.record_miss();
            }
        }
        assert!((15..=25).contains(&spins), "{spins}");
    }

    /// Returns an event from the wait number `happens_at`, and records the timeout of each wait.
    struct Scripted {
        happens_at: usize,
        waits: Vec<Option<Duration>>,
    }

    impl Parker for Scripted {
        fn park(&mut self, timeout: Option<Duration>, _: usize, events: &mut Vec<Event>) -> io::Result<()> {
            self.waits.push(timeout);
            if self.waits.len() == self.happens_at {
                events.push(Event { key: WAKE_KEY, readiness: Readiness::INBOUND });
            }
            Ok(())
        }
    }

    #[test]
    fn an_event_during_a_spin_avoids_the_sleep() {
        let mut parker = Scripted { happens_at: 3, waits: Vec::new() };
        let mut events = Vec::new();
        let long = Duration::from_secs(1000);
        assert!(spin_and_park(&mut parker, long, None, usize::MAX, &mut events).unwrap());
        assert_eq!((events.len(), parker.waits), (1, vec![Some(Duration::ZERO); 3]));
    }

    #[test]
    fn a_spin_that_finds_nothing_ends_in_a_sleep_for_the_remaining_time() {
        for timeout in [None, Some(Duration::from_secs(10))] {
            let mut parker = Scripted { happens_at: usize::MAX, waits: Vec::new() };
            let spin = Duration::from_nanos(1);
            assert!(!spin_and_park(&mut parker, spin, timeout, usize::MAX, &mut Vec::new()).unwrap());
            let slept = parker.waits.pop().unwrap();
            assert_eq!(slept.is_some(), timeout.is_some());
            assert!(slept < timeout || timeout.is_none(), "{slept:?} of {timeout:?}");
            assert!(
                !parker.waits.is_empty() && parker.waits.iter().all(|wait| *wait == Some(Duration::ZERO))
            );
        }
    }
}
