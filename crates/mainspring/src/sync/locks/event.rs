//! `Event`: a flag that tasks wait for.

use crate::sync::wait_list::WaitList;
use crate::task::named;
use std::cell::Cell;
use std::fmt;

/// A flag that tasks wait for, as `asyncio.Event`.
///
/// Setting it wakes all waiters, first in first out, even if it is cleared before they run. It is for the tasks of
/// one thread (`!Sync`); share it through an [`Rc`](std::rc::Rc).
///
/// ```
/// use mainspring::{spawn, sync::Event};
/// use std::rc::Rc;
///
/// # mainspring::run(async {
/// let started = Rc::new(Event::new());
/// let waits = started.clone();
/// let task = spawn(async move {
///     waits.wait().await;
///     "go"
/// });
/// assert!(!started.is_set());
/// started.set();
/// assert_eq!(task.await, Ok("go"));
/// started.clear();
/// assert!(!started.is_set());
/// # })?;
/// # Ok::<(), mainspring::Error>(())
/// ```
#[derive(Default)]
pub struct Event {
    is_set: Cell<bool>,
    waiting: WaitList,
}

impl Event {
    /// An event that is not set.
    pub const fn new() -> Self {
        Event { is_set: Cell::new(false), waiting: WaitList::new() }
    }

    /// Whether the flag is set.
    pub fn is_set(&self) -> bool {
        self.is_set.get()
    }

    /// Sets the flag and wakes all waiters.
    pub fn set(&self) {
        if !self.is_set.replace(true) {
            self.waiting.wake_all();
        }
    }

    /// Clears the flag: later calls of `wait` wait for the next `set`.
    pub fn clear(&self) {
        self.is_set.set(false);
    }

    /// Waits until the flag is set. Returns at once if it is.
    ///
    /// Cancel safety: nothing is lost.
    pub async fn wait(&self) {
        if !self.is_set() {
            named(|| "Event::wait", self.waiting.wait()).await;
        }
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Event")
            .field("set", &self.is_set())
            .field("waiting", &self.waiting.waiting())
            .finish_non_exhaustive()
    }
}
