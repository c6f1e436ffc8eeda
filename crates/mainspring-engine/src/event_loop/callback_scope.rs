//! Turns: which call is under way, and who is to be told when it is over.
//!
//! A turn is one call that the loop makes: a callback, a step of a task, the serving of one transport. What a transport
//! does in a turn it may do in several pieces, and some of it is cheaper when the last piece is known; so it can ask to be
//! called when the turn is over ([`Engine::at_end_of_turn`]), however it ends.

use super::{Engine, Host};
use std::cell::{Cell, RefCell};

/// The number of a turn. They come round after some billions, so only a difference tells something for certain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Turn(u32);

#[cfg(test)]
impl Turn {
    pub(crate) fn numbered(number: u32) -> Self {
        Turn(number)
    }
}

/// See the module's text.
pub(super) struct Turns<H: Host> {
    number: Cell<u32>,
    is_under_way: Cell<bool>,
    is_awaited: Cell<bool>,
    awaited: RefCell<Vec<H::Source>>,
}

impl<H: Host> Default for Turns<H> {
    fn default() -> Self {
        Turns {
            number: Cell::new(0),
            is_under_way: Cell::new(false),
            is_awaited: Cell::new(false),
            awaited: RefCell::default(),
        }
    }
}

impl<H: Host> Engine<H> {
    /// The turn that is under way; none while the loop makes no call.
    pub fn turn(&self) -> Option<Turn> {
        self.turns.is_under_way.get().then(|| Turn(self.turns.number.get()))
    }

    /// Has [`Host::turn_ended`] called when the turn that is under way is over; when the next one is, if none is.
    pub fn at_end_of_turn(&self, source: H::Source) {
        self.turns.awaited.borrow_mut().push(source);
        self.turns.is_awaited.set(true);
    }

    /// Runs one call of the loop's as a turn. A turn may run the loop itself, and so have others within it.
    #[inline(always)]
    pub(super) fn in_turn(&self, call: impl FnOnce() -> Result<(), H::Error>) -> Result<(), H::Error> {
        let turns = &self.turns;
        turns.number.set(turns.number.get().wrapping_add(1));
        let outer = turns.is_under_way.replace(true);
        let outcome = call();
        turns.is_under_way.set(outer);
        if turns.is_awaited.get() {
            let told = self.end_turn();
            return self.host.merge_outcomes(outcome, told);
        }
        outcome
    }

    fn end_turn(&self) -> Result<(), H::Error> {
        self.turns.is_awaited.set(false);
        let awaited = self.turns.awaited.take();
        let mut outcome = Ok(());
        for source in awaited {
            let told = self.host.turn_ended(source);
            outcome = self.host.merge_outcomes(outcome, told);
        }
        outcome
    }
}
