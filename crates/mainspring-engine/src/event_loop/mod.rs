//! The engine: one event loop, generic over its host.
//!
//! # One iteration
//!
//! [`Engine::run_once`] is one iteration:
//!
//! 1. compute the timeout: zero if a call is ready or the loop is stopping; else until the next deadline; else
//!    infinite;
//! 2. wait for I/O, with no engine state borrowed; while an fd is registered, every iteration polls;
//! 3. convert other threads' calls, I/O events and signals into ready calls;
//! 4. move due timers to the ready calls;
//! 5. run exactly the calls that are ready now; calls that these schedule run in the next iteration.
//!
//! # Ground rules
//!
//! - One thread at a time uses an engine. Other threads use only its [`Inbox`], through an `Arc`.
//! - A call into the [`Host`], and a drop of a value of a host type, may run user code that calls the engine. Each
//!   `RefCell` is therefore borrowed for one operation on plain data, and values leave the borrow before they are run
//!   or dropped.

mod adaptive_spin;
mod callback_scope;
mod fork;
mod gc;
mod guest;
mod hooks;
mod io_budget;
mod iteration;
mod metrics;
mod read_buffer;
mod runs;
mod shuffle;
mod timer_calls;
mod virtual_time;

pub use callback_scope::CallbackScope;
pub use gc::{GcReference, Unreleased};
pub use hooks::Hooks;
pub use metrics::{LAG_BOUNDS, LagHistogram, Metrics};
pub use shuffle::Shuffle;

use crate::clock::{Clock, Time};
use crate::host::Host;
use crate::poller::{Backend, Event, Interest, Key, Parker, Poller};
use crate::ready_queue::{Lane, Lanes};
use crate::registrations::SourceTable;
use crate::signals::{SignalPipe, SignalTable};
use crate::stalls::ProgressReport;
use crate::timers::TimerQueue;
use crate::wakeup::{EventFd, Inbox, LoopWaker};
use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// The size of the loop's receive buffer, and so the most that one `recv` returns. Close to asyncio's 256 KiB, but
/// not a multiple of the page size: between buffers with equal page offsets a copy runs at half the speed, because
/// the processor assumes that loads and stores with equal low address bits alias (4K aliasing).
pub const READ_SIZE: usize = 256_000;

/// The loop's own fds have keys of generation zero, which the registration table never assigns.
const WAKE_KEY: Key = Key { slot: 0, generation: 0 };
const SIGNAL_KEY: Key = Key { slot: 1, generation: 0 };

/// The direction in which an fd is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// For reading: `add_reader`.
    Inbound,
    /// For writing: `add_writer`.
    Outbound,
}

/// The blocking half of the back end and its event buffer. Taken out of the engine while a thread sleeps in it.
struct Parking {
    parker: Box<dyn Parker>,
    events: Vec<Event>,
}

/// The event loop. It is `!Send`: a host that moves it between threads, as Python's does under the interpreter lock,
/// must ensure exclusive access itself.
pub struct Engine<H: Host> {
    pub(crate) host: H,
    clock: Box<dyn Clock>,
    lanes: RefCell<Lanes<H::Call>>,
    timers: RefCell<TimerQueue<H::Handle>>,
    pub(crate) table: RefCell<SourceTable<H>>,
    pub(crate) poller: RefCell<Box<dyn Poller>>,
    parking: Cell<Option<Parking>>,
    inbox: Arc<Inbox<H::Inbound>>,
    arrived: Cell<Vec<H::Inbound>>,
    wake: RefCell<Option<Arc<EventFd>>>,
    signal_pipe: RefCell<Option<Rc<SignalPipe>>>,
    signals: RefCell<SignalTable<H::Watch>>,
    scratch: Cell<Option<Box<[u8]>>>,
    /// Whether the current run ends after its iteration. See `runs`.
    stopping: Cell<bool>,
    runs: runs::Runs,
    hooks: Cell<Hooks>,
    /// See `guest`.
    driver_waits: Cell<bool>,
    closed: Cell<bool>,
    /// Iterations without a poll since the last poll.
    skipped_polls: Cell<u32>,
    /// A busy loop with registered fds polls once in this many iterations.
    poll_interval: Cell<u32>,
    io_budget: io_budget::IoBudget,
    spin: adaptive_spin::AdaptiveSpin,
    scopes: callback_scope::CallbackScopes<H>,
    counters: metrics::Counters,
    progress: ProgressReport,
    max_overdue: Cell<Option<Duration>>,
    /// Whether [`Engine::recheck_background`] was called.
    rechecks_background: Cell<bool>,
    real_wait: virtual_time::RealWait,
    shuffle: Cell<Option<Shuffle>>,
}

impl<H: Host> Engine<H> {
    /// Creates an idle loop.
    pub fn new(host: H, backend: Backend, clock: Box<dyn Clock>) -> io::Result<Self> {
        let Backend { mut poller, parker } = backend;
        let wake = Arc::new(EventFd::new()?);
        let signal_pipe = SignalPipe::new()?;
        poller.update(wake.as_fd().as_raw_fd(), WAKE_KEY, Interest::NONE, Interest::WAKE)?;
        poller.update(signal_pipe.as_fd().as_raw_fd(), SIGNAL_KEY, Interest::NONE, Interest::READ)?;
        Ok(Engine {
            host,
            clock,
            lanes: RefCell::new(Lanes::new()),
            timers: RefCell::new(TimerQueue::new()),
            table: RefCell::new(SourceTable::new()),
            poller: RefCell::new(poller),
            parking: Cell::new(Some(Parking { parker, events: Vec::new() })),
            inbox: Arc::new(Inbox::new(LoopWaker::new(wake.clone()))),
            arrived: Cell::default(),
            wake: RefCell::new(Some(wake)),
            signal_pipe: RefCell::new(Some(Rc::new(signal_pipe))),
            signals: RefCell::new(SignalTable::new()),
            scratch: Cell::new(None),
            stopping: Cell::new(false),
            runs: runs::Runs::default(),
            hooks: Cell::default(),
            driver_waits: Cell::new(false),
            closed: Cell::new(false),
            skipped_polls: Cell::new(u32::MAX),
            poll_interval: Cell::new(1),
            io_budget: io_budget::IoBudget::default(),
            spin: adaptive_spin::AdaptiveSpin::default(),
            scopes: callback_scope::CallbackScopes::default(),
            counters: metrics::Counters::default(),
            progress: ProgressReport::default(),
            max_overdue: Cell::new(None),
            rechecks_background: Cell::new(false),
            real_wait: virtual_time::RealWait::default(),
            shuffle: Cell::new(None),
        })
    }

    /// The host.
    pub fn host(&self) -> &H {
        &self.host
    }

    /// The time on the loop's clock.
    pub fn now(&self) -> Time {
        self.clock.now()
    }

    /// What the loop shows to a thread that watches for stalls.
    pub(crate) fn progress(&self) -> &ProgressReport {
        &self.progress
    }

    /// The queue through which other threads reach the loop.
    pub fn inbox(&self) -> &Arc<Inbox<H::Inbound>> {
        &self.inbox
    }

    /// Schedules a call for the next iteration, after the calls that are already ready.
    #[inline(always)]
    pub fn call_soon(&self, call: H::Call) {
        self.receive_pending();
        self.lanes.borrow_mut().push_normal(call);
    }

    /// [`Engine::call_soon`] with a call that is made in its place in the queue. Otherwise it is made on the stack, and the
    /// processor waits for the copy: 6 % of the row `spawn` of `bench/peers`.
    #[inline(always)]
    pub fn call_soon_with(&self, make: impl FnOnce() -> H::Call) {
        self.receive_pending();
        self.lanes.borrow_mut().push_normal_with(make);
    }

    /// As [`Engine::call_soon`]; returns the call if there is no memory for it. The caller drops it.
    #[inline(always)]
    pub fn try_call_soon(&self, call: H::Call) -> Result<(), H::Call> {
        self.receive_pending();
        let mut lanes = self.lanes.borrow_mut();
        if !lanes.try_reserve_normal(1) {
            return Err(call);
        }
        lanes.push_normal(call);
        Ok(())
    }

    /// Schedules a call in `lane`.
    pub fn call_soon_in(&self, lane: Lane, call: H::Call) {
        self.receive_pending();
        let now = self.arrival_time(lane);
        self.push_ready(lane, call, now, &mut self.lanes.borrow_mut());
    }

    /// As [`Engine::call_soon_in`]; returns the call if there is no memory for it. The caller drops it.
    pub fn try_call_soon_in(&self, lane: Lane, call: H::Call) -> Result<(), H::Call> {
        self.receive_pending();
        let now = self.arrival_time(lane);
        let mut lanes = self.lanes.borrow_mut();
        if !lanes.try_reserve_normal(1) {
            return Err(call);
        }
        self.push_ready(lane, call, now, &mut lanes);
        Ok(())
    }

    /// The time, if calls in `lane` store it. The host's clock may run user code, so no lane is borrowed here.
    fn arrival_time(&self, lane: Lane) -> Time {
        if lane == Lane::Background { self.clock.now() } else { Time::ZERO }
    }

    /// Appends a call to `lane`, or to the normal one if there is no memory for it in `lane`.
    #[inline]
    fn push_ready(&self, lane: Lane, call: H::Call, now: Time, lanes: &mut Lanes<H::Call>) {
        let pushed = match lane {
            Lane::Normal => return lanes.push_normal(call),
            Lane::Urgent => lanes.try_push_urgent(call),
            Lane::Background => {
                let limit = self.host.max_overdue(&call);
                lanes.try_push_background(call, now, limit)
            }
        };
        if let Err(call) = pushed {
            lanes.push_normal(call);
        }
    }

    /// [`Host::lane`] of a background call has changed: the next iteration moves all calls that are not in the background
    /// lane any more, such as the next step of a cancelled task. One search for all of them.
    pub fn recheck_background(&self) {
        self.rechecks_background.set(true);
    }

    /// Puts calls back that a nested run could not run, at the front of the normal lane and in their order.
    pub fn put_back(&self, calls: Vec<H::Call>) {
        self.lanes.borrow_mut().put_back(calls);
    }

    /// Serves I/O before each ready call (`true`), or in arrival order with them, as asyncio does (`false`).
    pub fn set_io_first(&self, io_first: bool) {
        self.lanes.borrow_mut().set_io_first(io_first);
    }

    /// How long a background call without a limit of its own may wait before it runs ahead of the next normal one;
    /// `None`: until nothing else is ready.
    pub fn set_max_overdue(&self, limit: Option<Duration>) {
        self.max_overdue.set(limit);
    }

    /// A busy loop with registered fds polls once in `iterations`. 1, asyncio's rule, is the default. A larger value
    /// makes long chains of callbacks cheaper and delays I/O.
    pub fn set_poll_interval(&self, iterations: u32) {
        self.poll_interval.set(iterations);
    }

    /// The number of ready calls in `lane`.
    pub fn ready_len_of(&self, lane: Lane) -> usize {
        self.lanes.borrow().len_of(lane)
    }

    /// The number of ready calls.
    pub fn ready_len(&self) -> usize {
        self.lanes.borrow().len()
    }

    /// The number of registered fds, without the loop's own.
    pub fn registered_len(&self) -> usize {
        self.table.borrow().len()
    }

    /// Stops the innermost run after its current iteration, or after the next one if none is running.
    pub fn stop(&self) {
        self.stopping.set(true);
        self.wake_waiting_driver();
    }

    /// Whether a stop is pending.
    pub fn is_stopping(&self) -> bool {
        self.stopping.get()
    }

    /// Cancels a pending stop.
    pub fn cancel_stop(&self) {
        self.stopping.set(false);
    }

    /// Whether [`Engine::close`] was called.
    pub fn is_closed(&self) -> bool {
        self.closed.get()
    }

    /// The pipe for signal numbers, one byte each. A number that arrives runs the watch set with
    /// [`Engine::set_signal`]. `None` after close.
    pub fn signal_pipe(&self) -> Option<Rc<SignalPipe>> {
        self.signal_pipe.borrow().clone()
    }

    /// Calls `watch` for every `signal` that arrives at [`Engine::signal_pipe`]. Returns the previous watch.
    pub fn set_signal(&self, signal: i32, watch: H::Watch) -> Option<H::Watch> {
        self.signals.borrow_mut().set(signal, watch)
    }

    /// Removes and returns the watch for `signal`.
    pub fn remove_signal(&self, signal: i32) -> Option<H::Watch> {
        self.signals.borrow_mut().remove(signal)
    }
}
