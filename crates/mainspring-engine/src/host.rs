//! `Host`: what the engine asks of the face it runs under.
//!
//! The engine schedules, waits and keeps the books; it does not know what a call *is*. Python's host stores its
//! handle objects and runs them inside a `contextvars.Context`; Rust's stores closures and tasks. Nothing is
//! boxed on the way from one to the other.

use crate::poller::Readiness;
use crate::ready_queue::Lane;
use std::io;

/// A face of the engine. See the module's text, and the example [there](super).
///
/// Every method may run user code, and user code may call back into the engine; the engine holds no borrow while
/// it is inside one of these.
pub trait Host: Sized + 'static {
    /// Whether the loop may look for other threads' calls and for I/O for some microseconds before it sleeps. Not where
    /// it would hold a lock meanwhile that they need.
    const MAY_SPIN: bool = false;

    /// One scheduled call, run at most once by the engine.
    type Call;

    /// What `add_reader`, `add_writer` and `add_signal_handler` leave with the loop: it makes a call each time
    /// something happens. A clone is the same watch: cancelled together.
    type Watch: Clone + Into<Self::Call>;

    /// An owner of a descriptor that takes its I/O events itself: a transport, a listener. A clone is the
    /// same source. The engine holds one while it is registered, which keeps it alive.
    type Source: Clone;

    /// What other threads send to the loop.
    type Inbound: Send;

    /// A failure: of user code or of the system, in the face's own words.
    type Error;

    /// Runs a call, unless it was cancelled. A failure of the user's code is reported from here; only one
    /// that has to end the loop (Python's `KeyboardInterrupt` and `SystemExit`) comes back.
    fn run_call(&self, call: Self::Call) -> Result<(), Self::Error>;

    /// The kernel reports `readiness` for the fd of `source`. Returns the call that serves it, which the engine runs in
    /// this iteration; `None` if there is nothing to run, because a task that waits for the fd was woken.
    ///
    /// Called while the events of one wait are dispatched. Wakers may run here, no other user code.
    fn io_ready(&self, source: Self::Source, readiness: Readiness) -> Option<Self::Call>;

    /// The turn is over in which the source has asked for this, with [`Engine::at_end_of_turn`].
    fn turn_ended(&self, source: Self::Source) -> Result<(), Self::Error>;

    /// A transport has taken the descriptor that this watched: it is not called any more, and nobody has to remove it.
    fn displaced(&self, watch: Self::Watch) {
        drop(watch);
    }

    /// Turns what another thread sent into a call of this one.
    fn receive(&self, inbound: Self::Inbound) -> Self::Call;

    /// Where a call waits that a timer or another thread makes ready. Does not call out.
    fn lane(&self, call: &Self::Call) -> Lane {
        let _ = call;
        Lane::Normal
    }

    /// Calls `wait`, which may block, exactly once. Python gives up the interpreter lock around it.
    fn blocking(&self, wait: &mut dyn FnMut());

    /// A signal ended the wait. Python runs its signal handlers here, one of which may raise.
    fn interrupted(&self) -> Result<(), Self::Error>;

    /// A failure of the system in the face's words.
    fn os_error(&self, error: io::Error) -> Self::Error;

    /// One failure for two: `second` happened in the same step after `first`, which was to be passed on. A face whose
    /// failures can be told apart must not lose either.
    fn merge_errors(&self, first: Self::Error, second: Self::Error) -> Self::Error {
        drop(second);
        first
    }

    /// The outcome of two steps of which the second was taken whatever came of the first.
    fn merge_outcomes(
        &self,
        first: Result<(), Self::Error>,
        second: Result<(), Self::Error>,
    ) -> Result<(), Self::Error> {
        match (first, second) {
            (Err(first), Err(second)) => Err(self.merge_errors(first, second)),
            (first, second) => first.and(second),
        }
    }
}
