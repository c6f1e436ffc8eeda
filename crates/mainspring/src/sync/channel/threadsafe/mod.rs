//! A channel between threads: asyncio's `call_soon_threadsafe`, for values.
//!
//! Any thread can send, with or without a loop. One loop or thread receives. It is [`mpsc`](super::mpsc) with halves
//! that are `Send` and `Sync` if the values are `Send`. Between tasks of one loop `mpsc` is faster.
//!
//! ```
//! use mainspring::sync::threadsafe;
//!
//! let (sender, mut receiver) = threadsafe::channel(2);
//! let workers: Vec<_> = (0..3)
//!     .map(|number| {
//!         let sender = sender.clone();
//!         std::thread::spawn(move || sender.blocking_send(number * 10).unwrap())
//!     })
//!     .collect();
//! drop(sender);
//! let sum = mainspring::run(async move {
//!     let mut sum = 0;
//!     while let Some(number) = receiver.recv().await {
//!         sum += number;
//!     }
//!     sum
//! })?;
//! assert_eq!(sum, 30);
//! # workers.into_iter().for_each(|worker| worker.join().unwrap());
//! # Ok::<(), mainspring::Error>(())
//! ```
//!
//! - **Every accepted value is received**, in the order of acceptance, unless the receiver is dropped. A value that
//!   is not accepted is returned in the error.
//! - **Fair.** Tasks and threads that wait for a free slot are in one queue.
//! - **The loop is not idle** while a task waits to receive or to send, because the other half may be on any thread.
//!   So [`EventLoop::run_until_idle`](crate::EventLoop::run_until_idle) and
//!   [`Runtime::shutdown`](crate::Runtime::shutdown) continue until the senders are dropped, or the channel is
//!   closed.

mod loop_keep_alive;
mod receiver;
mod sender;

pub use crate::sync::channel::errors::{SendError, TryRecvError, TrySendError};
pub use receiver::Receiver;
pub use sender::{Sender, UnboundedSender};

use crate::sync::channel::halves::channel_halves;
use crate::sync::channel::shared::{self, ChannelState, ReservedSlot, Senders};
use crate::sync::queue::{QueueCell, QueueState};
use crate::sync::wait_list;
use mainspring_engine::loom_shim::Mutex;
use mainspring_engine::loom_shim::atomic::AtomicUsize;
use std::fmt;
use std::sync::{Arc, Weak};

channel_halves!("threadsafe", Arc, Weak, QueueMutex, "It is `Send` and `Sync` if `T` is `Send`.");

/// A channel for up to `capacity` values; zero counts as one.
///
/// ```
/// use mainspring::sync::threadsafe;
///
/// let (sender, mut receiver) = threadsafe::channel(1);
/// let other = std::thread::spawn(move || {
///     for number in [1, 2, 3] {
///         sender.blocking_send(number).unwrap();
///     }
/// });
/// assert_eq!(mainspring::run(async { receiver.recv().await })?, Some(1));
/// // Also without a loop.
/// assert_eq!((receiver.blocking_recv(), receiver.blocking_recv()), (Some(2), Some(3)));
/// assert_eq!(receiver.blocking_recv(), None);
/// # other.join().unwrap();
/// # Ok::<(), mainspring::Error>(())
/// ```
pub fn channel<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    let channel = share(capacity.max(1));
    (Sender::new(Arc::clone(&channel)), Receiver::new(channel))
}

/// A channel without a limit, so that sending does not wait.
///
/// ```
/// use mainspring::sync::threadsafe;
///
/// let (sender, mut receiver) = threadsafe::unbounded_channel();
/// std::thread::spawn(move || sender.send("from there")).join().unwrap().unwrap();
/// assert_eq!(mainspring::run(async move { receiver.recv().await })?, Some("from there"));
/// # Ok::<(), mainspring::Error>(())
/// ```
pub fn unbounded_channel<T>() -> (UnboundedSender<T>, Receiver<T>) {
    let channel = share(0);
    (UnboundedSender::new(Sender::new(Arc::clone(&channel))), Receiver::new(channel))
}

/// The cell of the channel's queue.
type QueueMutex<T> = Mutex<ChannelState<T>>;

type Channel<T> = shared::Channel<QueueMutex<T>, AtomicUsize, wait_list::SharedWaiters>;

/// A channel with one sender.
fn share<T>(maxsize: usize) -> Arc<Channel<T>> {
    Arc::new(Channel::new(Mutex::new(QueueState::new(maxsize))))
}
