//! `QueueCell`: the operations of a queue. The queues, their futures and the halves of the channels use them, on one
//! thread or on many.

use super::state::{QueueState, ToWake};
use super::{GetError, Order, PutError, QueueShutDown};
use crate::sync::state_cell::StateCell;
use crate::sync::wait_list::wait_queue::{self, RemovedWaiter, WaiterKey, Waiters};
use crate::task::waits_for;
use std::task::{Context, Poll, Waker};

/// The cell of a queue's state.
pub(in crate::sync) trait QueueCell:
    StateCell<
    State = QueueState<<Self as QueueCell>::Item, <Self as QueueCell>::Order, <Self as QueueCell>::Getters>,
>
{
    type Item;
    type Order: Order<Self::Item>;
    type Getters: Waiters;

    /// Puts an item if the queue is not full.
    fn put_nowait(&self, item: Self::Item) -> Result<(), PutError<Self::Item>> {
        let mut state = self.open();
        if state.is_shut_down {
            return Err(PutError::ShutDown(item));
        }
        if state.free_capacity() == 0 {
            return Err(PutError::Full(item));
        }
        state.put(item);
        let to_wake = state.assign_to_waiters();
        drop(state);
        self.wake(to_wake);
        Ok(())
    }

    /// Takes the next item if there is one.
    fn get_nowait(&self) -> Result<Self::Item, GetError> {
        let mut state = self.open();
        let Some(item) = state.store.get() else {
            return Err(if state.is_ending() { GetError::ShutDown } else { GetError::Empty });
        };
        let to_wake = state.assign_to_waiters();
        drop(state);
        self.wake(to_wake);
        Ok(item)
    }

    /// Shuts the queue down and wakes all waiters. If `immediate`, removes the items. Returns the removed items, and
    /// whether all items that were ever put are done.
    #[must_use = "dropping items runs user code: drop them last"]
    fn shut_down(&self, immediate: bool) -> (Self::Order, bool) {
        let mut dropped = Self::Order::default();
        let mut state = self.open();
        let to_wake = state.shut_down(immediate);
        if immediate {
            std::mem::swap(&mut state.store, &mut dropped);
            state.unfinished = state.unfinished.saturating_sub(dropped.len());
        }
        let is_all = state.unfinished == 0;
        drop(state);
        self.wake(to_wake);
        (dropped, is_all)
    }

    /// Takes an item, or waits with `key`.
    #[inline]
    fn poll_get(
        &self,
        key: &mut Option<WaiterKey>,
        cx: &Context<'_>,
    ) -> Poll<Result<Self::Item, QueueShutDown>> {
        self.poll_take(key, cx, |_, item| item.ok_or(QueueShutDown(())))
    }

    /// Takes between one and `limit` items and returns how many, zero if there will be no more; or waits with `key`.
    fn poll_get_many(
        &self,
        items: &mut Vec<Self::Item>,
        limit: usize,
        key: &mut Option<WaiterKey>,
        cx: &Context<'_>,
    ) -> Poll<usize> {
        self.poll_take(key, cx, |state, mut next| {
            let mut count = 0;
            while let Some(item) = next {
                items.push(item);
                count += 1;
                next = if count < limit && state.has_unassigned_item() { state.store.get() } else { None };
            }
            count
        })
    }

    /// Runs `f` with the next item, or with `None` if there will be no more; or waits with `key`.
    #[inline(always)]
    fn poll_take<R>(
        &self,
        key: &mut Option<WaiterKey>,
        cx: &Context<'_>,
        f: impl FnOnce(&mut Self::State, Option<Self::Item>) -> R,
    ) -> Poll<R> {
        let mut waker = None;
        loop {
            let mut state = self.open();
            if let Some(item) = state.take(key.as_ref()) {
                let removed = key.take().map(|key| state.getters.remove(key));
                let result = f(&mut state, item);
                let to_wake = state.assign_to_waiters();
                drop(state);
                self.wake(to_wake);
                drop((removed, waker));
                return Poll::Ready(result);
            }
            if wait(&mut state.getters, key, &mut waker, cx) {
                drop(state);
                waits_for("an item of a queue or channel");
                return Poll::Pending;
            }
            drop(state);
            waker = Some(cx.waker().clone());
        }
    }

    /// Puts `item`, or waits with `key`.
    #[inline]
    fn poll_put(
        &self,
        item: &mut Option<Self::Item>,
        key: &mut Option<WaiterKey>,
        cx: &Context<'_>,
    ) -> Poll<Result<(), QueueShutDown<Self::Item>>> {
        self.poll_capacity(key, cx, |state| {
            let item = item.take()?;
            Some(if state.is_shut_down {
                Err(QueueShutDown(item))
            } else {
                state.put(item);
                Ok(())
            })
        })
    }

    /// Reserves a slot, or waits with `key`.
    fn poll_reserve(&self, key: &mut Option<WaiterKey>, cx: &Context<'_>) -> Poll<Result<(), QueueShutDown>> {
        self.poll_capacity(key, cx, |state| {
            Some(if state.is_shut_down {
                Err(QueueShutDown(()))
            } else {
                state.reserve();
                Ok(())
            })
        })
    }

    /// Runs `f` when the queue is not full or is shut down; or waits with `key`. `f` returns `None` if it is polled
    /// again after it was ready, which no `await` does.
    #[inline(always)]
    fn poll_capacity<R>(
        &self,
        key: &mut Option<WaiterKey>,
        cx: &Context<'_>,
        mut f: impl FnMut(&mut Self::State) -> Option<R>,
    ) -> Poll<R> {
        let mut waker = None;
        loop {
            let mut state = self.open();
            if state.may_put(key.as_ref()) || state.is_shut_down {
                let Some(result) = f(&mut state) else { return Poll::Pending };
                let removed = key.take().map(|key| state.putters.remove(key));
                let to_wake = state.assign_to_waiters();
                drop(state);
                self.wake(to_wake);
                drop((removed, waker));
                return Poll::Ready(result);
            }
            if wait(&mut state.putters, key, &mut waker, cx) {
                drop(state);
                waits_for("a free slot of a queue or channel");
                return Poll::Pending;
            }
            drop(state);
            waker = Some(cx.waker().clone());
        }
    }

    /// Reserves a slot if the queue is not full.
    fn reserve_nowait(&self) -> Result<(), PutError<()>> {
        let mut state = self.open();
        if state.is_shut_down {
            return Err(PutError::ShutDown(()));
        }
        if state.free_capacity() == 0 {
            return Err(PutError::Full(()));
        }
        state.reserve();
        Ok(())
    }

    /// Puts an item into a reserved slot. Returns it if no receiver is left.
    fn put_reserved(&self, item: Self::Item) -> Option<Self::Item> {
        let mut state = self.open();
        let refused = state.put_reserved(item);
        let to_wake = state.assign_to_waiters();
        drop(state);
        self.wake(to_wake);
        refused
    }

    /// Releases a reserved slot to the next waiter.
    fn unreserve(&self) {
        let mut state = self.open();
        state.unreserve();
        let to_wake = state.assign_to_waiters();
        drop(state);
        self.wake(to_wake);
    }

    /// Removes a getter. Its assignment goes to the next.
    #[inline(always)]
    fn remove_getter(&self, key: &mut Option<WaiterKey>) {
        if let Some(key) = key.take() {
            self.remove_waiter(|state| state.getters.remove(key));
        }
    }

    /// Removes a putter. Its assignment goes to the next.
    #[inline(always)]
    fn remove_putter(&self, key: &mut Option<WaiterKey>) {
        if let Some(key) = key.take() {
            self.remove_waiter(|state| state.putters.remove(key));
        }
    }

    #[cold]
    fn remove_waiter(&self, remove: impl FnOnce(&mut Self::State) -> RemovedWaiter<()>) {
        let mut state = self.open();
        let removed = remove(&mut state);
        let to_wake = state.assign_to_waiters();
        drop(state);
        self.wake(to_wake);
        drop(removed);
    }

    /// Wakes all waiters with a new assignment.
    #[inline(always)]
    fn wake(&self, to_wake: ToWake) {
        if to_wake.has_more {
            self.wake_many(to_wake.first);
        } else if let Some(waker) = to_wake.first {
            waker.wake();
        }
    }

    #[cold]
    fn wake_many(&self, mut first: Option<Waker>) {
        wait_queue::wake_each(|| match first.take() {
            Some(waker) => Some(Some(waker)),
            None => self.open().next_to_wake(),
        });
    }
}

impl<T, O, G, C> QueueCell for C
where
    O: Order<T>,
    G: Waiters,
    C: StateCell<State = QueueState<T, O, G>>,
{
    type Item = T;
    type Order = O;
    type Getters = G;
}

/// Waits with `key`, or enqueues a new waiter. Returns `false` if that needs a clone of the waker. Cloning runs
/// foreign code, so the caller clones it and checks everything again.
#[inline]
fn wait<W: Waiters>(
    waiters: &mut W,
    key: &mut Option<WaiterKey>,
    waker: &mut Option<Waker>,
    cx: &Context<'_>,
) -> bool {
    let Some(key) = key else {
        *key = waker.take().map(|waker| waiters.enqueue((), Some(waker)));
        return key.is_some();
    };
    if waiters.is_notified(key) {
        waiters.requeue(key);
    }
    if waiters.has_waker(key, cx.waker()) {
        return true;
    }
    match waker.take() {
        None => false,
        Some(new) => {
            // The caller drops the previous waker after closing the cell.
            *waker = waiters.replace_waker(key, new);
            true
        }
    }
}
