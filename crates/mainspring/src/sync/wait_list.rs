//! `WaitList`: tasks that wait to be woken, one by one or all at once.
//!
//! For whoever has a condition of its own, and someone who knows when it may have changed:
//!
//! ```text
//! list.until(|| is_there.get().then_some(())).await      // one side
//! is_there.set(true); list.wake_all();                   // the other
//! ```
//!
//! First come, first woken ([`Waiters`]). One that is dropped leaves it; if it was the one that
//! [`wake_one`](WaitList::wake_one) had chosen, the turn goes to the next.

use super::line::{Key, wake_each};
use super::state_cell::StateCell;
use super::waiters::{Turn, Waiters};
use crate::in_place::InPlace;
use mainspring_engine::loom_shim::Mutex;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Tasks that wait to be woken.
///
/// It is for the tasks of one thread, unless it has the [`Place`] of many.
#[derive(Default)]
pub(crate) struct WaitList<C: Place = Here>(C);

/// Where the waiters are.
pub(crate) trait Place {
    /// Works on the waiters.
    ///
    /// # Safety
    ///
    /// `work` does not come back to the same place: it runs nothing that it does not know.
    unsafe fn with<R>(&self, work: impl FnOnce(&mut Waiters) -> R) -> R;
}

/// The place for the tasks of one thread.
pub(crate) type Here = InPlace<Waiters>;

impl Place for Here {
    #[inline(always)]
    unsafe fn with<R>(&self, work: impl FnOnce(&mut Waiters) -> R) -> R {
        // SAFETY: the caller's word is the one that is asked for.
        unsafe { InPlace::with(self, work) }
    }
}

/// The place for tasks of many threads.
pub(crate) type Shared = Mutex<Waiters>;

impl Place for Shared {
    unsafe fn with<R>(&self, work: impl FnOnce(&mut Waiters) -> R) -> R {
        work(&mut self.open())
    }
}

/// A place in a list that its owner keeps: for `poll_…` functions, whose caller may not come back. Dropped without
/// [`WaitList::leave`], it stays in the list as long as the list is there.
#[derive(Debug, Default)]
pub(crate) struct Seat(Option<Key>);

/// The wait of [`WaitList::wait`].
#[must_use = "nothing waits until it is awaited"]
pub(crate) struct Wait<'a, C: Place = Here> {
    list: &'a WaitList<C>,
    seat: Seat,
}

/// The wait of [`WaitList::until`].
#[must_use = "nothing waits until it is awaited"]
pub(crate) struct Until<'a, F, C: Place = Here> {
    wait: Wait<'a, C>,
    check: F,
}

impl WaitList {
    pub(crate) const fn new() -> Self {
        WaitList(Here::new(Waiters::NOBODY))
    }
}

impl<C: Place> WaitList<C> {
    /// For this file only: what is done here with the waiters is done by their own methods, and those call nobody.
    #[inline(always)]
    fn with<R>(&self, work: impl FnOnce(&mut Waiters) -> R) -> R {
        // SAFETY: every `work` of this file calls methods of `Waiters` and of `Key` and nothing else. They compare wakers,
        // and hand those out that are to be called or dropped, but run none of their code.
        unsafe { self.0.with(work) }
    }

    /// Waits until it is woken. It stands in the list from when it is first polled; dropping it leaves no trace.
    pub(crate) fn wait(&self) -> Wait<'_, C> {
        Wait { list: self, seat: Seat::default() }
    }

    /// Waits until `check` gives something. It is asked at once, and whenever this is woken; who is told `None` keeps
    /// its place. Dropping it leaves no trace.
    pub(crate) fn until<R, F: FnMut() -> Option<R>>(&self, check: F) -> Until<'_, F, C> {
        Until { wait: self.wait(), check }
    }

    /// Takes the seat, or finds out whether it was woken; then it is free again.
    pub(crate) fn poll_wait(&self, seat: &mut Seat, cx: &Context<'_>) -> Poll<()> {
        let polled = self.poll_chosen(self.key(seat), cx);
        if polled.is_ready() {
            self.take_turn(seat);
        }
        polled
    }

    /// Stands in the list, as a newcomer or where it stood, to be woken. `true` if it was chosen meanwhile.
    #[inline(never)]
    fn stand(&self, seat: &mut Seat, cx: &Context<'_>) -> bool {
        let seat = &mut seat.0;
        let (key, has_waker) = self.with(|waiters| {
            let is_new = seat.is_none();
            let key = seat.get_or_insert_with(|| waiters.join());
            if is_new {
                return (&*key, false);
            }
            waiters.wait_on(key);
            (&*key, waiters.has_waker(key, cx.waker()))
        });
        !has_waker && self.keep_waker(key, cx)
    }

    fn poll_chosen(&self, key: &Key, cx: &Context<'_>) -> Poll<()> {
        let (has_waker, is_chosen) =
            self.with(|waiters| (waiters.has_waker(key, cx.waker()), waiters.is_chosen(key)));
        let is_chosen = if has_waker { is_chosen } else { self.keep_waker(key, cx) };
        if is_chosen { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Has the place wake the task of `cx`. Cloning a waker is foreign code: it may call in, and whether the place is chosen
    /// afterwards comes back.
    fn keep_waker(&self, key: &Key, cx: &Context<'_>) -> bool {
        let waker = cx.waker().clone();
        let (former, is_chosen) =
            self.with(|waiters| (waiters.replace_waker(key, waker), waiters.is_chosen(key)));
        drop(former);
        is_chosen
    }

    fn key<'a>(&self, seat: &'a mut Seat) -> &'a Key {
        seat.0.get_or_insert_with(|| self.with(Waiters::join))
    }

    /// Leaves the seat, with what it was woken for.
    #[inline]
    fn take_turn(&self, seat: &mut Seat) {
        if let Some(key) = seat.0.take()
            && let Err(key) = self.with(|waiters| waiters.leave_alone(key))
        {
            self.leave_line(key);
        }
    }

    #[inline(never)]
    fn leave_line(&self, key: Key) {
        let left = self.with(|waiters| waiters.leave(key));
        drop(left);
    }

    /// Gives the seat up. If it was this one's turn, it is the next one's; `true` if there is nobody to have it.
    #[inline]
    pub(crate) fn leave(&self, seat: &mut Seat) -> bool {
        // Most were never pending, or have had their turn.
        seat.0.take().is_some_and(|key| self.hand_on(key))
    }

    #[inline(never)]
    fn hand_on(&self, key: Key) -> bool {
        let left = self.with(|waiters| waiters.leave(key));
        left.was_chosen && left.note == Turn(true) && !self.wake_one()
    }

    /// Wakes who is first. `false` if nobody waits.
    pub(crate) fn wake_one(&self) -> bool {
        self.wake(1) == 1
    }

    /// Wakes the first `count`, or all if they are fewer, and says how many.
    pub(crate) fn wake(&self, count: usize) -> usize {
        self.choose_and_wake(count, Turn(true))
    }

    /// Wakes all who wait now, in the order they came, and says how many.
    pub(crate) fn wake_all(&self) -> usize {
        self.choose_and_wake(usize::MAX, Turn(false))
    }

    fn choose_and_wake(&self, count: usize, turn: Turn) -> usize {
        let (chosen, alone) = self.with(|waiters| waiters.choose(count, turn));
        match alone {
            Some(waker) => waker.wake(),
            None => wake_each(|| self.with(Waiters::next_to_wake)),
        }
        chosen
    }

    /// How many wait and were not woken.
    pub(crate) fn waiting(&self) -> usize {
        self.with(|waiters| waiters.waiting())
    }
}

impl<R, F: FnMut() -> Option<R>, C: Place> Future for Until<'_, F, C> {
    type Output = R;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<R> {
        let Until { wait, check } = self.get_mut();
        let list = wait.list;
        loop {
            if let Some(result) = check() {
                list.take_turn(&mut wait.seat);
                return Poll::Ready(result);
            }
            if !list.stand(&mut wait.seat, cx) {
                return Poll::Pending;
            }
        }
    }
}

/// Nothing in it is pinned: the check is called, not polled.
impl<F, C: Place> Unpin for Until<'_, F, C> {}

/// Waiting in steps, for who has something to do in between.
impl<C: Place> Wait<'_, C> {
    /// Stands in the list from now on.
    pub(crate) fn enter(&mut self) {
        self.list.key(&mut self.seat);
    }

    /// Waits until it is woken, and keeps its turn: dropped now, it hands it on.
    pub(crate) async fn woken(&mut self) {
        poll_fn(|cx| self.list.poll_chosen(self.list.key(&mut self.seat), cx)).await;
    }

    /// The turn is used.
    pub(crate) fn finish(mut self) {
        self.list.take_turn(&mut self.seat);
    }
}

impl<C: Place> Future for Wait<'_, C> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let list = self.list;
        list.poll_wait(&mut self.seat, cx)
    }
}

impl<C: Place> Drop for Wait<'_, C> {
    #[inline]
    fn drop(&mut self) {
        self.list.leave(&mut self.seat);
    }
}
