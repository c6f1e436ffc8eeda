//! `Ends`: what the reader and the writer of one connection share, and how they part from it.

use super::super::protocol::Protocol;
use super::super::transport::Transport;
use super::buffered::Buffered;
use crate::sync::wait_list::{Seat, WaitList};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::{Context, Poll};

/// A transport and the protocol of streams on it. Closes the connection, in order, with its last holder.
pub(super) struct Ends {
    pub(super) transport: Transport,
    pub(super) buffered: Rc<Buffered>,
    is_given_away: Cell<bool>,
    /// There from when somebody first polls.
    seats: RefCell<Option<Box<Seats>>>,
}

/// Where those stand who poll in place of awaiting: one of them may read, write, and wait for the end.
#[derive(Default)]
pub(super) struct Seats {
    pub(super) reading: Seat,
    pub(super) writing: Seat,
    pub(super) closing: Seat,
}

/// One of the seats.
pub(super) type Which = fn(&mut Seats) -> &mut Seat;

impl Ends {
    /// `open` puts the protocol on a connection.
    pub(super) fn open(limit: usize, open: impl FnOnce(Rc<dyn Protocol>) -> Transport) -> Rc<Self> {
        let buffered = Rc::new(Buffered::new(limit));
        let transport = open(Rc::<Buffered>::clone(&buffered));
        Self::of(transport, buffered)
    }

    /// The same for a protocol that is on its connection already.
    pub(super) fn of(transport: Transport, buffered: Rc<Buffered>) -> Rc<Self> {
        Rc::new(Ends { transport, buffered, is_given_away: Cell::new(false), seats: RefCell::default() })
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
            *which(self.seats.borrow_mut().get_or_insert_default()) = seat;
        }
        polled
    }

    /// Out of the seats while it is used, because wakers may call in.
    fn take_seat(&self, which: Which) -> Seat {
        let mut seats = self.seats.borrow_mut();
        seats.as_mut().map(|seats| std::mem::take(which(seats))).unwrap_or_default()
    }

    /// Nobody is going to poll any more.
    pub(super) fn leave(&self, list: &WaitList, which: Which) {
        list.leave(&mut self.take_seat(which));
    }

    /// The connection is somebody else's from here on, who closes it.
    #[allow(dead_code, reason = "for connections over connections, which are not in every build")]
    pub(super) fn give_away(&self) -> Transport {
        self.is_given_away.set(true);
        self.transport.clone()
    }

    pub(super) fn is_given_away(&self) -> bool {
        self.is_given_away.get()
    }
}

impl Drop for Ends {
    fn drop(&mut self) {
        if !self.is_given_away() {
            self.transport.close();
        }
    }
}
