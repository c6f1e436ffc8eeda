//! `Sender` and `UnboundedSender`: the sending halves.

use super::loop_keep_alive::WithKeepAlive;
use super::{Channel, Permit, SendError};
use crate::block_on::block_on;
use crate::sync::queue::{Put, Reserve};
use std::sync::Arc;

/// The sending half of [`channel`](super::channel). Clones send to the same receiver. It is `Send` and `Sync` if `T`
/// is `Send`.
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

/// The sending half of [`unbounded_channel`](super::unbounded_channel). Clones send to the same receiver. It is
/// `Send` and `Sync` if `T` is `Send`.
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

    /// Sends a value. Waits while the channel is full. [`SendError`] returns the value if the receiver was dropped, or
    /// has closed the channel. For tasks of any loop.
    ///
    /// Cancel safety: if this future is dropped before it is ready, the value is not sent but dropped.
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
        WithKeepAlive::new(Put::new(&self.channel.queue, value), |sent| {
            sent.map_err(|refused| SendError(refused.0))
        })
    }

    /// [`send`](Sender::send) for threads without a loop: blocks while the channel is full. If the receiver is a task
    /// of this thread's loop, this blocks forever.
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

    /// Waits for a free slot, in one queue with [`send`](Sender::send), and reserves it, so that the value is made only
    /// when it can be sent. [`SendError`] if the receiver was dropped, or has closed the channel. For tasks of any
    /// loop.
    ///
    /// Cancel safety: nothing is reserved; the place in the queue is lost.
    ///
    /// ```
    /// let (sender, mut receiver) = mainspring::sync::threadsafe::channel(1);
    /// sender.try_send("first").unwrap();
    /// let other = std::thread::spawn(move || (receiver.blocking_recv(), receiver.blocking_recv()));
    /// mainspring::run(async {
    ///     let permit = sender.reserve().await.unwrap();
    ///     assert!(sender.try_send("full").is_err());
    ///     permit.send("made late");
    /// })?;
    /// assert_eq!(other.join().unwrap(), (Some("first"), Some("made late")));
    /// assert!(mainspring::run(async { sender.reserve().await.is_err() })?);
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn reserve(&self) -> impl Future<Output = Result<Permit<'_, T>, SendError<()>>> {
        WithKeepAlive::new(Reserve::new(&self.channel.queue), |reserved| match reserved {
            Ok(()) => Ok(Permit { slot: self.channel.reserved_slot() }),
            Err(_) => Err(SendError(())),
        })
    }
}

impl<T> UnboundedSender<T> {
    pub(super) fn new(sender: Sender<T>) -> Self {
        UnboundedSender { sender }
    }
}
