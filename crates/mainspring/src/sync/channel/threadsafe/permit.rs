//! Room in a channel that is held before there is a value for it.

use super::waiting::Staying;
use super::{QueueMutex, SendError, Sender, TrySendError};
use crate::sync::channel::shared::Held;
use crate::sync::queue::{QueueCell, Reserve};
use std::fmt;

/// Room for one value, held by [`Sender::reserve`] and [`Sender::try_reserve`]. Dropped, it gives the room to the next in
/// line. It is `Send` and `Sync` if `T` is `Send`.
///
/// ```
/// use mainspring::sync::threadsafe;
///
/// let (sender, mut receiver) = threadsafe::channel(1);
/// let permit = sender.try_reserve().unwrap();
/// assert_eq!(sender.capacity(), 0);
/// std::thread::scope(|scope| scope.spawn(|| permit.send("from there")).join().unwrap());
/// assert_eq!(receiver.blocking_recv(), Some("from there"));
/// drop(sender.try_reserve().unwrap());
/// assert_eq!(sender.capacity(), 1);
/// ```
#[must_use = "the room is given back when this is dropped"]
pub struct Permit<'a, T> {
    held: Held<'a, QueueMutex<T>>,
}

impl<T> Sender<T> {
    /// Waits for room, in line with those who [`send`](Sender::send), and holds it: to make the value only when it can be
    /// sent. [`SendError`] if the receiver is gone. For tasks of any loop.
    ///
    /// Cancel safety: nothing is held, and the place in line is lost.
    ///
    /// ```
    /// let (sender, mut receiver) = mainspring::sync::threadsafe::channel(1);
    /// sender.try_send("first").unwrap();
    /// let other = std::thread::spawn(move || (receiver.blocking_recv(), receiver.blocking_recv()));
    /// mainspring::run(async {
    ///     let permit = sender.reserve().await.unwrap();
    ///     assert!(sender.try_send("no room").is_err());
    ///     permit.send("made late");
    /// })?;
    /// assert_eq!(other.join().unwrap(), (Some("first"), Some("made late")));
    /// assert!(mainspring::run(async { sender.reserve().await.is_err() })?);
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn reserve(&self) -> impl Future<Output = Result<Permit<'_, T>, SendError<()>>> {
        Staying::new(Reserve::new(&self.channel.queue), |reserved| match reserved {
            Ok(()) => Ok(Permit { held: self.channel.held() }),
            Err(_) => Err(SendError(())),
        })
    }

    /// Holds room for a value if there is some; [`TrySendError`] says why not.
    ///
    /// ```
    /// use mainspring::sync::threadsafe::{TrySendError, channel};
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
    /// let (sender, mut receiver) = mainspring::sync::threadsafe::channel(1);
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
