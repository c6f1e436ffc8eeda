//! `QueueState`: items, capacity and waiters of a queue.
//!
//! # Rules
//!
//! - A getter is notified when there are more items than notified getters; a putter, when there are more free slots
//!   than notified putters. [`QueueState::assign_to_waiters`] does that after every change. So between two changes no
//!   task waits while an item or a slot is unassigned.
//! - `get` and `put` queue: a newcomer takes only what is not assigned. The `_nowait` functions bypass the waiters, as
//!   in asyncio: they take any item that `qsize` counts. A notified waiter that finds nothing continues to wait at its
//!   old place.
//! - An item stays in the store until a polled future takes it. Dropping a future therefore loses no item: it frees an
//!   assignment, which `assign_to_waiters` passes to the next waiter.
//! - Reserved slots are subtracted from `limit`, so that putting and getting need not consider them. A queue that is
//!   shut down has ended when nothing is reserved.

use super::Order;
use crate::sync::wait_list::wait_queue::{WaitQueue, WaiterKey, Waiters};
use std::fmt;
use std::marker::PhantomData;
use std::task::Waker;

/// The state of a queue. `G` are the getters: many, or the one receiver of a channel.
pub(in crate::sync) struct QueueState<T, O, G = WaitQueue> {
    pub(in crate::sync) store: O,
    /// The maximum number of items, without reserved slots; `usize::MAX` for no limit.
    limit: usize,
    /// The number of reserved slots. Always zero without a limit.
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

    /// The number of free slots.
    pub(in crate::sync) fn free_capacity(&self) -> usize {
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
    pub(super) fn has_unassigned_item(&self) -> bool {
        let assigned = if self.is_shut_down { 0 } else { self.getters.notified() };
        self.store.len() > assigned
    }

    /// Whether there is a free slot that is not assigned.
    pub(super) fn has_unassigned_capacity(&self) -> bool {
        self.free_capacity() > self.putters.notified()
    }

    /// Takes an item for the waiter `key`, or for a newcomer without one. `Some(None)` if there will be no more
    /// items, `None` if the caller must wait.
    #[inline(always)]
    pub(super) fn take(&mut self, key: Option<&WaiterKey>) -> Option<Option<T>> {
        let is_notified = key.map(|key| self.getters.is_notified(key));
        let may_take = match is_notified {
            None => self.has_unassigned_item(),
            Some(is_notified) => is_notified && self.has_item(),
        };
        let item = if may_take { self.store.get() } else { None };
        (item.is_some() || (self.is_ending() && is_notified != Some(false))).then_some(item)
    }

    /// Whether there is a slot for the waiter `key`, or for a newcomer without one.
    #[inline(always)]
    pub(super) fn may_put(&self, key: Option<&WaiterKey>) -> bool {
        match key {
            None => self.has_unassigned_capacity(),
            Some(key) => self.putters.is_notified(key) && self.free_capacity() > 0,
        }
    }

    /// Stores an item. It is counted first: an `Order` that panics may have stored it.
    pub(super) fn put(&mut self, item: T) {
        self.unfinished += 1;
        self.store.put(item);
    }

    /// Reserves a slot for one item. The caller has checked that there is one.
    pub(super) fn reserve(&mut self) {
        self.limit -= 1;
        self.reserved += 1;
    }

    /// Releases a reserved slot. At the end of the queue, notifies the getters.
    pub(super) fn unreserve(&mut self) {
        self.limit += 1;
        self.reserved -= 1;
        if self.is_ending() {
            self.getters.notify_all();
        }
    }

    /// Puts an item into a reserved slot. Returns it if no receiver is left.
    pub(super) fn put_reserved(&mut self, item: T) -> Option<T> {
        self.unreserve();
        if self.is_abandoned {
            return Some(item);
        }
        self.put(item);
        None
    }

    /// No sender is left, so remaining reservations were leaked.
    pub(in crate::sync) fn discard_reserved(&mut self) {
        self.limit += std::mem::take(&mut self.reserved);
    }

    /// Assigns unassigned items and slots to the first waiters.
    #[inline(always)]
    pub(super) fn assign_to_waiters(&mut self) -> ToWake {
        let has_unwoken = self.getters.has_any_to_wake() || self.putters.has_any_to_wake();
        if !has_unwoken && self.getters.waiting() == 0 && self.putters.waiting() == 0 {
            return ToWake { first: None, has_more: false };
        }
        self.assign_slow()
    }

    #[inline(always)]
    fn assign_slow(&mut self) -> ToWake {
        // Usually at most one waiter is woken; its waker is taken here, so the queue need not be opened again.
        let mut first = None;
        while self.getters.waiting() > 0 && self.has_unassigned_item() {
            notify_one(&mut self.getters, &mut first);
        }
        while self.putters.waiting() > 0 && self.has_unassigned_capacity() {
            notify_one(&mut self.putters, &mut first);
        }
        ToWake { first, has_more: self.getters.has_any_to_wake() || self.putters.has_any_to_wake() }
    }

    /// Shuts the queue down and notifies all waiters.
    pub(super) fn shut_down(&mut self, immediate: bool) -> ToWake {
        self.is_shut_down = true;
        self.is_abandoned |= immediate;
        self.getters.notify_all();
        self.putters.notify_all();
        ToWake { first: None, has_more: true }
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
    pub(super) has_more: bool,
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
