//! `Unclaimed`: what the kernel announces once, announced until it is claimed.
//!
//! The kernel tells of what arrives, and not of what is left of it. So it is noted who was told of something, and who has
//! not claimed all of it by the next wait is told again. All was claimed if the kernel gave less than there was room for:
//! what comes later is announced by itself. The end of a stream is the exception. It may have come with the last bytes,
//! and is announced with them: then only the end, or an error, is the last thing to claim.

use super::{Event, Key, Readiness};
use std::io;

/// See the module's text.
#[derive(Default)]
pub(super) struct Unclaimed {
    /// By the slots of the keys, which are small numbers.
    places: Vec<Place>,
    /// Who was told of something before the last wait, each once.
    told: Vec<Key>,
    /// How many have something to claim.
    count: usize,
}

#[derive(Clone, Copy)]
struct Place {
    /// Of the key that is here.
    generation: u32,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// The kernel announces it as long as there is something.
    NotExpected,
    /// Nothing is left to claim.
    Claimed,
    /// Something was announced.
    Announced,
    /// The same, and nothing comes after it.
    Ending,
}

impl State {
    const fn is_to_be_claimed(self) -> bool {
        matches!(self, State::Announced | State::Ending)
    }
}

impl Unclaimed {
    /// Whether the kernel announces `key` once from here on; it begins with whatever is there.
    pub(super) fn expect(&mut self, key: Key, is_announced_once: bool) {
        let slot = key.slot as usize;
        if is_announced_once && slot >= self.places.len() {
            self.places.resize(slot + 1, Place { generation: 0, state: State::NotExpected });
        }
        if let Some(place) = self.places.get_mut(slot) {
            self.count -= usize::from(place.state.is_to_be_claimed());
            let state = if is_announced_once { State::Claimed } else { State::NotExpected };
            *place = Place { generation: key.generation, state };
        }
    }

    fn state(&mut self, key: Key) -> Option<&mut State> {
        let place = self.places.get_mut(key.slot as usize)?;
        (place.generation == key.generation).then_some(&mut place.state)
    }

    /// Somebody had room for so many bytes, and this came of it.
    #[inline]
    pub(super) fn claimed(&mut self, key: Key, room: usize, received: &io::Result<usize>) {
        let Some(state) = self.state(key).filter(|state| state.is_to_be_claimed()) else { return };
        let is_all = match received {
            Ok(0) => room > 0,
            Ok(count) => *count < room && *state == State::Announced,
            Err(error) => error.kind() != io::ErrorKind::Interrupted,
        };
        if is_all {
            *state = State::Claimed;
            self.count -= 1;
        }
    }

    /// Whether somebody is to be told again.
    #[inline]
    pub(super) fn is_any(&mut self) -> bool {
        if self.count == 0 {
            self.told.clear();
            return false;
        }
        self.forget_claimed();
        true
    }

    #[cold]
    fn forget_claimed(&mut self) {
        let mut told = std::mem::take(&mut self.told);
        told.retain(|&key| self.state(key).is_some_and(|state| state.is_to_be_claimed()));
        self.told = told;
    }

    /// Adds to what the kernel announces now what is to be told again.
    pub(super) fn announce(&mut self, events: &mut Vec<Event>) {
        // What is watched may have changed since the wait began.
        if self.is_any() {
            self.announce_with_the_former(events);
        } else {
            for event in events {
                self.note(event);
            }
        }
    }

    #[cold]
    fn announce_with_the_former(&mut self, events: &mut Vec<Event>) {
        let former = self.told.len();
        events.retain_mut(|event| self.note(event));
        let former = self.told.get(..former).unwrap_or_default();
        events.extend(former.iter().map(|&key| Event { key, readiness: Readiness::INBOUND }));
    }

    /// Notes an announcement. `false` if it is of something that is to be told again anyway.
    #[inline]
    fn note(&mut self, event: &mut Event) -> bool {
        let Event { key, readiness } = *event;
        let Some(state) = self.state(key).filter(|state| **state != State::NotExpected) else { return true };
        if !readiness.inbound {
            return true;
        }
        let is_told_again = state.is_to_be_claimed();
        // One direction was asked for. That the other is announced, too, is how an end is told.
        if readiness.outbound {
            *state = State::Ending;
        } else if !is_told_again {
            *state = State::Announced;
        }
        event.readiness = Readiness::INBOUND;
        if !is_told_again {
            self.told.push(key);
            self.count += 1;
        }
        !is_told_again
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: Key = Key { slot: 3, generation: 7 };
    const ROOM: usize = 10;

    fn expecting() -> Unclaimed {
        let mut unclaimed = Unclaimed::default();
        unclaimed.expect(KEY, true);
        unclaimed
    }

    fn arrival(key: Key) -> Event {
        Event { key, readiness: Readiness::INBOUND }
    }

    /// Whom a wait that brings `events` tells.
    fn told(unclaimed: &mut Unclaimed, events: &[Event]) -> Vec<Key> {
        let mut events = events.to_vec();
        unclaimed.announce(&mut events);
        assert!(events.iter().all(|event| event.readiness == Readiness::INBOUND));
        events.iter().map(|event| event.key).collect()
    }

    #[test]
    fn what_nobody_claims_is_announced_again_and_once_in_a_wait() {
        let mut unclaimed = expecting();
        assert!(!unclaimed.is_any());
        assert_eq!(told(&mut unclaimed, &[arrival(KEY)]), [KEY]);
        assert!(unclaimed.is_any());
        assert_eq!(told(&mut unclaimed, &[]), [KEY]);
        assert_eq!(
            told(&mut unclaimed, &[arrival(KEY)]),
            [KEY],
            "the kernel and the note are of the same thing"
        );
        assert_eq!(told(&mut unclaimed, &[]), [KEY]);
    }

    #[test]
    fn a_claim_with_room_to_spare_is_the_last() {
        let mut unclaimed = expecting();
        for (claim, is_any_left) in [
            (Ok(ROOM), true),
            (Err(io::ErrorKind::Interrupted.into()), true),
            (Ok(ROOM - 1), false),
            (Err(io::ErrorKind::WouldBlock.into()), false),
            (Err(io::ErrorKind::ConnectionReset.into()), false),
            (Ok(0), false),
        ] {
            told(&mut unclaimed, &[arrival(KEY)]);
            unclaimed.claimed(KEY, ROOM, &claim);
            assert_eq!(unclaimed.is_any(), is_any_left, "{claim:?}");
        }
        told(&mut unclaimed, &[arrival(KEY)]);
        unclaimed.claimed(KEY, 0, &Ok(0));
        assert!(unclaimed.is_any(), "who had no room has not seen the end");
    }

    #[test]
    fn an_end_that_came_with_the_last_bytes_is_announced_until_it_is_claimed() {
        let mut unclaimed = expecting();
        let ending = Event { key: KEY, readiness: Readiness::BOTH };
        assert_eq!(told(&mut unclaimed, &[ending]), [KEY]);
        unclaimed.claimed(KEY, ROOM, &Ok(5));
        assert_eq!(told(&mut unclaimed, &[]), [KEY]);
        unclaimed.claimed(KEY, ROOM, &Ok(0));
        assert!(!unclaimed.is_any());

        // It came when the first bytes were announced and not claimed.
        told(&mut unclaimed, &[arrival(KEY)]);
        assert_eq!(told(&mut unclaimed, &[ending]), [KEY]);
        assert_eq!(told(&mut unclaimed, &[arrival(KEY)]), [KEY]);
        unclaimed.claimed(KEY, ROOM, &Ok(5));
        assert!(unclaimed.is_any());
    }

    #[test]
    fn who_is_no_longer_watched_or_comes_after_is_not_told() {
        let mut unclaimed = expecting();
        told(&mut unclaimed, &[arrival(KEY)]);
        unclaimed.expect(KEY, false);
        assert!(!unclaimed.is_any());
        let both = Event { key: KEY, readiness: Readiness::BOTH };
        let mut events = vec![both];
        unclaimed.announce(&mut events);
        assert_eq!(events, [both], "it is the kernel's affair");
        assert!(!unclaimed.is_any());

        unclaimed.expect(KEY, true);
        told(&mut unclaimed, &[arrival(KEY)]);
        let next = Key { generation: 8, ..KEY };
        unclaimed.expect(next, true);
        assert!(!unclaimed.is_any());
        // A late event for the former one says nothing of the next.
        told(&mut unclaimed, &[arrival(KEY)]);
        assert!(!unclaimed.is_any());
        unclaimed.claimed(KEY, ROOM, &Ok(ROOM));
        assert_eq!(told(&mut unclaimed, &[arrival(next)]), [next]);
        unclaimed.claimed(KEY, ROOM, &Ok(1));
        assert!(unclaimed.is_any());
    }
}
