//! `Waiters`: who stands in a [`WaitList`](super::wait_list::WaitList): nobody, one, or a [`Line`] of them.
//!
//! Most lists never have more than one waiter (a connection has one reader), so one has its place in the list itself. When a
//! second comes, both stand in a line, where the first has the key that it had: a line's first place.
//!
//! The rules are those of `line.rs`. Nothing here calls out.

use super::line::{Key, Left, Line};
use std::task::Waker;

/// Whether a waiter was chosen alone, and so has something to hand on.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Turn(pub(super) bool);

/// See the module's text.
#[derive(Default)]
pub(crate) enum Waiters {
    #[default]
    Nobody,
    One(Sole),
    Many(Box<Line<Turn>>),
}

/// The only waiter. Its key is [`Key::FIRST`].
#[derive(Default)]
pub(crate) struct Sole {
    waker: Option<Waker>,
    is_chosen: bool,
    turn: Turn,
}

impl Waiters {
    /// Takes the last place.
    pub(super) fn join(&mut self) -> Key {
        if let Waiters::Nobody = self {
            *self = Waiters::One(Sole::default());
            return Key::FIRST;
        }
        self.line().join(Turn::default(), None)
    }

    /// All of them as a line.
    fn line(&mut self) -> &mut Line<Turn> {
        if !matches!(self, Waiters::Many(_)) {
            let mut line = Box::<Line<Turn>>::default();
            if let Waiters::One(Sole { waker, is_chosen, turn }) = std::mem::take(self) {
                line.join(turn, waker);
                if is_chosen {
                    // It has been woken, and has no waker.
                    line.choose_to_wake();
                }
            }
            *self = Waiters::Many(line);
        }
        match self {
            Waiters::Many(line) => line,
            Waiters::Nobody | Waiters::One(_) => unreachable!("it was made a line above"),
        }
    }

    pub(super) fn leave(&mut self, key: Key) -> Left<Turn> {
        match std::mem::take(self) {
            Waiters::One(Sole { waker, is_chosen, turn }) => {
                Left { note: turn, was_chosen: is_chosen, waker }
            }
            line => {
                *self = line;
                self.line().leave(key)
            }
        }
    }

    pub(super) fn is_chosen(&mut self, key: &Key) -> bool {
        match self {
            Waiters::One(sole) => sole.is_chosen,
            _ => self.line().is_chosen(key),
        }
    }

    /// Has a place that was chosen wait on where it stood; one that was not waits anyway.
    pub(super) fn wait_on(&mut self, key: &Key) {
        if let Waiters::One(sole) = self {
            (sole.is_chosen, sole.turn) = (false, Turn::default());
            return;
        }
        let line = self.line();
        if line.is_chosen(key) {
            line.stand_again(key);
            *line.note_mut(key) = Turn::default();
        }
    }

    /// Whether the place would wake the task of `waker`; a place that is chosen has no need to.
    pub(super) fn has_waker(&mut self, key: &Key, waker: &Waker) -> bool {
        match self {
            Waiters::One(sole) => {
                sole.is_chosen || sole.waker.as_ref().is_some_and(|known| known.will_wake(waker))
            }
            _ => self.line().has_waker(key, waker),
        }
    }

    /// Sets the waker of a place, and gives the one that was there.
    pub(super) fn replace_waker(&mut self, key: &Key, waker: Waker) -> Option<Waker> {
        match self {
            Waiters::One(sole) => sole.waker.replace(waker),
            _ => self.line().replace_waker(key, waker),
        }
    }

    /// Chooses the first `count`, or all if they are fewer, each with a turn of its own to hand on if `turn` says so. How
    /// many were chosen; and the waker of one who was alone. A line is woken with [`Waiters::next_to_wake`].
    pub(super) fn choose(&mut self, count: usize, turn: Turn) -> (usize, Option<Waker>) {
        match self {
            Waiters::One(sole) if count > 0 && !sole.is_chosen => {
                (sole.is_chosen, sole.turn) = (true, turn);
                (1, sole.waker.take())
            }
            Waiters::Nobody | Waiters::One(_) => (0, None),
            Waiters::Many(line) => {
                let mut chosen = 0;
                while chosen < count
                    && let Some(note) = line.choose_first()
                {
                    *note = turn;
                    chosen += 1;
                }
                (chosen, None)
            }
        }
    }

    /// The next of a line who was chosen and is to be woken.
    pub(super) fn next_to_wake(&mut self) -> Option<Option<Waker>> {
        match self {
            Waiters::Many(line) => line.next_to_wake(),
            Waiters::Nobody | Waiters::One(_) => None,
        }
    }

    /// How many wait and were not chosen.
    pub(super) fn waiting(&self) -> usize {
        match self {
            Waiters::Nobody => 0,
            Waiters::One(sole) => usize::from(!sole.is_chosen),
            Waiters::Many(line) => line.waiting(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nothing() -> Waker {
        Waker::noop().clone()
    }

    #[test]
    fn who_was_alone_keeps_its_place_when_others_come() {
        let mut waiters = Waiters::default();
        let first = waiters.join();
        assert!(waiters.replace_waker(&first, nothing()).is_none());
        let second = waiters.join();
        assert!(waiters.has_waker(&first, &nothing()));
        assert_eq!(waiters.waiting(), 2);
        assert!(matches!(waiters.choose(1, Turn(true)), (1, None)));
        assert!(waiters.is_chosen(&first) && !waiters.is_chosen(&second));
        assert!(matches!(waiters.next_to_wake(), Some(Some(_))));
        let left = waiters.leave(first);
        assert!(left.was_chosen && left.note == Turn(true));
        assert!(!waiters.leave(second).was_chosen);
        assert_eq!(waiters.waiting(), 0);
    }

    #[test]
    fn who_was_chosen_alone_is_woken_once_also_if_another_comes() {
        let mut waiters = Waiters::default();
        let first = waiters.join();
        waiters.replace_waker(&first, nothing());
        assert!(matches!(waiters.choose(usize::MAX, Turn(true)), (1, Some(_))));
        assert!(matches!(waiters.choose(usize::MAX, Turn(true)), (0, None)), "it is chosen already");
        let second = waiters.join();
        assert!(waiters.is_chosen(&first) && !waiters.is_chosen(&second));
        assert!(waiters.next_to_wake().is_none());
        waiters.wait_on(&first);
        assert_eq!(waiters.waiting(), 2);
        assert!(waiters.leave(first).note == Turn(false));
        assert!(!waiters.leave(second).was_chosen);
    }

    #[test]
    fn who_stands_again_alone_can_be_chosen_again() {
        let mut waiters = Waiters::default();
        let key = waiters.join();
        assert!(matches!(waiters.choose(1, Turn(true)), (1, None)), "it has no waker yet");
        waiters.wait_on(&key);
        assert_eq!(waiters.waiting(), 1);
        assert!(matches!(waiters.choose(0, Turn(true)), (0, None)));
        assert!(matches!(waiters.choose(1, Turn(false)), (1, None)));
        assert!(waiters.leave(key).was_chosen);
        assert_eq!(waiters.waiting(), 0);
    }
}
