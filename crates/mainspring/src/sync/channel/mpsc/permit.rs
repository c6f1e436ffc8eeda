//! Room in a channel that is held before there is a value for it.

use super::{QueueRefCell, SendError, Sender, TrySendError};
use crate::sync::channel::shared::Held;
use crate::sync::queue::{QueueCell, Reserve};
use std::fmt;

/// Room for one value, held by [`Sender::reserve`] and [`Sender::try_reserve`]. Dropped, it gives the room to the next in
/// line. It stays on its thread (`!Send`).
///
/// ```
/// use mainspring::sync::mpsc;
///
/// # mainspring::run(async {
/// let (sender, mut receiver) = mpsc::channel(1);
/// let permit = sender.reserve().await.unwrap();
/// assert_eq!(sender.capacity(), 0);
/// drop(permit);
/// assert_eq!(sender.capacity(), 1);
/// sender.reserve().await.unwrap().send("hello");
/// assert_eq!(receiver.recv().await, Some("hello"));
/// # })?;
/// # Ok::<(), mainspring::Error>(())
/// ```
#[must_use = "the room is given back when this is dropped"]
pub struct Permit<'a, T> {
    held: Held<'a, QueueRefCell<T>>,
}

impl<T> Sender<T> {
    /// Waits for room, in line with those who [`send`](Sender::send), and holds it: to make the value only when it can be
    /// sent. [`SendError`] if the receiver is gone.
    ///
    /// Cancel safety: nothing is held, and the place in line is lost.
    ///
    /// ```
    /// use mainspring::sync::mpsc;
    ///
    /// # mainspring::run(async {
    /// let (sender, mut receiver) = mpsc::channel(1);
    /// let permit = sender.reserve().await.unwrap();
    /// assert!(sender.try_send("no room").is_err());
    /// permit.send("made late");
    /// assert_eq!(receiver.recv().await, Some("made late"));
    /// receiver.close();
    /// assert!(sender.reserve().await.is_err());
    /// # })?;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub async fn reserve(&self) -> Result<Permit<'_, T>, SendError<()>> {
        Reserve::new(&self.channel.queue).await.map_err(|_| SendError(()))?;
        Ok(Permit { held: self.channel.held() })
    }

    /// Holds room for a value if there is some; [`TrySendError`] says why not.
    ///
    /// ```
    /// use mainspring::sync::mpsc::{TrySendError, channel};
    ///
    /// let (sender, mut receiver) = channel(1);
    /// let permit = sender.try_reserve().unwrap();
    /// assert_eq!(sender.try_reserve().map(drop), Err(TrySendError::Full(())));
    /// permit.send(1);
    /// assert_eq!(receiver.try_recv(), Ok(1));
    /// drop(receiver);
    /// assert_eq!(sender.try_reserve().map(drop), Err(TrySendError::Closed(())));
    /// ```
    pub fn try_reserve(&self) -> Result<Permit<'_, T>, TrySendError<()>> {
        self.channel.queue.reserve_nowait()?;
        Ok(Permit { held: self.channel.held() })
    }
}

impl<T> Permit<'_, T> {
    /// Sends a value, for which there is room: also if the receiver has [closed](super::Receiver::close) the channel since. If
    /// the receiver is gone the value is dropped.
    ///
    /// ```
    /// let (sender, mut receiver) = mainspring::sync::mpsc::channel(1);
    /// let permit = sender.try_reserve().unwrap();
    /// receiver.close();
    /// permit.send("promised");
    /// assert_eq!(receiver.try_recv(), Ok("promised"));
    /// ```
    pub fn send(self, value: T) {
        self.held.send(value);
    }
}

impl<T> fmt::Debug for Permit<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit").field("channel", &self.held).finish_non_exhaustive()
    }
}
