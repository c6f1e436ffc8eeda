//! `Only`: a line for one, and [`LineLike`], what a queue asks of either.
//!
//! A channel has one receiver. It needs no table of places, no order and no tickets: where a [`Line`] joins, chooses and
//! leaves, this sets a word. The rules are those of a line.

use super::line::{Key, Line};
use std::task::Waker;

/// Who waits for the items of a queue. What the functions do is told at [`Line`]'s, whose names they have.
pub(crate) trait LineLike: Default {
    /// A place.
    type Key;

    fn waiting(&self) -> usize;
    fn chosen(&self) -> usize;
    fn is_any_to_wake(&self) -> bool;
    fn join(&mut self, waker: Waker) -> Self::Key;
    /// Gives the place up, and the waker out: it is to be dropped when nothing is borrowed.
    fn leave(&mut self, key: Self::Key) -> Option<Waker>;
    fn is_chosen(&self, key: &Self::Key) -> bool;
    fn has_waker(&self, key: &Self::Key, waker: &Waker) -> bool;
    fn replace_waker(&mut self, key: &Self::Key, waker: Waker) -> Option<Waker>;
    fn stand_again(&mut self, key: &Self::Key);
    fn choose_first(&mut self);
    fn choose_to_wake(&mut self) -> Option<Waker>;
    fn choose_all(&mut self);
    fn next_to_wake(&mut self) -> Option<Option<Waker>>;
}

impl LineLike for Line {
    type Key = Key;

    fn waiting(&self) -> usize {
        Line::waiting(self)
    }

    fn chosen(&self) -> usize {
        Line::chosen(self)
    }

    fn is_any_to_wake(&self) -> bool {
        Line::is_any_to_wake(self)
    }

    fn join(&mut self, waker: Waker) -> Key {
        Line::join(self, (), Some(waker))
    }

    fn leave(&mut self, key: Key) -> Option<Waker> {
        Line::leave(self, key).into_waker()
    }

    fn is_chosen(&self, key: &Key) -> bool {
        Line::is_chosen(self, key)
    }

    fn has_waker(&self, key: &Key, waker: &Waker) -> bool {
        Line::has_waker(self, key, waker)
    }

    fn replace_waker(&mut self, key: &Key, waker: Waker) -> Option<Waker> {
        Line::replace_waker(self, key, waker)
    }

    fn stand_again(&mut self, key: &Key) {
        Line::stand_again(self, key);
    }

    fn choose_first(&mut self) {
        Line::choose_first(self);
    }

    fn choose_to_wake(&mut self) -> Option<Waker> {
        Line::choose_to_wake(self)
    }

    fn choose_all(&mut self) {
        Line::choose_all(self);
    }

    fn next_to_wake(&mut self) -> Option<Option<Waker>> {
        Line::next_to_wake(self)
    }
}

/// The one who waits, if it does.
#[derive(Default)]
pub(crate) struct Only {
    standing: Standing,
    waker: Option<Waker>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Standing {
    #[default]
    Away,
    Waiting,
    /// Chosen, and not woken yet.
    ToWake,
    /// Chosen, and woken.
    Woken,
}

/// The place of the one. There is no more than one at a time: whoever uses this sees to that.
#[derive(Debug)]
pub(crate) struct OnlyKey(());

impl LineLike for Only {
    type Key = OnlyKey;

    #[inline]
    fn waiting(&self) -> usize {
        usize::from(self.standing == Standing::Waiting)
    }

    #[inline]
    fn chosen(&self) -> usize {
        usize::from(matches!(self.standing, Standing::ToWake | Standing::Woken))
    }

    #[inline]
    fn is_any_to_wake(&self) -> bool {
        self.standing == Standing::ToWake
    }

    #[inline]
    fn join(&mut self, waker: Waker) -> OnlyKey {
        debug_assert!(self.standing == Standing::Away, "two wait in a line for one");
        self.standing = Standing::Waiting;
        self.waker = Some(waker);
        OnlyKey(())
    }

    #[inline]
    fn leave(&mut self, _: OnlyKey) -> Option<Waker> {
        self.standing = Standing::Away;
        self.waker.take()
    }

    #[inline]
    fn is_chosen(&self, _: &OnlyKey) -> bool {
        self.standing != Standing::Waiting
    }

    #[inline]
    fn has_waker(&self, key: &OnlyKey, waker: &Waker) -> bool {
        self.is_chosen(key) || self.waker.as_ref().is_some_and(|known| known.will_wake(waker))
    }

    #[inline]
    fn replace_waker(&mut self, _: &OnlyKey, waker: Waker) -> Option<Waker> {
        self.waker.replace(waker)
    }

    #[inline]
    fn stand_again(&mut self, _: &OnlyKey) {
        self.standing = Standing::Waiting;
    }

    #[inline]
    fn choose_first(&mut self) {
        if self.standing == Standing::Waiting {
            self.standing = Standing::ToWake;
        }
    }

    #[inline]
    fn choose_to_wake(&mut self) -> Option<Waker> {
        if self.standing != Standing::Waiting {
            return None;
        }
        self.standing = Standing::Woken;
        self.waker.take()
    }

    fn choose_all(&mut self) {
        self.choose_first();
    }

    fn next_to_wake(&mut self) -> Option<Option<Waker>> {
        if self.standing != Standing::ToWake {
            return None;
        }
        self.standing = Standing::Woken;
        Some(self.waker.take())
    }
}
