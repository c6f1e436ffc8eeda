//! `Channel`: what both kinds of channel share, wherever their state is: a queue that one side puts into and one takes
//! out of, the number of those who send, room that one of them holds, and who waits for the end.

use crate::sync::queue::{Fifo, Order, QueueCell, QueueState};
use crate::sync::state_cell::StateCell;
use crate::sync::wait_list::SingleWaiter;
use crate::sync::wait_list::{WaitList, WaiterCell};
use mainspring_engine::loom_shim::atomic::{AtomicUsize, Ordering};
use std::cell::Cell;
use std::fmt;

/// The state of a channel's queue: one receives.
pub(in crate::sync) type ChannelState<T> = QueueState<T, Fifo<T>, SingleWaiter>;

/// See the module's text. `Q` is where the queue has its state, `S` counts the senders, `W` is where those are who wait for
/// the receiver to close.
pub(in crate::sync) struct Channel<Q, S, W: WaiterCell> {
    pub(in crate::sync) queue: Q,
    pub(in crate::sync) senders: S,
    closing: WaitList<W>,
}

/// How many can send. It only says who is the last: what each of them sent is in the queue, whose cell sees to the order.
pub(in crate::sync) trait Senders {
    /// One.
    fn one() -> Self;

    /// One more, made by one who is there.
    fn add(&self);

    /// One more, if there is any. Once there is none the channel has ended, for good.
    fn add_unless_zero(&self) -> bool;

    /// One less; whether it was the last.
    fn remove(&self) -> bool;
}

impl Senders for Cell<usize> {
    fn one() -> Self {
        Cell::new(1)
    }

    fn add(&self) {
        self.set(self.get() + 1);
    }

    fn add_unless_zero(&self) -> bool {
        let is_any = self.get() > 0;
        if is_any {
            self.add();
        }
        is_any
    }

    fn remove(&self) -> bool {
        self.set(self.get() - 1);
        self.get() == 0
    }
}

impl Senders for AtomicUsize {
    fn one() -> Self {
        AtomicUsize::new(1)
    }

    fn add(&self) {
        self.fetch_add(1, Ordering::Relaxed);
    }

    fn add_unless_zero(&self) -> bool {
        let one_more = |senders: usize| (senders > 0).then_some(senders + 1);
        self.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).is_ok()
    }

    fn remove(&self) -> bool {
        self.fetch_sub(1, Ordering::AcqRel) == 1
    }
}

/// Room for one value, held. Dropped, it gives the room to the next in line.
pub(in crate::sync) struct ReservedRoom<'a, Q: QueueCell>(&'a Q);

impl<Q: QueueCell> ReservedRoom<'_, Q> {
    /// Sends a value. If the receiver is gone it is dropped.
    pub(in crate::sync) fn send(self, value: Q::Item) {
        let queue = self.0;
        // The room is the value's now, and not to be given back.
        std::mem::forget(self);
        let refused = queue.put_reserved(value);
        drop(refused);
    }
}

impl<Q: QueueCell> Drop for ReservedRoom<'_, Q> {
    fn drop(&mut self) {
        self.0.unreserve();
    }
}

impl<T, Q: StateCell<State = ChannelState<T>>> fmt::Debug for ReservedRoom<'_, Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.open().fmt(f)
    }
}

impl<Q: QueueCell, S: Senders, W: WaiterCell + Default> Channel<Q, S, W> {
    /// A channel with one sender.
    pub(in crate::sync) fn new(queue: Q) -> Self {
        Channel { queue, senders: S::one(), closing: WaitList::default() }
    }

    /// A sender goes. With the last the channel takes no more values.
    pub(in crate::sync) fn remove_sender(&self) {
        if self.senders.remove() {
            self.queue.open().forget_reserved();
            self.shut_down();
        }
    }

    /// The room that [`QueueCell::poll_reserve`] or [`QueueCell::reserve_nowait`] has just set aside.
    pub(in crate::sync) fn reserved_room(&self) -> ReservedRoom<'_, Q> {
        ReservedRoom(&self.queue)
    }

    fn shut_down(&self) {
        let (nothing, _) = self.queue.shut_down(false);
        drop(nothing);
    }

    /// The receiver wants no more values.
    pub(in crate::sync) fn close(&self) {
        self.shut_down();
        self.closing.wake_all();
    }

    /// The receiver is gone.
    pub(in crate::sync) fn abandon(&self) {
        // Senders learn of it before the values are dropped, whose destructors are not ours.
        self.close();
        let (values, _) = self.queue.shut_down(true);
        drop(values);
    }

    /// Waits until the receiver is gone, or has closed the channel.
    pub(in crate::sync) async fn closed(&self) {
        // Asked after it stands in the list: whoever closes looks there afterwards.
        let mut wait = self.closing.wait();
        wait.enter();
        if !self.is_closed() {
            wait.await;
        }
    }

    pub(in crate::sync) fn is_closed(&self) -> bool {
        self.queue.open().is_shut_down
    }

    pub(in crate::sync) fn room(&self) -> usize {
        self.queue.open().room()
    }

    pub(in crate::sync) fn max_room(&self) -> usize {
        self.queue.open().maxsize()
    }

    pub(in crate::sync) fn len(&self) -> usize {
        self.queue.open().store.len()
    }

    pub(in crate::sync) fn is_empty(&self) -> bool {
        !self.queue.open().has_item()
    }
}

impl<T, Q: StateCell<State = ChannelState<T>>, S, W: WaiterCell> fmt::Debug for Channel<Q, S, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.queue.open().fmt(f)
    }
}
