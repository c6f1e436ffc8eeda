//! `Line`: who waits for something, in the order they came.
//!
//! The primitives of this module are a state and one or two lines behind one [`StateCell`]. A line calls nobody: it
//! says whom to wake, and [`wake_chosen`] wakes them when nothing is borrowed.
//!
//! # Rules
//!
//! - A place belongs to who [`join`](LineLike::join)ed: only its [`Key`] removes it, and there is one key. So a key
//!   needs no generation, and a future that is dropped leaves nothing behind.
//! - A place waits until it is chosen. *Chosen* is a promise: what was waited for is that place's now, and its owner
//!   either takes it or hands it on when it [`leave`](LineLike::leave)s.
//! - Who is chosen is woken once, in the order of the choosing, by whoever next calls [`wake_chosen`]. Choosing many
//!   is therefore one step for all who look on, however much their wakers do.
//! - Who was promised something and found it gone may [`stand_again`](LineLike::stand_again) where it stood: by its
//!   ticket, before all who came later.
//! - Wakers are foreign code. They are cloned, called and dropped outside; what a function here takes out, it hands
//!   to its caller.

use super::state_cell::StateCell;
use slab::Slab;
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::task::{Context, Waker};

/// No place: the end of a row.
const NONE: usize = usize::MAX;

/// Above this, an empty line gives its memory back.
const KEEP_CAPACITY: usize = 64;

/// A line of many, or one for one only ([`Only`](super::only::Only)): who waits, each with a note.
pub(crate) trait LineLike<N = ()>: Default {
    /// How many wait and are not chosen.
    fn waiting(&self) -> usize;

    /// How many are chosen and have not left.
    fn chosen(&self) -> usize;

    /// Whether somebody was chosen and not woken yet.
    fn is_any_to_wake(&self) -> bool;

    /// Takes the last place. Without a waker it is nobody's to wake: see [`keep_waker`].
    fn join(&mut self, note: N, waker: Option<Waker>) -> Key;

    /// Gives the place up.
    fn leave(&mut self, key: Key) -> Left<N>;

    /// Whether the place was chosen.
    fn is_chosen(&self, key: &Key) -> bool;

    /// The note of a place.
    fn note_mut(&mut self, key: &Key) -> &mut N;

    /// Whether the place would wake the task of `waker`; a place that is chosen has no need to.
    fn has_waker(&self, key: &Key, waker: &Waker) -> bool;

    /// Sets the waker of a place, and gives the one that was there.
    fn replace_waker(&mut self, key: &Key, waker: Waker) -> Option<Waker>;

    /// Has a place that was chosen wait on, before all who came after it.
    fn stand_again(&mut self, key: &Key);

    /// Chooses who is first of the waiting, and gives its note.
    fn choose_first(&mut self) -> Option<&mut N>;

    /// Chooses who is first of the waiting. If nobody is to be woken before it, its waker is handed out, and to be woken at
    /// once: else it waits for [`wake_chosen`] as others do.
    fn choose_to_wake(&mut self) -> Option<Waker>;

    /// Chooses all who wait.
    fn choose_all(&mut self) {
        while self.choose_first().is_some() {}
    }

    /// Takes the next of the chosen off the row of those to be woken. It may have no waker.
    fn next_to_wake(&mut self) -> Option<Option<Waker>>;
}

/// Who waits, each with a note: how much it wants, or what it was given.
pub(crate) struct Line<N = ()> {
    places: Slab<Place<N>>,
    waiting: Row,
    to_wake: Row,
    waiting_count: usize,
    chosen_count: usize,
    tickets: u64,
}

/// A place in a line. It is not `Clone`: who has it is who waits.
#[derive(Debug)]
pub(crate) struct Key(NonZeroUsize);

impl Key {
    /// The key of who joins a line that is new.
    pub(super) const FIRST: Key = Key(NonZeroUsize::MIN);

    /// One more than the index, so that a key that may be there takes no more room than one that is.
    fn of(index: usize) -> Self {
        Key(NonZeroUsize::MIN.saturating_add(index))
    }

    fn index(&self) -> usize {
        self.0.get() - 1
    }
}

/// What was at a place that was left. Its waker is to be dropped when nothing is borrowed.
#[must_use]
pub(crate) struct Left<N> {
    pub(crate) note: N,
    pub(crate) was_chosen: bool,
    pub(super) waker: Option<Waker>,
}

struct Place<N> {
    ticket: u64,
    standing: Standing,
    /// None from joining until the first waker is known, and from waking on.
    waker: Option<Waker>,
    note: N,
    before: usize,
    after: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// In the row `waiting`.
    Waiting,
    /// Chosen; in the row `to_wake`.
    ToWake,
    /// Chosen; in no row.
    Woken,
}

/// The two ends of a list through the places.
struct Row {
    first: usize,
    last: usize,
}

impl<N> LineLike<N> for Line<N> {
    fn waiting(&self) -> usize {
        self.waiting_count
    }

    fn chosen(&self) -> usize {
        self.chosen_count
    }

    fn is_any_to_wake(&self) -> bool {
        self.to_wake.first != NONE
    }

    #[inline]
    fn join(&mut self, note: N, waker: Option<Waker>) -> Key {
        let ticket = self.tickets;
        self.tickets += 1;
        let place = Place { ticket, standing: Standing::Waiting, waker, note, before: NONE, after: NONE };
        if self.places.capacity() == 0 {
            // Most often nobody else comes, and the table would make room for four.
            self.places.reserve_exact(1);
        }
        let index = self.places.insert(place);
        self.link(Standing::Waiting, self.waiting.last, index);
        self.waiting_count += 1;
        Key::of(index)
    }

    #[inline]
    fn leave(&mut self, key: Key) -> Left<N> {
        self.unlink(key.index());
        let place = self.places.remove(key.index());
        let was_chosen = place.standing != Standing::Waiting;
        if was_chosen {
            self.chosen_count -= 1;
        } else {
            self.waiting_count -= 1;
        }
        if self.places.is_empty() && self.places.capacity() > KEEP_CAPACITY {
            self.places = Slab::new();
        }
        Left { note: place.note, was_chosen, waker: place.waker }
    }

    fn is_chosen(&self, key: &Key) -> bool {
        self.places[key.index()].standing != Standing::Waiting
    }

    fn note_mut(&mut self, key: &Key) -> &mut N {
        &mut self.places[key.index()].note
    }

    fn has_waker(&self, key: &Key, waker: &Waker) -> bool {
        let place = &self.places[key.index()];
        place.standing != Standing::Waiting
            || place.waker.as_ref().is_some_and(|known| known.will_wake(waker))
    }

    fn replace_waker(&mut self, key: &Key, waker: Waker) -> Option<Waker> {
        self.places[key.index()].waker.replace(waker)
    }

    fn stand_again(&mut self, key: &Key) {
        self.unlink(key.index());
        let ticket = self.places[key.index()].ticket;
        let mut before = NONE;
        let mut next = self.waiting.first;
        while let Some(place) = self.places.get(next).filter(|place| place.ticket < ticket) {
            before = next;
            next = place.after;
        }
        self.link(Standing::Waiting, before, key.index());
        self.chosen_count -= 1;
        self.waiting_count += 1;
    }

    fn choose_first(&mut self) -> Option<&mut N> {
        let index = self.take_first_waiting()?;
        self.link(Standing::ToWake, self.to_wake.last, index);
        Some(&mut self.places[index].note)
    }

    #[inline]
    fn choose_to_wake(&mut self) -> Option<Waker> {
        if self.is_any_to_wake() {
            self.choose_first();
            return None;
        }
        let index = self.take_first_waiting()?;
        let place = &mut self.places[index];
        place.standing = Standing::Woken;
        place.waker.take()
    }

    fn next_to_wake(&mut self) -> Option<Option<Waker>> {
        let index = self.to_wake.first;
        if index == NONE {
            return None;
        }
        self.unlink(index);
        let place = &mut self.places[index];
        place.standing = Standing::Woken;
        Some(place.waker.take())
    }
}

impl<N> Line<N> {
    pub(crate) const fn new() -> Self {
        const EMPTY: Row = Row { first: NONE, last: NONE };
        Line {
            places: Slab::new(),
            waiting: EMPTY,
            to_wake: EMPTY,
            waiting_count: 0,
            chosen_count: 0,
            tickets: 0,
        }
    }

    /// The note of who is first of the waiting.
    pub(crate) fn first(&self) -> Option<&N> {
        self.places.get(self.waiting.first).map(|place| &place.note)
    }

    /// Takes who is first out of the row of the waiting: it is chosen.
    #[inline]
    fn take_first_waiting(&mut self) -> Option<usize> {
        let index = self.waiting.first;
        if index == NONE {
            return None;
        }
        let after = std::mem::replace(&mut self.places[index].after, NONE);
        self.waiting.first = after;
        match after {
            NONE => self.waiting.last = NONE,
            _ => self.places[after].before = NONE,
        }
        self.waiting_count -= 1;
        self.chosen_count += 1;
        Some(index)
    }

    fn row(&mut self, standing: Standing) -> Option<&mut Row> {
        match standing {
            Standing::Waiting => Some(&mut self.waiting),
            Standing::ToWake => Some(&mut self.to_wake),
            Standing::Woken => None,
        }
    }

    /// Puts a place that is in no row into the one of `standing`, behind `before`, or first.
    #[inline]
    fn link(&mut self, standing: Standing, before: usize, index: usize) {
        let after = match self.places.get_mut(before) {
            Some(before) => std::mem::replace(&mut before.after, index),
            None => self.row(standing).map_or(NONE, |row| std::mem::replace(&mut row.first, index)),
        };
        if after == NONE {
            if let Some(row) = self.row(standing) {
                row.last = index;
            }
        } else {
            self.places[after].before = index;
        }
        let place = &mut self.places[index];
        (place.standing, place.before, place.after) = (standing, before, after);
    }

    /// Takes a place out of the row it is in, if it is in one.
    #[inline]
    fn unlink(&mut self, index: usize) {
        let place = &mut self.places[index];
        let (standing, before, after) = (place.standing, place.before, place.after);
        let Some(row) = self.row(standing) else { return };
        if before == NONE {
            row.first = after;
        }
        if after == NONE {
            row.last = before;
        }
        if before != NONE {
            self.places[before].after = after;
        }
        if after != NONE {
            self.places[after].before = before;
        }
    }
}

impl<N> Default for Line<N> {
    fn default() -> Self {
        Self::new()
    }
}

/// Has the place wake the task of `cx` when it is chosen. The waker's clone may call in, so afterwards the place may be
/// chosen: look again.
pub(crate) fn keep_waker<C: StateCell, N>(
    state: &C,
    line: impl Fn(&mut C::State) -> &mut Line<N>,
    key: &Key,
    cx: &Context<'_>,
) {
    if line(&mut state.open()).has_waker(key, cx.waker()) {
        return;
    }
    let waker = cx.waker().clone();
    let former = line(&mut state.open()).replace_waker(key, waker);
    drop(former);
}

/// Wakes everybody who was chosen and not woken yet.
pub(crate) fn wake_chosen<C: StateCell, N>(state: &C, line: impl Fn(&mut C::State) -> &mut Line<N>) {
    wake_each(|| line(&mut state.open()).next_to_wake());
}

/// Wakes whom `next` gives until it gives nobody. A waker that panics does not keep the others from being woken; the
/// first panic goes on when all are.
pub(crate) fn wake_each(mut next: impl FnMut() -> Option<Option<Waker>>) {
    let mut panicked = None;
    while let Some(waker) = next() {
        let Some(waker) = waker else { continue };
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| waker.wake())) {
            // A second payload is leaked: dropping it is foreign code, in the middle of a panic.
            let former = panicked.replace(payload);
            std::mem::forget(former);
        }
    }
    if let Some(payload) = panicked {
        resume_unwind(payload);
    }
}

#[cfg(test)]
mod tests;
