//! `WaitList`: tasks that wait until they are woken, one by one or all together.
//!
//! The waiter checks a condition; another task wakes the list when the condition may have changed:
//!
//! ```text
//! list.wait_until(|| is_ready.get().then_some(())).await      // one side
//! is_ready.set(true); list.wake_all();                   // the other
//! ```
//!
//! The order is first in, first out ([`SmallWaitQueue`]). Dropping a wait removes it; if
//! [`wake_one`](WaitList::wake_one) had notified it, the notification is handed off to the next.

mod single_waiter;
mod small_wait_queue;
pub(super) mod wait_queue;

pub(super) use single_waiter::SingleWaiter;
pub(crate) use small_wait_queue::SmallWaitQueue;

use crate::sync::state_cell::StateCell;
use crate::task::named;
use mainspring_engine::loom_shim::Mutex;
use small_wait_queue::Handoff;
use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};
use wait_queue::{WaiterKey, wake_each};

/// Tasks that wait until they are woken.
///
/// With [`LocalWaiters`], the default, for the tasks of one thread; with [`SharedWaiters`], for many.
#[derive(Default)]
pub(crate) struct WaitList<C: WaiterCell = LocalWaiters>(C);

/// The storage of a list: [`LocalWaiters`] or [`SharedWaiters`].
pub(crate) trait WaiterCell: StateCell<State = SmallWaitQueue> {}

impl<C: StateCell<State = SmallWaitQueue>> WaiterCell for C {}

/// The storage of a list for the tasks of one thread.
pub(crate) type LocalWaiters = RefCell<SmallWaitQueue>;

/// The storage of a list for the tasks of many threads.
pub(crate) type SharedWaiters = Mutex<SmallWaitQueue>;

/// A waiter that its owner stores between calls, for `poll_…` functions. If it is dropped without
/// [`WaitList::cancel_wait`], its waiter stays in the list as long as the list exists.
#[derive(Debug, Default)]
pub(crate) struct WaiterSlot(Option<WaiterKey>);

impl WaiterSlot {
    /// Whether nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_none()
    }
}

/// The future of [`WaitList::wait`].
#[must_use = "nothing waits until it is awaited"]
pub(crate) struct Wait<'a, C: WaiterCell = LocalWaiters> {
    list: &'a WaitList<C>,
    slot: WaiterSlot,
}

/// The future of [`WaitList::wait_until`].
#[must_use = "nothing waits until it is awaited"]
pub(crate) struct WaitUntil<'a, F, C: WaiterCell = LocalWaiters> {
    wait: Wait<'a, C>,
    check: F,
}

impl WaitList {
    pub(crate) const fn new() -> Self {
        WaitList(RefCell::new(SmallWaitQueue::EMPTY))
    }
}

impl<C: WaiterCell> WaitList<C> {
    /// `f` must not call, clone or drop wakers: the storage is borrowed.
    #[inline(always)]
    fn with<R>(&self, f: impl FnOnce(&mut SmallWaitQueue) -> R) -> R {
        f(&mut self.0.open())
    }

    /// Waits to be woken. It is in the list from its first poll until it is woken or dropped.
    pub(crate) fn wait(&self) -> Wait<'_, C> {
        Wait { list: self, slot: WaiterSlot::default() }
    }

    /// Waits until `check` returns `Some`. `check` runs at once and after each wake. If it returns `None`, the waiter
    /// keeps its place.
    pub(crate) fn wait_until<R, F: FnMut() -> Option<R>>(&self, check: F) -> WaitUntil<'_, F, C> {
        WaitUntil { wait: self.wait(), check }
    }

    /// Enqueues the slot's waiter, or checks whether it was woken. In that case the slot is empty afterwards.
    pub(crate) fn poll_wait(&self, slot: &mut WaiterSlot, cx: &Context<'_>) -> Poll<()> {
        let polled = self.poll_notified(self.key(slot), cx);
        if polled.is_ready() {
            self.finish(slot);
        }
        polled
    }

    /// Enqueues the waiter, or requeues it at its place. Returns `true` if it was notified again.
    #[inline(never)]
    fn enqueue_or_requeue(&self, slot: &mut WaiterSlot, cx: &Context<'_>) -> bool {
        let slot = &mut slot.0;
        let (key, has_waker) = self.with(|waiters| {
            let is_new = slot.is_none();
            let key = slot.get_or_insert_with(|| waiters.enqueue());
            if is_new {
                return (&*key, false);
            }
            waiters.requeue_if_notified(key);
            (&*key, waiters.has_waker(key, cx.waker()))
        });
        !has_waker && self.register_waker(key, cx)
    }

    fn poll_notified(&self, key: &WaiterKey, cx: &Context<'_>) -> Poll<()> {
        let (has_waker, is_notified) =
            self.with(|waiters| (waiters.has_waker(key, cx.waker()), waiters.is_notified(key)));
        let is_notified = if has_waker { is_notified } else { self.register_waker(key, cx) };
        if is_notified { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Makes the waiter wake the task of `cx`. Cloning the waker runs foreign code, which may notify the waiter:
    /// returns whether it is notified now.
    fn register_waker(&self, key: &WaiterKey, cx: &Context<'_>) -> bool {
        let waker = cx.waker().clone();
        let (former, is_notified) =
            self.with(|waiters| (waiters.replace_waker(key, waker), waiters.is_notified(key)));
        drop(former);
        is_notified
    }

    fn key<'a>(&self, slot: &'a mut WaiterSlot) -> &'a WaiterKey {
        slot.0.get_or_insert_with(|| self.with(SmallWaitQueue::enqueue))
    }

    /// Removes the waiter, which has used its notification.
    #[inline]
    fn finish(&self, slot: &mut WaiterSlot) {
        if let Some(key) = slot.0.take()
            && let Err(key) = self.with(|waiters| waiters.remove_woken(key))
        {
            self.remove_slow(key);
        }
    }

    #[inline(never)]
    fn remove_slow(&self, key: WaiterKey) {
        let removed = self.with(|waiters| waiters.remove(key));
        drop(removed);
    }

    /// Removes the waiter. An unused notification is handed off to the next waiter. Returns `true` if there is none.
    #[inline]
    pub(crate) fn cancel_wait(&self, slot: &mut WaiterSlot) -> bool {
        // Most futures were never pending, or have finished.
        slot.0.take().is_some_and(|key| self.hand_off(key))
    }

    #[inline(never)]
    fn hand_off(&self, key: WaiterKey) -> bool {
        let removed = self.with(|waiters| waiters.remove(key));
        removed.was_notified && removed.data == Handoff(true) && !self.wake_one()
    }

    /// Wakes the first waiter. Returns `false` if there is none.
    pub(crate) fn wake_one(&self) -> bool {
        self.wake(1) == 1
    }

    /// Wakes up to `count` waiters, first in first out. Returns how many.
    pub(crate) fn wake(&self, count: usize) -> usize {
        self.notify_and_wake(count, Handoff(true))
    }

    /// Wakes all current waiters, first in first out. Returns how many.
    pub(crate) fn wake_all(&self) -> usize {
        self.notify_and_wake(usize::MAX, Handoff(false))
    }

    fn notify_and_wake(&self, count: usize, handoff: Handoff) -> usize {
        let (notified, only_waker) = self.with(|waiters| waiters.notify(count, handoff));
        match only_waker {
            Some(waker) => waker.wake(),
            None => wake_each(|| self.with(SmallWaitQueue::next_to_wake)),
        }
        notified
    }

    /// The number of waiters that are not woken.
    pub(crate) fn waiting(&self) -> usize {
        self.with(|waiters| waiters.waiting())
    }
}

impl<R, F: FnMut() -> Option<R>, C: WaiterCell> Future for WaitUntil<'_, F, C> {
    type Output = R;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<R> {
        let WaitUntil { wait, check } = self.get_mut();
        let list = wait.list;
        loop {
            if let Some(result) = check() {
                list.finish(&mut wait.slot);
                return Poll::Ready(result);
            }
            if !list.enqueue_or_requeue(&mut wait.slot, cx) {
                return Poll::Pending;
            }
        }
    }
}

/// Nothing is pinned: `check` is called, not polled.
impl<F, C: WaiterCell> Unpin for WaitUntil<'_, F, C> {}

/// The steps of a wait, for callers that act between them.
impl<C: WaiterCell> Wait<'_, C> {
    /// Enqueues the waiter now, without polling.
    pub(crate) fn enter(&mut self) {
        self.list.key(&mut self.slot);
    }

    /// Waits in the method `name` until the waiter is woken, and keeps its notification: dropping it now hands that off.
    pub(crate) async fn woken(&mut self, name: &'static str) {
        let woken = poll_fn(|cx| self.list.poll_notified(self.list.key(&mut self.slot), cx));
        named(|| name, woken).await;
    }

    /// The notification is used.
    pub(crate) fn finish(mut self) {
        self.list.finish(&mut self.slot);
    }
}

impl<C: WaiterCell> Future for Wait<'_, C> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let list = self.list;
        list.poll_wait(&mut self.slot, cx)
    }
}

impl<C: WaiterCell> Drop for Wait<'_, C> {
    #[inline]
    fn drop(&mut self) {
        self.list.cancel_wait(&mut self.slot);
    }
}
