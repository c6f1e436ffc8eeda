//! `Notify`: wakes tasks without a value.

use crate::sync::wait_list::{WaitList, WaiterSlot};
use crate::task::waits_for;
use std::cell::Cell;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Wakes one or all waiting tasks, as tokio's `Notify`. asyncio has no equivalent.
///
/// [`notify_one`](Notify::notify_one) is not lost if no task waits: the next wait returns at once. It is for the
/// tasks of one thread (`!Sync`); share it through an [`Rc`](std::rc::Rc). For a lasting state use
/// [`Event`](super::Event).
///
/// ```
/// use mainspring::{spawn, sync::Notify};
/// use std::rc::Rc;
///
/// # mainspring::run(async {
/// let notify = Rc::new(Notify::new());
/// let waits = notify.clone();
/// let task = spawn(async move {
///     waits.notified().await;
///     "go"
/// });
/// notify.notify_one();
/// assert_eq!(task.await, Ok("go"));
/// # })?;
/// # Ok::<(), mainspring::Error>(())
/// ```
#[derive(Default)]
pub struct Notify {
    /// Whether `notify_one` found no waiter.
    is_notified: Cell<bool>,
    /// The number of calls of `notify_waiters`.
    rounds: Cell<u64>,
    waiting: WaitList,
}

impl Notify {
    /// A `Notify` without waiters.
    pub const fn new() -> Self {
        Notify { is_notified: Cell::new(false), rounds: Cell::new(0), waiting: WaitList::new() }
    }

    /// Wakes the first waiter, or if there is none, the next one. Several calls without a waiter count as one.
    pub fn notify_one(&self) {
        if !self.waiting.wake_one() {
            self.is_notified.set(true);
        }
    }

    /// Wakes all tasks that have called [`notified`](Notify::notified), and none that call it later.
    ///
    /// ```
    /// use mainspring::sync::Notify;
    /// use mainspring::{join, timeout};
    /// use std::time::Duration;
    ///
    /// # mainspring::run(async {
    /// let notify = Notify::new();
    /// let (one, other) = (notify.notified(), notify.notified());
    /// notify.notify_waiters();
    /// join((one, other)).await;
    /// assert!(timeout(Duration::ZERO, notify.notified()).await.is_err());
    /// # })?;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn notify_waiters(&self) {
        self.rounds.set(self.rounds.get().wrapping_add(1));
        self.waiting.wake_all();
    }

    /// Waits for a notification.
    ///
    /// Cancel safety: an unused notification of [`notify_one`](Notify::notify_one) goes to the next waiter.
    pub fn notified(&self) -> Notified<'_> {
        Notified {
            notify: self,
            slot: WaiterSlot::default(),
            rounds: self.rounds.get(),
            state: NotifiedState::New,
        }
    }
}

/// The future of [`Notify::notified`]. It is in the queue from its first poll, and stays on its thread (`!Send`).
///
/// ```
/// use mainspring::{join, sync::Notify};
/// use std::cell::RefCell;
///
/// # mainspring::run(async {
/// let (items, is_changed) = (RefCell::new(Vec::new()), Notify::new());
/// let take = async {
///     loop {
///         // Created before the check, so that a change in between is not missed.
///         let changed = is_changed.notified();
///         if let Some(item) = items.borrow_mut().pop() {
///             break item;
///         }
///         changed.await;
///     }
/// };
/// let put = async {
///     items.borrow_mut().push(7);
///     is_changed.notify_waiters();
/// };
/// assert_eq!(join((take, put)).await, (7, ()));
/// # })?;
/// # Ok::<(), mainspring::Error>(())
/// ```
#[must_use = "nothing waits until it is awaited"]
pub struct Notified<'a> {
    notify: &'a Notify,
    slot: WaiterSlot,
    rounds: u64,
    state: NotifiedState,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum NotifiedState {
    New,
    Waiting,
    Done,
}

impl Future for Notified<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Notified { notify, slot, rounds, state } = &mut *self;
        let is_done = match state {
            NotifiedState::New => *rounds != notify.rounds.get() || notify.is_notified.take(),
            NotifiedState::Waiting => false,
            NotifiedState::Done => true,
        };
        if is_done || notify.waiting.poll_wait(slot, cx).is_ready() {
            *state = NotifiedState::Done;
            return Poll::Ready(());
        }
        *state = NotifiedState::Waiting;
        waits_for("Notify::notified");
        Poll::Pending
    }
}

impl Drop for Notified<'_> {
    fn drop(&mut self) {
        if self.notify.waiting.cancel_wait(&mut self.slot) {
            self.notify.is_notified.set(true);
        }
    }
}

impl fmt::Debug for Notify {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Notify")
            .field("notified", &self.is_notified.get())
            .field("waiting", &self.waiting.waiting())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Notified<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Notified").finish_non_exhaustive()
    }
}
