//! Shuffling what asyncio leaves unordered, to find races in tests.
//!
//! The same seed gives the same order if the program is otherwise the same. Shuffled are timers with equal deadlines and
//! the I/O events of one poll. On request also the ready calls of one iteration that [`Host::may_shuffle`] names: task
//! steps. All other calls keep their positions, because a transport relies on their order.

use super::{Engine, Host};
use crate::clock::Time;
use crate::poller::Event;

/// The order of what asyncio leaves unordered: see [`Engine::set_shuffle`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shuffle {
    /// The state of a SplitMix64 generator.
    state: u64,
    shuffles_ready: bool,
}

impl Shuffle {
    /// The order of timers with equal deadlines and of I/O events depends on `seed`.
    pub fn new(seed: u64) -> Self {
        Shuffle { state: seed, shuffles_ready: false }
    }

    /// The order of the ready calls of one iteration depends on the seed too.
    #[must_use]
    pub fn with_ready(self) -> Self {
        Shuffle { shuffles_ready: true, ..self }
    }

    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.state ^ (self.state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Calls `swap` with the positions to exchange, for a random order of `len` items (Fisher and Yates).
    fn permute(&mut self, len: usize, mut swap: impl FnMut(usize, usize)) {
        for last in (1..len).rev() {
            // The bias of the remainder does not matter here.
            let other = (self.next() % (last as u64 + 1)) as usize;
            swap(last, other);
        }
    }
}

impl<H: Host> Engine<H> {
    /// Shuffles from now on timers with equal deadlines, I/O events of one poll, and with [`Shuffle::with_ready`] the ready
    /// calls that [`Host::may_shuffle`] names. `None`: as asyncio's loop orders them.
    pub fn set_shuffle(&self, shuffle: Option<Shuffle>) {
        self.shuffle.set(shuffle);
    }

    #[inline(always)]
    pub(super) fn is_shuffled(&self) -> bool {
        self.shuffle.get().is_some()
    }

    fn permute(&self, len: usize, swap: impl FnMut(usize, usize)) {
        if let Some(mut shuffle) = self.shuffle.get() {
            shuffle.permute(len, swap);
            self.shuffle.set(Some(shuffle));
        }
    }

    #[inline(always)]
    pub(super) fn shuffle_events(&self, events: &mut [Event]) {
        if self.is_shuffled() {
            self.permute(events.len(), |a, b| events.swap(a, b));
        }
    }

    /// Makes the due timers ready. Those with equal deadlines are shuffled.
    #[cold]
    pub(super) fn ready_shuffled_timers(&self, now: Time) {
        let mut due = Vec::new();
        // Without memory a timer stays due.
        while due.try_reserve(1).is_ok()
            && self.lanes.borrow_mut().try_reserve_normal(due.len() + 1)
            && let Some(timer) = self.timers.borrow_mut().pop_due_at(now)
        {
            due.push(timer);
        }
        for equal in due.chunk_by_mut(|(first, _), (second, _)| first == second) {
            self.permute(equal.len(), |a, b| equal.swap(a, b));
        }
        let mut lanes = self.lanes.borrow_mut();
        for (when, handle) in due {
            self.push_due(when, handle, now, &mut lanes);
        }
    }

    /// Shuffles the ready calls that the host names.
    #[inline(always)]
    pub(super) fn shuffle_ready(&self) {
        if self.shuffle.get().is_some_and(|shuffle| shuffle.shuffles_ready) {
            self.shuffle_ready_calls();
        }
    }

    #[cold]
    fn shuffle_ready_calls(&self) {
        let mut lanes = self.lanes.borrow_mut();
        let calls = lanes.normal_mut();
        let mut positions = Vec::new();
        // Without memory the order stays.
        if positions.try_reserve(calls.len()).is_err() {
            return;
        }
        positions.extend((0..calls.len()).filter(|&at| self.host.may_shuffle(&calls[at])));
        self.permute(positions.len(), |a, b| calls.swap(positions[a], positions[b]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(seed: u64, len: usize) -> Vec<usize> {
        let mut items: Vec<_> = (0..len).collect();
        Shuffle::new(seed).permute(len, |a, b| items.swap(a, b));
        items
    }

    #[test]
    fn the_same_seed_gives_the_same_order() {
        assert_eq!(order(7, 20), order(7, 20));
        assert_ne!(order(7, 20), order(8, 20));
    }

    #[test]
    fn every_order_of_three_items_occurs() {
        let orders: std::collections::BTreeSet<_> = (0..100).map(|seed| order(seed, 3)).collect();
        assert_eq!(orders.len(), 6);
    }

    #[test]
    fn few_items_need_no_order() {
        assert_eq!(order(1, 0), []);
        assert_eq!(order(1, 1), [0]);
    }
}
