//! `Ends`: what the reader and the writer of one connection share, and how they part from it.

use super::buffered::Buffered;
use crate::net::connection::{Told, Transport};
use crate::sync::wait_list::{WaitList, WaiterSlot};
use std::cell::{Cell, OnceCell};
use std::rc::Rc;
use std::task::{Context, Poll};

/// A connection, and what has arrived on it. Closes the connection, in order, with its last holder.
pub(crate) struct Ends {
    /// There when there are holders.
    transport: OnceCell<Transport>,
    pub(super) buffered: Buffered,
    is_given_away: Cell<bool>,
    /// There from when somebody first polls.
    seats: Cell<Option<Box<Seats>>>,
}

/// Where those stand who poll in place of awaiting: one of them may read, write, and wait for the end.
#[derive(Default)]
pub(super) struct Seats {
    pub(super) reading: WaiterSlot,
    pub(super) writing: WaiterSlot,
    pub(super) closing: WaiterSlot,
}

/// One of the seats.
pub(super) type Which = fn(&mut Seats) -> &mut WaiterSlot;

impl Ends {
    /// The ends of a connection that is still to come, which is to tell [`Ends::told`].
    pub(super) fn new(limit: usize) -> Rc<Self> {
        Rc::new(Ends {
            transport: OnceCell::new(),
            buffered: Buffered::new(limit),
            is_given_away: Cell::new(false),
            seats: Cell::default(),
        })
    }

    /// Whom the connection is to tell.
    pub(super) fn told(self: &Rc<Self>) -> Told {
        Told::Stream(Rc::downgrade(self))
    }

    /// The connection has come.
    pub(super) fn opened(&self, transport: Transport) {
        // There is one.
        let _ = self.transport.set(transport);
    }

    pub(super) fn transport(&self) -> &Transport {
        match self.transport.get() {
            Some(transport) => transport,
            None => unreachable!("who asks holds an end, and those are made when the connection has come"),
        }
    }

    /// What the connection tells of its events.
    pub(crate) fn protocol(&self) -> &Buffered {
        &self.buffered
    }

    /// Whether `check` gives something. If not, whoever polls is woken when it may, from the seat it has in `list`.
    pub(super) fn poll_until<R>(
        &self,
        list: &WaitList,
        which: Which,
        cx: &Context<'_>,
        mut check: impl FnMut() -> Option<R>,
    ) -> Poll<R> {
        let mut seat = self.take_seat(which);
        let polled = loop {
            if let Some(result) = check() {
                list.leave(&mut seat);
                break Poll::Ready(result);
            }
            if list.poll_wait(&mut seat, cx).is_pending() {
                break Poll::Pending;
            }
        };
        if polled.is_pending() {
            let mut seats = self.seats.take().unwrap_or_default();
            *which(&mut seats) = seat;
            self.seats.set(Some(seats));
        }
        polled
    }

    /// Out of the seats while it is used, because wakers may call in.
    fn take_seat(&self, which: Which) -> WaiterSlot {
        let mut seats = self.seats.take();
        let seat = seats.as_mut().map(|seats| std::mem::take(which(seats)));
        self.seats.set(seats);
        seat.unwrap_or_default()
    }

    /// Nobody is going to poll any more.
    pub(super) fn leave(&self, list: &WaitList, which: Which) {
        list.leave(&mut self.take_seat(which));
    }

    /// The connection is somebody else's from here on, who closes it.
    #[allow(dead_code, reason = "for connections over connections, which are not in every build")]
    pub(super) fn give_away(&self) -> Transport {
        self.is_given_away.set(true);
        self.transport().clone()
    }

    pub(super) fn is_given_away(&self) -> bool {
        self.is_given_away.get()
    }
}

impl Drop for Ends {
    fn drop(&mut self) {
        if let Some(transport) = self.transport.get().filter(|_| !self.is_given_away()) {
            transport.close();
        }
    }
}
