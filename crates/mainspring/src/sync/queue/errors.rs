//! Errors of putting and getting.

use std::fmt;

/// The queue is shut down. Returns the item that was to be put.
///
/// ```
/// use mainspring::sync::{Queue, QueueShutDown};
///
/// # mainspring::run(async {
/// let queue = Queue::new(0);
/// queue.shutdown(false);
/// let QueueShutDown(item) = queue.put("late").await.unwrap_err();
/// assert_eq!(item, "late");
/// assert_eq!(queue.get().await.unwrap_err().to_string(), "the queue is shut down");
/// # })?;
/// # Ok::<(), mainspring::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct QueueShutDown<T = ()>(
    /// The item that was not put.
    pub T,
);

/// Why [`put_nowait`](super::OrderedQueue::put_nowait) failed. Returns the item.
///
/// ```
/// use mainspring::sync::{PutError, Queue};
///
/// let queue = Queue::new(1);
/// queue.put_nowait('a').unwrap();
/// let refused = queue.put_nowait('b').unwrap_err();
/// assert!(matches!(refused, PutError::Full(_)));
/// assert_eq!(refused.into_inner(), 'b');
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum PutError<T> {
    /// asyncio's `QueueFull`: the queue is full.
    Full(T),
    /// asyncio's `QueueShutDown`.
    ShutDown(T),
}

/// Why [`get_nowait`](super::OrderedQueue::get_nowait) has no item.
///
/// ```
/// use mainspring::sync::{GetError, Queue};
///
/// let queue = Queue::<u8>::new(0);
/// assert_eq!(queue.get_nowait(), Err(GetError::Empty));
/// queue.shutdown(false);
/// assert_eq!(queue.get_nowait(), Err(GetError::ShutDown));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GetError {
    /// asyncio's `QueueEmpty`: there is no item now.
    Empty,
    /// asyncio's `QueueShutDown`: there will be no more items.
    ShutDown,
}

/// [`task_done`](super::OrderedQueue::task_done) was called more often than items were put.
///
/// ```
/// use mainspring::sync::{DoneTooOften, Queue};
///
/// let queue = Queue::<u8>::new(0);
/// assert_eq!(queue.task_done(), Err(DoneTooOften));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DoneTooOften;

const SHUT_DOWN: &str = "the queue is shut down";

impl<T> PutError<T> {
    /// The item that was not put.
    pub fn into_inner(self) -> T {
        match self {
            PutError::Full(item) | PutError::ShutDown(item) => item,
        }
    }
}

impl<T> fmt::Debug for QueueShutDown<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("QueueShutDown(..)")
    }
}

impl<T> fmt::Display for QueueShutDown<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(SHUT_DOWN)
    }
}

impl<T> std::error::Error for QueueShutDown<T> {}

impl<T> fmt::Debug for PutError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PutError::Full(_) => "Full(..)",
            PutError::ShutDown(_) => "ShutDown(..)",
        })
    }
}

impl<T> fmt::Display for PutError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PutError::Full(_) => "the queue is full",
            PutError::ShutDown(_) => SHUT_DOWN,
        })
    }
}

impl<T> std::error::Error for PutError<T> {}

impl fmt::Display for GetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            GetError::Empty => "the queue is empty",
            GetError::ShutDown => SHUT_DOWN,
        })
    }
}

impl std::error::Error for GetError {}

impl fmt::Display for DoneTooOften {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("more items are done than there were")
    }
}

impl std::error::Error for DoneTooOften {}
