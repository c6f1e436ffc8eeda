//! `RustHost`: the engine's host for Rust programs.
//!
//! Panics of user code are caught here, or in `net/connection/` if a transport must handle them, and reported to the
//! loop's exception handler. They do not end the loop.

use crate::error::Error;
use crate::event_loop::{Core, DebugMode, ExceptionContext, Hooks, RunningCall, TimedCall};
use crate::handle::Callback;
use crate::lane::Lane;
use crate::net::{TransportImpl, WriteOutcome};
use crate::panics::catch;
use crate::task::{Step, WokenTask};
use crate::testing::RealIoError;
use mainspring_engine::ready_queue::Lane as EngineLane;
use mainspring_engine::transport::{DeferredCall, TransportHost};
use mainspring_engine::{Host, Readiness};
use std::cell::{Cell, OnceCell};
use std::io::{self, IoSlice};
use std::os::fd::{OwnedFd, RawFd};
use std::rc::{Rc, Weak};
use std::task::Waker;
use std::time::Duration;

/// One scheduled call.
pub(crate) enum Call {
    /// A closure with a handle to cancel it, and the lane to run in.
    Handle(Lane, Rc<dyn Callback>),
    /// A closure from another thread. It cannot be cancelled.
    Once(Box<dyn FnOnce()>),
    /// One step of a task.
    Task(Step),
    /// Wakes a sleeping task.
    Wake(Waker),
    /// One step of the future that [`EventLoop::run_until_complete`](crate::EventLoop::run_until_complete)
    /// runs, with the number of the run.
    Main(u64),
    /// That future is done: stops the run with this number.
    MainDone(u64),
    /// A registered fd is ready, or a signal arrived.
    Watch(Rc<dyn Watch>),
    /// The fd of a transport or listener is ready.
    Io(Rc<dyn Source>, Readiness),
    /// A deferred call of a transport.
    Deferred(Rc<dyn Source>, DeferredCall),
    /// Stops the loop.
    Stop,
}

// The queues and timers store calls by value.
const _: () = assert!(size_of::<Call>() == 3 * size_of::<usize>());

/// A call sent by another thread.
pub(crate) enum Inbound {
    Once(Box<dyn FnOnce() + Send>),
    /// A task that the thread has woken.
    Task(WokenTask),
    Main(u64),
    Stop,
}

impl Inbound {
    /// The call to make ready, on the loop's thread. `None` if the task that was woken is ready, or done.
    pub(crate) fn into_call(self) -> Option<Call> {
        Some(match self {
            Inbound::Once(call) => Call::Once(call),
            Inbound::Task(task) => Call::Task(task.into_step()?),
            Inbound::Main(run) => Call::Main(run),
            Inbound::Stop => Call::Stop,
        })
    }
}

/// Called on every event of a registered fd or a signal.
pub(crate) trait Watch {
    /// The event happened.
    fn fire(&self);

    /// No more calls, not even for an event that is already queued.
    fn cancel(&self);
}

impl From<Rc<dyn Watch>> for Call {
    fn from(watch: Rc<dyn Watch>) -> Self {
        Call::Watch(watch)
    }
}

/// A transport or listener, as the engine holds it.
pub(crate) trait Source {
    /// Handles an event of the fd.
    fn io_ready(self: Rc<Self>, core: &Core, readiness: Readiness) -> Result<(), Failure>;

    /// Runs after the current callback has returned, if requested with `Engine::at_scope_end`.
    fn scope_ended(self: Rc<Self>, core: &Core) -> Result<(), Failure> {
        let _ = core;
        Ok(())
    }

    /// Runs a deferred call.
    fn run_deferred(self: Rc<Self>, core: &Core, deferred: DeferredCall) -> Result<(), Failure>;

    /// The transport implementation, if this is behind a public [`Transport`](crate::Transport).
    fn transport_impl(&self) -> Option<&dyn TransportImpl> {
        None
    }

    /// The same with its loop, if the loop is open.
    fn on_open_loop(&self) -> Option<(Rc<Core>, &dyn TransportImpl)> {
        None
    }

    /// Sends bytes for a task that awaits the outcome. `this` is the same source.
    fn try_write_vectored(&self, this: &Rc<dyn Source>, pieces: &[IoSlice<'_>]) -> WriteOutcome {
        let _ = (this, pieces);
        WriteOutcome::Closing
    }

    /// Whether this side is closing the connection: nothing more is received and no event follows. `None` if the loop
    /// is closed.
    fn is_closing_locally(&self) -> Option<bool> {
        None
    }
}

/// A failure.
#[derive(Debug)]
pub(crate) enum Failure {
    /// A system error.
    Io(io::Error),
    /// A panic of user code, with its message.
    Panic(String),
    /// The run ends with this error.
    Run(Box<Error>),
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Run(error) => *error,
            other => Error::Io(other.into()),
        }
    }
}

impl From<Failure> for io::Error {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Io(error) => error,
            Failure::Panic(text) => io::Error::other(format!("the protocol panicked: {text}")),
            Failure::Run(error) => (*error).into(),
        }
    }
}

/// See the module comment.
#[derive(Default)]
pub(crate) struct RustHost {
    core: OnceCell<Weak<Core>>,
    debug_mode: DebugMode,
    refuses_real_io: Cell<bool>,
    running_call: RunningCall,
    hooks: Hooks,
}

impl RustHost {
    pub(crate) fn new(hooks: Hooks) -> Self {
        RustHost { hooks, ..Self::default() }
    }

    fn run_hook(&self, name: &str, hook: impl FnOnce()) {
        if let Err(text) = catch(hook) {
            self.report_exception(ExceptionContext::from_panic(&format!("The hook {name} panicked"), text));
        }
    }

    /// Sets the loop of this host.
    pub(crate) fn bind(&self, core: &Rc<Core>) {
        // The builder calls this once.
        let _ = self.core.set(Rc::downgrade(core));
    }

    /// Sets whether the loop may not wait for the outside.
    pub(crate) fn refuse_real_io(&self, refuses: bool) {
        self.refuses_real_io.set(refuses);
    }

    /// Whether the loop may not wait for the outside.
    pub(crate) fn refuses_real_io(&self) -> bool {
        self.refuses_real_io.get()
    }

    pub(crate) fn debug_mode(&self) -> &DebugMode {
        &self.debug_mode
    }

    pub(crate) fn running_call(&self) -> &RunningCall {
        &self.running_call
    }

    /// `None` while the loop is being dropped.
    fn core(&self) -> Option<Rc<Core>> {
        self.core.get()?.upgrade()
    }

    fn report_exception(&self, context: ExceptionContext) {
        if let Some(core) = self.core() {
            core.call_exception_handler(&context);
        }
    }

    fn run_transport_step(&self, step: impl FnOnce(&Core) -> Result<(), Failure>, message: &str) {
        let Some(core) = self.core() else { return };
        match catch(|| step(&core)) {
            Ok(Ok(())) => {}
            Ok(Err(failure)) => self.report_exception(ExceptionContext::from_failure(message, failure)),
            Err(text) => self.report_exception(ExceptionContext::from_panic(message, text)),
        }
    }

    #[inline(always)]
    fn run(&self, call: Call) {
        let ran = match call {
            Call::Handle(_, callback) => catch(|| callback.run()),
            Call::Once(call) => catch(call),
            Call::Task(step) => {
                // Panics of the future are caught in `task/cell.rs`.
                if step.header().is_normal() {
                    step.run();
                } else {
                    run_in_lane(step);
                }
                Ok(())
            }
            Call::Wake(waker) => catch(|| waker.wake()),
            Call::Watch(watch) => catch(|| watch.fire()),
            Call::Main(run) => {
                self.core().inspect(|core| core.main.poll(run));
                Ok(())
            }
            Call::MainDone(run) => {
                if let Some(core) = self.core()
                    && let Some(depth) = core.main.depth(run)
                {
                    core.engine.stop_run(depth);
                }
                Ok(())
            }
            Call::Stop => {
                self.core().inspect(|core| core.engine.stop());
                Ok(())
            }
            Call::Io(source, readiness) => {
                self.run_transport_step(
                    |core| source.io_ready(core, readiness),
                    "Serving a transport failed",
                );
                Ok(())
            }
            Call::Deferred(source, deferred) => {
                self.run_transport_step(
                    |core| source.run_deferred(core, deferred),
                    "A protocol's callback failed",
                );
                Ok(())
            }
        };
        if let Err(text) = ran {
            self.report_exception(ExceptionContext::from_panic("A callback panicked", text));
        }
    }

    /// Runs a call in debug mode, or on a loop that is watched for stalls.
    #[cold]
    fn run_observed(&self, call: Call) {
        let run = |call| if self.debug_mode.is_on() { self.run_timed(call) } else { self.run(call) };
        self.running_call.show(call, run);
    }

    /// Runs a call in debug mode. The steps of tasks are timed where their names are known.
    #[cold]
    fn run_timed(&self, call: Call) {
        let timed = match &call {
            Call::Handle(_, callback) => TimedCall::Call(callback.priority().lane, callback.location()),
            Call::Once(_) => TimedCall::FromOtherThread,
            Call::Watch(_) => TimedCall::Watch,
            Call::Main(_) => TimedCall::Main,
            Call::Io(..) | Call::Deferred(..) => TimedCall::Transport,
            Call::Task(..) | Call::Wake(_) | Call::MainDone(_) | Call::Stop => return self.run(call),
        };
        match self.core() {
            Some(core) => core.time(|| timed, || self.run(call)),
            None => self.run(call),
        }
    }
}

/// Runs a step of a task whose lane is not the normal one.
#[inline(never)]
fn run_in_lane(step: Step) {
    let priority = step.header().begin_step();
    priority.run(|| step.run());
}

impl Host for RustHost {
    const MAY_SPIN_ON_INBOX: bool = true;

    type Call = Call;
    type Handle = Call;
    type Watch = Rc<dyn Watch>;
    type Source = Rc<dyn Source>;
    type Owner = ();
    type Inbound = Inbound;
    type Error = Failure;

    #[inline(always)]
    fn run_call(&self, call: Call) -> Result<(), Failure> {
        if self.debug_mode.is_on() | self.running_call.is_watched() {
            self.run_observed(call);
        } else {
            self.run(call);
        }
        Ok(())
    }

    #[inline]
    fn io_ready(&self, source: Rc<dyn Source>, readiness: Readiness) -> Option<Call> {
        // A waker may panic. The event is then handled as if no task had waited.
        match catch(|| source.transport_impl().is_some_and(|transport| transport.wake_reader(readiness))) {
            Ok(true) => return None,
            Ok(false) => {}
            Err(text) => self.report_exception(ExceptionContext::from_panic("A waker panicked", text)),
        }
        Some(Call::Io(source, readiness))
    }

    fn scope_ended(&self, source: Rc<dyn Source>) -> Result<(), Failure> {
        self.run_transport_step(|core| source.scope_ended(core), "Serving a transport failed");
        Ok(())
    }

    fn displaced(&self, watch: Rc<dyn Watch>) {
        if let Err(text) = catch(|| watch.cancel()) {
            self.report_exception(ExceptionContext::from_panic("A waker panicked", text));
        }
    }

    fn lane(&self, call: &Call) -> EngineLane {
        match call {
            Call::Task(step) => step.header().next_lane(),
            Call::Handle(lane, _) => lane.engine_lane(),
            _ => EngineLane::Normal,
        }
    }

    fn max_overdue(&self, call: &Call) -> Option<Duration> {
        match call {
            Call::Task(step) => step.header().limit(),
            Call::Handle(_, callback) => callback.priority().limit.get(),
            _ => None,
        }
    }

    fn may_shuffle(&self, call: &Call) -> bool {
        matches!(call, Call::Task(_) | Call::Main(_))
    }

    fn deadlocked(&self) -> Result<(), Failure> {
        match self.core().map(|core| core.check_deadlock()) {
            Some(Err(error)) => Err(Failure::Run(Box::new(error))),
            _ => Ok(()),
        }
    }

    fn waits_for_io(&self, fds: &[RawFd]) -> Result<(), Failure> {
        match self.core().filter(|_| self.refuses_real_io()) {
            Some(core) => Err(Failure::Run(Box::new(Error::RealIo(RealIoError::new(&core, fds))))),
            None => Ok(()),
        }
    }

    fn receive(&self, inbound: Inbound) -> Option<Call> {
        inbound.into_call()
    }

    fn on_iteration_begin(&self) -> Result<(), Failure> {
        self.run_hook("on_iteration_begin", || self.hooks.call_iteration_begin());
        Ok(())
    }

    fn on_iteration_end(&self) -> Result<(), Failure> {
        self.run_hook("on_iteration_end", || self.hooks.call_iteration_end());
        Ok(())
    }

    fn on_idle(&self, timeout: Option<Duration>) -> Result<(), Failure> {
        self.run_hook("on_idle", || self.hooks.call_idle(timeout));
        Ok(())
    }

    fn blocking(&self, wait: &mut dyn FnMut()) {
        wait();
    }

    fn interrupted(&self) -> Result<(), Failure> {
        Ok(())
    }

    fn os_error(&self, error: io::Error) -> Failure {
        Failure::Io(error)
    }

    fn merge_errors(&self, first: Failure, second: Failure) -> Failure {
        self.report_exception(ExceptionContext::from_failure("Another failure in the same step", second));
        first
    }
}

impl TransportHost for RustHost {
    type Channel = OwnedFd;
    type Chunk = Vec<u8>;

    /// All transports have the same name, so that they can be counted.
    fn owner(&self, _: &Rc<dyn Source>) -> Option<()> {
        Some(())
    }

    fn deferred_call(&self, source: &Rc<dyn Source>, deferred: DeferredCall) -> Result<Call, Failure> {
        Ok(Call::Deferred(Rc::clone(source), deferred))
    }

    fn report(&self, _: &Rc<dyn Source>, failure: Failure, message: &str) -> Result<(), Failure> {
        self.report_exception(ExceptionContext::from_failure(message, failure));
        Ok(())
    }

    /// System errors go to `connection_lost` only; panics also go to the exception handler.
    fn report_fatal(&self, _: &Rc<dyn Source>, failure: Failure, message: &str) -> Result<Failure, Failure> {
        if let Failure::Panic(text) = &failure {
            self.report_exception(ExceptionContext::from_panic(message, text.clone()));
        }
        Ok(failure)
    }

    fn warn_write_after_loss(&self, _: &Rc<dyn Source>) -> Result<(), Failure> {
        self.report_exception(ExceptionContext::new("Data is written to a connection that is gone"));
        Ok(())
    }
}
