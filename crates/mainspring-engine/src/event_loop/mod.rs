//! The engine: one loop, generic over the face it runs under.
//!
//! # One pass
//!
//! [`Engine::run_once`] is the whole loop; everything else feeds it:
//!
//! 1. decide how long to wait: not at all if anything is ready or the loop is stopping; until the nearest
//!    deadline; else for ever;
//! 2. wait for I/O, with nothing of the engine borrowed; every iteration does while a descriptor is registered;
//! 3. turn other threads' calls, I/O events and signals into ready calls;
//! 4. move the timers that are due to the ready calls;
//! 5. run exactly what was ready when the pass began to run: what that schedules waits for the next pass.
//!
//! # Ground rules
//!
//! - One thread at a time uses an engine; other threads reach only its [`Inbox`] through an `Arc`.
//! - Any call out (through [`Host`], or by dropping a value of a host's type) may come back in. Every `RefCell`
//!   here is therefore borrowed for one operation on plain data, and values leave the borrow before they are
//!   run or dropped.

mod adaptive_spin;
mod callback_scope;
mod fork;
mod gc;
mod io_budget;
mod iteration;
mod read_buffer;
mod timer_calls;

pub use callback_scope::Turn;
pub use gc::{Held, Leftover};

use crate::clock::{Clock, Time};
use crate::host::Host;
use crate::poller::{Backend, Event, Interest, Key, Parker, Poller};
use crate::ready_queue::{Lane, Lanes};
use crate::registrations::SourceTable;
use crate::signals::{SignalPipe, SignalTable};
use crate::timers::TimerQueue;
use crate::wakeup::{EventFd, Inbox, LoopWaker};
use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// How much one `recv` may take: the size of the buffer the loop reads into. About as much as asyncio's, but no multiple of
/// a page's size: blocks of such sizes begin at the same place in their pages, and a copy from one to another is half as
/// fast (processors take the addresses for the same).
pub const READ_SIZE: usize = 256_000;

/// The loop's own descriptors have keys of generation zero, which the table never gives.
const WAKE_KEY: Key = Key { slot: 0, generation: 0 };
const SIGNAL_KEY: Key = Key { slot: 1, generation: 0 };

/// In which direction a descriptor is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// To read: `add_reader`.
    Inbound,
    /// To write: `add_writer`.
    Outbound,
}

/// The blocking half of the back end and its buffer, out of the engine while a thread sleeps in it.
struct Parking {
    parker: Box<dyn Parker>,
    events: Vec<Event>,
}

/// The loop. See the module's text. It is `!Send`: a face that moves it between threads, as Python's does under the
/// interpreter lock, answers for that itself.
pub struct Engine<H: Host> {
    pub(crate) host: H,
    clock: Box<dyn Clock>,
    lanes: RefCell<Lanes<H::Call>>,
    timers: RefCell<TimerQueue<H::Call>>,
    pub(crate) table: RefCell<SourceTable<H>>,
    pub(crate) poller: RefCell<Box<dyn Poller>>,
    parking: Cell<Option<Parking>>,
    inbox: Arc<Inbox<H::Inbound>>,
    arrived: Cell<Vec<H::Inbound>>,
    wake: RefCell<Option<Arc<EventFd>>>,
    signal_pipe: RefCell<Option<Rc<SignalPipe>>>,
    signals: RefCell<SignalTable<H::Watch>>,
    scratch: Cell<Option<Box<[u8]>>>,
    stopping: Cell<bool>,
    closed: Cell<bool>,
    /// Polls that were left out since the last one.
    skipped_polls: Cell<u32>,
    /// A busy loop with registered descriptors polls in one of this many iterations.
    poll_interval: Cell<u32>,
    io_budget: io_budget::IoBudget,
    spin: adaptive_spin::AdaptiveSpin,
    turns: callback_scope::Turns<H>,
    io_lane: Cell<Lane>,
    max_overdue: Cell<Option<Duration>>,
}

impl<H: Host> Engine<H> {
    /// A loop that has nothing to do yet.
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
            closed: Cell::new(false),
            skipped_polls: Cell::new(u32::MAX),
            poll_interval: Cell::new(1),
            io_budget: io_budget::IoBudget::default(),
            spin: adaptive_spin::AdaptiveSpin::default(),
            turns: callback_scope::Turns::default(),
            io_lane: Cell::new(Lane::Normal),
            max_overdue: Cell::new(None),
        })
    }

    /// The face this engine runs under.
    pub fn host(&self) -> &H {
        &self.host
    }

    /// The time on the loop's clock.
    pub fn now(&self) -> Time {
        self.clock.now()
    }

    /// What other threads use to reach the loop.
    pub fn inbox(&self) -> &Arc<Inbox<H::Inbound>> {
        &self.inbox
    }

    /// The back end's name.
    pub fn backend_name(&self) -> &'static str {
        self.poller.borrow().name()
    }

    /// Makes a call ready: it runs in the next pass, after what is ready already.
    #[inline(always)]
    pub fn call_soon(&self, call: H::Call) {
        self.take_inbox_if_pending();
        self.lanes.borrow_mut().push(Lane::Normal, call);
    }

    /// As [`Engine::call_soon`]; gives the call back if there is no memory for it, to be dropped by the face.
    #[inline(always)]
    pub fn try_call_soon(&self, call: H::Call) -> Result<(), H::Call> {
        self.take_inbox_if_pending();
        let mut lanes = self.lanes.borrow_mut();
        if !lanes.try_reserve(Lane::Normal, 1) {
            return Err(call);
        }
        lanes.push(Lane::Normal, call);
        Ok(())
    }

    /// Makes a call ready in a lane of its own choice.
    pub fn call_soon_in(&self, lane: Lane, call: H::Call) {
        self.take_inbox_if_pending();
        self.push_ready(lane, call);
    }

    fn push_ready(&self, lane: Lane, call: H::Call) {
        match lane {
            Lane::Background => {
                let now = self.clock.now();
                self.lanes.borrow_mut().push_background(call, now);
            }
            lane => self.lanes.borrow_mut().push(lane, call),
        }
    }

    /// Serves I/O before the calls that are ready (`true`), or in turn with them as asyncio does (`false`).
    pub fn set_io_first(&self, io_first: bool) {
        self.io_lane.set(if io_first { Lane::Io } else { Lane::Normal });
        self.lanes.borrow_mut().set_io_first(io_first);
    }

    /// How long background work may wait before it runs in turn with the rest; `None`: until nothing else is ready.
    pub fn set_max_overdue(&self, limit: Option<Duration>) {
        self.max_overdue.set(limit);
    }

    /// A busy loop with registered descriptors polls for I/O in one of `iterations`; 1, in every iteration, is asyncio's
    /// rule and the default. More make long chains of callbacks cheaper and I/O later.
    pub fn set_poll_interval(&self, iterations: u32) {
        self.poll_interval.set(iterations);
    }

    /// How many calls are ready.
    pub fn ready_len(&self) -> usize {
        self.lanes.borrow().len()
    }

    /// How many descriptors are registered, the loop's own not counted.
    pub fn registered_len(&self) -> usize {
        self.table.borrow().len()
    }

    /// Ends [`Engine::run_forever`] after the pass that is under way, or after one more.
    pub fn stop(&self) {
        self.stopping.set(true);
    }

    /// Whether [`Engine::stop`] was called and not yet obeyed.
    pub fn is_stopping(&self) -> bool {
        self.stopping.get()
    }

    /// Takes a call of [`Engine::stop`] back that was not yet obeyed.
    pub fn cancel_stop(&self) {
        self.stopping.set(false);
    }

    /// Whether [`Engine::close`] was called.
    pub fn is_closed(&self) -> bool {
        self.closed.get()
    }

    /// Signal numbers written to this pipe, one byte each, run the calls of [`Engine::set_signal`].
    /// `None` once the loop is closed.
    pub fn signal_pipe(&self) -> Option<Rc<SignalPipe>> {
        self.signal_pipe.borrow().clone()
    }

    /// Calls `watch` for every `signal` that arrives at [`Engine::signal_pipe`]. The former one comes back.
    pub fn set_signal(&self, signal: i32, watch: H::Watch) -> Option<H::Watch> {
        self.signals.borrow_mut().set(signal, watch)
    }

    /// Forgets the watch for `signal`, and gives it back.
    pub fn remove_signal(&self, signal: i32) -> Option<H::Watch> {
        self.signals.borrow_mut().remove(signal)
    }
}
