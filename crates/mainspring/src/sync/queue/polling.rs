//! How a queue is waited for, in steps: below the futures of a queue and the halves of a channel.

use super::{Order, OrderedQueue, QueueShutDown};
use crate::sync::line::{self, Key};
use std::pin::Pin;
use std::task::{Context, Poll};

impl<T, O: Order<T>> OrderedQueue<T, O> {
    /// Takes an item, or takes or keeps the place that `key` stands for.
    pub(in crate::sync) fn poll_get(
        &self,
        key: &mut Option<Key>,
        cx: &Context<'_>,
    ) -> Poll<Result<T, QueueShutDown>> {
        loop {
            let mut state = self.state.borrow_mut();
            let is_chosen = key.as_ref().map(|key| state.getters.is_chosen(key));
            let may_take = match is_chosen {
                None => state.has_free_item(),
                Some(is_chosen) => is_chosen && state.has_item(),
            };
            let item = if may_take { state.store.get() } else { None };
            if item.is_some() || (state.is_shut_down && is_chosen != Some(false)) {
                let left = key.take().map(|key| state.getters.leave(key));
                state.settle();
                drop(state);
                self.wake();
                drop(left);
                return Poll::Ready(item.ok_or(QueueShutDown(())));
            }
            if is_chosen == Some(true)
                && let Some(key) = key
            {
                state.getters.stand_again(key);
            }
            let waiting = key.get_or_insert_with(|| state.getters.join(()));
            drop(state);
            line::keep_waker(&self.state, |state| &mut state.getters, waiting, cx);
            if !self.state.borrow().getters.is_chosen(waiting) {
                return Poll::Pending;
            }
        }
    }

    /// Puts `item`, or takes or keeps the place that `key` stands for.
    fn poll_put(
        &self,
        item: &mut Option<T>,
        key: &mut Option<Key>,
        cx: &Context<'_>,
    ) -> Poll<Result<(), QueueShutDown<T>>> {
        loop {
            let mut state = self.state.borrow_mut();
            let is_chosen = key.as_ref().map(|key| state.putters.is_chosen(key));
            let may_put = match is_chosen {
                None => state.has_free_room(),
                Some(is_chosen) => is_chosen && state.room() > 0,
            };
            if may_put || state.is_shut_down {
                // Polled again after it was ready, which no `await` does.
                let Some(item) = item.take() else { return Poll::Pending };
                let left = key.take().map(|key| state.putters.leave(key));
                let refused = if state.is_shut_down {
                    Err(QueueShutDown(item))
                } else {
                    state.put(item);
                    Ok(())
                };
                state.settle();
                drop(state);
                self.wake();
                drop(left);
                return Poll::Ready(refused);
            }
            if is_chosen == Some(true)
                && let Some(key) = key
            {
                state.putters.stand_again(key);
            }
            let waiting = key.get_or_insert_with(|| state.putters.join(()));
            drop(state);
            line::keep_waker(&self.state, |state| &mut state.putters, waiting, cx);
            if !self.state.borrow().putters.is_chosen(waiting) {
                return Poll::Pending;
            }
        }
    }

    /// Gives up the place of a getter: what it was promised is for the next.
    pub(in crate::sync) fn leave_getters(&self, key: &mut Option<Key>) {
        let Some(key) = key.take() else { return };
        let mut state = self.state.borrow_mut();
        let left = state.getters.leave(key);
        state.settle();
        drop(state);
        self.wake();
        drop(left);
    }

    fn leave_putters(&self, key: &mut Option<Key>) {
        let Some(key) = key.take() else { return };
        let mut state = self.state.borrow_mut();
        let left = state.putters.leave(key);
        state.settle();
        drop(state);
        self.wake();
        drop(left);
    }

    /// Wakes everybody who was promised something.
    pub(super) fn wake(&self) {
        line::wake_each(|| self.state.borrow_mut().next_to_wake());
    }
}

/// The wait of [`OrderedQueue::get`].
pub(super) struct Get<'a, T, O: Order<T>> {
    queue: &'a OrderedQueue<T, O>,
    key: Option<Key>,
}

impl<'a, T, O: Order<T>> Get<'a, T, O> {
    pub(super) fn new(queue: &'a OrderedQueue<T, O>) -> Self {
        Get { queue, key: None }
    }
}

impl<T, O: Order<T>> Future for Get<'_, T, O> {
    type Output = Result<T, QueueShutDown>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let queue = self.queue;
        queue.poll_get(&mut self.key, cx)
    }
}

impl<T, O: Order<T>> Drop for Get<'_, T, O> {
    fn drop(&mut self) {
        self.queue.leave_getters(&mut self.key);
    }
}

/// The wait of [`OrderedQueue::put`].
pub(super) struct Put<'a, T, O: Order<T>> {
    queue: &'a OrderedQueue<T, O>,
    item: Option<T>,
    key: Option<Key>,
}

impl<'a, T, O: Order<T>> Put<'a, T, O> {
    pub(super) fn new(queue: &'a OrderedQueue<T, O>, item: T) -> Self {
        Put { queue, item: Some(item), key: None }
    }
}

/// The item is moved, and never pinned.
impl<T, O: Order<T>> Unpin for Put<'_, T, O> {}

impl<T, O: Order<T>> Future for Put<'_, T, O> {
    type Output = Result<(), QueueShutDown<T>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Put { queue, item, key } = &mut *self;
        queue.poll_put(item, key, cx)
    }
}

impl<T, O: Order<T>> Drop for Put<'_, T, O> {
    fn drop(&mut self) {
        self.queue.leave_putters(&mut self.key);
    }
}
