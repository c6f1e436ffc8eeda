//! Errors of sending and receiving, for all kinds of channels.

use crate::sync::queue::{GetError, PutError};
use std::fmt;

/// The receiver was dropped, or has closed the channel. Returns the value.
///
/// ```
/// use mainspring::sync::mpsc::{SendError, unbounded_channel};
///
/// let (sender, receiver) = unbounded_channel();
/// drop(receiver);
/// let SendError(value) = sender.send("anybody?").unwrap_err();
/// assert_eq!(value, "anybody?");
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SendError<T>(
    /// The value that was not sent.
    pub T,
);

/// Why a value was not sent at once. Returns the value.
///
/// ```
/// use mainspring::sync::mpsc::{TrySendError, channel};
///
/// let (sender, _receiver) = channel(1);
/// sender.try_send('a').unwrap();
/// let refused = sender.try_send('b').unwrap_err();
/// assert!(matches!(refused, TrySendError::Full(_)));
/// assert_eq!(refused.into_inner(), 'b');
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum TrySendError<T> {
    /// The channel is full.
    Full(T),
    /// The receiver was dropped, or has closed the channel.
    Closed(T),
}

/// All senders were dropped, and all values that they sent are received.
///
/// ```
/// use mainspring::sync::oneshot::{RecvError, channel};
///
/// # mainspring::run(async {
/// let (sender, receiver) = channel::<u8>();
/// drop(sender);
/// assert_eq!(receiver.await, Err(RecvError));
/// # })?;
/// # Ok::<(), mainspring::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecvError;

/// Why there is no value now.
///
/// ```
/// use mainspring::sync::mpsc::{TryRecvError, channel};
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
    /// No value will come: all senders were dropped.
    Closed,
}

const NO_RECEIVER: &str = "the channel is closed: there is no receiver";
const NO_SENDER: &str = "the channel is closed: there is no sender";

impl<T> fmt::Debug for SendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SendError(..)")
    }
}

impl<T> fmt::Display for SendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(NO_RECEIVER)
    }
}

impl<T> std::error::Error for SendError<T> {}

impl<T> TrySendError<T> {
    /// The value that was not sent.
    pub fn into_inner(self) -> T {
        match self {
            TrySendError::Full(value) | TrySendError::Closed(value) => value,
        }
    }
}

impl<T> fmt::Debug for TrySendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TrySendError::Full(_) => "Full(..)",
            TrySendError::Closed(_) => "Closed(..)",
        })
    }
}

impl<T> fmt::Display for TrySendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TrySendError::Full(_) => "the channel is full",
            TrySendError::Closed(_) => NO_RECEIVER,
        })
    }
}

impl<T> std::error::Error for TrySendError<T> {}

impl fmt::Display for RecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(NO_SENDER)
    }
}

impl std::error::Error for RecvError {}

impl fmt::Display for TryRecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TryRecvError::Empty => "the channel is empty",
            TryRecvError::Closed => NO_SENDER,
        })
    }
}

impl std::error::Error for TryRecvError {}

/// A channel is built on a queue.
impl<T> From<PutError<T>> for TrySendError<T> {
    fn from(refused: PutError<T>) -> Self {
        match refused {
            PutError::Full(value) => TrySendError::Full(value),
            PutError::ShutDown(value) => TrySendError::Closed(value),
        }
    }
}

/// A channel is built on a queue.
impl From<GetError> for TryRecvError {
    fn from(refused: GetError) -> Self {
        match refused {
            GetError::Empty => TryRecvError::Empty,
            GetError::ShutDown => TryRecvError::Closed,
        }
    }
}
