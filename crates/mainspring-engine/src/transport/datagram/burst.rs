//! `Burst`: how many datagrams one event brings.
//!
//! Several, for the sake of throughput; not all, for the sake of timers and other descriptors; and where one at a time is
//! the rule, the attempt that finds nothing is made rarely.

use std::cell::Cell;

/// The most datagrams one event brings.
const MAX_DATAGRAMS_PER_EVENT: u32 = 16;
/// Of so many events that bring one datagram each, one looks for a second.
const SINGLE_EVENTS_PER_PROBE: u32 = 16;

/// What is left of the event that is served.
#[derive(Default)]
pub struct Burst {
    /// Attempts that this event still has.
    left: Cell<u32>,
    /// Events to come that take one datagram and do not look for a second.
    single_events: Cell<u32>,
}

impl Burst {
    /// An event announced something.
    pub fn begin(&self) {
        let singles = self.single_events.get();
        self.single_events.set(singles.saturating_sub(1));
        self.left.set(if singles > 0 { 1 } else { MAX_DATAGRAMS_PER_EVENT });
    }

    /// Whether this event has an attempt left.
    pub fn has_more(&self) -> bool {
        self.left.get() > 0
    }

    /// An attempt brought a datagram, or an error.
    pub fn brought(&self) {
        self.left.set(self.left.get().saturating_sub(1));
    }

    /// An attempt found nothing: the event is over.
    pub fn found_nothing(&self) {
        // The one before it was the only one.
        if self.left.replace(0) == MAX_DATAGRAMS_PER_EVENT - 1 {
            self.single_events.set(SINGLE_EVENTS_PER_PROBE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many datagrams of `waiting` an event takes.
    fn serve(burst: &Burst, mut waiting: u32) -> u32 {
        burst.begin();
        let mut taken = 0;
        while burst.has_more() {
            if waiting == 0 {
                burst.found_nothing();
            } else {
                burst.brought();
                (waiting, taken) = (waiting - 1, taken + 1);
            }
        }
        taken
    }

    #[test]
    fn an_event_brings_a_batch_and_no_more() {
        let burst = Burst::default();
        assert_eq!(
            [serve(&burst, 100), serve(&burst, 7), serve(&burst, 100)],
            [MAX_DATAGRAMS_PER_EVENT, 7, MAX_DATAGRAMS_PER_EVENT]
        );
    }

    #[test]
    fn where_one_is_the_rule_a_second_is_looked_for_once_in_a_while() {
        let burst = Burst::default();
        assert_eq!(serve(&burst, 1), 1);
        for _ in 0..SINGLE_EVENTS_PER_PROBE {
            assert_eq!(serve(&burst, 100), 1);
        }
        assert_eq!(serve(&burst, 100), MAX_DATAGRAMS_PER_EVENT);
    }
}
