//! `QueueState`: items, room and waiters of a queue.
//!
//! # Rules
//!
//! - A getter is notified when there are more items than notified getters; a putter likewise with room.
//!   [`QueueState::settle`] does that after every change. So between two changes nobody waits for an item or for room
//!   that is not assigned.
//! - `get` and `put` wait in line: a newcomer takes only what is not assigned. The `_nowait` functions do not wait in
//!   line, as in asyncio: they take what `qsize` counts. A notified waiter that finds nothing waits on in its old
//!   place.
//! - An item stays in the store until a polled future takes it. Dropping a future therefore loses no item: it frees
//!   an assignment, and `settle` gives that to the next waiter.
//! - Reserved room is subtracted from `limit`, so that putting and getting need not consider it. A queue that is shut
//!   down has ended when nothing is reserved.

use super::Order;
use crate::sync::wait_list::wait_queue::{WaitQueue, WaiterKey, Waiters};
use std::fmt;
use std::marker::PhantomData;
use std::task::Waker;

/// The state of a queue. `G` are the getters: many, or the one receiver of a channel.
pub(in crate::sync) struct QueueState<T, O, G = WaitQueue> {
    pub(in crate::sync) store: O,
    /// The maximum number of items, without reserved room; `usize::MAX` for no limit.
    limit: usize,
    /// The number of reserved places. Always zero without a limit.
    reserved: usize,
    pub(in crate::sync) is_shut_down: bool,
    /// No receiver is left.
    is_abandoned: bool,
    /// The number of items that were put and are not done.
    pub(super) unfinished: usize,
    pub(super) getters: G,
    pub(super) putters: WaitQueue,
    item: PhantomData<T>,
}

impl<T, O: Order<T>, G: Waiters> QueueState<T, O, G> {
    pub(in crate::sync) fn new(maxsize: usize) -> Self {
        QueueState {
            store: O::default(),
            limit: if maxsize == 0 { usize::MAX } else { maxsize },
            reserved: 0,
            is_shut_down: false,
            is_abandoned: false,
            unfinished: 0,
            getters: G::default(),
            putters: WaitQueue::new(),
            item: PhantomData,
        }
    }

    /// The maximum number of items; zero for no limit.
    pub(in crate::sync) fn maxsize(&self) -> usize {
        if self.limit == usize::MAX { 0 } else { self.limit + self.reserved }
    }

    /// The number of items that there is room for.
    pub(in crate::sync) fn room(&self) -> usize {
        self.limit.saturating_sub(self.store.len())
    }

    /// Whether no more items will be put.
    pub(super) fn is_ending(&self) -> bool {
        self.is_shut_down && self.reserved == 0
    }

    pub(in crate::sync) fn has_item(&self) -> bool {
        !self.store.is_empty()
    }

    /// Whether there is an item that is not assigned. After shutdown nothing is assigned.
    pub(super) fn has_free_item(&self) -> bool {
        let promised = if self.is_shut_down { 0 } else { self.getters.notified() };
        self.store.len() > promised
    }

    /// Whether there is room that is not assigned.
    pub(super) fn has_free_room(&self) -> bool {
        self.room() > self.putters.notified()
    }

    /// Takes an item for the waiter `key`, or for a newcomer without one. `Some(None)` if there will be no more
    /// items, `None` if the caller must wait.
    #[inline(always)]
    pub(super) fn take(&mut self, key: Option<&WaiterKey>) -> Option<Option<T>> {
        let is_notified = key.map(|key| self.getters.is_notified(key));
        let may_take = match is_notified {
            None => self.has_free_item(),
            Some(is_notified) => is_notified && self.has_item(),
        };
        let item = if may_take { self.store.get() } else { None };
        (item.is_some() || (self.is_ending() && is_notified != Some(false))).then_some(item)
    }

    /// Whether there is room for the waiter `key`, or for a newcomer without one.
    #[inline(always)]
    pub(super) fn may_put(&self, key: Option<&WaiterKey>) -> bool {
        match key {
            None => self.has_free_room(),
            Some(key) => self.putters.is_notified(key) && self.room() > 0,
        }
    }

    /// Stores an item. It is counted first: an `Order` that panics may have stored it.
    pub(super) fn put(&mut self, item: T) {
        self.unfinished += 1;
        self.store.put(item);
    }

    /// Reserves room for one item. The caller has checked that there is some.
    pub(super) fn reserve(&mut self) {
        self.limit -= 1;
        self.reserved += 1;
    }

    /// Gives reserved room back. Notifies getters that wait for an item that will not come.
    pub(super) fn unreserve(&mut self) {
        self.limit += 1;
        self.reserved -= 1;
        if self.is_ending() {
            self.getters.notify_all();
        }
    }

    /// Puts an item into reserved room. Returns it if no receiver is left.
    pub(super) fn put_reserved(&mut self, item: T) -> Option<T> {
        self.unreserve();
        if self.is_abandoned {
            return Some(item);
        }
        self.put(item);
        None
    }

    /// No sender is left, so remaining reservations were leaked.
    pub(in crate::sync) fn forget_reserved(&mut self) {
        self.limit += std::mem::take(&mut self.reserved);
    }

    /// Assigns free items and room to the first waiters.
    #[inline(always)]
    pub(super) fn settle(&mut self) -> ToWake {
        let are_some_left = self.getters.has_any_to_wake() || self.putters.has_any_to_wake();
        if !are_some_left && self.getters.waiting() == 0 && self.putters.waiting() == 0 {
            return ToWake { first: None, are_more: false };
        }
        self.promise()
    }

    #[inline(always)]
    fn promise(&mut self) -> ToWake {
        // Usually at most one waiter is woken, which needs no second look at the queue.
        let mut first = None;
        while self.getters.waiting() > 0 && self.has_free_item() {
            notify_one(&mut self.getters, &mut first);
        }
        while self.putters.waiting() > 0 && self.has_free_room() {
            notify_one(&mut self.putters, &mut first);
        }
        ToWake { first, are_more: self.getters.has_any_to_wake() || self.putters.has_any_to_wake() }
    }

    /// Shuts the queue down and notifies all waiters.
    pub(super) fn shut_down(&mut self, immediate: bool) -> ToWake {
        self.is_shut_down = true;
        self.is_abandoned |= immediate;
        self.getters.notify_all();
        self.putters.notify_all();
        ToWake { first: None, are_more: true }
    }

    pub(super) fn next_to_wake(&mut self) -> Option<Option<Waker>> {
        self.getters.next_to_wake().or_else(|| self.putters.next_to_wake())
    }
}

#[inline]
fn notify_one(waiters: &mut impl Waiters, first: &mut Option<Waker>) {
    if first.is_none() {
        *first = waiters.notify_first_and_take_waker();
    } else {
        waiters.notify_first();
    }
}

/// The waiters to wake after the cell is closed.
#[must_use]
pub(in crate::sync) struct ToWake {
    pub(super) first: Option<Waker>,
    /// Whether the queues have more.
    pub(super) are_more: bool,
}

impl<T, O: Order<T>, G: Waiters> fmt::Debug for QueueState<T, O, G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue")
            .field("maxsize", &self.maxsize())
            .field("items", &self.store.len())
            .field("getting", &self.getters.waiting())
            .field("putting", &self.putters.waiting())
            .field("unfinished", &self.unfinished)
            .field("shut_down", &self.is_shut_down)
            .finish_non_exhaustive()
    }
}
