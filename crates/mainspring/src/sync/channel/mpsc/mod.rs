//! A channel with many senders and one receiver: a [`Queue`](crate::sync::Queue) in two halves that ends when all
//! senders, or the receiver, are dropped.
//!
//! For the tasks of one thread (`!Send`).
//!
//! ```
//! use mainspring::{spawn, sync::mpsc};
//!
//! # mainspring::run(async {
//! let (sender, mut receiver) = mpsc::channel(2);
//! for name in ["a", "b"] {
//!     let sender = sender.clone();
//!     spawn(async move {
//!         for number in 0..2 {
//!             sender.send((name, number)).await.unwrap();
//!         }
//!     });
//! }
//! drop(sender);
//! let mut received = Vec::new();
//! while let Some(item) = receiver.recv().await {
//!     received.push(item);
//! }
//! assert_eq!(received.len(), 4);
//! # })?;
//! # Ok::<(), mainspring::Error>(())
//! ```

pub use crate::sync::channel::errors::{SendError, TryRecvError, TrySendError};

use crate::sync::channel::halves::channel_halves;
use crate::sync::channel::shared::{self, ChannelState, ReservedSlot, Senders};
use crate::sync::queue::{Get, GetMany, Put, QueueCell, QueueState, Reserve};
use crate::sync::wait_list;
use crate::sync::wait_list::wait_queue::WaiterKey;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll};

channel_halves!("mpsc", Rc, Weak, QueueRefCell, "It stays on its thread (`!Send`).");

/// A channel for up to `capacity` values; zero counts as one.
///
/// ```
/// use mainspring::sync::mpsc;
/// use mainspring::join;
///
/// # mainspring::run(async {
/// let (sender, mut receiver) = mpsc::channel(1);
/// let send = async {
///     // The second waits until the first is received.
///     sender.send("ready").await.unwrap();
///     sender.send("steady").await.unwrap();
/// };
/// let receive = async { [receiver.recv().await, receiver.recv().await] };
/// assert_eq!(join((send, receive)).await.1, [Some("ready"), Some("steady")]);
/// # })?;
/// # Ok::<(), mainspring::Error>(())
/// ```
pub fn channel<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    let channel = share(capacity.max(1));
    (Sender { channel: Rc::clone(&channel) }, Receiver { channel, key: None })
}

/// A channel without a limit, so that sending does not wait.
///
/// ```
/// use mainspring::sync::mpsc;
///
/// # mainspring::run(async {
/// let (sender, mut receiver) = mpsc::unbounded_channel();
/// sender.send("hello").unwrap();
/// assert_eq!(receiver.recv().await, Some("hello"));
/// receiver.close();
/// assert_eq!(sender.send("again"), Err(mpsc::SendError("again")));
/// # })?;
/// # Ok::<(), mainspring::Error>(())
/// ```
pub fn unbounded_channel<T>() -> (UnboundedSender<T>, Receiver<T>) {
    let channel = share(0);
    let sender = Sender { channel: Rc::clone(&channel) };
    (UnboundedSender { sender }, Receiver { channel, key: None })
}

/// The cell of the channel's queue.
type QueueRefCell<T> = RefCell<ChannelState<T>>;

type Channel<T> = shared::Channel<QueueRefCell<T>, Cell<usize>, wait_list::LocalWaiters>;

/// A channel with one sender.
fn share<T>(maxsize: usize) -> Rc<Channel<T>> {
    Rc::new(Channel::new(RefCell::new(QueueState::new(maxsize))))
}

/// The sending half of [`channel`]. Clones send to the same receiver. Dropping the last sender ends the channel. For
/// the tasks of one thread (`!Send`).
///
/// ```
/// use mainspring::sync::mpsc;
///
/// # mainspring::run(async {
/// let (sender, mut receiver) = mpsc::channel(2);
/// let other = sender.clone();
/// assert_eq!((sender.capacity(), sender.max_capacity()), (2, 2));
/// sender.send(1).await.unwrap();
/// assert_eq!((other.capacity(), other.max_capacity()), (1, 2));
/// assert!(!other.is_closed());
/// drop((sender, other));
/// assert_eq!((receiver.recv().await, receiver.recv().await), (Some(1), None));
/// # })?;
/// # Ok::<(), mainspring::Error>(())
/// ```
pub struct Sender<T> {
    channel: Rc<Channel<T>>,
}

/// The sending half of [`unbounded_channel`]. Clones send to the same receiver. Dropping the last sender ends the
/// channel. For the tasks of one thread (`!Send`).
///
/// ```
/// use mainspring::sync::mpsc;
///
/// let (sender, mut receiver) = mpsc::unbounded_channel();
/// for number in 0..1000 {
///     sender.send(number).unwrap();
/// }
/// assert_eq!(receiver.len(), 1000);
/// receiver.close();
/// assert!(sender.is_closed());
/// ```
pub struct UnboundedSender<T> {
    sender: Sender<T>,
}

/// The receiving half of [`channel`] and [`unbounded_channel`]. Dropping it drops the values that were not received.
/// For the tasks of one thread (`!Send`).
///
/// ```
/// use mainspring::sync::mpsc;
///
/// # mainspring::run(async {
/// let (sender, mut receiver) = mpsc::channel(8);
/// sender.send('a').await.unwrap();
/// sender.send('b').await.unwrap();
/// assert!(!receiver.is_empty());
/// assert_eq!(receiver.recv().await, Some('a'));
/// assert_eq!(receiver.len(), 1);
/// # })?;
/// # Ok::<(), mainspring::Error>(())
/// ```
pub struct Receiver<T> {
    channel: Rc<Channel<T>>,
    /// The waiter of [`Receiver::poll_recv`].
    key: Option<WaiterKey>,
}

impl<T> Sender<T> {
    /// Sends a value. Waits while the channel is full. [`SendError`] returns the value if the receiver was dropped, or
    /// has closed the channel.
    ///
    /// Cancel safety: if this future is dropped before it is ready, the value is not sent but dropped.
    ///
    /// ```
    /// use mainspring::sync::mpsc::{SendError, channel};
    ///
    /// # mainspring::run(async {
    /// let (sender, mut receiver) = channel(1);
    /// sender.send(1).await.unwrap();
    /// receiver.close();
    /// assert_eq!(sender.send(2).await, Err(SendError(2)));
    /// assert_eq!(receiver.recv().await, Some(1));
    /// # })?;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn send(&self, value: T) -> impl Future<Output = Result<(), SendError<T>>> {
        Sending(Put::new(&self.channel.queue, value))
    }

    /// Waits for a free slot, in one queue with [`send`](Sender::send), and reserves it, so that the value is made only
    /// when it can be sent. [`SendError`] if the receiver was dropped, or has closed the channel.
    ///
    /// Cancel safety: nothing is reserved; the place in the queue is lost.
    ///
    /// ```
    /// use mainspring::sync::mpsc;
    ///
    /// # mainspring::run(async {
    /// let (sender, mut receiver) = mpsc::channel(1);
    /// let permit = sender.reserve().await.unwrap();
    /// assert!(sender.try_send("full").is_err());
    /// permit.send("made late");
    /// assert_eq!(receiver.recv().await, Some("made late"));
    /// receiver.close();
    /// assert!(sender.reserve().await.is_err());
    /// # })?;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub async fn reserve(&self) -> Result<Permit<'_, T>, SendError<()>> {
        Reserve::new(&self.channel.queue).await.map_err(|_| SendError(()))?;
        Ok(Permit { slot: self.channel.reserved_slot() })
    }
}

impl<T> Receiver<T> {
    /// The next value. `None` if all senders were dropped and all values are received.
    ///
    /// Cancel safety: no value is lost.
    ///
    /// ```
    /// use mainspring::{spawn, sync::mpsc};
    ///
    /// # mainspring::run(async {
    /// let (sender, mut receiver) = mpsc::channel(1);
    /// spawn(async move {
    ///     for word in ["one", "two"] {
    ///         sender.send(word).await.unwrap();
    ///     }
    /// });
    /// let mut words = Vec::new();
    /// while let Some(word) = receiver.recv().await {
    ///     words.push(word);
    /// }
    /// assert_eq!(words, ["one", "two"]);
    /// # })?;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn recv(&mut self) -> impl Future<Output = Option<T>> {
        self.stop_waiting();
        Receiving(Get::new(&self.channel.queue))
    }

    /// Appends up to `limit` values to `buffer`. Waits for the first one, and takes those that are available with it.
    /// Returns how many: zero if all senders were dropped and all values are received, or if `limit` is zero.
    ///
    /// Cancel safety: no value is lost. `buffer` is unchanged if this future is dropped before it is ready.
    ///
    /// ```
    /// use mainspring::sync::mpsc;
    ///
    /// # mainspring::run(async {
    /// let (sender, mut receiver) = mpsc::channel(8);
    /// for number in 1..=5 {
    ///     sender.send(number).await.unwrap();
    /// }
    /// drop(sender);
    /// let mut batch = Vec::new();
    /// assert_eq!(receiver.recv_many(&mut batch, 3).await, 3);
    /// assert_eq!(receiver.recv_many(&mut batch, 3).await, 2);
    /// assert_eq!(batch, [1, 2, 3, 4, 5]);
    /// assert_eq!(receiver.recv_many(&mut batch, 3).await, 0);
    /// # })?;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub async fn recv_many(&mut self, buffer: &mut Vec<T>, limit: usize) -> usize {
        self.stop_waiting();
        GetMany::new(&self.channel.queue, buffer, limit).await
    }

    /// The poll function of [`recv`](Receiver::recv): wakes the task of `cx` when there is a value.
    ///
    /// ```
    /// # use std::future::poll_fn;
    /// # mainspring::run(async {
    /// let (sender, mut receiver) = mainspring::sync::mpsc::channel(1);
    /// sender.try_send(7).unwrap();
    /// assert_eq!(poll_fn(|cx| receiver.poll_recv(cx)).await, Some(7));
    /// # })?;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Option<T>> {
        self.channel.queue.poll_get(&mut self.key, cx).map(Result::ok)
    }

    fn stop_waiting(&mut self) {
        self.channel.queue.remove_getter(&mut self.key);
    }
}

/// The future of [`Sender::send`]. A struct instead of an `async fn`, to save a layer of polling, as [`Receiving`].
struct Sending<'a, T>(Put<'a, QueueRefCell<T>>);

impl<T> Future for Sending<'_, T> {
    type Output = Result<(), SendError<T>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(cx).map_err(|refused| SendError(refused.0))
    }
}

/// The future of [`Receiver::recv`].
struct Receiving<'a, T>(Get<'a, QueueRefCell<T>>);

impl<T> Future for Receiving<'_, T> {
    type Output = Option<T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(cx).map(Result::ok)
    }
}
