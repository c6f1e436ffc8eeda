//! `Only`: a line for one.
//!
//! A channel has one receiver, and most connections have one reader. One needs no table of places, no order and no tickets:
//! where a [`Line`](super::line::Line) joins, chooses and leaves, this sets a word. The rules are those of a line.

use super::line::{Key, Left, LineLike};
use std::task::Waker;

/// The one who waits, if it does. There is no more than one at a time: whoever uses this sees to that.
#[derive(Default)]
pub(crate) struct Only<N = ()> {
    standing: Standing,
    note: N,
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

impl<N> Only<N> {
    /// Nobody, and the note that nobody has.
    pub(super) const fn new(note: N) -> Self {
        Only { standing: Standing::Away, note, waker: None }
    }

    /// Leaves if it was woken, which leaves nothing to hand out. Whether it was.
    #[inline]
    pub(super) fn leave_woken(&mut self) -> bool {
        let is_woken = self.standing == Standing::Woken && self.waker.is_none();
        if is_woken {
            self.standing = Standing::Away;
        }
        is_woken
    }

    pub(super) fn is_away(&self) -> bool {
        self.standing == Standing::Away
    }
}

impl<N: Default> LineLike<N> for Only<N> {
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
    fn join(&mut self, note: N, waker: Option<Waker>) -> Key {
        debug_assert!(self.is_away(), "two wait in a line for one");
        (self.standing, self.note, self.waker) = (Standing::Waiting, note, waker);
        Key::FIRST
    }

    #[inline]
    fn leave(&mut self, key: Key) -> Left<N> {
        let was_chosen = self.is_chosen(&key);
        self.standing = Standing::Away;
        Left { note: std::mem::take(&mut self.note), was_chosen, waker: self.waker.take() }
    }

    #[inline]
    fn is_chosen(&self, _: &Key) -> bool {
        self.standing != Standing::Waiting
    }

    #[inline]
    fn note_mut(&mut self, _: &Key) -> &mut N {
        &mut self.note
    }

    #[inline]
    fn has_waker(&self, key: &Key, waker: &Waker) -> bool {
        self.is_chosen(key) || self.waker.as_ref().is_some_and(|known| known.will_wake(waker))
    }

    #[inline]
    fn replace_waker(&mut self, _: &Key, waker: Waker) -> Option<Waker> {
        self.waker.replace(waker)
    }

    #[inline]
    fn stand_again(&mut self, _: &Key) {
        self.standing = Standing::Waiting;
    }

    #[inline]
    fn choose_first(&mut self) -> Option<&mut N> {
        if self.standing != Standing::Waiting {
            return None;
        }
        self.standing = Standing::ToWake;
        Some(&mut self.note)
    }

    #[inline]
    fn choose_to_wake(&mut self) -> Option<Waker> {
        if self.standing != Standing::Waiting {
            return None;
        }
        self.standing = Standing::Woken;
        self.waker.take()
    }

    #[inline]
    fn next_to_wake(&mut self) -> Option<Option<Waker>> {
        if self.standing != Standing::ToWake {
            return None;
        }
        self.standing = Standing::Woken;
        Some(self.waker.take())
    }
}
