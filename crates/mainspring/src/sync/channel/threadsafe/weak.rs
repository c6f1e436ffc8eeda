//! Senders that do not keep their channel open.

use super::{Channel, Sender, UnboundedSender};
use crate::sync::channel::shared::Senders;
use std::fmt;
use std::sync::{Arc, Weak};

/// A [`Sender`] that does not keep the channel open: for who may send as long as others do. It is `Send` and `Sync` if `T` is
/// `Send`.
///
/// ```
/// use mainspring::sync::threadsafe;
///
/// let (sender, mut receiver) = threadsafe::channel(1);
/// let weak = sender.downgrade();
/// std::thread::scope(|scope| scope.spawn(|| weak.upgrade().unwrap().try_send(1)).join()).unwrap()?;
/// drop(sender);
/// assert!(weak.upgrade().is_none());
/// assert_eq!((receiver.blocking_recv(), receiver.blocking_recv()), (Some(1), None));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct WeakSender<T> {
    channel: Weak<Channel<T>>,
}

/// An [`UnboundedSender`] that does not keep the channel open. It is `Send` and `Sync` if `T` is `Send`.
///
/// ```
/// let (sender, mut receiver) = mainspring::sync::threadsafe::unbounded_channel();
/// let weak = sender.downgrade();
/// weak.clone().upgrade().unwrap().send(1).unwrap();
/// drop(sender);
/// assert!(weak.upgrade().is_none());
/// assert_eq!(receiver.try_recv(), Ok(1));
/// ```
pub struct WeakUnboundedSender<T> {
    sender: WeakSender<T>,
}

impl<T> Sender<T> {
    /// A sender that does not keep the channel open.
    ///
    /// ```
    /// let (sender, receiver) = mainspring::sync::threadsafe::channel::<()>(1);
    /// let weak = sender.downgrade();
    /// assert!(weak.upgrade().is_some_and(|sender| !sender.is_closed()));
    /// drop(receiver);
    /// assert!(weak.upgrade().is_some_and(|sender| sender.is_closed()));
    /// ```
    pub fn downgrade(&self) -> WeakSender<T> {
        WeakSender { channel: Arc::downgrade(&self.channel) }
    }
}

impl<T> UnboundedSender<T> {
    /// A sender that does not keep the channel open.
    ///
    /// ```
    /// let (sender, _receiver) = mainspring::sync::threadsafe::unbounded_channel::<()>();
    /// let weak = sender.downgrade();
    /// assert!(weak.upgrade().is_some());
    /// drop(sender);
    /// assert!(weak.upgrade().is_none());
    /// ```
    pub fn downgrade(&self) -> WeakUnboundedSender<T> {
        WeakUnboundedSender { sender: self.sender.downgrade() }
    }
}

impl<T> WeakSender<T> {
    /// A sender that keeps the channel open; `None` if there was none left, for then the channel has ended.
    ///
    /// ```
    /// let (sender, _receiver) = mainspring::sync::threadsafe::channel::<()>(1);
    /// let weak = sender.downgrade();
    /// let other = weak.upgrade().unwrap();
    /// drop(sender);
    /// assert!(weak.upgrade().is_some());
    /// drop(other);
    /// assert!(weak.upgrade().is_none());
    /// ```
    pub fn upgrade(&self) -> Option<Sender<T>> {
        let channel = self.channel.upgrade()?;
        channel.senders.add_to_some().then(|| Sender { channel })
    }
}

impl<T> WeakUnboundedSender<T> {
    /// A sender that keeps the channel open; `None` if there was none left. See [`WeakSender::upgrade`].
    pub fn upgrade(&self) -> Option<UnboundedSender<T>> {
        self.sender.upgrade().map(|sender| UnboundedSender { sender })
    }
}

impl<T> Clone for WeakSender<T> {
    fn clone(&self) -> Self {
        WeakSender { channel: Weak::clone(&self.channel) }
    }
}

impl<T> Clone for WeakUnboundedSender<T> {
    fn clone(&self) -> Self {
        WeakUnboundedSender { sender: self.sender.clone() }
    }
}

impl<T> fmt::Debug for WeakSender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WeakSender").finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for WeakUnboundedSender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WeakUnboundedSender").finish_non_exhaustive()
    }
}
