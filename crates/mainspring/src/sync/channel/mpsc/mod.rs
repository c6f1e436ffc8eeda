//! A channel: a [`Queue`](super::Queue) in two halves, which ends when all of one side are dropped.
//!
//! Many send, one receives. As all of this module, for the tasks of one thread (`!Send`).
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

mod permit;
mod weak;

pub use crate::sync::channel::errors::{SendError, TryRecvError, TrySendError};
pub use permit::Permit;
pub use weak::{WeakSender, WeakUnboundedSender};

use crate::sync::channel::shared::{self, ChannelState, Senders};
use crate::sync::queue::{Get, GetMany, Put, QueueCell, QueueState};
use crate::sync::wait_list;
use crate::sync::wait_list::wait_queue::WaiterKey;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

/// A channel that holds up to `capacity` values, one at least.
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

/// A channel that holds any number of values, so that sending needs no `await`.
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

/// Where the queue of a channel has its state.
type QueueRefCell<T> = RefCell<ChannelState<T>>;

type Channel<T> = shared::Channel<QueueRefCell<T>, Cell<usize>, wait_list::LocalWaiters>;

/// A channel with one sender.
fn share<T>(maxsize: usize) -> Rc<Channel<T>> {
    Rc::new(Channel::new(RefCell::new(QueueState::new(maxsize))))
}

/// The sending half of [`channel`]. A clone sends to the same receiver; when the last is dropped the channel ends. For the
/// tasks of one thread (`!Send`).
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

/// The sending half of [`unbounded_channel`]. A clone sends to the same receiver; when the last is dropped the channel ends.
/// For the tasks of one thread (`!Send`).
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

/// The receiving half of [`channel`] and [`unbounded_channel`]. Dropped, it drops what was sent and not received. For the
/// tasks of one thread (`!Send`).
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
    /// The place of [`Receiver::poll_recv`].
    key: Option<WaiterKey>,
}

impl<T> Sender<T> {
    /// Sends a value, and waits for room if there is none. [`SendError`], with the value, if the receiver is gone.
    ///
    /// Cancel safety: the value is sent if this is finished, else it is dropped with the future.
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

    /// Sends a value if there is room; [`TrySendError`] has the value, and says why not.
    ///
    /// ```
    /// use mainspring::sync::mpsc::{channel, TrySendError};
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
    pub fn is_closed(&self) -> bool {
        self.channel.is_closed()
    }

    /// Waits until the receiver is gone, or has closed the channel.
    ///
    /// Cancel safety: nothing is lost.
    ///
    /// ```
    /// # use mainspring::{spawn, sync::mpsc};
    /// # mainspring::run(async {
    /// let (sender, receiver) = mpsc::channel::<()>(1);
    /// spawn(async move { drop(receiver) });
    /// sender.closed().await;
    /// assert!(sender.is_closed());
    /// # })?;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub async fn closed(&self) {
        self.channel.closed().await;
    }

    /// How many values there is room for. What a [`Permit`] holds is taken.
    pub fn capacity(&self) -> usize {
        self.channel.room()
    }

    /// How many values there is room for when the channel is empty.
    pub fn max_capacity(&self) -> usize {
        self.channel.max_room()
    }
}

impl<T> UnboundedSender<T> {
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
    /// # use mainspring::{spawn, sync::mpsc};
    /// # mainspring::run(async {
    /// let (sender, receiver) = mpsc::unbounded_channel::<()>();
    /// spawn(async move { drop(receiver) });
    /// sender.closed().await;
    /// assert!(sender.is_closed());
    /// # })?;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub async fn closed(&self) {
        self.sender.closed().await;
    }
}

impl<T> Receiver<T> {
    /// The next value; `None` when nobody is left to send and all that was sent is received.
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
        self.leave();
        Receiving(Get::new(&self.channel.queue))
    }

    /// Appends the next values to `buffer`, `limit` at most, and says how many: it waits for one, and takes those that are
    /// there with it. Zero when nobody is left to send and all that was sent is received; also if `limit` is zero.
    ///
    /// Cancel safety: no value is lost. `buffer` is as it was if this is not finished.
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
        self.leave();
        GetMany::new(&self.channel.queue, buffer, limit).await
    }

    /// [`recv`](Receiver::recv), for who writes a future: the task of `cx` is woken when there is a value.
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

    /// The next value, if there is one; [`TryRecvError`] says why there is none.
    ///
    /// ```
    /// use mainspring::sync::mpsc::{channel, TryRecvError};
    ///
    /// let (sender, mut receiver) = channel(1);
    /// assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
    /// sender.try_send('a').unwrap();
    /// drop(sender);
    /// assert_eq!(receiver.try_recv(), Ok('a'));
    /// assert_eq!(receiver.try_recv(), Err(TryRecvError::Closed));
    /// ```
    pub fn try_recv(&mut self) -> Result<T, TryRecvError> {
        self.channel.queue.get_nowait().map_err(TryRecvError::from)
    }

    /// Takes no more values. Those that were sent can still be received, and those that a [`Permit`] is held for: until it is
    /// used or dropped, the channel is not at its end.
    ///
    /// ```
    /// use mainspring::sync::mpsc::{TrySendError, channel};
    ///
    /// # mainspring::run(async {
    /// let (sender, mut receiver) = channel(2);
    /// sender.try_send("in time").unwrap();
    /// receiver.close();
    /// assert_eq!(sender.try_send("late"), Err(TrySendError::Closed("late")));
    /// assert_eq!(receiver.recv().await, Some("in time"));
    /// assert_eq!(receiver.recv().await, None);
    /// # })?;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn close(&mut self) {
        self.channel.close();
    }

    /// How many values wait to be received.
    pub fn len(&self) -> usize {
        self.channel.len()
    }

    /// Whether no value waits to be received.
    pub fn is_empty(&self) -> bool {
        self.channel.is_empty()
    }

    fn leave(&mut self) {
        self.channel.queue.leave_getters(&mut self.key);
    }
}

/// The wait of [`Sender::send`]. It stands here, and not in an `async fn`, to be polled without a layer in between; so does
/// [`Receiving`].
struct Sending<'a, T>(Put<'a, QueueRefCell<T>>);

impl<T> Future for Sending<'_, T> {
    type Output = Result<(), SendError<T>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(cx).map_err(|refused| SendError(refused.0))
    }
}

/// The wait of [`Receiver::recv`].
struct Receiving<'a, T>(Get<'a, QueueRefCell<T>>);

impl<T> Future for Receiving<'_, T> {
    type Output = Option<T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(cx).map(Result::ok)
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        self.channel.senders.add();
        Sender { channel: Rc::clone(&self.channel) }
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

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        self.leave();
        self.channel.abandon();
    }
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender").field("channel", &self.channel).finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for UnboundedSender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UnboundedSender").field("channel", &self.sender.channel).finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver").field("channel", &self.channel).finish_non_exhaustive()
    }
}
