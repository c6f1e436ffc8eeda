//! `Receiver`: the receiving half.

use super::Channel;
use super::loop_keep_alive::{LoopKeepAlive, WithKeepAlive};
use crate::block_on::block_on;
use crate::sync::queue::{Get, GetMany, QueueCell};
use crate::sync::wait_list::wait_queue::WaiterKey;
use std::sync::Arc;
use std::task::{Context, Poll};

/// The receiving half of [`channel`](super::channel) and [`unbounded_channel`](super::unbounded_channel), for any
/// loop or thread. It is `Send` and `Sync` if `T` is `Send`.
///
/// ```
/// use mainspring::sync::threadsafe;
///
/// let (sender, mut receiver) = threadsafe::channel(4);
/// std::thread::spawn(move || sender.blocking_send("hello")).join().unwrap()?;
/// assert_eq!((receiver.len(), receiver.is_empty()), (1, false));
/// mainspring::run(async {
///     assert_eq!(receiver.recv().await, Some("hello"));
///     assert_eq!(receiver.recv().await, None, "all senders are dropped");
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Receiver<T> {
    pub(super) channel: Arc<Channel<T>>,
    /// The waiter of [`Receiver::poll_recv`].
    key: Option<WaiterKey>,
    keep_alive: LoopKeepAlive,
}

impl<T> Receiver<T> {
    pub(super) fn new(channel: Arc<Channel<T>>) -> Self {
        Receiver { channel, key: None, keep_alive: LoopKeepAlive::default() }
    }

    /// The next value. `None` if all senders were dropped and all values are received.
    ///
    /// Cancel safety: no value is lost.
    ///
    /// ```
    /// let (sender, mut receiver) = mainspring::sync::threadsafe::channel(1);
    /// let other = std::thread::spawn(move || (1..=3).try_for_each(|n| sender.blocking_send(n)));
    /// let sum = mainspring::run(async {
    ///     let mut sum = 0;
    ///     while let Some(number) = receiver.recv().await {
    ///         sum += number;
    ///     }
    ///     sum
    /// })?;
    /// assert_eq!(sum, 6);
    /// # other.join().unwrap().unwrap();
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn recv(&mut self) -> impl Future<Output = Option<T>> {
        self.stop_waiting();
        WithKeepAlive::new(Get::new(&self.channel.queue), Result::ok)
    }

    /// [`recv`](Receiver::recv) for threads without a loop: blocks until there is a value. If the sender is a task of
    /// this thread's loop, this blocks forever.
    pub fn blocking_recv(&mut self) -> Option<T> {
        block_on(self.recv())
    }

    /// Appends up to `limit` values to `buffer`. Waits for the first one, and takes those that are available with it.
    /// Returns how many: zero if all senders were dropped and all values are received, or if `limit` is zero.
    ///
    /// Cancel safety: no value is lost. `buffer` is unchanged if this future is dropped before it is ready.
    ///
    /// ```
    /// let (sender, mut receiver) = mainspring::sync::threadsafe::channel(8);
    /// std::thread::spawn(move || (1..=5).try_for_each(|n| sender.blocking_send(n))).join().unwrap()?;
    /// mainspring::run(async move {
    ///     let mut batch = Vec::new();
    ///     assert_eq!(receiver.recv_many(&mut batch, 3).await, 3);
    ///     assert_eq!(receiver.recv_many(&mut batch, 3).await, 2);
    ///     assert_eq!(batch, [1, 2, 3, 4, 5]);
    ///     assert_eq!(receiver.recv_many(&mut batch, 3).await, 0);
    /// })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub async fn recv_many(&mut self, buffer: &mut Vec<T>, limit: usize) -> usize {
        self.stop_waiting();
        WithKeepAlive::new(GetMany::new(&self.channel.queue, buffer, limit), |count| count).await
    }

    /// [`recv_many`](Receiver::recv_many) for threads without a loop: blocks until there is a value.
    ///
    /// ```
    /// let (sender, mut receiver) = mainspring::sync::threadsafe::unbounded_channel();
    /// let other = std::thread::spawn(move || (1..=5).try_for_each(|n| sender.send(n)));
    /// let mut received = Vec::new();
    /// while receiver.blocking_recv_many(&mut received, 16) > 0 {}
    /// assert_eq!(received, [1, 2, 3, 4, 5]);
    /// # other.join().unwrap().unwrap();
    /// ```
    pub fn blocking_recv_many(&mut self, buffer: &mut Vec<T>, limit: usize) -> usize {
        block_on(self.recv_many(buffer, limit))
    }

    /// The poll function of [`recv`](Receiver::recv): wakes the task of `cx` when there is a value, and keeps its
    /// loop alive until then.
    ///
    /// ```
    /// # use std::future::poll_fn;
    /// let (sender, mut receiver) = mainspring::sync::threadsafe::channel(1);
    /// std::thread::spawn(move || sender.blocking_send(7));
    /// mainspring::run(async move {
    ///     assert_eq!(poll_fn(|cx| receiver.poll_recv(cx)).await, Some(7));
    /// })?;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Option<T>> {
        let polled = self.channel.queue.poll_get(&mut self.key, cx).map(Result::ok);
        self.keep_alive.update(polled)
    }

    pub(super) fn stop_waiting(&mut self) {
        self.channel.queue.remove_getter(&mut self.key);
        self.keep_alive = LoopKeepAlive::default();
    }
}
