//! The scope of one callback: which call is running, and which sources want to know when it returns.
//!
//! A [`Turn`] is one call that the loop makes: a callback, a step of a task, the serving of one transport. A
//! transport may write several pieces during one turn, and coalesces them if it knows which one is the last. It
//! therefore asks with [`Engine::at_end_of_turn`] to be called when the turn ends, with or without an error.

use super::{Engine, Host};
use std::cell::{Cell, RefCell};

/// The number of a turn. It wraps after 2^32: different numbers always mean different turns, equal numbers almost
/// always the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Turn(u32);

#[cfg(test)]
impl Turn {
    pub(crate) fn numbered(number: u32) -> Self {
        Turn(number)
    }
}

/// The current turn, and the sources that wait for its end.
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
    /// The current turn; `None` while the loop makes no call.
    pub fn turn(&self) -> Option<Turn> {
        self.turns.is_under_way.get().then(|| Turn(self.turns.number.get()))
    }

    /// Calls [`Host::turn_ended`] for `source` when the current turn ends; when the next one ends, if none is
    /// running.
    pub fn at_end_of_turn(&self, source: H::Source) {
        self.turns.awaited.borrow_mut().push(source);
        self.turns.is_awaited.set(true);
    }

    /// Runs one call as a turn. Turns nest: a call may run the loop.
    #[inline(always)]
    pub(super) fn in_turn(&self, call: impl FnOnce() -> Result<(), H::Error>) -> Result<(), H::Error> {
        let turns = &self.turns;
        turns.number.set(turns.number.get().wrapping_add(1));
        let outer = turns.is_under_way.replace(true);
        let outcome = call();
        turns.is_under_way.set(outer);
        if turns.is_awaited.get() {
            let ended = self.end_turn();
            return self.host.merge_outcomes(outcome, ended);
        }
        outcome
    }

    fn end_turn(&self) -> Result<(), H::Error> {
        self.turns.is_awaited.set(false);
        let awaited = self.turns.awaited.take();
        let mut outcome = Ok(());
        for source in awaited {
            let ended = self.host.turn_ended(source);
            outcome = self.host.merge_outcomes(outcome, ended);
        }
        outcome
    }
}
