//! A channel that holds only its latest value.
//!
//! For settings, states and progress: a receiver reads the current value, and can wait for a change. For the tasks of
//! one thread (`!Send`).
//!
//! ```
//! use mainspring::{spawn, sync::watch};
//!
//! # mainspring::run(async {
//! let (sender, mut receiver) = watch::channel("starting");
//! let task = spawn(async move {
//!     while receiver.changed().await.is_ok() {}
//!     *receiver.get()
//! });
//! sender.send("running");
//! sender.send("done");
//! drop(sender);
//! assert_eq!(task.await, Ok("done"));
//! # })?;
//! # Ok::<(), mainspring::Error>(())
//! ```

pub use super::errors::RecvError;

use crate::sync::wait_list::WaitList;
use crate::task::named;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;

/// A channel with the initial value `value`, which counts as seen.
///
/// ```
/// let (sender, mut receiver) = mainspring::sync::watch::channel("idle");
/// assert_eq!((*receiver.get(), receiver.has_changed()), ("idle", false));
/// sender.send("busy");
/// assert_eq!(*receiver.get_and_update(), "busy");
/// ```
pub fn channel<T>(value: T) -> (Sender<T>, Receiver<T>) {
    let channel = Rc::new(Channel {
        value: RefCell::new(Rc::new(value)),
        version: Cell::new(0),
        senders: Cell::new(1),
        receivers: Cell::new(1),
        changing: WaitList::new(),
        closing: WaitList::new(),
    });
    (Sender { channel: Rc::clone(&channel) }, Receiver { channel, seen: 0 })
}

struct Channel<T> {
    value: RefCell<Rc<T>>,
    version: Cell<u64>,
    senders: Cell<usize>,
    receivers: Cell<usize>,
    changing: WaitList,
    /// Tasks that wait until there is no receiver.
    closing: WaitList,
}

/// The half that sets the value. Clones set the same value. For the tasks of one thread (`!Send`).
///
/// ```
/// use mainspring::sync::watch;
///
/// let (sender, receiver) = watch::channel(1);
/// let other = sender.subscribe();
/// assert_eq!(sender.receiver_count(), 2);
/// sender.clone().send(2);
/// assert_eq!((*sender.get(), *receiver.get(), *other.get()), (2, 2, 2));
/// ```
pub struct Sender<T> {
    channel: Rc<Channel<T>>,
}

/// The half that reads the value. A clone has seen the same version. For the tasks of one thread (`!Send`).
///
/// ```
/// use mainspring::sync::watch;
///
/// let (sender, mut receiver) = watch::channel(1);
/// sender.send(2);
/// let mut other = receiver.clone();
/// assert_eq!(*receiver.get_and_update(), 2);
/// assert!(!receiver.has_changed() && other.has_changed());
/// assert_eq!(*other.get_and_update(), *receiver.get());
/// ```
pub struct Receiver<T> {
    channel: Rc<Channel<T>>,
    seen: u64,
}

impl<T> Sender<T> {
    /// Sets the value, with or without receivers. Returns the previous one.
    ///
    /// ```
    /// let (sender, receiver) = mainspring::sync::watch::channel("old");
    /// assert_eq!(*sender.send("new"), "old");
    /// assert_eq!(*receiver.get(), "new");
    /// ```
    pub fn send(&self, value: T) -> Rc<T> {
        let value = Rc::new(value);
        let former = self.channel.value.replace(value);
        self.channel.version.set(self.channel.version.get() + 1);
        self.channel.changing.wake_all();
        former
    }

    /// Changes a copy of the value, and sets that.
    ///
    /// ```
    /// let (sender, receiver) = mainspring::sync::watch::channel(vec![1]);
    /// sender.send_modify(|numbers| numbers.push(2));
    /// assert_eq!(*receiver.get(), [1, 2]);
    /// ```
    pub fn send_modify(&self, change: impl FnOnce(&mut T))
    where
        T: Clone,
    {
        let mut value = T::clone(&*self.get());
        change(&mut value);
        self.send(value);
    }

    /// Changes a copy of the value, and sets that if `change` returns `true`. Otherwise no receiver is notified.
    /// Returns the result of `change`.
    ///
    /// ```
    /// let (sender, mut receiver) = mainspring::sync::watch::channel(10);
    /// let highest = |seen: i32| {
    ///     sender.send_if_modified(|value| {
    ///         let is_higher = seen > *value;
    ///         *value = seen.max(*value);
    ///         is_higher
    ///     })
    /// };
    /// assert!(!highest(7) && !receiver.has_changed());
    /// assert!(highest(12) && receiver.has_changed());
    /// assert_eq!(*receiver.get_and_update(), 12);
    /// ```
    pub fn send_if_modified(&self, change: impl FnOnce(&mut T) -> bool) -> bool
    where
        T: Clone,
    {
        let mut value = T::clone(&*self.get());
        let is_modified = change(&mut value);
        if is_modified {
            self.send(value);
        }
        is_modified
    }

    /// The current value.
    pub fn get(&self) -> Rc<T> {
        self.channel.get()
    }

    /// A new receiver that has seen the current value.
    ///
    /// ```
    /// let (sender, first) = mainspring::sync::watch::channel(1);
    /// sender.send(2);
    /// let second = sender.subscribe();
    /// assert!(first.has_changed());
    /// assert!(!second.has_changed());
    /// ```
    pub fn subscribe(&self) -> Receiver<T> {
        self.channel.receivers.set(self.channel.receivers.get() + 1);
        Receiver { channel: Rc::clone(&self.channel), seen: self.channel.version.get() }
    }

    /// The number of receivers.
    pub fn receiver_count(&self) -> usize {
        self.channel.receivers.get()
    }

    /// Waits until there is no receiver.
    ///
    /// Cancel safety: nothing is lost.
    ///
    /// ```
    /// # mainspring::run(async {
    /// let (sender, receiver) = mainspring::sync::watch::channel(0);
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

impl<T> Receiver<T> {
    /// The current value.
    pub fn get(&self) -> Rc<T> {
        self.channel.get()
    }

    /// The current value, which counts as seen from now on.
    pub fn get_and_update(&mut self) -> Rc<T> {
        self.seen = self.channel.version.get();
        self.get()
    }

    /// Whether the value was set since it was last seen.
    ///
    /// ```
    /// let (sender, mut receiver) = mainspring::sync::watch::channel(1);
    /// assert!(!receiver.has_changed());
    /// sender.send(2);
    /// assert!(receiver.has_changed());
    /// assert_eq!(*receiver.get_and_update(), 2);
    /// assert!(!receiver.has_changed());
    /// ```
    pub fn has_changed(&self) -> bool {
        self.seen != self.channel.version.get()
    }

    /// Waits until the value was set since it was last seen, and marks it as seen. [`RecvError`] if all senders were
    /// dropped.
    ///
    /// Cancel safety: the next call reports the change.
    ///
    /// ```
    /// use mainspring::sync::watch::{RecvError, channel};
    ///
    /// # mainspring::run(async {
    /// let (sender, mut receiver) = channel(1);
    /// sender.send(2);
    /// assert_eq!(receiver.changed().await, Ok(()));
    /// drop(sender);
    /// assert_eq!(receiver.changed().await, Err(RecvError));
    /// assert_eq!(*receiver.get(), 2);
    /// # })?;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub async fn changed(&mut self) -> Result<(), RecvError> {
        let channel = &self.channel;
        let seen = self.seen;
        let check = || {
            let version = channel.version.get();
            if version != seen {
                return Some(Ok(version));
            }
            (channel.senders.get() == 0).then_some(Err(RecvError))
        };
        self.seen = named(|| "watch::Receiver::changed", channel.changing.wait_until(check)).await?;
        Ok(())
    }

    /// Waits until `predicate` returns `true` for the value, at once if it does now. [`RecvError`] if all senders
    /// were dropped.
    ///
    /// Cancel safety: values that `predicate` has checked count as seen. The next call reports later changes.
    ///
    /// ```
    /// # mainspring::run(async {
    /// let (sender, mut receiver) = mainspring::sync::watch::channel(1);
    /// mainspring::spawn(async move { sender.send(10) });
    /// assert_eq!(*receiver.wait_for(|value| *value > 5).await.unwrap(), 10);
    /// # })?;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub async fn wait_for(&mut self, mut predicate: impl FnMut(&T) -> bool) -> Result<Rc<T>, RecvError> {
        loop {
            let value = self.get_and_update();
            if predicate(&value) {
                return Ok(value);
            }
            self.changed().await?;
        }
    }
}

impl<T> Channel<T> {
    fn get(&self) -> Rc<T> {
        Rc::clone(&self.value.borrow())
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        self.channel.senders.set(self.channel.senders.get() + 1);
        Sender { channel: Rc::clone(&self.channel) }
    }
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Self {
        self.channel.receivers.set(self.channel.receivers.get() + 1);
        Receiver { channel: Rc::clone(&self.channel), seen: self.seen }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let left = self.channel.senders.get() - 1;
        self.channel.senders.set(left);
        if left == 0 {
            self.channel.changing.wake_all();
        }
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let left = self.channel.receivers.get() - 1;
        self.channel.receivers.set(left);
        if left == 0 {
            self.channel.closing.wake_all();
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender").field("value", &self.get()).finish_non_exhaustive()
    }
}

impl<T: fmt::Debug> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver").field("value", &self.get()).finish_non_exhaustive()
    }
}
