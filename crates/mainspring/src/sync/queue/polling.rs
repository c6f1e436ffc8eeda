//! What is done with a queue, in steps: below the queues themselves, their futures, and the halves of the channels,
//! whether they are on one thread or on many.

use super::state::{State, ToWake};
use super::{GetError, Order, PutError, QueueShutDown};
use crate::sync::line::{self, Key, Line};
use crate::sync::state_cell::StateCell;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

/// The state of a queue, wherever it is.
pub(in crate::sync) trait QueueCell<T, O: Order<T>>: StateCell<State = State<T, O>> {
    /// Puts an item if there is room.
    fn put_nowait(&self, item: T) -> Result<(), PutError<T>> {
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
    fn get_nowait(&self) -> Result<T, GetError> {
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
    fn shut_down(&self, immediate: bool) -> (O, bool) {
        let mut dropped = O::default();
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
    fn poll_get(&self, key: &mut Option<Key>, cx: &Context<'_>) -> Poll<Result<T, QueueShutDown>> {
        let mut waker = None;
        loop {
            let mut state = self.open();
            let is_chosen = key.as_ref().map(|key| state.getters.is_chosen(key));
            let may_take = match is_chosen {
                None => state.has_free_item(),
                Some(is_chosen) => is_chosen && state.has_item(),
            };
            let item = if may_take { state.store.get() } else { None };
            if item.is_some() || (state.is_shut_down && is_chosen != Some(false)) {
                let left = key.take().map(|key| state.getters.leave(key));
                let to_wake = state.settle();
                drop(state);
                self.wake(to_wake);
                drop(left);
                return Poll::Ready(item.ok_or(QueueShutDown(())));
            }
            let is_waiting =
                (key.is_some() || waker.is_some()) && wait(&mut state.getters, key, &mut waker, cx);
            drop(state);
            if is_waiting {
                return Poll::Pending;
            }
            waker = Some(cx.waker().clone());
        }
    }

    /// Puts `item`, or takes or keeps the place that `key` stands for.
    fn poll_put(
        &self,
        item: &mut Option<T>,
        key: &mut Option<Key>,
        cx: &Context<'_>,
    ) -> Poll<Result<(), QueueShutDown<T>>> {
        let mut waker = None;
        loop {
            let mut state = self.open();
            let is_chosen = key.as_ref().map(|key| state.putters.is_chosen(key));
            let may_put = match is_chosen {
                None => state.has_free_room(),
                Some(is_chosen) => is_chosen && state.room() > 0,
            };
            if may_put || state.is_shut_down {
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
                drop(left);
                return Poll::Ready(result);
            }
            let is_waiting =
                (key.is_some() || waker.is_some()) && wait(&mut state.putters, key, &mut waker, cx);
            drop(state);
            if is_waiting {
                return Poll::Pending;
            }
            waker = Some(cx.waker().clone());
        }
    }

    /// Gives up the place of a getter: what it was promised is for the next.
    #[inline(always)]
    fn leave_getters(&self, key: &mut Option<Key>) {
        self.leave(|state| &mut state.getters, key);
    }

    #[inline(always)]
    fn leave(&self, line: impl Fn(&mut State<T, O>) -> &mut Line, key: &mut Option<Key>) {
        if let Some(key) = key.take() {
            self.leave_place(line, key);
        }
    }

    #[cold]
    fn leave_place(&self, line: impl Fn(&mut State<T, O>) -> &mut Line, key: Key) {
        let mut state = self.open();
        let left = line(&mut state).leave(key);
        let to_wake = state.settle();
        drop(state);
        self.wake(to_wake);
        drop(left);
    }

    /// Wakes everybody who was promised something.
    #[inline]
    fn wake(&self, to_wake: ToWake) {
        let ToWake { mut first, are_more } = to_wake;
        if are_more {
            line::wake_each(|| match first.take() {
                Some(waker) => Some(Some(waker)),
                None => self.open().next_to_wake(),
            });
        } else if let Some(waker) = first {
            waker.wake();
        }
    }
}

impl<T, O: Order<T>, C: StateCell<State = State<T, O>>> QueueCell<T, O> for C {}

/// Waits in the place of `key`, or takes one. `false` if it needs a waker for that: one is to be cloned, which may call
/// in, and everything to be looked at again.
#[inline]
fn wait(line: &mut Line, key: &mut Option<Key>, waker: &mut Option<Waker>, cx: &Context<'_>) -> bool {
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
pub(in crate::sync) struct Get<'a, T, O: Order<T>, C: QueueCell<T, O>> {
    queue: &'a C,
    key: Option<Key>,
    order: PhantomData<fn(O) -> T>,
}

impl<'a, T, O: Order<T>, C: QueueCell<T, O>> Get<'a, T, O, C> {
    pub(in crate::sync) fn new(queue: &'a C) -> Self {
        Get { queue, key: None, order: PhantomData }
    }
}

impl<T, O: Order<T>, C: QueueCell<T, O>> Future for Get<'_, T, O, C> {
    type Output = Result<T, QueueShutDown>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let queue = self.queue;
        queue.poll_get(&mut self.key, cx)
    }
}

impl<T, O: Order<T>, C: QueueCell<T, O>> Drop for Get<'_, T, O, C> {
    fn drop(&mut self) {
        self.queue.leave_getters(&mut self.key);
    }
}

/// The wait of [`OrderedQueue::put`](super::OrderedQueue::put).
pub(in crate::sync) struct Put<'a, T, O: Order<T>, C: QueueCell<T, O>> {
    queue: &'a C,
    item: Option<T>,
    key: Option<Key>,
    order: PhantomData<fn(O)>,
}

impl<'a, T, O: Order<T>, C: QueueCell<T, O>> Put<'a, T, O, C> {
    pub(in crate::sync) fn new(queue: &'a C, item: T) -> Self {
        Put { queue, item: Some(item), key: None, order: PhantomData }
    }
}

/// The item is moved, and never pinned.
impl<T, O: Order<T>, C: QueueCell<T, O>> Unpin for Put<'_, T, O, C> {}

impl<T, O: Order<T>, C: QueueCell<T, O>> Future for Put<'_, T, O, C> {
    type Output = Result<(), QueueShutDown<T>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Put { queue, item, key, .. } = &mut *self;
        queue.poll_put(item, key, cx)
    }
}

impl<T, O: Order<T>, C: QueueCell<T, O>> Drop for Put<'_, T, O, C> {
    fn drop(&mut self) {
        self.queue.leave(|state| &mut state.putters, &mut self.key);
    }
}
