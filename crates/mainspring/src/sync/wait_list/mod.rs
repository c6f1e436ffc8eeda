//! `WaitList`: tasks that wait to be woken, one by one or all at once.
//!
//! For whoever has a condition of its own, and someone who knows when it may have changed:
//!
//! ```text
//! list.until(|| is_there.get().then_some(())).await      // one side
//! is_there.set(true); list.wake_all();                   // the other
//! ```
//!
//! First come, first woken ([`SmallWaitQueue`]). One that is dropped leaves it; if it was the one that
//! [`wake_one`](WaitList::wake_one) had chosen, the turn goes to the next.

mod single_waiter;
mod small_wait_queue;
pub(super) mod wait_queue;

pub(super) use single_waiter::SingleWaiter;
pub(crate) use small_wait_queue::SmallWaitQueue;

use crate::sync::state_cell::StateCell;
use mainspring_engine::loom_shim::Mutex;
use small_wait_queue::Handoff;
use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};
use wait_queue::{WaiterKey, wake_each};

/// Tasks that wait to be woken.
///
/// It is for the tasks of one thread, unless it has [`SharedWaiters`].
#[derive(Default)]
pub(crate) struct WaitList<C: WaiterCell = LocalWaiters>(C);

/// The storage of a list: [`LocalWaiters`] or [`SharedWaiters`].
pub(crate) trait WaiterCell: StateCell<State = SmallWaitQueue> {}

impl<C: StateCell<State = SmallWaitQueue>> WaiterCell for C {}

/// The storage of a list for the tasks of one thread.
pub(crate) type LocalWaiters = RefCell<SmallWaitQueue>;

/// The storage of a list for the tasks of many threads.
pub(crate) type SharedWaiters = Mutex<SmallWaitQueue>;

/// A place in a list that its owner keeps: for `poll_…` functions, whose caller may not come back. Dropped without
/// [`WaitList::leave`], it stays in the list as long as the list is there.
#[derive(Debug, Default)]
pub(crate) struct WaiterSlot(Option<WaiterKey>);

/// The wait of [`WaitList::wait`].
#[must_use = "nothing waits until it is awaited"]
pub(crate) struct Wait<'a, C: WaiterCell = LocalWaiters> {
    list: &'a WaitList<C>,
    slot: WaiterSlot,
}

/// The wait of [`WaitList::until`].
#[must_use = "nothing waits until it is awaited"]
pub(crate) struct Until<'a, F, C: WaiterCell = LocalWaiters> {
    wait: Wait<'a, C>,
    check: F,
}

impl WaitList {
    pub(crate) const fn new() -> Self {
        WaitList(RefCell::new(SmallWaitQueue::EMPTY))
    }
}

impl<C: WaiterCell> WaitList<C> {
    /// `work` must not run code of wakers: the storage is borrowed while it runs.
    #[inline(always)]
    fn with<R>(&self, work: impl FnOnce(&mut SmallWaitQueue) -> R) -> R {
        work(&mut self.0.open())
    }

    /// Waits until it is woken. It stands in the list from when it is first polled; dropping it leaves no trace.
    pub(crate) fn wait(&self) -> Wait<'_, C> {
        Wait { list: self, slot: WaiterSlot::default() }
    }

    /// Waits until `check` gives something. It is asked at once, and whenever this is woken; who is told `None` keeps
    /// its place. Dropping it leaves no trace.
    pub(crate) fn until<R, F: FnMut() -> Option<R>>(&self, check: F) -> Until<'_, F, C> {
        Until { wait: self.wait(), check }
    }

    /// Takes the slot, or finds out whether it was woken; then it is free again.
    pub(crate) fn poll_wait(&self, slot: &mut WaiterSlot, cx: &Context<'_>) -> Poll<()> {
        let polled = self.poll_notified(self.key(slot), cx);
        if polled.is_ready() {
            self.finish(slot);
        }
        polled
    }

    /// Stands in the list, as a newcomer or where it stood, to be woken. `true` if it was chosen meanwhile.
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

    /// Has the place wake the task of `cx`. Cloning a waker is foreign code: it may call in, and whether the place is chosen
    /// afterwards comes back.
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

    /// Leaves the slot, with what it was woken for.
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

    /// Gives the slot up. If it was this one's turn, it is the next one's; `true` if there is nobody to have it.
    #[inline]
    pub(crate) fn leave(&self, slot: &mut WaiterSlot) -> bool {
        // Most were never pending, or have had their turn.
        slot.0.take().is_some_and(|key| self.pass_on(key))
    }

    #[inline(never)]
    fn pass_on(&self, key: WaiterKey) -> bool {
        let removed = self.with(|waiters| waiters.remove(key));
        removed.was_notified && removed.data == Handoff(true) && !self.wake_one()
    }

    /// Wakes who is first. `false` if nobody waits.
    pub(crate) fn wake_one(&self) -> bool {
        self.wake(1) == 1
    }

    /// Wakes the first `count`, or all if they are fewer, and says how many.
    pub(crate) fn wake(&self, count: usize) -> usize {
        self.notify_and_wake(count, Handoff(true))
    }

    /// Wakes all who wait now, in the order they came, and says how many.
    pub(crate) fn wake_all(&self) -> usize {
        self.notify_and_wake(usize::MAX, Handoff(false))
    }

    fn notify_and_wake(&self, count: usize, turn: Handoff) -> usize {
        let (chosen, alone) = self.with(|waiters| waiters.notify(count, turn));
        match alone {
            Some(waker) => waker.wake(),
            None => wake_each(|| self.with(SmallWaitQueue::next_to_wake)),
        }
        chosen
    }

    /// How many wait and were not woken.
    pub(crate) fn waiting(&self) -> usize {
        self.with(|waiters| waiters.waiting())
    }
}

impl<R, F: FnMut() -> Option<R>, C: WaiterCell> Future for Until<'_, F, C> {
    type Output = R;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<R> {
        let Until { wait, check } = self.get_mut();
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

/// Nothing in it is pinned: the check is called, not polled.
impl<F, C: WaiterCell> Unpin for Until<'_, F, C> {}

/// Waiting in steps, for who has something to do in between.
impl<C: WaiterCell> Wait<'_, C> {
    /// Stands in the list from now on.
    pub(crate) fn enter(&mut self) {
        self.list.key(&mut self.slot);
    }

    /// Waits until it is woken, and keeps its turn: dropped now, it hands it on.
    pub(crate) async fn woken(&mut self) {
        poll_fn(|cx| self.list.poll_notified(self.list.key(&mut self.slot), cx)).await;
    }

    /// The turn is used.
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
        self.list.leave(&mut self.slot);
    }
}
