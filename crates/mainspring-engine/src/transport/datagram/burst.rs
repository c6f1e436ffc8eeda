//! `Burst`: the number of datagrams received per event.
//!
//! Several, for throughput; bounded, for timers and other fds. If events usually bring one datagram, the second
//! attempt, which would find nothing, is made rarely.

use std::cell::Cell;

/// The most datagrams received per event.
const MAX_DATAGRAMS_PER_EVENT: u32 = 16;
/// After an event with one datagram, this many events do not try a second one.
const SINGLE_EVENTS_PER_PROBE: u32 = 16;

/// The attempts left for the current event.
#[derive(Default)]
pub struct Burst {
    /// Attempts left.
    left: Cell<u32>,
    /// Coming events that receive one datagram and do not try a second.
    single_events: Cell<u32>,
}

impl Burst {
    /// Begins an event.
    pub fn begin(&self) {
        let singles = self.single_events.get();
        self.single_events.set(singles.saturating_sub(1));
        self.left.set(if singles > 0 { 1 } else { MAX_DATAGRAMS_PER_EVENT });
    }

    /// Whether an attempt is left.
    pub fn has_more(&self) -> bool {
        self.left.get() > 0
    }

    /// Records an attempt that returned a datagram or an error.
    pub fn brought(&self) {
        self.left.set(self.left.get().saturating_sub(1));
    }

    /// Records an attempt that found nothing, which ends the event.
    pub fn found_nothing(&self) {
        // Exactly one datagram was received before.
        if self.left.replace(0) == MAX_DATAGRAMS_PER_EVENT - 1 {
            self.single_events.set(SINGLE_EVENTS_PER_PROBE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of datagrams received by one event with `waiting` datagrams.
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
    fn an_event_receives_a_bounded_batch() {
        let burst = Burst::default();
        assert_eq!(
            [serve(&burst, 100), serve(&burst, 7), serve(&burst, 100)],
            [MAX_DATAGRAMS_PER_EVENT, 7, MAX_DATAGRAMS_PER_EVENT]
        );
    }

    #[test]
    fn after_an_event_with_one_datagram_a_second_is_tried_rarely() {
        let burst = Burst::default();
        assert_eq!(serve(&burst, 1), 1);
        for _ in 0..SINGLE_EVENTS_PER_PROBE {
            assert_eq!(serve(&burst, 100), 1);
        }
        assert_eq!(serve(&burst, 100), MAX_DATAGRAMS_PER_EVENT);
    }
}
