//! A channel for one value.
//!
//! For the tasks of one thread (`!Send`). [`Future`](crate::Future) is similar, with asyncio's vocabulary: any number
//! of tasks can await it, and any holder can set it.
//!
//! ```
//! use mainspring::{spawn, sync::oneshot};
//!
//! # mainspring::run(async {
//! let (sender, receiver) = oneshot::channel();
//! spawn(async move { sender.send("done") });
//! assert_eq!(receiver.await, Ok("done"));
//! # })?;
//! # Ok::<(), mainspring::Error>(())
//! ```

pub use super::errors::{RecvError, TryRecvError};

use crate::sync::wait_list::{WaitList, WaiterSlot};
use crate::task::waits_for;
use std::cell::Cell;
use std::fmt;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

/// A channel for one value.
///
/// ```
/// use mainspring::sync::{mpsc, oneshot};
/// use mainspring::spawn;
///
/// # mainspring::run(async {
/// // A task that answers requests; each contains a reply channel.
/// let (request_sender, mut requests) = mpsc::channel::<(u32, oneshot::Sender<u32>)>(1);
/// spawn(async move {
///     while let Some((number, answer)) = requests.recv().await {
///         let _ = answer.send(number * number);
///     }
/// });
/// let (sender, receiver) = oneshot::channel();
/// request_sender.send((7, sender)).await.unwrap();
/// assert_eq!(receiver.await, Ok(49));
/// # })?;
/// # Ok::<(), mainspring::Error>(())
/// ```
pub fn channel<T>() -> (Sender<T>, Receiver<T>) {
    let channel = Rc::new(Channel {
        value: Cell::new(None),
        has_sender: Cell::new(true),
        is_closed: Cell::new(false),
        receiving: WaitList::new(),
        closing: WaitList::new(),
    });
    (Sender { channel: Rc::clone(&channel) }, Receiver { channel, slot: WaiterSlot::default() })
}

struct Channel<T> {
    value: Cell<Option<T>>,
    has_sender: Cell<bool>,
    /// The receiver accepts no value any more.
    is_closed: Cell<bool>,
    receiving: WaitList,
    closing: WaitList,
}

/// The sending half. If it is dropped without sending, the receiver gets [`RecvError`]. For the tasks of one thread
/// (`!Send`).
///
/// ```
/// use mainspring::sync::oneshot;
///
/// let (sender, mut receiver) = oneshot::channel::<u8>();
/// assert!(!sender.is_closed());
/// receiver.close();
/// assert!(sender.is_closed());
/// assert_eq!(sender.send(1), Err(1));
/// ```
pub struct Sender<T> {
    channel: Rc<Channel<T>>,
}

/// The receiving half, which is a future. For the tasks of one thread (`!Send`).
///
/// Cancel safety: `&mut receiver` can be awaited and dropped; nothing is lost.
///
/// ```
/// use mainspring::{sync::oneshot, timeout};
/// use std::time::Duration;
///
/// # mainspring::run(async {
/// let (sender, mut receiver) = oneshot::channel();
/// assert!(timeout(Duration::ZERO, &mut receiver).await.is_err());
/// sender.send("at last").unwrap();
/// assert_eq!(receiver.await, Ok("at last"));
/// # })?;
/// # Ok::<(), mainspring::Error>(())
/// ```
#[must_use = "the value comes when this is awaited"]
pub struct Receiver<T> {
    channel: Rc<Channel<T>>,
    slot: WaiterSlot,
}

impl<T> Sender<T> {
    /// Sends the value. Returns it if the receiver was dropped, or has closed the channel.
    ///
    /// ```
    /// let (sender, receiver) = mainspring::sync::oneshot::channel();
    /// drop(receiver);
    /// assert_eq!(sender.send(1), Err(1));
    /// ```
    pub fn send(self, value: T) -> Result<(), T> {
        if self.channel.is_closed.get() {
            return Err(value);
        }
        self.channel.value.set(Some(value));
        // Dropping this wakes the receiver.
        Ok(())
    }

    /// Whether the receiver was dropped, or has closed the channel.
    pub fn is_closed(&self) -> bool {
        self.channel.is_closed.get()
    }

    /// Waits until the receiver is dropped, or closes the channel: the value is no longer needed.
    ///
    /// Cancel safety: nothing is lost.
    ///
    /// ```
    /// # use mainspring::{spawn, sync::oneshot};
    /// # mainspring::run(async {
    /// let (sender, receiver) = oneshot::channel::<()>();
    /// spawn(async move { drop(receiver) });
    /// sender.closed().await;
    /// assert!(sender.is_closed());
    /// # })?;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub async fn closed(&self) {
        if !self.is_closed() {
            self.channel.closing.wait().await;
        }
    }
}

impl<T> Receiver<T> {
    /// The value, if it was sent. [`TryRecvError`] is the reason otherwise.
    ///
    /// ```
    /// use mainspring::sync::oneshot::{channel, TryRecvError};
    ///
    /// let (sender, mut receiver) = channel();
    /// assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
    /// sender.send('a').unwrap();
    /// assert_eq!(receiver.try_recv(), Ok('a'));
    /// assert_eq!(receiver.try_recv(), Err(TryRecvError::Closed));
    /// ```
    pub fn try_recv(&mut self) -> Result<T, TryRecvError> {
        match self.channel.value.take() {
            Some(value) => Ok(value),
            None if self.channel.has_sender.get() && !self.channel.is_closed.get() => {
                Err(TryRecvError::Empty)
            }
            None => Err(TryRecvError::Closed),
        }
    }

    /// Closes the channel: it takes no value any more. A value that was sent before can still be received.
    ///
    /// ```
    /// let (sender, mut receiver) = mainspring::sync::oneshot::channel();
    /// sender.send('a').unwrap();
    /// receiver.close();
    /// assert_eq!(receiver.try_recv(), Ok('a'));
    /// ```
    pub fn close(&mut self) {
        self.channel.close();
    }
}

impl<T> Channel<T> {
    fn close(&self) {
        if !self.is_closed.replace(true) {
            self.closing.wake_all();
        }
    }
}

impl<T> Future for Receiver<T> {
    type Output = Result<T, RecvError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        loop {
            match self.try_recv() {
                Ok(value) => return Poll::Ready(Ok(value)),
                Err(TryRecvError::Closed) => return Poll::Ready(Err(RecvError)),
                Err(TryRecvError::Empty) => {}
            }
            let Receiver { channel, slot } = &mut *self;
            if channel.receiving.poll_wait(slot, cx).is_pending() {
                waits_for("oneshot::Receiver");
                return Poll::Pending;
            }
        }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        self.channel.has_sender.set(false);
        self.channel.receiving.wake_all();
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        self.channel.receiving.cancel_wait(&mut self.slot);
        self.channel.close();
        let unwanted = self.channel.value.take();
        drop(unwanted);
    }
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender").field("closed", &self.is_closed()).finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_waiting = self.channel.has_sender.get();
        f.debug_struct("Receiver").field("sender", &is_waiting).finish_non_exhaustive()
    }
}
