//! `Channel`: the state that [`mpsc`](super::mpsc) and [`threadsafe`](super::threadsafe) share: a queue, the number of
//! senders, reserved slots, and the tasks that wait for the channel to close.

use crate::sync::queue::{Fifo, Order, QueueCell, QueueState};
use crate::sync::state_cell::StateCell;
use crate::sync::wait_list::SingleWaiter;
use crate::sync::wait_list::{WaitList, WaiterCell};
use mainspring_engine::loom_shim::atomic::{AtomicUsize, Ordering};
use std::cell::Cell;
use std::fmt;

/// The state of a channel's queue, which has one receiver.
pub(in crate::sync) type ChannelState<T> = QueueState<T, Fifo<T>, SingleWaiter>;

/// `Q` is the cell of the queue, `S` counts the senders, `W` stores the tasks that wait for the receiver to close.
pub(in crate::sync) struct Channel<Q, S, W: WaiterCell> {
    pub(in crate::sync) queue: Q,
    pub(in crate::sync) senders: S,
    closing: WaitList<W>,
}

/// The number of senders. It only identifies the last sender, so relaxed ordering is enough: the cell of the queue
/// orders the values.
pub(in crate::sync) trait Senders {
    /// One sender.
    fn one() -> Self;

    /// Adds a sender. There is at least one.
    fn add(&self);

    /// Adds a sender if there is at least one. Without senders the channel has ended for good.
    fn add_unless_zero(&self) -> bool;

    /// Removes a sender. Returns whether it was the last.
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
        let has_any = self.get() > 0;
        if has_any {
            self.add();
        }
        has_any
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

/// A reserved slot for one value. Dropping it passes the slot to the next waiter.
pub(in crate::sync) struct ReservedSlot<'a, Q: QueueCell>(&'a Q);

impl<Q: QueueCell> ReservedSlot<'_, Q> {
    /// Sends a value. If the receiver was dropped, the value is dropped.
    pub(in crate::sync) fn send(self, value: Q::Item) {
        let queue = self.0;
        // The value uses the slot: do not release it.
        std::mem::forget(self);
        let refused = queue.put_reserved(value);
        drop(refused);
    }
}

impl<Q: QueueCell> Drop for ReservedSlot<'_, Q> {
    fn drop(&mut self) {
        self.0.unreserve();
    }
}

impl<T, Q: StateCell<State = ChannelState<T>>> fmt::Debug for ReservedSlot<'_, Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.open().fmt(f)
    }
}

impl<Q: QueueCell, S: Senders, W: WaiterCell + Default> Channel<Q, S, W> {
    /// A channel with one sender.
    pub(in crate::sync) fn new(queue: Q) -> Self {
        Channel { queue, senders: S::one(), closing: WaitList::default() }
    }

    /// Removes a sender. Without senders the channel takes no more values.
    pub(in crate::sync) fn remove_sender(&self) {
        if self.senders.remove() {
            self.queue.open().discard_reserved();
            self.shut_down();
        }
    }

    /// The slot that [`QueueCell::poll_reserve`] or [`QueueCell::reserve_nowait`] has just reserved.
    pub(in crate::sync) fn reserved_slot(&self) -> ReservedSlot<'_, Q> {
        ReservedSlot(&self.queue)
    }

    fn shut_down(&self) {
        let (nothing, _) = self.queue.shut_down(false);
        drop(nothing);
    }

    /// The receiver closes the channel.
    pub(in crate::sync) fn close(&self) {
        self.shut_down();
        self.closing.wake_all();
    }

    /// The receiver is dropped.
    pub(in crate::sync) fn abandon(&self) {
        // Wake the senders first: the destructors of the values are user code.
        self.close();
        let (values, _) = self.queue.shut_down(true);
        drop(values);
    }

    /// Waits until the receiver is dropped, or closes the channel.
    pub(in crate::sync) async fn closed(&self) {
        // Checked after entering the list: `close` wakes the list after it closes the queue.
        let mut wait = self.closing.wait();
        wait.enter();
        if !self.is_closed() {
            wait.await;
        }
    }

    pub(in crate::sync) fn is_closed(&self) -> bool {
        self.queue.open().is_shut_down
    }

    pub(in crate::sync) fn capacity(&self) -> usize {
        self.queue.open().free_capacity()
    }

    pub(in crate::sync) fn max_capacity(&self) -> usize {
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
