//! The futures that wait for an item or for a free slot. Dropping one removes its waiter.

use super::{QueueCell, QueueShutDown};
use crate::sync::wait_list::wait_queue::WaiterKey;
use std::pin::Pin;
use std::task::{Context, Poll};

/// The future of [`OrderedQueue::get`](super::OrderedQueue::get).
pub(in crate::sync) struct Get<'a, C: QueueCell> {
    queue: &'a C,
    key: Option<WaiterKey>,
}

impl<'a, C: QueueCell> Get<'a, C> {
    pub(in crate::sync) fn new(queue: &'a C) -> Self {
        Get { queue, key: None }
    }
}

/// Nothing is pinned.
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
        self.queue.remove_getter(&mut self.key);
    }
}

/// The future of [`OrderedQueue::put`](super::OrderedQueue::put).
pub(in crate::sync) struct Put<'a, C: QueueCell> {
    queue: &'a C,
    item: Option<C::Item>,
    key: Option<WaiterKey>,
}

impl<'a, C: QueueCell> Put<'a, C> {
    pub(in crate::sync) fn new(queue: &'a C, item: C::Item) -> Self {
        Put { queue, item: Some(item), key: None }
    }
}

/// Nothing is pinned.
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
        self.queue.remove_putter(&mut self.key);
    }
}

/// The future of [`Receiver::recv_many`](crate::sync::mpsc::Receiver::recv_many).
pub(in crate::sync) struct GetMany<'a, C: QueueCell> {
    queue: &'a C,
    items: &'a mut Vec<C::Item>,
    limit: usize,
    key: Option<WaiterKey>,
}

impl<'a, C: QueueCell> GetMany<'a, C> {
    pub(in crate::sync) fn new(queue: &'a C, items: &'a mut Vec<C::Item>, limit: usize) -> Self {
        GetMany { queue, items, limit, key: None }
    }
}

/// Nothing is pinned.
impl<C: QueueCell> Unpin for GetMany<'_, C> {}

impl<C: QueueCell> Future for GetMany<'_, C> {
    type Output = usize;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<usize> {
        let GetMany { queue, items, limit, key } = &mut *self;
        if *limit == 0 { Poll::Ready(0) } else { queue.poll_get_many(items, *limit, key, cx) }
    }
}

impl<C: QueueCell> Drop for GetMany<'_, C> {
    fn drop(&mut self) {
        self.queue.remove_getter(&mut self.key);
    }
}

/// The future of [`Sender::reserve`](crate::sync::mpsc::Sender::reserve). When it is ready, the caller must use the
/// slot or release it.
pub(in crate::sync) struct Reserve<'a, C: QueueCell> {
    queue: &'a C,
    key: Option<WaiterKey>,
}

impl<'a, C: QueueCell> Reserve<'a, C> {
    pub(in crate::sync) fn new(queue: &'a C) -> Self {
        Reserve { queue, key: None }
    }
}

impl<C: QueueCell> Future for Reserve<'_, C> {
    type Output = Result<(), QueueShutDown>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let queue = self.queue;
        queue.poll_reserve(&mut self.key, cx)
    }
}

impl<C: QueueCell> Drop for Reserve<'_, C> {
    fn drop(&mut self) {
        self.queue.remove_putter(&mut self.key);
    }
}
