//! `Host`: the interface through which the engine calls the code on top of it.
//!
//! The engine schedules calls and waits for I/O; the type of a call is the host's. Python's host stores handle
//! objects and runs them inside a `contextvars.Context`; Rust's stores closures and tasks. No call is boxed on the
//! way.

use crate::poller::Readiness;
use crate::ready_queue::Lane;
use std::io;
use std::os::fd::RawFd;
use std::time::Duration;

/// The code on top of an engine. See the [example](super).
///
/// Every method except [`Host::lane`] and [`Host::max_overdue`] may run user code, and user code may call back into the
/// engine. The engine therefore holds no borrow across these calls.
pub trait Host: Sized + 'static {
    /// Whether the loop may check for calls from other threads for some microseconds before it sleeps. `false` for a host
    /// that holds a lock while the loop is awake and whose other threads need that lock to send.
    const MAY_SPIN_ON_INBOX: bool = false;

    /// One ready call, run at most once by the engine.
    type Call;

    /// A call that was scheduled for later. The timers store one each, so it should be no larger than a pointer.
    type Handle: Into<Self::Call>;

    /// The callback of `add_reader`, `add_writer` or `add_signal_handler`. The engine makes a call from it for each
    /// event. A clone is the same watch: cancelling one cancels all.
    type Watch: Clone + Into<Self::Call>;

    /// An fd's owner that handles its I/O events: a transport or a listener. A clone is the same source. The engine
    /// holds one while the source is registered, which keeps it alive.
    type Source: Clone;

    /// The host's name for a transport that owns an fd, returned by [`Engine::owner_of`](crate::Engine::owner_of). The
    /// engine forgets it when the transport gives up the fd, and at the latest when the transport is dropped. It does
    /// not keep the transport alive.
    type Owner: Copy;

    /// An item that other threads send to the loop.
    type Inbound: Send;

    /// The error type, for errors of user code and of the system.
    type Error;

    /// Runs a call, unless it was cancelled. The host reports errors of user code itself and returns only those that
    /// must stop the loop (Python's `KeyboardInterrupt` and `SystemExit`).
    fn run_call(&self, call: Self::Call) -> Result<(), Self::Error>;

    /// Handles `readiness` of the fd of `source`. Returns the call that serves the event, which the engine runs in
    /// this iteration; `None` if there is nothing to run because a waiting task was woken.
    ///
    /// Called during dispatch. Wakers may run here, no other user code.
    fn io_ready(&self, source: Self::Source, readiness: Readiness) -> Option<Self::Call>;

    /// The callback during which `source` called [`Engine::at_scope_end`](crate::Engine::at_scope_end) has returned.
    fn scope_ended(&self, source: Self::Source) -> Result<(), Self::Error>;

    /// A transport has taken ownership of the fd that `watch` watched. The engine no longer calls the watch and has
    /// removed it.
    fn displaced(&self, watch: Self::Watch) {
        drop(watch);
    }

    /// Converts an item from another thread into a call. `None` if there is nothing to call any more.
    fn receive(&self, inbound: Self::Inbound) -> Option<Self::Call>;

    /// The lane for a call from a timer or another thread. Must neither run user code nor call the engine, which has
    /// borrowed its queues.
    fn lane(&self, call: &Self::Call) -> Lane {
        let _ = call;
        Lane::Normal
    }

    /// How long a call may wait in the background lane; `None`: as long as [`Engine::set_max_overdue`] allows. The rules
    /// of [`Host::lane`] apply.
    ///
    /// [`Engine::set_max_overdue`]: crate::Engine::set_max_overdue
    fn max_overdue(&self, call: &Self::Call) -> Option<Duration> {
        let _ = call;
        None
    }

    /// Whether the order of this call among the ready calls of one iteration may change: see [`Shuffle`]. The rules of
    /// [`Host::lane`] apply.
    ///
    /// [`Shuffle`]: crate::Shuffle
    fn may_shuffle(&self, call: &Self::Call) -> bool {
        let _ = call;
        false
    }

    /// Whether a thread that the engine does not know may send an item to the loop. A virtual clock waits for it in real
    /// time, and asks again from time to time.
    fn waits_for_threads(&self) -> bool {
        false
    }

    /// The clock is virtual, and nothing can make the loop continue: no call is ready, no timer will be due, no
    /// fd can become ready, and no other thread is known to send an item. An error ends the run; otherwise the loop waits.
    fn deadlocked(&self) -> Result<(), Self::Error> {
        Ok(())
    }

    /// The clock is virtual, and the loop is about to wait in real time for these fds: their peers are outside of the loop,
    /// or may be. An error ends the run.
    fn waits_for_io(&self, fds: &[RawFd]) -> Result<(), Self::Error> {
        let _ = fds;
        Ok(())
    }

    /// Schedules a call of a transport in place of the engine, if the program has replaced `call_soon()`. Returns whether
    /// it did.
    fn schedules(&self, call: &Self::Call) -> Result<bool, Self::Error> {
        let _ = call;
        Ok(false)
    }

    /// An iteration begins. Called if [`Hooks::iteration_begin`](crate::Hooks) is set. As for all hooks, the host reports
    /// errors of user code itself and returns only those that must stop the loop.
    fn on_iteration_begin(&self) -> Result<(), Self::Error> {
        Ok(())
    }

    /// An iteration ends, with or without an error. Called if [`Hooks::iteration_end`](crate::Hooks) is set.
    fn on_iteration_end(&self) -> Result<(), Self::Error> {
        Ok(())
    }

    /// The loop is about to wait for `timeout` (`None`: without limit). If this makes a call ready, it does not wait.
    /// Called if [`Hooks::idle`](crate::Hooks) is set.
    fn on_idle(&self, timeout: Option<Duration>) -> Result<(), Self::Error> {
        let _ = timeout;
        Ok(())
    }

    /// Calls `wait`, which may block, exactly once. Python releases the interpreter lock around it.
    fn blocking(&self, wait: &mut dyn FnMut());

    /// A signal interrupted the wait. Python runs its signal handlers here; a handler may raise.
    fn interrupted(&self) -> Result<(), Self::Error>;

    /// Converts a system error.
    fn os_error(&self, error: io::Error) -> Self::Error;

    /// Combines two errors: `second` occurred in the same step after `first`. A host that can chain errors must keep
    /// both.
    fn merge_errors(&self, first: Self::Error, second: Self::Error) -> Self::Error {
        drop(second);
        first
    }

    /// Combines the results of two steps, the second of which ran regardless of the first.
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
