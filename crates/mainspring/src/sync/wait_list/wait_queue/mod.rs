//! `WaitQueue`: waiters, first in, first out.
//!
//! A primitive is a state and one or two queues in one [`StateCell`]. A queue calls no wakers: it returns them, and
//! [`wake_notified`] wakes them after the cell is closed.
//!
//! # Rules
//!
//! - Only its [`WaiterKey`] removes a waiter, and there is one key for each. So keys need no generation, and dropping
//!   a future leaves nothing behind.
//! - A waiter waits until it is notified. *Notified* means that an item, permit or lock is assigned to it. Its owner
//!   takes that, or reassigns it when it [`remove`](Waiters::remove)s the waiter.
//! - A notified waiter is woken once, in the order of notification, by the next call of [`wake_notified`]. So notifying
//!   many waiters is atomic for observers, whatever the wakers do.
//! - A waiter whose assignment was taken may [`requeue`](Waiters::requeue): its ticket restores its place before all
//!   later waiters.
//! - Wakers are foreign code: they are cloned, called and dropped outside of the cell. Removal functions return the
//!   removed waker so that the caller drops it after closing the cell.

use crate::sync::state_cell::StateCell;
use slab::Slab;
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::task::{Context, Waker};

/// No waiter: the end of a list.
const NONE: usize = usize::MAX;

/// The capacity, in waiters, above which an empty queue frees its memory.
const MAX_IDLE_CAPACITY: usize = 64;

/// A set of waiters with data of type `N`: a [`WaitQueue`], or a [`SingleWaiter`](super::SingleWaiter).
pub(crate) trait Waiters<N = ()>: Default {
    /// The number of waiters that are not notified.
    fn waiting(&self) -> usize;

    /// The number of waiters that are notified and not removed.
    fn notified(&self) -> usize;

    /// Whether a waiter is notified and not woken.
    fn has_any_to_wake(&self) -> bool;

    /// Adds a waiter at the end. Without a waker it cannot be woken: see [`register_waker`].
    fn enqueue(&mut self, data: N, waker: Option<Waker>) -> WaiterKey;

    /// Removes the waiter.
    fn remove(&mut self, key: WaiterKey) -> RemovedWaiter<N>;

    /// Whether the waiter is notified.
    fn is_notified(&self, key: &WaiterKey) -> bool;

    /// The data of a waiter.
    fn data_mut(&mut self, key: &WaiterKey) -> &mut N;

    /// Whether the waiter wakes the task of `waker`, or is notified and need not wake it.
    fn has_waker(&self, key: &WaiterKey, waker: &Waker) -> bool;

    /// Sets the waker of a waiter. Returns the previous one.
    fn replace_waker(&mut self, key: &WaiterKey, waker: Waker) -> Option<Waker>;

    /// Requeues a notified waiter, before all later waiters.
    fn requeue(&mut self, key: &WaiterKey);

    /// Notifies the first waiter. Returns its data.
    fn notify_first(&mut self) -> Option<&mut N>;

    /// Notifies the first waiter. If no other is to be woken before it, returns its waker, which the caller wakes at
    /// once. Otherwise [`wake_notified`] wakes it.
    fn notify_first_and_take_waker(&mut self) -> Option<Waker>;

    /// Notifies all waiters.
    fn notify_all(&mut self) {
        while self.notify_first().is_some() {}
    }

    /// Removes the next waiter from the list of those to be woken. It may have no waker.
    fn next_to_wake(&mut self) -> Option<Option<Waker>>;
}

/// Waiters with data: a request, or an assignment.
pub(crate) struct WaitQueue<N = ()> {
    waiters: Slab<Waiter<N>>,
    waiting: ListEnds,
    to_wake: ListEnds,
    waiting_count: usize,
    notified_count: usize,
    tickets: u64,
}

/// Identifies a waiter. Not `Clone`: the owner of the key is the owner of the waiter.
#[derive(Debug)]
pub(crate) struct WaiterKey(NonZeroUsize);

impl WaiterKey {
    /// The key of the first waiter of a new queue.
    pub(super) const FIRST: WaiterKey = WaiterKey(NonZeroUsize::MIN);

    /// The index plus one, so that `Option<WaiterKey>` is no larger than the key.
    fn from_index(index: usize) -> Self {
        WaiterKey(NonZeroUsize::MIN.saturating_add(index))
    }

    fn index(&self) -> usize {
        self.0.get() - 1
    }
}

/// A removed waiter. The caller drops its waker after closing the cell.
#[must_use]
pub(crate) struct RemovedWaiter<N> {
    pub(crate) data: N,
    pub(crate) was_notified: bool,
    pub(super) waker: Option<Waker>,
}

struct Waiter<N> {
    ticket: u64,
    state: WaiterState,
    /// `None` until the first waker is registered, and after the waiter is woken.
    waker: Option<Waker>,
    data: N,
    prev: usize,
    next: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum WaiterState {
    /// In the list `waiting`.
    Waiting,
    /// Notified; in the list `to_wake`.
    ToWake,
    /// Notified; in no list.
    Woken,
}

/// The two ends of a doubly linked list of waiters.
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
        let waiter = Waiter { ticket, state: WaiterState::Waiting, waker, data, prev: NONE, next: NONE };
        if self.waiters.capacity() == 0 {
            // Most queues have one waiter, and the slab would reserve four slots.
            self.waiters.reserve_exact(1);
        }
        let index = self.waiters.insert(waiter);
        self.link(WaiterState::Waiting, self.waiting.last, index);
        self.waiting_count += 1;
        WaiterKey::from_index(index)
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
            || waiter.waker.as_ref().is_some_and(|current| current.will_wake(waker))
    }

    fn replace_waker(&mut self, key: &WaiterKey, waker: Waker) -> Option<Waker> {
        self.waiters[key.index()].waker.replace(waker)
    }

    fn requeue(&mut self, key: &WaiterKey) {
        self.unlink(key.index());
        let ticket = self.waiters[key.index()].ticket;
        let mut prev = NONE;
        let mut next = self.waiting.first;
        while let Some(waiter) = self.waiters.get(next).filter(|waiter| waiter.ticket < ticket) {
            prev = next;
            next = waiter.next;
        }
        self.link(WaiterState::Waiting, prev, key.index());
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

    /// The data of the first waiter.
    pub(crate) fn first(&self) -> Option<&N> {
        self.waiters.get(self.waiting.first).map(|waiter| &waiter.data)
    }

    /// Removes the first waiter from the list `waiting`. It is notified.
    #[inline]
    fn take_first_waiting(&mut self) -> Option<usize> {
        let index = self.waiting.first;
        if index == NONE {
            return None;
        }
        let next = std::mem::replace(&mut self.waiters[index].next, NONE);
        self.waiting.first = next;
        match next {
            NONE => self.waiting.last = NONE,
            _ => self.waiters[next].prev = NONE,
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

    /// Inserts a waiter that is in no list into the list of `state`, after `prev`, or at the front.
    #[inline]
    fn link(&mut self, state: WaiterState, prev: usize, index: usize) {
        let next = match self.waiters.get_mut(prev) {
            Some(prev) => std::mem::replace(&mut prev.next, index),
            None => self.list(state).map_or(NONE, |list| std::mem::replace(&mut list.first, index)),
        };
        if next == NONE {
            if let Some(list) = self.list(state) {
                list.last = index;
            }
        } else {
            self.waiters[next].prev = index;
        }
        let waiter = &mut self.waiters[index];
        (waiter.state, waiter.prev, waiter.next) = (state, prev, next);
    }

    /// Removes a waiter from its list, if it is in one.
    #[inline]
    fn unlink(&mut self, index: usize) {
        let waiter = &mut self.waiters[index];
        let (state, prev, next) = (waiter.state, waiter.prev, waiter.next);
        let Some(list) = self.list(state) else { return };
        if prev == NONE {
            list.first = next;
        }
        if next == NONE {
            list.last = prev;
        }
        if prev != NONE {
            self.waiters[prev].next = next;
        }
        if next != NONE {
            self.waiters[next].prev = prev;
        }
    }
}

impl<N> Default for WaitQueue<N> {
    fn default() -> Self {
        Self::new()
    }
}

/// Makes the waiter wake the task of `cx`. Cloning the waker runs foreign code, which may notify the waiter: check
/// again afterwards.
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

/// Wakes all waiters that are notified and not woken.
pub(crate) fn wake_notified<C: StateCell, N>(state: &C, queue: impl Fn(&mut C::State) -> &mut WaitQueue<N>) {
    wake_each(|| queue(&mut state.open()).next_to_wake());
}

/// Wakes all wakers that `next` returns. If one panics, the others are still woken; the first panic continues
/// afterwards.
pub(crate) fn wake_each(mut next: impl FnMut() -> Option<Option<Waker>>) {
    let mut panicked = None;
    while let Some(waker) = next() {
        let Some(waker) = waker else { continue };
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| waker.wake())) {
            // A second payload is leaked: its destructor is foreign code, and might panic during a panic.
            let former = panicked.replace(payload);
            std::mem::forget(former);
        }
    }
    if let Some(payload) = panicked {
        resume_unwind(payload);
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
