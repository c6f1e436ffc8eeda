//! An operation that waits: its watch with the loop, and how it is tried again or given up.

use crate::{Direction, Engine, Host, WatchTicket};
use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Something to be done with a socket, in as many attempts as it takes.
pub trait Operation<H: Host> {
    /// What it gives in the end.
    type Output;

    /// What it waits for between two attempts.
    fn direction(&self) -> Direction;

    /// Tries to go on; `None` to wait. Does not call out.
    fn advance(&mut self, engine: &Engine<H>, socket: BorrowedFd<'_>) -> io::Result<Option<Self::Output>>;
}

/// Nothing but the wait: done as soon as the descriptor is ready, and whoever waits does the rest.
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

/// The end of an operation.
pub struct Settled<H: Host, T> {
    /// What came of it.
    pub outcome: io::Result<T>,
    /// The watch it had left with the loop, the face's to drop.
    pub watch: Option<H::Watch>,
}

/// An operation and its place with the loop. It waits from [`Pending::wait`] until it is settled or left, and does
/// nothing before and after.
pub struct Pending<O> {
    operation: RefCell<O>,
    ticket: Cell<Option<WatchTicket>>,
}

impl<O> Pending<O> {
    /// An operation that does not wait yet.
    pub fn new(operation: O) -> Self {
        Pending { operation: RefCell::new(operation), ticket: Cell::new(None) }
    }

    /// Whether it waits.
    pub fn is_waiting(&self) -> bool {
        self.ticket.get().is_some()
    }

    /// Looks at the operation. An attempt is over before anything else can ask.
    pub fn with_operation<R>(&self, look: impl FnOnce(&O) -> R) -> R {
        look(&self.operation.borrow())
    }

    /// Puts another operation in the place of this one, which comes back: to release what it holds.
    pub fn replace_operation(&self, operation: O) -> O {
        self.operation.replace(operation)
    }

    /// Begins to wait: `watch` has to call [`Pending::ready`]. The watch it replaces comes back, to be cancelled and
    /// dropped by the face; fails as [`Engine::watch`] does.
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

    /// The socket is ready: goes on. `None` if it waits further, or does not wait at all.
    pub fn ready<H: Host>(&self, engine: &Engine<H>, socket: BorrowedFd<'_>) -> Option<Settled<H, O::Output>>
    where
        O: Operation<H>,
    {
        self.ticket.get()?;
        let outcome = self.operation.borrow_mut().advance(engine, socket).transpose()?;
        Some(Settled { outcome, watch: self.leave(engine) })
    }

    /// Waits no longer. Its watch comes back, if it is still there.
    pub fn leave<H: Host>(&self, engine: &Engine<H>) -> Option<H::Watch> {
        engine.unwatch_ticket(self.ticket.take()?)
    }
}
