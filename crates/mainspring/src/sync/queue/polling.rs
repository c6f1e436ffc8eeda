//! What is done with a queue, in steps: below the queues themselves, their futures, and the halves of the channels,
//! whether they are on one thread or on many.

use super::state::{State, ToWake};
use super::{GetError, Order, PutError, QueueShutDown};
use crate::sync::line::{self, Key, Left, LineLike};
use crate::sync::state_cell::StateCell;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

/// The state of a queue, wherever it is.
pub(in crate::sync) trait QueueCell:
    StateCell<State = State<<Self as QueueCell>::Item, <Self as QueueCell>::Order, <Self as QueueCell>::Getters>>
{
    type Item;
    type Order: Order<Self::Item>;
    type Getters: LineLike;

    /// Puts an item if there is room.
    fn put_nowait(&self, item: Self::Item) -> Result<(), PutError<Self::Item>> {
        let mut state = self.open();
        if state.is_shut_down {
            return Err(PutError::ShutDown(item));
        }
        if state.room() == 0 {
            return Err(PutError::Full(item));
        }
        state.put(item);
        let to_wake = state.settle();
        drop(state);
        self.wake(to_wake);
        Ok(())
    }

    /// Takes the next item if there is one.
    fn get_nowait(&self) -> Result<Self::Item, GetError> {
        let mut state = self.open();
        let Some(item) = state.store.get() else {
            return Err(if state.is_shut_down { GetError::ShutDown } else { GetError::Empty });
        };
        let to_wake = state.settle();
        drop(state);
        self.wake(to_wake);
        Ok(item)
    }

    /// Takes no more items, and tells those who wait. `immediate` takes those out that are there: they are handed to the
    /// caller, with whether all that were ever put are done then.
    #[must_use = "items are the program's: they are dropped when nothing is left to do"]
    fn shut_down(&self, immediate: bool) -> (Self::Order, bool) {
        let mut dropped = Self::Order::default();
        let mut state = self.open();
        let to_wake = state.shut_down();
        if immediate {
            std::mem::swap(&mut state.store, &mut dropped);
            state.unfinished = state.unfinished.saturating_sub(dropped.len());
        }
        let is_all = state.unfinished == 0;
        drop(state);
        self.wake(to_wake);
        (dropped, is_all)
    }

    /// Takes an item, or takes or keeps the place that `key` stands for.
    #[inline]
    fn poll_get(&self, key: &mut Option<Key>, cx: &Context<'_>) -> Poll<Result<Self::Item, QueueShutDown>> {
        let mut waker = None;
        loop {
            let mut state = self.open();
            if let Some(item) = state.take(key.as_ref()) {
                let left = key.take().map(|key| state.getters.leave(key));
                let to_wake = state.settle();
                drop(state);
                self.wake(to_wake);
                drop((left, waker));
                return Poll::Ready(item.ok_or(QueueShutDown(())));
            }
            if wait(&mut state.getters, key, &mut waker, cx) {
                drop(state);
                return Poll::Pending;
            }
            drop(state);
            waker = Some(cx.waker().clone());
        }
    }

    /// Puts `item`, or takes or keeps the place that `key` stands for.
    #[inline]
    fn poll_put(
        &self,
        item: &mut Option<Self::Item>,
        key: &mut Option<Key>,
        cx: &Context<'_>,
    ) -> Poll<Result<(), QueueShutDown<Self::Item>>> {
        let mut waker = None;
        loop {
            let mut state = self.open();
            if state.may_put(key.as_ref()) || state.is_shut_down {
                // Polled again after it was ready, which no `await` does.
                let Some(item) = item.take() else { return Poll::Pending };
                let left = key.take().map(|key| state.putters.leave(key));
                let result = if state.is_shut_down {
                    Err(QueueShutDown(item))
                } else {
                    state.put(item);
                    Ok(())
                };
                let to_wake = state.settle();
                drop(state);
                self.wake(to_wake);
                drop((left, waker));
                return Poll::Ready(result);
            }
            if wait(&mut state.putters, key, &mut waker, cx) {
                drop(state);
                return Poll::Pending;
            }
            drop(state);
            waker = Some(cx.waker().clone());
        }
    }

    /// Gives up the place of a getter: what it was promised is for the next.
    #[inline(always)]
    fn leave_getters(&self, key: &mut Option<Key>) {
        if let Some(key) = key.take() {
            self.leave_place(|state| state.getters.leave(key));
        }
    }

    /// Gives up the place of a putter.
    #[inline(always)]
    fn leave_putters(&self, key: &mut Option<Key>) {
        if let Some(key) = key.take() {
            self.leave_place(|state| state.putters.leave(key));
        }
    }

    #[cold]
    fn leave_place(&self, leave: impl FnOnce(&mut Self::State) -> Left<()>) {
        let mut state = self.open();
        let left = leave(&mut state);
        let to_wake = state.settle();
        drop(state);
        self.wake(to_wake);
        drop(left);
    }

    /// Wakes everybody who was promised something.
    #[inline(always)]
    fn wake(&self, to_wake: ToWake) {
        if to_wake.are_more {
            self.wake_many(to_wake.first);
        } else if let Some(waker) = to_wake.first {
            waker.wake();
        }
    }

    #[cold]
    fn wake_many(&self, mut first: Option<Waker>) {
        line::wake_each(|| match first.take() {
            Some(waker) => Some(Some(waker)),
            None => self.open().next_to_wake(),
        });
    }
}

impl<T, O, G, C> QueueCell for C
where
    O: Order<T>,
    G: LineLike,
    C: StateCell<State = State<T, O, G>>,
{
    type Item = T;
    type Order = O;
    type Getters = G;
}

/// Waits in the place of `key`, or takes one. `false` if it needs a waker for that: one is to be cloned, which may call
/// in, and everything to be looked at again.
#[inline]
fn wait<W: LineLike>(
    line: &mut W,
    key: &mut Option<Key>,
    waker: &mut Option<Waker>,
    cx: &Context<'_>,
) -> bool {
    let Some(key) = key else {
        *key = waker.take().map(|waker| line.join((), Some(waker)));
        return key.is_some();
    };
    if line.is_chosen(key) {
        line.stand_again(key);
    }
    if line.has_waker(key, cx.waker()) {
        return true;
    }
    match waker.take() {
        None => false,
        Some(new) => {
            // The one that was there is dropped by the caller, when nothing is borrowed.
            *waker = line.replace_waker(key, new);
            true
        }
    }
}

/// The wait of [`OrderedQueue::get`](super::OrderedQueue::get).
pub(in crate::sync) struct Get<'a, C: QueueCell> {
    queue: &'a C,
    key: Option<Key>,
}

impl<'a, C: QueueCell> Get<'a, C> {
    pub(in crate::sync) fn new(queue: &'a C) -> Self {
        Get { queue, key: None }
    }
}

/// The place is moved, and never pinned.
impl<C: QueueCell> Unpin for Get<'_, C> {}

impl<C: QueueCell> Future for Get<'_, C> {
    type Output = Result<C::Item, QueueShutDown>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let queue = self.queue;
        queue.poll_get(&mut self.key, cx)
    }
}

impl<C: QueueCell> Drop for Get<'_, C> {
    fn drop(&mut self) {
        self.queue.leave_getters(&mut self.key);
    }
}

/// The wait of [`OrderedQueue::put`](super::OrderedQueue::put).
pub(in crate::sync) struct Put<'a, C: QueueCell> {
    queue: &'a C,
    item: Option<C::Item>,
    key: Option<Key>,
}

impl<'a, C: QueueCell> Put<'a, C> {
    pub(in crate::sync) fn new(queue: &'a C, item: C::Item) -> Self {
        Put { queue, item: Some(item), key: None }
    }
}

/// The item is moved, and never pinned.
impl<C: QueueCell> Unpin for Put<'_, C> {}

impl<C: QueueCell> Future for Put<'_, C> {
    type Output = Result<(), QueueShutDown<C::Item>>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Put { queue, item, key } = &mut *self;
        queue.poll_put(item, key, cx)
    }
}

impl<C: QueueCell> Drop for Put<'_, C> {
    fn drop(&mut self) {
        self.queue.leave_putters(&mut self.key);
    }
}
