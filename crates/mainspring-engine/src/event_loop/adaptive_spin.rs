//! On the brink of sleep: a loop that is woken again and again looks a little longer before it sleeps.
//!
//! To put a thread to sleep and to wake it takes the kernel some microseconds on either side, more on a machine that is
//! itself a guest. If the last sleep was ended within [`SHORT`], what ends the next one is likely to come as soon, and a
//! loop that waits for it awake for [`LOOKING`] has it at once. Two things are looked for, each for reasons of its own:
//! what other threads send, which then costs them no system call either, and I/O. What keeps this cheap:
//!
//! - Only a short sleep that the same thing has ended is followed by a look for it. After a look in vain it takes two such
//!   sleeps, then four, and so on up to [`MAX_PENALTY`]: a loop whose threads or peers are slow, or share its processor,
//!   all but stops looking. A look that finds something makes good for those.
//! - A look takes no longer than to sleep and wake would, or not much, and ends when a timer is due.
//! - A face that holds a lock while it is awake never looks ([`Host::MAY_SPIN`]): the others could not send. A look for
//!   I/O could let go of the lock, but has gained nothing for Python, whose peers answer later than a look may last.
//! - A loop under a virtual clock does not look at all.

use super::{Engine, Host};
use crate::clock::Time;
use crate::poller::{Event, Parker};
use std::cell::Cell;
use std::io;
use std::time::{Duration, Instant};

/// A sleep is short that lasts some times as long as it takes to begin and to end it, and no more.
const SHORT: Duration = Duration::from_micros(100);
/// How long a look for other threads' calls may last, which would cost them a system call.
const LOOKING: Duration = Duration::from_micros(5);
/// How long a look for I/O may last: about what a sleep costs that is over at once.
const LOOKING_FOR_IO: Duration = Duration::from_micros(20);
/// So many short sleeps, at most, are between two looks in vain.
const MAX_PENALTY: u32 = 64;
/// How long the kernel is left alone between two questions about I/O, in the processor's pauses: about as long as a question
/// takes. Asked without pause, it keeps those waiting who bring what is looked for.
const BETWEEN_QUESTIONS: u32 = 24;
/// How often the inbox is looked at before the clock is.
const GLANCES: u32 = 32;

/// What has ended the last sleep, and what is worth a look before the next.
#[derive(Default)]
pub(super) struct AdaptiveSpin {
    threads: Odds,
    io: Odds,
    is_woken: Cell<bool>,
    has_io: Cell<bool>,
}

/// Whether a look for something is worth it.
struct Odds {
    /// How many short sleeps are to come before the next look.
    wanting: Cell<u32>,
    /// How many of them a look in vain costs.
    penalty: Cell<u32>,
}

impl Default for Odds {
    fn default() -> Self {
        Odds { wanting: Cell::new(1), penalty: Cell::new(1) }
    }
}

impl Odds {
    fn is_worth_a_look(&self) -> bool {
        self.wanting.get() == 0
    }

    /// A sleep is over, which was a short one that this has ended, or not.
    fn slept(&self, ended_it_soon: bool) {
        if ended_it_soon {
            self.wanting.set(self.wanting.get().saturating_sub(1));
        } else {
            self.wanting.set(self.wanting.get().max(1));
        }
    }

    /// A look has found it.
    fn found(&self) {
        self.penalty.set(1);
    }

    fn in_vain(&self) {
        let penalty = (self.penalty.get() * 2).min(MAX_PENALTY);
        self.penalty.set(penalty);
        self.wanting.set(penalty);
    }
}

impl AdaptiveSpin {
    /// A wake-up by another thread was among the events.
    pub(super) fn woken(&self) {
        self.is_woken.set(true);
    }

    /// I/O was among the events.
    pub(super) fn served(&self) {
        self.has_io.set(true);
    }

    /// A sleep begins: what was announced before has not ended it.
    pub(super) fn falls_asleep(&self) {
        self.is_woken.set(false);
        self.has_io.set(false);
    }

    /// A sleep is over that lasted from `fell_asleep` to `woke_up`.
    pub(super) fn slept(&self, fell_asleep: Time, woke_up: Time) {
        let was_short = woke_up.saturating_duration_since(fell_asleep) < SHORT;
        self.threads.slept(self.is_woken.take() && was_short);
        self.io.slept(self.has_io.take() && was_short);
    }
}

impl<H: Host> Engine<H> {
    /// Looks into the inbox before a sleep that would begin at `now` and end at `deadline`. Whether something came, and
    /// what time it is.
    pub(super) fn look_for_threads(&self, mut now: Time, deadline: Option<Time>) -> (bool, Time) {
        let threads = &self.spin.threads;
        if !H::MAY_SPIN || !threads.is_worth_a_look() || self.clock.is_virtual() {
            return (false, now);
        }
        let longest = now.saturating_add(LOOKING);
        let end = deadline.map_or(longest, |deadline| longest.min(deadline));
        while now < end {
            for _ in 0..GLANCES {
                if self.inbox.has_pending() {
                    threads.found();
                    return (true, now);
                }
                std::hint::spin_loop();
            }
            now = self.clock.now();
        }
        threads.in_vain();
        (false, now)
    }

    /// How long to look for I/O before a sleep of so long.
    pub(super) fn look_for_io(&self, timeout: Option<Duration>) -> Option<Duration> {
        let is_worth_it = H::MAY_SPIN && self.spin.io.is_worth_a_look() && !self.clock.is_virtual();
        is_worth_it.then(|| timeout.map_or(LOOKING_FOR_IO, |timeout| timeout.min(LOOKING_FOR_IO)))
    }

    /// What came of it.
    pub(super) fn looked_for_io(&self, found: bool) {
        if found { self.spin.io.found() } else { self.spin.io.in_vain() }
    }
}

/// Asks the kernel for as long as `look` lasts whether something has happened, and then sleeps until it does, or until
/// `timeout` has passed since the beginning. Whether it had no need to sleep.
pub(super) fn look_and_park(
    parker: &mut dyn Parker,
    look: Duration,
    timeout: Option<Duration>,
    max_events: usize,
    events: &mut Vec<Event>,
) -> io::Result<bool> {
    // Not the loop's clock: that may be a program's own, and this may be outside of the lock that protects it.
    let began = Instant::now();
    loop {
        parker.park(Some(Duration::ZERO), max_events, events)?;
        if !events.is_empty() {
            return Ok(true);
        }
        let passed = began.elapsed();
        if passed >= look {
            let left = timeout.map(|timeout| timeout.saturating_sub(passed));
            return parker.park(left, max_events, events).map(|()| false);
        }
        for _ in 0..BETWEEN_QUESTIONS {
            std::hint::spin_loop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::WAKE_KEY;
    use super::*;
    use crate::poller::Readiness;

    const BEGIN: Time = Time::from_nanos(1_000_000);

    fn short_sleep(brink: &AdaptiveSpin) {
        brink.woken();
        brink.slept(BEGIN, BEGIN.saturating_add(SHORT / 2));
    }

    #[test]
    fn only_a_short_sleep_is_worth_a_look_for_what_ended_it() {
        let brink = AdaptiveSpin::default();
        brink.served();
        brink.slept(BEGIN, BEGIN.saturating_add(SHORT / 2));
        assert!(brink.io.is_worth_a_look() && !brink.threads.is_worth_a_look(), "I/O has ended it");
        brink.woken();
        brink.slept(BEGIN, BEGIN.saturating_add(SHORT));
        assert!(!brink.threads.is_worth_a_look(), "it was long");
        assert!(!brink.io.is_worth_a_look(), "and what was earned is lost");
        short_sleep(&brink);
        assert!(brink.threads.is_worth_a_look() && !brink.io.is_worth_a_look());
        brink.served();
        brink.falls_asleep();
        brink.slept(BEGIN, BEGIN.saturating_add(SHORT / 2));
        assert!(!brink.io.is_worth_a_look(), "it came before the sleep, which a timer has ended");
    }

    #[test]
    fn looks_in_vain_become_rare() {
        let brink = AdaptiveSpin::default();
        let mut looks = 0;
        for _ in 0..1_000 {
            short_sleep(&brink);
            if brink.threads.is_worth_a_look() {
                looks += 1;
                brink.threads.in_vain();
            }
        }
        assert!((15..=25).contains(&looks), "{looks}");
    }

    /// Finds something at the given wait, and writes down how long each was to last at most.
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
    fn what_happens_during_a_look_needs_no_sleep() {
        let mut parker = Scripted { happens_at: 3, waits: Vec::new() };
        let mut events = Vec::new();
        let long = Duration::from_secs(1000);
        assert!(look_and_park(&mut parker, long, None, usize::MAX, &mut events).unwrap());
        assert_eq!((events.len(), parker.waits), (1, vec![Some(Duration::ZERO); 3]));
    }

    #[test]
    fn a_look_in_vain_ends_in_a_sleep_of_what_is_left() {
        for timeout in [None, Some(Duration::from_secs(10))] {
            let mut parker = Scripted { happens_at: usize::MAX, waits: Vec::new() };
            let look = Duration::from_nanos(1);
            assert!(!look_and_park(&mut parker, look, timeout, usize::MAX, &mut Vec::new()).unwrap());
            let slept = parker.waits.pop().unwrap();
            assert_eq!(slept.is_some(), timeout.is_some());
            assert!(slept < timeout || timeout.is_none(), "{slept:?} of {timeout:?}");
            assert!(
                !parker.waits.is_empty() && parker.waits.iter().all(|wait| *wait == Some(Duration::ZERO))
            );
        }
    }
}
