//! A channel in which every receiver gets every value.
//!
//! The channel keeps the last `capacity` values: sending never waits, and a receiver that is too slow gets the number
//! of missed values. For the tasks of one thread (`!Send`).
//!
//! ```
//! use mainspring::sync::broadcast;
//!
//! # mainspring::run(async {
//! let (sender, mut one) = broadcast::channel(16);
//! let mut other = sender.subscribe();
//! sender.send("news").unwrap();
//! assert_eq!(one.recv().await, Ok("news"));
//! assert_eq!(other.recv().await, Ok("news"));
//! # })?;
//! # Ok::<(), mainspring::Error>(())
//! ```

pub use super::errors::SendError;

use crate::sync::wait_list::WaitList;
use crate::task::named;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fmt;
use std::rc::Rc;

/// A channel that keeps the last `capacity` values; zero counts as one.
///
/// ```
/// use mainspring::sync::broadcast::{TryRecvError, channel};
///
/// let (sender, mut receiver) = channel(2);
/// for number in 1..=3 {
///     sender.send(number).unwrap();
/// }
/// assert_eq!(receiver.try_recv(), Err(TryRecvError::Lagged(1)));
/// assert_eq!(receiver.try_recv(), Ok(2));
/// ```
pub fn channel<T: Clone>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    let channel = Rc::new(Channel {
        recent: RefCell::new(RecentValues { values: VecDeque::new(), first: 0 }),
        capacity: capacity.max(1),
        senders: Cell::new(1),
        receivers: Cell::new(1),
        receiving: WaitList::new(),
        closing: WaitList::new(),
    });
    (Sender { channel: Rc::clone(&channel) }, Receiver { channel, next: 0 })
}

struct Channel<T> {
    recent: RefCell<RecentValues<T>>,
    capacity: usize,
    senders: Cell<usize>,
    receivers: Cell<usize>,
    receiving: WaitList,
    /// Tasks that wait until there is no receiver.
    closing: WaitList,
}

struct RecentValues<T> {
    /// Each value with the number of receivers that have not received it. Values at the front that no receiver needs
    /// are removed.
    values: VecDeque<(Rc<T>, usize)>,
    /// The sequence number of the first value.
    first: u64,
}

/// Why [`Receiver::recv`] has no value.
///
/// ```
/// use mainspring::sync::broadcast::{RecvError, channel};
///
/// # mainspring::run(async {
/// let (sender, mut receiver) = channel(1);
/// sender.send("lost").unwrap();
/// sender.send("last").unwrap();
/// drop(sender);
/// let mut received = Vec::new();
/// loop {
///     match receiver.recv().await {
///         Ok(word) => received.push(word),
///         Err(RecvError::Lagged(missed)) => assert_eq!(missed, 1),
///         Err(RecvError::Closed) => break,
///     }
/// }
/// assert_eq!(received, ["last"]);
/// # })?;
/// # Ok::<(), mainspring::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecvError {
    /// All senders were dropped.
    Closed,
    /// The receiver missed this many values. The next call returns the oldest value that is kept.
    Lagged(u64),
}

/// Why [`Receiver::try_recv`] has no value.
///
/// ```
/// use mainspring::sync::broadcast::{TryRecvError, channel};
///
/// let (sender, mut receiver) = channel::<u8>(1);
/// assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
/// drop(sender);
/// assert_eq!(receiver.try_recv(), Err(TryRecvError::Closed));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TryRecvError {
    /// No value is in the channel.
    Empty,
    /// All senders were dropped.
    Closed,
    /// See [`RecvError::Lagged`].
    Lagged(u64),
}

impl fmt::Display for RecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecvError::Closed => f.write_str("the channel is closed: there is no sender"),
            RecvError::Lagged(missed) => write!(f, "the receiver was too slow and missed {missed} values"),
        }
    }
}

impl std::error::Error for RecvError {}

impl fmt::Display for TryRecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TryRecvError::Empty => f.write_str("the channel is empty"),
            TryRecvError::Closed => RecvError::Closed.fmt(f),
            TryRecvError::Lagged(missed) => RecvError::Lagged(*missed).fmt(f),
        }
    }
}

impl std::error::Error for TryRecvError {}

/// The sending half. Clones send to the same receivers. For the tasks of one thread (`!Send`).
///
/// ```
/// use mainspring::sync::broadcast;
///
/// let (sender, mut first) = broadcast::channel(4);
/// sender.send("one").unwrap();
/// let mut second = sender.subscribe();
/// assert_eq!(sender.receiver_count(), 2);
/// sender.clone().send("two").unwrap();
/// assert_eq!((first.try_recv(), first.try_recv()), (Ok("one"), Ok("two")));
/// assert_eq!(second.try_recv(), Ok("two"));
/// ```
pub struct Sender<T> {
    channel: Rc<Channel<T>>,
}

/// A receiving half: it gets the values that are sent after it was made. For the tasks of one thread (`!Send`).
///
/// ```
/// use mainspring::sync::broadcast;
///
/// let (sender, mut receiver) = broadcast::channel(4);
/// sender.send("one").unwrap();
/// let late = receiver.resubscribe();
/// assert_eq!((receiver.len(), late.is_empty()), (1, true));
/// assert_eq!(receiver.try_recv(), Ok("one"));
/// assert!(receiver.is_empty());
/// ```
pub struct Receiver<T> {
    channel: Rc<Channel<T>>,
    /// The sequence number of its next value.
    next: u64,
}

impl<T: Clone> Sender<T> {
    /// Sends to all receivers. Returns how many there are. [`SendError`] returns the value if there are none.
    ///
    /// ```
    /// use mainspring::sync::broadcast::{channel, SendError};
    ///
    /// let (sender, receiver) = channel(1);
    /// assert_eq!(sender.send('a'), Ok(1));
    /// drop(receiver);
    /// assert_eq!(sender.send('b'), Err(SendError('b')));
    /// ```
    pub fn send(&self, value: T) -> Result<usize, SendError<T>> {
        let channel = &self.channel;
        let receivers = channel.receivers.get();
        if receivers == 0 {
            return Err(SendError(value));
        }
        let value = Rc::new(value);
        let mut recent = channel.recent.borrow_mut();
        let former = if recent.values.len() == channel.capacity { recent.take_first() } else { None };
        recent.values.push_back((value, receivers));
        drop(recent);
        channel.receiving.wake_all();
        drop(former);
        Ok(receivers)
    }

    /// A new receiver, for later values.
    pub fn subscribe(&self) -> Receiver<T> {
        Receiver::new(&self.channel)
    }

    /// The number of receivers.
    pub fn receiver_count(&self) -> usize {
        self.channel.receivers.get()
    }

    /// Waits until there is no receiver. [`subscribe`](Sender::subscribe) can add one afterwards.
    ///
    /// Cancel safety: nothing is lost.
    ///
    /// ```
    /// # mainspring::run(async {
    /// let (sender, receiver) = mainspring::sync::broadcast::channel::<u8>(4);
    /// mainspring::spawn(async move { drop(receiver) });
    /// sender.closed().await;
    /// assert_eq!(sender.receiver_count(), 0);
    /// # })?;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub async fn closed(&self) {
        self.channel.closing.wait_until(|| (self.receiver_count() == 0).then_some(())).await;
    }
}

impl<T: Clone> Receiver<T> {
    /// The next value. [`RecvError`] if all senders were dropped, or if values were missed.
    ///
    /// Cancel safety: no value is lost.
    ///
    /// ```
    /// use mainspring::sync::broadcast::{channel, RecvError};
    ///
    /// # mainspring::run(async {
    /// let (sender, mut receiver) = channel(2);
    /// for number in 1..=3 {
    ///     sender.send(number).unwrap();
    /// }
    /// drop(sender);
    /// assert_eq!(receiver.recv().await, Err(RecvError::Lagged(1)));
    /// assert_eq!(receiver.recv().await, Ok(2));
    /// assert_eq!(receiver.recv().await, Ok(3));
    /// assert_eq!(receiver.recv().await, Err(RecvError::Closed));
    /// # })?;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub async fn recv(&mut self) -> Result<T, RecvError> {
        let channel = Rc::clone(&self.channel);
        let received = channel.receiving.wait_until(|| match self.try_recv() {
            Ok(value) => Some(Ok(value)),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Closed) => Some(Err(RecvError::Closed)),
            Err(TryRecvError::Lagged(missed)) => Some(Err(RecvError::Lagged(missed))),
        });
        named(|| "broadcast::Receiver::recv", received).await
    }

    /// The next value, if there is one. [`TryRecvError`] is the reason otherwise.
    ///
    /// ```
    /// use mainspring::sync::broadcast::{TryRecvError, channel};
    ///
    /// let (sender, mut receiver) = channel(1);
    /// assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
    /// sender.send('a').unwrap();
    /// assert_eq!(receiver.try_recv(), Ok('a'));
    /// ```
    pub fn try_recv(&mut self) -> Result<T, TryRecvError> {
        let mut recent = self.channel.recent.borrow_mut();
        let missed = recent.first.saturating_sub(self.next);
        if missed > 0 {
            self.next = recent.first;
            return Err(TryRecvError::Lagged(missed));
        }
        let Some(value) = recent.receive(self.next) else {
            let is_closed = self.channel.senders.get() == 0;
            return Err(if is_closed { TryRecvError::Closed } else { TryRecvError::Empty });
        };
        self.next += 1;
        drop(recent);
        // The last receiver takes the value without a copy.
        Ok(Rc::try_unwrap(value).unwrap_or_else(|shared| T::clone(&shared)))
    }

    /// A new receiver, for later values.
    pub fn resubscribe(&self) -> Self {
        Receiver::new(&self.channel)
    }

    /// The number of values that can be received, without missed ones.
    pub fn len(&self) -> usize {
        let recent = self.channel.recent.borrow();
        let seen = usize::try_from(self.next.saturating_sub(recent.first)).unwrap_or(usize::MAX);
        recent.values.len().saturating_sub(seen)
    }

    /// Whether no value can be received.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<T> Receiver<T> {
    fn new(channel: &Rc<Channel<T>>) -> Self {
        channel.receivers.set(channel.receivers.get() + 1);
        let recent = channel.recent.borrow();
        Receiver { channel: Rc::clone(channel), next: recent.first + recent.values.len() as u64 }
    }
}

impl<T> RecentValues<T> {
    /// Removes the first value. The caller drops it after releasing all borrows.
    fn take_first(&mut self) -> Option<(Rc<T>, usize)> {
        let first = self.values.pop_front()?;
        self.first += 1;
        Some(first)
    }

    /// The value with this number, once for each receiver. The last receiver gets the only reference.
    fn receive(&mut self, number: u64) -> Option<Rc<T>> {
        let index = usize::try_from(number.checked_sub(self.first)?).ok()?;
        let (value, receivers) = self.values.get_mut(index)?;
        *receivers = receivers.saturating_sub(1);
        // Each receiver receives in order. So if no receiver needs this value, none needs those before it.
        if *receivers == 0 && index == 0 {
            return self.take_first().map(|(value, _)| value);
        }
        Some(Rc::clone(value))
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        self.channel.senders.set(self.channel.senders.get() + 1);
        Sender { channel: Rc::clone(&self.channel) }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let left = self.channel.senders.get() - 1;
        self.channel.senders.set(left);
        if left == 0 {
            self.channel.receiving.wake_all();
        }
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let left = self.channel.receivers.get() - 1;
        self.channel.receivers.set(left);
        let mut unwanted = Vec::new();
        let mut recent = self.channel.recent.borrow_mut();
        let mut number = self.next.max(recent.first);
        while let Some(value) = recent.receive(number) {
            unwanted.push(value);
            number += 1;
        }
        drop(recent);
        // Wake the senders first: the destructors of the values are user code.
        if left == 0 {
            self.channel.closing.wake_all();
        }
        drop(unwanted);
    }
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender").field("receivers", &self.channel.receivers.get()).finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver").field("next", &self.next).finish_non_exhaustive()
    }
}
