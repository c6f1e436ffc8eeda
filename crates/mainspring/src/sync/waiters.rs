//! `Waiters`: who stands in a [`WaitList`](super::wait_list::WaitList): one at most, or a [`Line`] of them.
//!
//! Most lists never have more than one waiter (a connection has one reader), so one has its place in the list itself. When a
//! second comes, both stand in a line, where the first has the key that it had: a line's first place.
//!
//! The rules are those of `line.rs`. Nothing here calls out.

use super::line::{Key, Left, Line, LineLike};
use super::only::Only;
use std::task::Waker;

/// Whether a waiter was chosen alone, and so has something to hand on.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Turn(pub(super) bool);

/// See the module's text.
pub(crate) enum Waiters {
    /// Nobody, or one, whose key is [`Key::FIRST`].
    One(Only<Turn>),
    Many(Box<Line<Turn>>),
}

impl Waiters {
    pub(super) const NOBODY: Self = Waiters::One(Only::new(Turn(false)));

    /// Takes the last place.
    #[inline]
    pub(super) fn join(&mut self) -> Key {
        match self {
            Waiters::One(only) if only.is_away() => only.join(Turn::default(), None),
            _ => self.line().join(Turn::default(), None),
        }
    }

    /// All of them as a line.
    #[cold]
    #[inline(never)]
    fn line(&mut self) -> &mut Line<Turn> {
        if let Waiters::One(only) = self {
            let mut line = Box::<Line<Turn>>::default();
            if !only.is_away() {
                let left = only.leave(Key::FIRST);
                line.join(left.note, left.waker);
                if left.was_chosen {
                    // It has been woken, and has no waker.
                    line.choose_to_wake();
                }
            }
            *self = Waiters::Many(line);
        }
        match self {
            Waiters::Many(line) => line,
            Waiters::One(_) => unreachable!("it was made a line above"),
        }
    }

    /// Gives the place up if it is of one who is alone and was woken, with nothing to hand out; else the key comes back.
    #[inline]
    pub(super) fn leave_alone(&mut self, key: Key) -> Result<(), Key> {
        let has_left = if let Waiters::One(only) = self { only.leave_woken() } else { false };
        if has_left { Ok(()) } else { Err(key) }
    }

    #[inline]
    pub(super) fn leave(&mut self, key: Key) -> Left<Turn> {
        match self {
            Waiters::One(only) => only.leave(key),
            Waiters::Many(line) => line.leave(key),
        }
    }

    pub(super) fn is_chosen(&self, key: &Key) -> bool {
        match self {
            Waiters::One(only) => only.is_chosen(key),
            Waiters::Many(line) => line.is_chosen(key),
        }
    }

    /// Has a place that was chosen wait on where it stood; one that was not waits anyway.
    pub(super) fn wait_on(&mut self, key: &Key) {
        fn wait_on(line: &mut impl LineLike<Turn>, key: &Key) {
            if line.is_chosen(key) {
                line.stand_again(key);
                *line.note_mut(key) = Turn::default();
            }
        }
        match self {
            Waiters::One(only) => wait_on(only, key),
            Waiters::Many(line) => wait_on(&mut **line, key),
        }
    }

    /// Whether the place would wake the task of `waker`; a place that is chosen has no need to.
    pub(super) fn has_waker(&self, key: &Key, waker: &Waker) -> bool {
        match self {
            Waiters::One(only) => only.has_waker(key, waker),
            Waiters::Many(line) => line.has_waker(key, waker),
        }
    }

    /// Sets the waker of a place, and gives the one that was there.
    #[inline]
    pub(super) fn replace_waker(&mut self, key: &Key, waker: Waker) -> Option<Waker> {
        match self {
            Waiters::One(only) => only.replace_waker(key, waker),
            Waiters::Many(line) => line.replace_waker(key, waker),
        }
    }

    /// Chooses the first `count`, or all if they are fewer, each with a turn of its own to hand on if `turn` says so. How
    /// many were chosen; and the waker of one who was alone. A line is woken with [`Waiters::next_to_wake`].
    #[inline]
    pub(super) fn choose(&mut self, count: usize, turn: Turn) -> (usize, Option<Waker>) {
        match self {
            Waiters::One(only) if count > 0 && only.waiting() > 0 => {
                *only.note_mut(&Key::FIRST) = turn;
                (1, only.choose_to_wake())
            }
            Waiters::One(_) => (0, None),
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
            Waiters::One(_) => None,
            Waiters::Many(line) => line.next_to_wake(),
        }
    }

    /// How many wait and were not chosen.
    pub(super) fn waiting(&self) -> usize {
        match self {
            Waiters::One(only) => only.waiting(),
            Waiters::Many(line) => line.waiting(),
        }
    }
}

impl Default for Waiters {
    fn default() -> Self {
        Self::NOBODY
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
