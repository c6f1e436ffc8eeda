//! The sending halves.

use super::waiting::Staying;
use super::{Channel, SendError, TrySendError};
use crate::block_on::block_on;
use crate::sync::channel::shared::Senders;
use crate::sync::queue::{Put, QueueCell};
use std::fmt;
use std::sync::Arc;

/// The sending half of [`channel`](super::channel). A clone sends to the same receiver. It is `Send` and `Sync` if `T` is
/// `Send`.
///
/// ```
/// use mainspring::sync::threadsafe;
///
/// let runtime = mainspring::Runtime::start()?;
/// let (sender, mut receiver) = threadsafe::channel(8);
/// let sum = runtime.spawn(move || async move {
///     let mut sum = 0;
///     while let Some(number) = receiver.recv().await {
///         sum += number;
///     }
///     sum
/// });
/// for number in 1..=4 {
///     sender.blocking_send(number)?;
/// }
/// drop(sender);
/// assert_eq!(sum.wait(), Ok(10));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Sender<T> {
    pub(super) channel: Arc<Channel<T>>,
}

/// The sending half of [`unbounded_channel`](super::unbounded_channel). A clone sends to the same receiver. It is `Send`
/// and `Sync` if `T` is `Send`.
///
/// ```
/// use mainspring::sync::threadsafe::{self, SendError};
///
/// let (sender, mut receiver) = threadsafe::unbounded_channel();
/// sender.send(1)?;
/// assert_eq!(receiver.try_recv(), Ok(1));
/// drop(receiver);
/// assert!(sender.is_closed());
/// assert_eq!(sender.send(2), Err(SendError(2)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct UnboundedSender<T> {
    pub(super) sender: Sender<T>,
}

impl<T> Sender<T> {
    /// The first sender of a channel.
    pub(super) fn new(channel: Arc<Channel<T>>) -> Self {
        Sender { channel }
    }

    /// Sends a value, and waits for room if there is none. [`SendError`], with the value, if the receiver is gone. For
    /// tasks of any loop.
    ///
    /// Cancel safety: the value is sent if this is finished, else it is dropped with the future.
    ///
    /// ```
    /// use mainspring::sync::threadsafe;
    ///
    /// let (sender, mut receiver) = threadsafe::channel(1);
    /// let other = std::thread::spawn(move || {
    ///     std::iter::from_fn(|| receiver.blocking_recv()).collect::<Vec<_>>()
    /// });
    /// mainspring::run(async move {
    ///     for name in ["a", "b", "c"] {
    ///         sender.send(name).await.unwrap();
    ///     }
    /// })?;
    /// assert_eq!(other.join().unwrap(), ["a", "b", "c"]);
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn send(&self, value: T) -> impl Future<Output = Result<(), SendError<T>>> {
        Staying::new(Put::new(&self.channel.queue, value), |sent| {
            sent.map_err(|refused| SendError(refused.0))
        })
    }

    /// [`send`](Sender::send), for threads without a loop: blocks until there is room. On a thread whose loop is to receive
    /// the values that would be for ever.
    ///
    /// ```
    /// use mainspring::sync::threadsafe::{self, SendError};
    ///
    /// let (sender, receiver) = threadsafe::channel(1);
    /// sender.blocking_send(1)?;
    /// let other = std::thread::spawn(move || sender.blocking_send(2));
    /// drop(receiver);
    /// assert_eq!(other.join().unwrap(), Err(SendError(2)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn blocking_send(&self, value: T) -> Result<(), SendError<T>> {
        block_on(self.send(value))
    }

    /// Sends a value if there is room, and never waits.
    ///
    /// ```
    /// use mainspring::sync::threadsafe::{channel, TrySendError};
    ///
    /// let (sender, receiver) = channel(1);
    /// assert_eq!(sender.try_send(1), Ok(()));
    /// assert_eq!(sender.try_send(2), Err(TrySendError::Full(2)));
    /// drop(receiver);
    /// assert_eq!(sender.try_send(3), Err(TrySendError::Closed(3)));
    /// ```
    pub fn try_send(&self, value: T) -> Result<(), TrySendError<T>> {
        self.channel.queue.put_nowait(value).map_err(TrySendError::from)
    }

    /// Whether the receiver is gone, or has closed the channel.
    ///
    /// ```
    /// let (sender, mut receiver) = mainspring::sync::threadsafe::channel::<()>(1);
    /// assert!(!sender.is_closed());
    /// receiver.close();
    /// assert!(sender.is_closed());
    /// ```
    pub fn is_closed(&self) -> bool {
        self.channel.is_closed()
    }

    /// Waits until the receiver is gone, or has closed the channel. Its loop may become idle meanwhile.
    ///
    /// Cancel safety: nothing is lost.
    ///
    /// ```
    /// let (sender, receiver) = mainspring::sync::threadsafe::channel::<()>(1);
    /// std::thread::spawn(move || drop(receiver));
    /// mainspring::run(sender.closed())?;
    /// assert!(sender.is_closed());
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub async fn closed(&self) {
        self.channel.closed().await;
    }

    /// How many values there is room for, at this moment. What a [`Permit`](super::Permit) holds is taken.
    ///
    /// ```
    /// let (sender, _receiver) = mainspring::sync::threadsafe::channel(3);
    /// sender.try_send('a').unwrap();
    /// assert_eq!((sender.capacity(), sender.max_capacity()), (2, 3));
    /// ```
    pub fn capacity(&self) -> usize {
        self.channel.room()
    }

    /// How many values there is room for when the channel is empty.
    pub fn max_capacity(&self) -> usize {
        self.channel.max_room()
    }
}

impl<T> UnboundedSender<T> {
    pub(super) fn new(sender: Sender<T>) -> Self {
        UnboundedSender { sender }
    }

    /// Sends a value. [`SendError`], with the value, if the receiver is gone.
    pub fn send(&self, value: T) -> Result<(), SendError<T>> {
        self.sender.try_send(value).map_err(|refused| SendError(refused.into_inner()))
    }

    /// Whether the receiver is gone, or has closed the channel.
    pub fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }

    /// [`Sender::closed`].
    ///
    /// Cancel safety: nothing is lost.
    ///
    /// ```
    /// let (sender, receiver) = mainspring::sync::threadsafe::unbounded_channel::<()>();
    /// std::thread::spawn(move || drop(receiver));
    /// mainspring::run(sender.closed())?;
    /// assert!(sender.is_closed());
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub async fn closed(&self) {
        self.sender.closed().await;
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        self.channel.senders.add();
        Sender { channel: Arc::clone(&self.channel) }
    }
}

impl<T> Clone for UnboundedSender<T> {
    fn clone(&self) -> Self {
        UnboundedSender { sender: self.sender.clone() }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        self.channel.leave();
    }
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender").field("channel", &self.channel).finish()
    }
}

impl<T> fmt::Debug for UnboundedSender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UnboundedSender").field("channel", &self.sender.channel).finish()
    }
}
