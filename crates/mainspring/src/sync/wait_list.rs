//! `WaitList`: tasks that wait to be woken, one by one or all at once.
//!
//! For whoever has a condition of its own, and someone who knows when it may have changed:
//!
//! ```text
//! list.until(|| is_there.get().then_some(())).await      // one side
//! is_there.set(true); list.wake_all();                   // the other
//! ```
//!
//! Waiters stand in a [`Line`], first come first woken. One that is dropped leaves it; if it was the one that
//! [`wake_one`](WaitList::wake_one) had chosen, the turn goes to the next.

use super::line::{self, Key, Line};
use super::state_cell::StateCell;
use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Tasks that wait to be woken. It takes two words until somebody does: most lists of a connection are never used.
///
/// It is for the tasks of one thread, unless it is made with the [`StateCell`] of many.
#[derive(Default)]
pub(crate) struct WaitList<C: Cell = RefCell<Slot>>(C);

pub(crate) type Slot = Option<Box<Line<Turn>>>;

/// Where the line is.
pub(crate) trait Cell: StateCell<State = Slot> {}
impl<C: StateCell<State = Slot>> Cell for C {}

fn line(line: &mut Slot) -> &mut Line<Turn> {
    line.get_or_insert_default()
}

/// Whether a waiter was chosen alone, and so has something to hand on.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Turn(bool);

/// A place in a list that its owner keeps: for `poll_…` functions, whose caller may not come back. Dropped without
/// [`WaitList::leave`], it stays in the list as long as the list is there.
#[derive(Debug, Default)]
pub(crate) struct Seat(Option<Key>);

/// The wait of [`WaitList::wait`].
#[must_use = "nothing waits until it is awaited"]
pub(crate) struct Wait<'a, C: Cell = RefCell<Slot>> {
    list: &'a WaitList<C>,
    seat: Seat,
}

impl WaitList {
    pub(crate) const fn new() -> Self {
        WaitList(RefCell::new(None))
    }
}

impl<C: Cell> WaitList<C> {
    /// Waits until it is woken. It stands in the list from when it is first polled; dropping it leaves no trace.
    pub(crate) fn wait(&self) -> Wait<'_, C> {
        Wait { list: self, seat: Seat::default() }
    }

    /// Waits until `check` gives something. It is asked at once, and whenever this is woken; who is told `None` keeps
    /// its place. Dropping it leaves no trace.
    pub(crate) async fn until<R>(&self, mut check: impl FnMut() -> Option<R>) -> R {
        let mut wait = self.wait();
        poll_fn(|cx| {
            loop {
                if let Some(result) = check() {
                    self.take_turn(&mut wait.seat);
                    return Poll::Ready(result);
                }
                let key = self.key(&mut wait.seat);
                let mut slot = self.0.open();
                let line = line(&mut slot);
                if line.is_chosen(key) {
                    line.stand_again(key);
                    *line.note_mut(key) = Turn::default();
                }
                drop(slot);
                if self.poll_chosen(key, cx).is_pending() {
                    return Poll::Pending;
                }
            }
        })
        .await
    }

    /// Takes the seat, or finds out whether it was woken; then it is free again.
    pub(crate) fn poll_wait(&self, seat: &mut Seat, cx: &Context<'_>) -> Poll<()> {
        let polled = self.poll_chosen(self.key(seat), cx);
        if polled.is_ready() {
            self.take_turn(seat);
        }
        polled
    }

    fn poll_chosen(&self, key: &Key, cx: &Context<'_>) -> Poll<()> {
        line::keep_waker(&self.0, line, key, cx);
        if line(&mut self.0.open()).is_chosen(key) { Poll::Ready(()) } else { Poll::Pending }
    }

    fn key<'a>(&self, seat: &'a mut Seat) -> &'a Key {
        seat.0.get_or_insert_with(|| line(&mut self.0.open()).join(Turn::default(), None))
    }

    /// Leaves the seat, with what it was woken for.
    fn take_turn(&self, seat: &mut Seat) {
        if let Some(key) = seat.0.take() {
            let left = line(&mut self.0.open()).leave(key);
            drop(left);
        }
    }

    /// Gives the seat up. If it was this one's turn, it is the next one's; `true` if there is nobody to have it.
    pub(crate) fn leave(&self, seat: &mut Seat) -> bool {
        let Some(key) = seat.0.take() else { return false };
        let left = line(&mut self.0.open()).leave(key);
        left.was_chosen && left.note == Turn(true) && !self.wake_one()
    }

    /// Wakes who is first. `false` if nobody waits.
    pub(crate) fn wake_one(&self) -> bool {
        self.wake(1) == 1
    }

    /// Wakes the first `count`, or all if they are fewer, and says how many.
    pub(crate) fn wake(&self, count: usize) -> usize {
        let mut slot = self.0.open();
        let Some(line) = slot.as_mut() else { return 0 };
        let mut chosen = 0;
        while chosen < count
            && let Some(turn) = line.choose_first()
        {
            *turn = Turn(true);
            chosen += 1;
        }
        drop(slot);
        line::wake_chosen(&self.0, self::line);
        chosen
    }

    /// Wakes all who wait now, in the order they came.
    pub(crate) fn wake_all(&self) {
        let mut slot = self.0.open();
        let Some(line) = slot.as_mut() else { return };
        line.choose_all();
        drop(slot);
        line::wake_chosen(&self.0, self::line);
    }

    /// How many wait and were not woken.
    pub(crate) fn waiting(&self) -> usize {
        self.0.open().as_ref().map_or(0, |line| line.waiting())
    }
}

/// Waiting in steps, for who has something to do in between.
impl<C: Cell> Wait<'_, C> {
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

impl<C: Cell> Future for Wait<'_, C> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let list = self.list;
        list.poll_wait(&mut self.seat, cx)
    }
}

impl<C: Cell> Drop for Wait<'_, C> {
    fn drop(&mut self) {
        self.list.leave(&mut self.seat);
    }
}
