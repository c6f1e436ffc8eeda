//! `Condition`: waiting for a change of something that a lock guards.

use super::lock::AnyLockGuard;
use crate::sync::wait_list::WaitList;
use std::fmt;

/// Tells tasks that wait for a change of what a [`Lock`](super::Lock) guards, as `asyncio.Condition`.
///
/// A task gives its guard to [`wait`](Condition::wait) and gets it back when it was notified and has the lock again.
/// Who changes the value and notifies should hold the lock while doing so. For the tasks of one thread (`!Sync`).
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
    /// A condition that nobody waits for.
    pub const fn new() -> Self {
        Condition { waiting: WaitList::new() }
    }

    /// Lets go of the lock, waits to be notified, and takes the lock again. It may also return because of somebody
    /// who was notified and gave up: look whether what you wait for is so.
    ///
    /// Cancel safety: the guard is gone, with the lock free (asyncio takes it once more, to let it go). A
    /// notification that came to who gave up goes to the next.
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
        // In line before the lock is free: letting go of it may run who notifies.
        let mut turn = self.waiting.wait();
        turn.enter();
        let unlocked = guard.unlock();
        turn.woken().await;
        // Until the lock is ours the turn is not used up, and goes to the next if this is dropped.
        let guard = G::relock(unlocked).await;
        turn.finish();
        guard
    }

    /// Waits until `predicate` says yes to the value. It is asked with the lock held: at once, and after each
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

    /// Wakes the first `count` of those who wait, or all if they are fewer. They go on when they have the lock.
    pub fn notify(&self, count: usize) {
        self.waiting.wake(count);
    }

    /// Wakes all who wait now.
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
