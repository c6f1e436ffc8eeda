//! `Event`: something that happened, or not yet.

use crate::sync::wait_list::WaitList;
use std::cell::Cell;
use std::fmt;

/// A flag that tasks wait for, as `asyncio.Event`.
///
/// Everybody who waits when it is set goes on, in the order they came, even if it is cleared again before they run. It
/// is for the tasks of one thread (`!Sync`); share it through an [`Rc`](std::rc::Rc).
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

    /// Whether it is set.
    pub fn is_set(&self) -> bool {
        self.is_set.get()
    }

    /// Sets it, and wakes everybody who waits.
    pub fn set(&self) {
        if !self.is_set.replace(true) {
            self.waiting.wake_all();
        }
    }

    /// Takes the setting back: who comes from now on waits for the next.
    pub fn clear(&self) {
        self.is_set.set(false);
    }

    /// Waits until it is set; at once if it is.
    ///
    /// Cancel safety: nothing is lost.
    pub async fn wait(&self) {
        if !self.is_set() {
            self.waiting.wait().await;
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
