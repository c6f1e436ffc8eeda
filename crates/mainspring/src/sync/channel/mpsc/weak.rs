//! Senders that do not keep their channel open.

use super::{Channel, Sender, UnboundedSender};
use crate::sync::channel::shared::Senders;
use std::fmt;
use std::rc::{Rc, Weak};

/// A [`Sender`] that does not keep the channel open: for who may send as long as others do, such as a task that hands the
/// channel's own receiver more to do. It stays on its thread (`!Send`).
///
/// ```
/// use mainspring::sync::mpsc;
///
/// # mainspring::run(async {
/// let (sender, mut receiver) = mpsc::channel(1);
/// let weak = sender.downgrade();
/// weak.upgrade().unwrap().send(1).await.unwrap();
/// drop(sender);
/// assert!(weak.upgrade().is_none());
/// assert_eq!((receiver.recv().await, receiver.recv().await), (Some(1), None));
/// # })?;
/// # Ok::<(), mainspring::Error>(())
/// ```
pub struct WeakSender<T> {
    channel: Weak<Channel<T>>,
}

/// An [`UnboundedSender`] that does not keep the channel open. It stays on its thread (`!Send`).
///
/// ```
/// let (sender, mut receiver) = mainspring::sync::mpsc::unbounded_channel();
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
    /// let (sender, receiver) = mainspring::sync::mpsc::channel::<()>(1);
    /// let weak = sender.downgrade();
    /// assert!(weak.upgrade().is_some_and(|sender| !sender.is_closed()));
    /// drop(receiver);
    /// assert!(weak.upgrade().is_some_and(|sender| sender.is_closed()));
    /// ```
    pub fn downgrade(&self) -> WeakSender<T> {
        WeakSender { channel: Rc::downgrade(&self.channel) }
    }
}

impl<T> UnboundedSender<T> {
    /// A sender that does not keep the channel open.
    ///
    /// ```
    /// let (sender, _receiver) = mainspring::sync::mpsc::unbounded_channel::<()>();
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
    /// let (sender, _receiver) = mainspring::sync::mpsc::channel::<()>(1);
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
