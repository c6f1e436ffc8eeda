//! A waiting operation: its watch, its retries and its cancellation.

use crate::{Direction, Engine, Host, WatchTicket};
use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// An operation on a socket that may take several attempts.
pub trait Operation<H: Host> {
    /// The result.
    type Output;

    /// The direction to wait for between two attempts.
    fn direction(&self) -> Direction;

    /// Makes an attempt; `None` to wait. Must not run user code.
    fn advance(&mut self, engine: &Engine<H>, socket: BorrowedFd<'_>) -> io::Result<Option<Self::Output>>;
}

/// Completes as soon as the fd is ready; the waiter then makes the system call.
pub struct Ready(pub Direction);

impl<H: Host> Operation<H> for Ready {
    type Output = ();

    fn direction(&self) -> Direction {
        self.0
    }

    fn advance(&mut self, _: &Engine<H>, _: BorrowedFd<'_>) -> io::Result<Option<()>> {
        Ok(Some(()))
    }
}

/// A completed operation.
pub struct Settled<H: Host, T> {
    /// The result.
    pub outcome: io::Result<T>,
    /// The watch that it left with the loop. The host drops it.
    pub watch: Option<H::Watch>,
}

/// An operation and its watch. It waits from [`Pending::wait`] until it completes or [`Pending::leave`].
pub struct Pending<O> {
    operation: RefCell<O>,
    ticket: Cell<Option<WatchTicket>>,
}

impl<O> Pending<O> {
    /// Wraps an operation. It does not wait yet.
    pub fn new(operation: O) -> Self {
        Pending { operation: RefCell::new(operation), ticket: Cell::new(None) }
    }

    /// Whether it waits.
    pub fn is_waiting(&self) -> bool {
        self.ticket.get().is_some()
    }

    /// Borrows the operation. No attempt is running then: attempts do not run user code.
    pub fn with_operation<R>(&self, look: impl FnOnce(&O) -> R) -> R {
        look(&self.operation.borrow())
    }

    /// Replaces the operation and returns the old one, so that the caller can drop what it holds.
    pub fn replace_operation(&self, operation: O) -> O {
        self.operation.replace(operation)
    }

    /// Starts to wait. `watch` must call [`Pending::ready`]. Returns the watch that it replaces; the host cancels and
    /// drops it. Fails as [`Engine::watch`] does.
    pub fn wait<H: Host>(
        &self,
        engine: &Engine<H>,
        socket: BorrowedFd<'_>,
        watch: H::Watch,
    ) -> io::Result<Option<H::Watch>>
    where
        O: Operation<H>,
    {
        let direction = self.operation.borrow().direction();
        let (ticket, replaced) = engine.watch_with_ticket(socket.as_raw_fd(), direction, watch)?;
        self.ticket.set(Some(ticket));
        Ok(replaced)
    }

    /// Makes an attempt: the socket is ready. `None` if the operation keeps waiting, or is not waiting.
    pub fn ready<H: Host>(&self, engine: &Engine<H>, socket: BorrowedFd<'_>) -> Option<Settled<H, O::Output>>
    where
        O: Operation<H>,
    {
        self.ticket.get()?;
        let outcome = self.operation.borrow_mut().advance(engine, socket).transpose()?;
        Some(Settled { outcome, watch: self.leave(engine) })
    }

    /// Stops waiting. Returns the watch, if it is still registered.
    pub fn leave<H: Host>(&self, engine: &Engine<H>) -> Option<H::Watch> {
        engine.unwatch_ticket(self.ticket.take()?)
    }
}
