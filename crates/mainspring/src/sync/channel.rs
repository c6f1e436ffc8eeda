//! `Channel`: what both kinds of channel share, wherever their state is: a queue that one side puts into and one takes
//! out of, and who waits for its end.

use super::only::Only;
use super::queue::{Fifo, Order, QueueCell, State};
use super::state_cell::StateCell;
use super::wait_list::{self, WaitList};
use std::fmt;

/// The state of a channel's queue: one receives.
pub(super) type ChannelState<T> = State<T, Fifo<T>, Only>;

/// See the module's text. `Q` is where the queue has its state, `S` counts the senders, `W` is where those are who wait for
/// the receiver to close.
pub(super) struct Channel<Q, S, W: wait_list::Cell> {
    pub(super) queue: Q,
    pub(super) senders: S,
    closing: WaitList<W>,
}

impl<Q: QueueCell, S, W: wait_list::Cell + Default> Channel<Q, S, W> {
    pub(super) fn new(queue: Q, senders: S) -> Self {
        Channel { queue, senders, closing: WaitList::default() }
    }

    /// Nobody is left to send: takes no more values.
    pub(super) fn end(&self) {
        self.queue.open().forget_reserved();
        self.shut_down();
    }

    fn shut_down(&self) {
        let (nothing, _) = self.queue.shut_down(false);
        drop(nothing);
    }

    /// The receiver wants no more values.
    pub(super) fn close(&self) {
        self.shut_down();
        self.closing.wake_all();
    }

    /// The receiver is gone.
    pub(super) fn abandon(&self) {
        // Senders learn of it before the values are dropped, whose destructors are not ours.
        self.close();
        let (values, _) = self.queue.shut_down(true);
        drop(values);
    }

    /// Waits until the receiver is gone, or has closed the channel.
    pub(super) async fn closed(&self) {
        // Asked after it stands in the list: whoever closes looks there afterwards.
        let mut wait = self.closing.wait();
        wait.enter();
        if !self.is_closed() {
            wait.await;
        }
    }

    pub(super) fn is_closed(&self) -> bool {
        self.queue.open().is_shut_down
    }

    pub(super) fn room(&self) -> usize {
        self.queue.open().room()
    }

    pub(super) fn max_room(&self) -> usize {
        self.queue.open().maxsize()
    }

    pub(super) fn len(&self) -> usize {
        self.queue.open().store.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        !self.queue.open().has_item()
    }
}

impl<T, Q: StateCell<State = ChannelState<T>>, S, W: wait_list::Cell> fmt::Debug for Channel<Q, S, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.queue.open().fmt(f)
    }
}
