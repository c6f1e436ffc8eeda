//! `WaitQueue`: who waits for something, in the order they came.
//!
//! The primitives of this module are a state and one or two lines behind one [`StateCell`]. A line calls nobody: it
//! says whom to wake, and [`wake_notified`] wakes them when nothing is borrowed.
//!
//! # Rules
//!
//! - A waiter belongs to who [`join`](Waiters::enqueue)ed: single its [`WaiterKey`] removes it, and there is one key. So a key
//!   needs no generation, and a future that is dropped leaves nothing behind.
//! - A waiter waits until it is chosen. *Chosen* is a promise: what was waited for is that place's now, and its owner
//!   either takes it or hands it on when it [`leave`](Waiters::leave)s.
//! - Who is chosen is woken once, in the order of the choosing, by whoever next calls [`wake_notified`]. Choosing many
//!   is therefore one step for all who look on, however much their wakers do.
//! - Who was promised something and found it gone may [`requeue`](Waiters::requeue) where it stood: by its
//!   ticket, before all who came later.
//! - Wakers are foreign code. They are cloned, called and dropped outside; what a function here takes out, it hands
//!   to its caller.

use crate::sync::state_cell::StateCell;
use slab::Slab;
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::task::{Context, Waker};

/// No waiter: the end of a list.
const NONE: usize = usize::MAX;

/// Above this, an empty line gives its memory back.
const MAX_IDLE_CAPACITY: usize = 64;

/// A line of many, or one for one single ([`SingleWaiter`](super::SingleWaiter)): who waits, each with a data.
pub(crate) trait Waiters<N = ()>: Default {
    /// How many wait and are not chosen.
    fn waiting(&self) -> usize;

    /// How many are chosen and have not removed.
    fn notified(&self) -> usize;

    /// Whether somebody was chosen and not woken yet.
    fn has_any_to_wake(&self) -> bool;

    /// Takes the last waiter. Without a waker it is nobody's to wake: see [`register_waker`].
    fn enqueue(&mut self, data: N, waker: Option<Waker>) -> WaiterKey;

    /// Gives the waiter up.
    fn remove(&mut self, key: WaiterKey) -> RemovedWaiter<N>;

    /// Whether the waiter was chosen.
    fn is_notified(&self, key: &WaiterKey) -> bool;

    /// The data of a waiter.
    fn data_mut(&mut self, key: &WaiterKey) -> &mut N;

    /// Whether the waiter would wake the task of `waker`; a waiter that is chosen has no need to.
    fn has_waker(&self, key: &WaiterKey, waker: &Waker) -> bool;

    /// Sets the waker of a waiter, and gives the one that was there.
    fn replace_waker(&mut self, key: &WaiterKey, waker: Waker) -> Option<Waker>;

    /// Has a waiter that was chosen wait on, before all who came after it.
    fn requeue(&mut self, key: &WaiterKey);

    /// Chooses who is first of the waiting, and gives its data.
    fn notify_first(&mut self) -> Option<&mut N>;

    /// Chooses who is first of the waiting. If nobody is to be woken before it, its waker is handed out, and to be woken at
    /// once: else it waits for [`wake_notified`] as others do.
    fn notify_first_and_take_waker(&mut self) -> Option<Waker>;

    /// Chooses all who wait.
    fn notify_all(&mut self) {
        while self.notify_first().is_some() {}
    }

    /// Takes the next of the chosen off the list of those to be woken. It may have no waker.
    fn next_to_wake(&mut self) -> Option<Option<Waker>>;
}

/// Who waits, each with a data: how much it wants, or what it was given.
pub(crate) struct WaitQueue<N = ()> {
    waiters: Slab<Waiter<N>>,
    waiting: ListEnds,
    to_wake: ListEnds,
    waiting_count: usize,
    notified_count: usize,
    tickets: u64,
}

/// A waiter in a queue. It is not `Clone`: who has it is who waits.
#[derive(Debug)]
pub(crate) struct WaiterKey(NonZeroUsize);

impl WaiterKey {
    /// The key of who joins a line that is new.
    pub(super) const FIRST: WaiterKey = WaiterKey(NonZeroUsize::MIN);

    /// One more than the index, so that a key that may be there takes no more room than one that is.
    fn of(index: usize) -> Self {
        WaiterKey(NonZeroUsize::MIN.saturating_add(index))
    }

    fn index(&self) -> usize {
        self.0.get() - 1
    }
}

/// What was at a waiter that was removed. Its waker is to be dropped when nothing is borrowed.
#[must_use]
pub(crate) struct RemovedWaiter<N> {
    pub(crate) data: N,
    pub(crate) was_notified: bool,
    pub(super) waker: Option<Waker>,
}

struct Waiter<N> {
    ticket: u64,
    state: WaiterState,
    /// None from joining until the first waker is known, and from waking on.
    waker: Option<Waker>,
    data: N,
    before: usize,
    after: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum WaiterState {
    /// In the list `waiting`.
    Waiting,
    /// Chosen; in the list `to_wake`.
    ToWake,
    /// Chosen; in no list.
    Woken,
}

/// The two ends of a list through the waiters.
struct ListEnds {
    first: usize,
    last: usize,
}

impl<N> Waiters<N> for WaitQueue<N> {
    fn waiting(&self) -> usize {
        self.waiting_count
    }

    fn notified(&self) -> usize {
        self.notified_count
    }

    fn has_any_to_wake(&self) -> bool {
        self.to_wake.first != NONE
    }

    #[inline]
    fn enqueue(&mut self, data: N, waker: Option<Waker>) -> WaiterKey {
        let ticket = self.tickets;
        self.tickets += 1;
        let waiter = Waiter { ticket, state: WaiterState::Waiting, waker, data, before: NONE, after: NONE };
        if self.waiters.capacity() == 0 {
            // Most often nobody else comes, and the table would make room for four.
            self.waiters.reserve_exact(1);
        }
        let index = self.waiters.insert(waiter);
        self.link(WaiterState::Waiting, self.waiting.last, index);
        self.waiting_count += 1;
        WaiterKey::of(index)
    }

    #[inline]
    fn remove(&mut self, key: WaiterKey) -> RemovedWaiter<N> {
        self.unlink(key.index());
        let waiter = self.waiters.remove(key.index());
        let was_notified = waiter.state != WaiterState::Waiting;
        if was_notified {
            self.notified_count -= 1;
        } else {
            self.waiting_count -= 1;
        }
        if self.waiters.is_empty() && self.waiters.capacity() > MAX_IDLE_CAPACITY {
            self.waiters = Slab::new();
        }
        RemovedWaiter { data: waiter.data, was_notified, waker: waiter.waker }
    }

    fn is_notified(&self, key: &WaiterKey) -> bool {
        self.waiters[key.index()].state != WaiterState::Waiting
    }

    fn data_mut(&mut self, key: &WaiterKey) -> &mut N {
        &mut self.waiters[key.index()].data
    }

    fn has_waker(&self, key: &WaiterKey, waker: &Waker) -> bool {
        let waiter = &self.waiters[key.index()];
        waiter.state != WaiterState::Waiting
            || waiter.waker.as_ref().is_some_and(|known| known.will_wake(waker))
    }

    fn replace_waker(&mut self, key: &WaiterKey, waker: Waker) -> Option<Waker> {
        self.waiters[key.index()].waker.replace(waker)
    }

    fn requeue(&mut self, key: &WaiterKey) {
        self.unlink(key.index());
        let ticket = self.waiters[key.index()].ticket;
        let mut before = NONE;
        let mut next = self.waiting.first;
        while let Some(waiter) = self.waiters.get(next).filter(|waiter| waiter.ticket < ticket) {
            before = next;
            next = waiter.after;
        }
        self.link(WaiterState::Waiting, before, key.index());
        self.notified_count -= 1;
        self.waiting_count += 1;
    }

    fn notify_first(&mut self) -> Option<&mut N> {
        let index = self.take_first_waiting()?;
        self.link(WaiterState::ToWake, self.to_wake.last, index);
        Some(&mut self.waiters[index].data)
    }

    #[inline]
    fn notify_first_and_take_waker(&mut self) -> Option<Waker> {
        if self.has_any_to_wake() {
            self.notify_first();
            return None;
        }
        let index = self.take_first_waiting()?;
        let waiter = &mut self.waiters[index];
        waiter.state = WaiterState::Woken;
        waiter.waker.take()
    }

    fn next_to_wake(&mut self) -> Option<Option<Waker>> {
        let index = self.to_wake.first;
        if index == NONE {
            return None;
        }
        self.unlink(index);
        let waiter = &mut self.waiters[index];
        waiter.state = WaiterState::Woken;
        Some(waiter.waker.take())
    }
}

impl<N> WaitQueue<N> {
    pub(crate) const fn new() -> Self {
        const EMPTY: ListEnds = ListEnds { first: NONE, last: NONE };
        WaitQueue {
            waiters: Slab::new(),
            waiting: EMPTY,
            to_wake: EMPTY,
            waiting_count: 0,
            notified_count: 0,
            tickets: 0,
        }
    }

    /// The data of who is first of the waiting.
    pub(crate) fn first(&self) -> Option<&N> {
        self.waiters.get(self.waiting.first).map(|waiter| &waiter.data)
    }

    /// Takes who is first out of the list of the waiting: it is chosen.
    #[inline]
    fn take_first_waiting(&mut self) -> Option<usize> {
        let index = self.waiting.first;
        if index == NONE {
            return None;
        }
        let after = std::mem::replace(&mut self.waiters[index].after, NONE);
        self.waiting.first = after;
        match after {
            NONE => self.waiting.last = NONE,
            _ => self.waiters[after].before = NONE,
        }
        self.waiting_count -= 1;
        self.notified_count += 1;
        Some(index)
    }

    fn list(&mut self, state: WaiterState) -> Option<&mut ListEnds> {
        match state {
            WaiterState::Waiting => Some(&mut self.waiting),
            WaiterState::ToWake => Some(&mut self.to_wake),
            WaiterState::Woken => None,
        }
    }

    /// Puts a waiter that is in no list into the one of `state`, behind `before`, or first.
    #[inline]
    fn link(&mut self, state: WaiterState, before: usize, index: usize) {
        let after = match self.waiters.get_mut(before) {
            Some(before) => std::mem::replace(&mut before.after, index),
            None => self.list(state).map_or(NONE, |list| std::mem::replace(&mut list.first, index)),
        };
        if after == NONE {
            if let Some(list) = self.list(state) {
                list.last = index;
            }
        } else {
            self.waiters[after].before = index;
        }
        let waiter = &mut self.waiters[index];
        (waiter.state, waiter.before, waiter.after) = (state, before, after);
    }

    /// Takes a waiter out of the list it is in, if it is in one.
    #[inline]
    fn unlink(&mut self, index: usize) {
        let waiter = &mut self.waiters[index];
        let (state, before, after) = (waiter.state, waiter.before, waiter.after);
        let Some(list) = self.list(state) else { return };
        if before == NONE {
            list.first = after;
        }
        if after == NONE {
            list.last = before;
        }
        if before != NONE {
            self.waiters[before].after = after;
        }
        if after != NONE {
            self.waiters[after].before = before;
        }
    }
}

impl<N> Default for WaitQueue<N> {
    fn default() -> Self {
        Self::new()
    }
}

/// Has the waiter wake the task of `cx` when it is chosen. The waker's clone may call in, so afterwards the waiter may be
/// chosen: look again.
pub(crate) fn register_waker<C: StateCell, N>(
    state: &C,
    queue: impl Fn(&mut C::State) -> &mut WaitQueue<N>,
    key: &WaiterKey,
    cx: &Context<'_>,
) {
    if queue(&mut state.open()).has_waker(key, cx.waker()) {
        return;
    }
    let waker = cx.waker().clone();
    let former = queue(&mut state.open()).replace_waker(key, waker);
    drop(former);
}

/// Wakes everybody who was chosen and not woken yet.
pub(crate) fn wake_notified<C: StateCell, N>(state: &C, queue: impl Fn(&mut C::State) -> &mut WaitQueue<N>) {
    wake_each(|| queue(&mut state.open()).next_to_wake());
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
