//! `QueueState`: what a queue is made of, and who is to be woken when.
//!
//! # Rules
//!
//! - Whoever waits for an item is chosen when there is one more than is promised to those chosen before; whoever waits
//!   for room likewise. [`QueueState::settle`] does that after every change, so between two changes nobody waits for
//!   something that is there and promised to nobody.
//! - `get` and `put` stand in waiters: who comes takes only what nobody was promised. The `_nowait` functions do not, as in
//!   asyncio: what `qsize` counts they take. A chosen one that finds it gone waits on in its old place.
//! - An item is in the store until a future that is being polled takes it. So dropping a future loses none; it only
//!   frees a promise, and `settle` gives it to the next.
//! - Room that is reserved is no room: `limit` is less by it. So whoever puts or gets need not ask what is reserved. A
//!   queue that is shut down is at its end when nothing is reserved any more.

use super::Order;
use crate::sync::wait_list::wait_queue::{WaitQueue, WaiterKey, Waiters};
use std::fmt;
use std::marker::PhantomData;
use std::task::Waker;

/// The state of a queue whose items are for many, or for the one receiver of a channel.
pub(in crate::sync) struct QueueState<T, O, G = WaitQueue> {
    pub(in crate::sync) store: O,
    /// How many items there may be, beside those that room is reserved for: `usize::MAX` if there is no limit.
    limit: usize,
    /// How many items room is reserved for. Always zero where there is no limit.
    reserved: usize,
    pub(in crate::sync) is_shut_down: bool,
    /// Nobody will take what is put any more.
    is_abandoned: bool,
    /// Items put and not yet done.
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

    /// How many items there may be; zero if there is no limit.
    pub(in crate::sync) fn maxsize(&self) -> usize {
        if self.limit == usize::MAX { 0 } else { self.limit + self.reserved }
    }

    /// How many more items there is room for.
    pub(in crate::sync) fn room(&self) -> usize {
        self.limit.saturating_sub(self.store.len())
    }

    /// Whether there will be no more items than are there.
    pub(super) fn is_ending(&self) -> bool {
        self.is_shut_down && self.reserved == 0
    }

    pub(in crate::sync) fn has_item(&self) -> bool {
        !self.store.is_empty()
    }

    /// Whether there is an item for somebody who was promised none. Once the queue is shut down nobody is promised
    /// anything.
    pub(super) fn has_free_item(&self) -> bool {
        let promised = if self.is_shut_down { 0 } else { self.getters.notified() };
        self.store.len() > promised
    }

    /// Whether there is room for somebody who was promised none.
    pub(super) fn has_free_room(&self) -> bool {
        self.room() > self.putters.notified()
    }

    /// An item for who has this place, or has none and stands behind all who wait; or that there will be none any more.
    /// `None` if it is to wait.
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

    /// Whether there is room for who has this place, or has none and stands behind all who wait.
    #[inline(always)]
    pub(super) fn may_put(&self, key: Option<&WaiterKey>) -> bool {
        match key {
            None => self.has_free_room(),
            Some(key) => self.putters.is_notified(key) && self.room() > 0,
        }
    }

    /// Takes an item in. It is counted first: an order that panics may have taken it.
    pub(super) fn put(&mut self, item: T) {
        self.unfinished += 1;
        self.store.put(item);
    }

    /// Sets room aside for one item. There is some.
    pub(super) fn reserve(&mut self) {
        self.limit -= 1;
        self.reserved += 1;
    }

    /// Gives room back that was set aside. Who waits for an item that is not to come is told so.
    pub(super) fn unreserve(&mut self) {
        self.limit += 1;
        self.reserved -= 1;
        if self.is_ending() {
            self.getters.notify_all();
        }
    }

    /// Puts an item where room was set aside. It comes back if nobody will take it.
    pub(super) fn put_reserved(&mut self, item: T) -> Option<T> {
        self.unreserve();
        if self.is_abandoned {
            return Some(item);
        }
        self.put(item);
        None
    }

    /// Nobody is left who could have room set aside: what is, was forgotten.
    pub(in crate::sync) fn forget_reserved(&mut self) {
        self.limit += std::mem::take(&mut self.reserved);
    }

    /// Promises to those in front what is there and promised to nobody.
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
        // Mostly there is one to wake at most, and then nothing has to be looked at again.
        let mut first = None;
        while self.getters.waiting() > 0 && self.has_free_item() {
            notify_one(&mut self.getters, &mut first);
        }
        while self.putters.waiting() > 0 && self.has_free_room() {
            notify_one(&mut self.putters, &mut first);
        }
        ToWake { first, are_more: self.getters.has_any_to_wake() || self.putters.has_any_to_wake() }
    }

    /// Takes no more items; everybody who waits for one, or for room, is told so.
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

/// Who is to be woken when nothing is borrowed.
#[must_use]
pub(in crate::sync) struct ToWake {
    pub(super) first: Option<Waker>,
    /// More are in the lines.
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
