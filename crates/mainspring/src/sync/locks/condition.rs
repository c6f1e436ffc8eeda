//! `Condition`: waits for a change of a value that a lock guards.

use super::lock::AnyLockGuard;
use crate::sync::wait_list::WaitList;
use std::fmt;

/// Notifies tasks that wait for a change of a value in a [`Lock`](super::Lock), as `asyncio.Condition`.
///
/// A task passes its guard to [`wait`](Condition::wait), and gets it back when it was notified and has the lock
/// again. Hold the lock while changing the value and notifying. For the tasks of one thread (`!Sync`).
///
/// ```
/// use mainspring::{spawn, sync::{Condition, Lock}};
/// use std::rc::Rc;
///
/// # mainspring::run(async {
/// let shared = Rc::new((Lock::new(Vec::new()), Condition::new()));
/// let other = shared.clone();
/// let task = spawn(async move {
///     let (lock, is_filled) = &*other;
///     let guard = lock.lock().await;
///     is_filled.wait_for(guard, |items| items.len() == 2).await.pop()
/// });
/// let (lock, is_filled) = &*shared;
/// for item in ["a", "b"] {
///     lock.lock().await.push(item);
///     is_filled.notify(1);
/// }
/// assert_eq!(task.await, Ok(Some("b")));
/// # })?;
/// # Ok::<(), mainspring::Error>(())
/// ```
#[derive(Default)]
pub struct Condition {
    waiting: WaitList,
}

impl Condition {
    /// A condition without waiters.
    pub const fn new() -> Self {
        Condition { waiting: WaitList::new() }
    }

    /// Releases the lock, waits for a notification, and acquires the lock again. It may also return after another
    /// notified task was cancelled: check the condition again.
    ///
    /// Cancel safety: the guard is dropped and the lock is free. (asyncio acquires the lock once more first.) An
    /// unused notification goes to the next waiter.
    ///
    /// ```
    /// use mainspring::{spawn, sync::{Condition, Lock}};
    /// use std::rc::Rc;
    ///
    /// # mainspring::run(async {
    /// let shared = Rc::new((Lock::new(0), Condition::new()));
    /// let other = shared.clone();
    /// let task = spawn(async move {
    ///     let (version, changed) = &*other;
    ///     let mut guard = version.lock().await;
    ///     while *guard == 0 {
    ///         guard = changed.wait(guard).await;
    ///     }
    ///     *guard
    /// });
    /// # mainspring::yield_now().await;
    /// let (version, changed) = &*shared;
    /// *version.lock().await = 1;
    /// changed.notify(1);
    /// assert_eq!(task.await, Ok(1));
    /// # })?;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub async fn wait<G: AnyLockGuard>(&self, guard: G) -> G {
        // Enqueued before the lock is released: releasing it may run the notifier.
        let mut wait = self.waiting.wait();
        wait.enter();
        let unlocked = guard.unlock();
        wait.woken("Condition::wait").await;
        // The notification is used only when the lock is acquired. If this future is dropped earlier, the next waiter
        // gets it.
        let guard = G::relock(unlocked).await;
        wait.finish();
        guard
    }

    /// Waits until `predicate` returns `true` for the value. It runs with the lock held: at once, and after each
    /// notification.
    ///
    /// Cancel safety: as [`wait`](Condition::wait).
    pub async fn wait_for<G: AnyLockGuard>(
        &self,
        guard: G,
        mut predicate: impl FnMut(&mut G::Target) -> bool,
    ) -> G {
        let mut guard = guard;
        while !predicate(&mut guard) {
            guard = self.wait(guard).await;
        }
        guard
    }

    /// Wakes up to `count` waiters. Each continues when it has the lock.
    pub fn notify(&self, count: usize) {
        self.waiting.wake(count);
    }

    /// Wakes all current waiters.
    ///
    /// ```
    /// use mainspring::{gather, join, sync::{Condition, Lock}};
    ///
    /// # mainspring::run(async {
    /// let (is_open, opened) = (Lock::new(false), Condition::new());
    /// let visitor = async |name| {
    ///     let guard = is_open.lock().await;
    ///     opened.wait_for(guard, |is_open| *is_open).await;
    ///     name
    /// };
    /// let open = async {
    ///     *is_open.lock().await = true;
    ///     opened.notify_all();
    /// };
    /// let (visitors, ()) = join((gather(["a", "b"].map(visitor)), open)).await;
    /// assert_eq!(visitors, ["a", "b"]);
    /// # })?;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn notify_all(&self) {
        self.waiting.wake_all();
    }
}

impl fmt::Debug for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Condition").field("waiting", &self.waiting.waiting()).finish_non_exhaustive()
    }
}
