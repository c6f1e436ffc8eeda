//! On the brink of sleep: a loop that other threads keep waking looks into its inbox a little longer.
//!
//! To put a thread to sleep and to wake it takes the kernel some microseconds on either side. If the last sleep was
//! ended by another thread within [`SHORT`], the next item is likely to come as soon, and a loop that waits for it awake
//! for [`LOOKING`] has it at once, and its sender makes no system call. What keeps this cheap:
//!
//! - Only a short sleep that another thread ended is followed by a look. After a look in vain it takes two such sleeps,
//!   then four, and so on up to [`MAX_PENALTY`]: a loop whose threads are slow, or share its processor, all but stops
//!   looking. A look that finds something makes good for those.
//! - Nothing but the inbox is looked at, so I/O and timers wait for a few microseconds more at the worst.
//! - A face that holds a lock while it is awake never looks ([`Host::MAY_SPIN`]): the others could not send. Neither
//!   does a loop under a virtual clock.

use super::{Engine, Host};
use crate::clock::Time;
use std::cell::Cell;
use std::time::Duration;

/// A sleep is short that lasts some times as long as it takes to begin and to end it, and no more.
const SHORT: Duration = Duration::from_micros(100);
/// How long a look may last.
const LOOKING: Duration = Duration::from_micros(5);
/// So many short sleeps, at most, are between two looks in vain.
const MAX_PENALTY: u32 = 64;
/// How often the inbox is looked at before the clock is.
const GLANCES: u32 = 32;

/// Whether a look is worth it.
pub(super) struct Brink {
    /// How many short sleeps are to come before the next look.
    wanting: Cell<u32>,
    /// How many of them a look in vain costs.
    penalty: Cell<u32>,
    /// Another thread has ended the wait.
    is_woken: Cell<bool>,
}

impl Default for Brink {
    fn default() -> Self {
        Brink { wanting: Cell::new(1), penalty: Cell::new(1), is_woken: Cell::new(false) }
    }
}

impl Brink {
    /// A wake-up was among the events.
    pub(super) fn woken(&self) {
        self.is_woken.set(true);
    }

    /// A sleep is over that lasted from `fell_asleep` to `woke_up`.
    pub(super) fn slept(&self, fell_asleep: Time, woke_up: Time) {
        if self.is_woken.take() && woke_up.saturating_duration_since(fell_asleep) < SHORT {
            self.wanting.set(self.wanting.get().saturating_sub(1));
        } else {
            self.wanting.set(self.wanting.get().max(1));
        }
    }

    fn in_vain(&self) {
        let penalty = (self.penalty.get() * 2).min(MAX_PENALTY);
        self.penalty.set(penalty);
        self.wanting.set(penalty);
    }
}

impl<H: Host> Engine<H> {
    /// Looks into the inbox before a sleep that would begin at `now`. Whether something came.
    pub(super) fn look_before_sleep(&self, now: Time) -> bool {
        if !H::MAY_SPIN || self.brink.wanting.get() > 0 || self.clock.is_virtual() {
            return false;
        }
        loop {
            for _ in 0..GLANCES {
                if self.inbox.has_pending() {
                    self.brink.penalty.set(1);
                    return true;
                }
                std::hint::spin_loop();
            }
            if self.clock.now().saturating_duration_since(now) >= LOOKING {
                self.brink.in_vain();
                return false;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGIN: Time = Time::from_nanos(1_000_000);

    fn short_sleep(brink: &Brink) {
        brink.woken();
        brink.slept(BEGIN, BEGIN.saturating_add(SHORT / 2));
    }

    #[test]
    fn only_a_short_sleep_that_another_thread_ended_is_worth_a_look() {
        let brink = Brink::default();
        brink.slept(BEGIN, BEGIN.saturating_add(SHORT / 2));
        assert_eq!(brink.wanting.get(), 1, "I/O has ended it");
        brink.woken();
        brink.slept(BEGIN, BEGIN.saturating_add(SHORT));
        assert_eq!(brink.wanting.get(), 1, "it was long");
        short_sleep(&brink);
        assert_eq!(brink.wanting.get(), 0);
        brink.slept(BEGIN, BEGIN.saturating_add(SHORT));
        assert_eq!(brink.wanting.get(), 1, "and what was earned is lost");
    }

    #[test]
    fn looks_in_vain_become_rare() {
        let brink = Brink::default();
        let mut looks = 0;
        for _ in 0..1_000 {
            short_sleep(&brink);
            if brink.wanting.get() == 0 {
                looks += 1;
                brink.in_vain();
            }
        }
        assert!((15..=25).contains(&looks), "{looks}");
    }
}
