//! A channel of which every receiver gets every value.
//!
//! The channel keeps the last values, as many as its capacity: sending never waits, and a receiver that is too slow is
//! told how many it missed. For the tasks of one thread (`!Send`).
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
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fmt;
use std::rc::Rc;

/// A channel that keeps the last `capacity` values, one at least.
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
        kept: RefCell::new(Kept { values: VecDeque::new(), first: 0 }),
        capacity: capacity.max(1),
        senders: Cell::new(1),
        receivers: Cell::new(1),
        receiving: WaitList::new(),
        closing: WaitList::new(),
    });
    (Sender { channel: Rc::clone(&channel) }, Receiver { channel, next: 0 })
}

struct Channel<T> {
    kept: RefCell<Kept<T>>,
    capacity: usize,
    senders: Cell<usize>,
    receivers: Cell<usize>,
    receiving: WaitList,
    /// Who waits until there is no receiver.
    closing: WaitList,
}

struct Kept<T> {
    /// Each with how many receivers have yet to get it. Those in front that nobody will are gone.
    values: VecDeque<(Rc<T>, usize)>,
    /// The number of the first of them.
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
    /// Nobody is left to send.
    Closed,
    /// This many were not received in time, and are lost to this receiver. The next call gives the oldest there is.
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
    /// None was sent yet.
    Empty,
    /// Nobody is left to send.
    Closed,
    /// As [`RecvError::Lagged`].
    Lagged(u64),
}

impl fmt::Display for RecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecvError::Closed => f.write_str("the channel is closed: nobody sends"),
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

/// The half that sends. A clone sends to the same receivers. For the tasks of one thread (`!Send`).
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

/// A half that receives, from when it was made on. For the tasks of one thread (`!Send`).
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
    /// The number of the value it gets next.
    next: u64,
}

impl<T: Clone> Sender<T> {
    /// Sends to all receivers, and says how many they are. [`SendError`], with the value, if there are none.
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
        let mut kept = channel.kept.borrow_mut();
        let former = if kept.values.len() == channel.capacity { kept.take_first() } else { None };
        kept.values.push_back((value, receivers));
        drop(kept);
        channel.receiving.wake_all();
        drop(former);
        Ok(receivers)
    }

    /// A new receiver, for what is sent from now on.
    pub fn subscribe(&self) -> Receiver<T> {
        Receiver::new(&self.channel)
    }

    /// How many receivers there are.
    pub fn receiver_count(&self) -> usize {
        self.channel.receivers.get()
    }

    /// Waits until there is no receiver. There may be one again, by [`subscribe`](Sender::subscribe).
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
        self.channel.closing.until(|| (self.receiver_count() == 0).then_some(())).await;
    }
}

impl<T: Clone> Receiver<T> {
    /// The next value. [`RecvError`] if there will be none, or if some were missed.
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
        channel
            .receiving
            .until(|| match self.try_recv() {
                Ok(value) => Some(Ok(value)),
                Err(TryRecvError::Empty) => None,
                Err(TryRecvError::Closed) => Some(Err(RecvError::Closed)),
                Err(TryRecvError::Lagged(missed)) => Some(Err(RecvError::Lagged(missed))),
            })
            .await
    }

    /// The next value, if there is one; [`TryRecvError`] says why there is none.
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
        let mut kept = self.channel.kept.borrow_mut();
        let missed = kept.first.saturating_sub(self.next);
        if missed > 0 {
            self.next = kept.first;
            return Err(TryRecvError::Lagged(missed));
        }
        let Some(value) = kept.receive(self.next) else {
            let is_closed = self.channel.senders.get() == 0;
            return Err(if is_closed { TryRecvError::Closed } else { TryRecvError::Empty });
        };
        self.next += 1;
        drop(kept);
        // The last one to get it need not copy it.
        Ok(Rc::try_unwrap(value).unwrap_or_else(|shared| T::clone(&shared)))
    }

    /// A new receiver, for what is sent from now on.
    pub fn resubscribe(&self) -> Self {
        Receiver::new(&self.channel)
    }

    /// How many values wait to be received, missed ones not counted.
    pub fn len(&self) -> usize {
        let kept = self.channel.kept.borrow();
        let seen = usize::try_from(self.next.saturating_sub(kept.first)).unwrap_or(usize::MAX);
        kept.values.len().saturating_sub(seen)
    }

    /// Whether no value waits to be received.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<T> Receiver<T> {
    fn new(channel: &Rc<Channel<T>>) -> Self {
        channel.receivers.set(channel.receivers.get() + 1);
        let kept = channel.kept.borrow();
        Receiver { channel: Rc::clone(channel), next: kept.first + kept.values.len() as u64 }
    }
}

impl<T> Kept<T> {
    /// Takes the first value out. What is taken out here, the caller drops when nothing is borrowed.
    fn take_first(&mut self) -> Option<(Rc<T>, usize)> {
        let first = self.values.pop_front()?;
        self.first += 1;
        Some(first)
    }

    /// The value of this number, once for each receiver. The last of them has it alone.
    fn receive(&mut self, number: u64) -> Option<Rc<T>> {
        let index = usize::try_from(number.checked_sub(self.first)?).ok()?;
        let (value, receivers) = self.values.get_mut(index)?;
        *receivers = receivers.saturating_sub(1);
        // A receiver has had all before this one, so nobody is left for those in front of one that has nobody left.
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
        let mut kept = self.channel.kept.borrow_mut();
        let mut number = self.next.max(kept.first);
        while let Some(value) = kept.receive(number) {
            unwanted.push(value);
            number += 1;
        }
        drop(kept);
        // Senders learn of it before the values are dropped, whose destructors are not ours.
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
