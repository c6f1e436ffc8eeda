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
//!
//! # A face
//!
//! What a loop needs of its face is a [`Host`]. This one is as small as they get:
//!
//! ```
//! use mainspring::clock::MonotonicClock;
//! use mainspring::engine::{Engine, Host, Readiness};
//! use mainspring::poller::open_epoll;
//! use std::cell::RefCell;
//! use std::io;
//! use std::rc::Rc;
//!
//! /// Its calls are closures, and it knows no transports.
//! struct Plain;
//!
//! type Callback = Rc<dyn Fn()>;
//!
//! impl Host for Plain {
//!     type Call = Callback;
//!     type Watch = Callback;
//!     type Source = ();
//!     type Inbound = Box<dyn Fn() + Send>;
//!     type Error = io::Error;
//!
//!     fn run_call(&self, call: Callback) -> io::Result<()> {
//!         call();
//!         Ok(())
//!     }
//!
//!     fn io_ready(&self, (): (), _: Readiness) -> io::Result<()> {
//!         Ok(())
//!     }
//!
//!     fn turn_ended(&self, (): ()) -> io::Result<()> {
//!         Ok(())
//!     }
//!
//!     fn receive(&self, inbound: Self::Inbound) -> Callback {
//!         Rc::new(inbound)
//!     }
//!
//!     fn blocking(&self, wait: &mut dyn FnMut()) {
//!         wait();
//!     }
//!
//!     fn interrupted(&self) -> io::Result<()> {
//!         Ok(())
//!     }
//!
//!     fn os_error(&self, error: io::Error) -> io::Error {
//!         error
//!     }
//! }
//!
//! let engine = Engine::new(Plain, open_epoll()?, Box::new(MonotonicClock))?;
//! let order = Rc::new(RefCell::new(Vec::new()));
//! let note = |word| -> Callback {
//!     let order = Rc::clone(&order);
//!     Rc::new(move || order.borrow_mut().push(word))
//! };
//! engine.call_at(engine.now(), note("a timer that is due"));
//! engine.call_soon(note("what was ready"));
//! engine.run_until_idle()?;
//! assert_eq!(*order.borrow(), ["what was ready", "a timer that is due"]);
//! # Ok::<(), io::Error>(())
//! ```

mod brink;
mod claims;
mod fork;
mod held;
mod host;
mod io_budget;
mod numbers;
mod pass;
mod registration;
mod sources;
mod timing;
mod turn;
mod watch;

pub use crate::poller::Readiness;
pub use held::{Held, Leftover};
pub use host::Host;
pub use registration::Registration;
pub use turn::Turn;
pub use watch::WatchTicket;

pub(crate) use sources::{Occupant, Watches};

use crate::clock::{Clock, Time};
use crate::poller::{Backend, Event, Interest, Key, Parker, Poller};
use crate::ready::{Lane, Lanes};
use crate::signals::{SignalPipe, SignalTable};
use crate::timers::TimerQueue;
use crate::wakeup::{EventFd, Inbox, LoopWaker};
use sources::SourceTable;
use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::AsFd;
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
///
/// ```
/// use mainspring::engine::Direction;
/// use mainspring::socket_ops::Ready;
///
/// // Waits until something can be read.
/// let wait = Ready(Direction::Inbound);
/// assert_ne!(wait.0, Direction::Outbound);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// To read: `add_reader`.
    Inbound,
    /// To write: `add_writer`.
    Outbound,
}

/// What waits in a lane.
pub(crate) enum Ready<H: Host> {
    Call(H::Call),
    /// Resolved when its turn comes, so that a source that has let go of its descriptor meanwhile hears nothing.
    Io(Key, Readiness),
}

/// The blocking half of the back end and its buffer, out of the engine while a thread sleeps in it.
struct Parking {
    parker: Box<dyn Parker>,
    events: Vec<Event>,
}

/// The loop. See the module's text. It is `!Send`: a face that moves it between threads, as Python's does under the
/// interpreter lock, answers for that itself.
///
/// ```
#[doc = include_str!("../doc/plain_host.txt")]
/// use mainspring::engine::Engine;
/// use std::rc::Rc;
///
/// // `Plain` is the host of the module's example.
/// let engine = Rc::new(Engine::new(Plain, open_epoll()?, Box::new(MonotonicClock))?);
/// assert_eq!(engine.backend_name(), "epoll");
/// let _: &Plain = engine.host();
///
/// let inside = Rc::downgrade(&engine);
/// engine.call_soon(Rc::new(move || inside.upgrade().unwrap().stop()));
/// assert_eq!((engine.ready_len(), engine.registered_len()), (1, 0));
/// engine.run_forever()?;
/// assert!(engine.is_idle() && !engine.is_stopping());
///
/// let left = engine.close();
/// assert!(left.is_empty() && engine.is_closed());
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct Engine<H: Host> {
    host: H,
    clock: Box<dyn Clock>,
    lanes: RefCell<Lanes<Ready<H>>>,
    timers: RefCell<TimerQueue<H::Call>>,
    table: RefCell<SourceTable<H>>,
    poller: RefCell<Box<dyn Poller>>,
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
    brink: brink::Brink,
    turns: turn::Turns<H>,
    io_lane: Cell<Lane>,
    max_overdue: Cell<Option<Duration>>,
}

impl<H: Host> Engine<H> {
    /// A loop that has nothing to do yet.
    pub fn new(host: H, backend: Backend, clock: Box<dyn Clock>) -> io::Result<Self> {
        let Backend { mut poller, parker } = backend;
        let wake = Arc::new(EventFd::new()?);
        let signal_pipe = SignalPipe::new()?;
        poller.update(wake.as_fd(), WAKE_KEY, Interest::NONE, Interest::WAKE)?;
        poller.update(signal_pipe.as_fd(), SIGNAL_KEY, Interest::NONE, Interest::READ)?;
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
            brink: brink::Brink::default(),
            turns: turn::Turns::default(),
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
    ///
    /// ```
    #[doc = include_str!("../doc/plain_host.txt")]
    /// use mainspring::engine::Engine;
    /// use std::sync::Arc;
    /// use std::sync::mpsc;
    ///
    /// let engine = Engine::new(Plain, open_epoll()?, Box::new(MonotonicClock))?;
    /// let (inbox, (tell, told)) = (Arc::clone(engine.inbox()), mpsc::channel());
    /// let other = std::thread::spawn(move || inbox.push(Box::new(move || tell.send(42).unwrap())).is_ok());
    /// engine.run_once()?;
    /// assert_eq!(told.try_recv(), Ok(42));
    /// assert!(other.join().unwrap());
    /// # Ok::<(), std::io::Error>(())
    /// ```
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
        self.lanes.borrow_mut().push(Lane::Normal, Ready::Call(call));
    }

    /// As [`Engine::call_soon`]; gives the call back if there is no memory for it, to be dropped by the face.
    ///
    /// ```
    #[doc = include_str!("../doc/plain_host.txt")]
    /// use mainspring::engine::Engine;
    /// use std::rc::Rc;
    ///
    /// let engine = Engine::new(Plain, open_epoll()?, Box::new(MonotonicClock))?;
    /// assert!(engine.try_call_soon(Rc::new(|| ())).is_ok());
    /// assert_eq!(engine.ready_len(), 1);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[inline(always)]
    pub fn try_call_soon(&self, call: H::Call) -> Result<(), H::Call> {
        self.take_inbox_if_pending();
        let mut lanes = self.lanes.borrow_mut();
        if !lanes.try_reserve(Lane::Normal, 1) {
            return Err(call);
        }
        lanes.push(Lane::Normal, Ready::Call(call));
        Ok(())
    }

    /// Makes a call ready in a lane of its own choice.
    ///
    /// ```
    #[doc = include_str!("../doc/plain_host.txt")]
    /// use mainspring::engine::Engine;
    /// use mainspring::ready::Lane;
    /// use std::cell::RefCell;
    /// use std::rc::Rc;
    /// use std::time::Duration;
    ///
    /// let engine = Engine::new(Plain, open_epoll()?, Box::new(MonotonicClock))?;
    /// engine.set_io_first(true);
    /// engine.set_max_overdue(Some(Duration::from_secs(1)));
    /// let order = Rc::new(RefCell::new(Vec::new()));
    /// for lane in [Lane::Background, Lane::Normal, Lane::Io] {
    ///     let order = Rc::clone(&order);
    ///     engine.call_soon_in(lane, Rc::new(move || order.borrow_mut().push(lane)));
    /// }
    /// engine.run_until_idle()?;
    /// assert_eq!(*order.borrow(), [Lane::Io, Lane::Normal, Lane::Background]);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn call_soon_in(&self, lane: Lane, call: H::Call) {
        self.take_inbox_if_pending();
        self.push_ready(lane, call);
    }

    fn push_ready(&self, lane: Lane, call: H::Call) {
        match lane {
            Lane::Background => {
                let now = self.clock.now();
                self.lanes.borrow_mut().push_background(Ready::Call(call), now);
            }
            lane => self.lanes.borrow_mut().push(lane, Ready::Call(call)),
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
    ///
    /// ```
    #[doc = include_str!("../doc/plain_host.txt")]
    /// use mainspring::engine::Engine;
    ///
    /// let engine = Engine::new(Plain, open_epoll()?, Box::new(MonotonicClock))?;
    /// engine.stop();
    /// engine.cancel_stop();
    /// assert!(!engine.is_stopping());
    /// # Ok::<(), std::io::Error>(())
    /// ```
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
    ///
    /// ```
    #[doc = include_str!("../doc/plain_host.txt")]
    /// use mainspring::engine::Engine;
    /// use mainspring::signals::install;
    /// use std::cell::Cell;
    /// use std::rc::Rc;
    ///
    /// let engine = Engine::new(Plain, open_epoll()?, Box::new(MonotonicClock))?;
    /// let signal_pipe = engine.signal_pipe().expect("the loop is open");
    /// let _installed = install(10, &signal_pipe)?;
    /// let came = Rc::new(Cell::new(false));
    /// let inside = Rc::clone(&came);
    /// engine.set_signal(10, Rc::new(move || inside.set(true)));
    /// # unsafe extern "C" { safe fn raise(signal: i32) -> i32; }
    /// raise(10);
    /// engine.run_once()?;
    /// assert!(came.get());
    /// assert!(engine.remove_signal(10).is_some());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn set_signal(&self, signal: i32, watch: H::Watch) -> Option<H::Watch> {
        self.signals.borrow_mut().set(signal, watch)
    }

    /// Forgets the watch for `signal`, and gives it back.
    pub fn remove_signal(&self, signal: i32) -> Option<H::Watch> {
        self.signals.borrow_mut().remove(signal)
    }
}
