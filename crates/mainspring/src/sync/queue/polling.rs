//! How a queue is waited for, in steps: below the futures of a queue and the halves of a channel.

use super::state::{State, ToWake};
use super::{Order, OrderedQueue, QueueShutDown};
use crate::sync::line::{self, Key, Line};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

impl<T, O: Order<T>> OrderedQueue<T, O> {
    /// Takes an item, or takes or keeps the place that `key` stands for.
    pub(in crate::sync) fn poll_get(
        &self,
        key: &mut Option<Key>,
        cx: &Context<'_>,
    ) -> Poll<Result<T, QueueShutDown>> {
        let mut waker = None;
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
    pub(in crate::sync) fn leave_getters(&self, key: &mut Option<Key>) {
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
        let mut state = self.state.borrow_mut();
        let left = line(&mut state).leave(key);
        let to_wake = state.settle();
        drop(state);
        self.wake(to_wake);
        drop(left);
    }

    /// Wakes everybody who was promised something.
    #[inline]
    pub(super) fn wake(&self, to_wake: ToWake) {
        let ToWake { mut first, are_more } = to_wake;
        if are_more {
            line::wake_each(|| match first.take() {
                Some(waker) => Some(Some(waker)),
                None => self.state.borrow_mut().next_to_wake(),
            });
        } else if let Some(waker) = first {
            waker.wake();
        }
    }
}

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

/// The wait of [`OrderedQueue::get`].
pub(in crate::sync) struct Get<'a, T, O: Order<T>> {
    queue: &'a OrderedQueue<T, O>,
    key: Option<Key>,
}

impl<'a, T, O: Order<T>> Get<'a, T, O> {
    pub(in crate::sync) fn new(queue: &'a OrderedQueue<T, O>) -> Self {
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
pub(in crate::sync) struct Put<'a, T, O: Order<T>> {
    queue: &'a OrderedQueue<T, O>,
    item: Option<T>,
    key: Option<Key>,
}

impl<'a, T, O: Order<T>> Put<'a, T, O> {
    pub(in crate::sync) fn new(queue: &'a OrderedQueue<T, O>, item: T) -> Self {
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
        self.queue.leave(|state| &mut state.putters, &mut self.key);
    }
}
