//! The engine: one loop, generic over the face it runs under.
//!
//! # One pass
//!
//! [`Engine::run_once`] is the whole loop; everything else feeds it:
//!
//! 1. decide how long to wait: not at all if anything is ready or the loop is stopping; until the nearest
//!    deadline; else for ever;
//! 2. wait for I/O (a busy loop may skip this for a bounded time), with nothing of the engine borrowed;
//! 3. turn I/O events, signals and other threads' calls into ready calls;
//! 4. move the timers that are due to the ready calls;
//! 5. run exactly what was ready when the pass began to run: what that schedules waits for the next pass.
//!
//! # Ground rules
//!
//! - One thread at a time uses an engine; other threads reach only its [`Inbox`] through an `Arc`.
//! - Any call out (through [`Host`], or by dropping a value of a host's type) may come back in. Every `RefCell`
//!   here is therefore borrowed for one operation on plain data, and values leave the borrow before they are
//!   run or dropped.

mod backlog;
mod brink;
mod fork;
mod host;
mod pass;
mod registration;
mod sources;
mod timing;
mod turn;
mod watch;

pub use crate::poller::Readiness;
pub use host::Host;
pub use registration::Registration;
pub use turn::Turn;
pub use watch::WatchTicket;

pub(crate) use sources::Occupant;

use crate::clock::{Clock, Time};
use crate::poller::{Backend, ClosedPoller, Event, Interest, Key, Parker, PeerAddress, Poller};
use crate::ready::{Lane, Lanes};
use crate::signals::{SignalPipe, SignalTable};
use crate::timers::TimerQueue;
use crate::wakeup::{EventFd, Inbox, LoopWaker};
use sources::SourceTable;
use std::cell::{Cell, RefCell};
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
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

/// What waits in a lane.
pub(crate) enum Ready<H: Host> {
    Call(H::Call),
    /// Resolved when its turn comes, so that a source that has let go of its descriptor meanwhile hears nothing.
    Io(Key, Readiness),
}

/// What the loop holds for the face, shown to Python's garbage collector.
pub enum Held<'a, H: Host> {
    /// A scheduled call.
    Call(&'a H::Call),
    /// What watches a descriptor or a signal.
    Watch(&'a H::Watch),
    /// A registered source.
    Source(&'a H::Source),
    /// What another thread has sent and nobody has taken.
    Inbound(&'a H::Inbound),
}

/// What a loop held when it was closed. To be dropped by the face one by one: any destructor may run user code, and fail.
pub enum Leftover<H: Host> {
    /// A call that did not run.
    Call(H::Call),
    /// What watched a descriptor or a signal.
    Watch(H::Watch),
    /// A registered source.
    Source(H::Source),
    /// What another thread had sent.
    Inbound(H::Inbound),
}

/// The blocking half of the back end and its buffer, out of the engine while a thread sleeps in it.
struct Parking {
    parker: Box<dyn Parker>,
    events: Vec<Event>,
}

/// The loop. See the module's text.
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
    skipped: pass::Skipped,
    backlog: backlog::Backlog,
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
            skipped: pass::Skipped::default(),
            backlog: backlog::Backlog::default(),
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
        self.lanes.borrow_mut().push(Lane::Normal, Ready::Call(call));
    }

    /// Makes a call ready in a lane of its own choice.
    pub fn call_soon_in(&self, lane: Lane, call: H::Call) {
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

    /// Claims received bytes; see [`Poller::recv`].
    pub fn recv(&self, fd: BorrowedFd<'_>, key: Key, buffer: &mut [u8]) -> io::Result<usize> {
        self.poller.borrow_mut().recv(fd, key, buffer)
    }

    /// Sends what the kernel takes; see [`Poller::send`].
    pub fn send(&self, fd: BorrowedFd<'_>, key: Key, chunks: &[IoSlice<'_>]) -> io::Result<usize> {
        self.poller.borrow_mut().send(fd, key, chunks)
    }

    /// Sends a part of what is to be one packet; see [`Poller::send_more`].
    pub fn send_more(&self, fd: BorrowedFd<'_>, key: Key, chunks: &[IoSlice<'_>]) -> io::Result<usize> {
        self.poller.borrow_mut().send_more(fd, key, chunks)
    }

    /// Ends the wait for the rest of a packet; see [`Poller::push`].
    pub fn push(&self, fd: BorrowedFd<'_>, key: Key) -> io::Result<()> {
        self.poller.borrow_mut().push(fd, key)
    }

    /// Reads from a pipe; see [`Poller::read`].
    pub fn read(&self, fd: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<usize> {
        self.poller.borrow_mut().read(fd, buffer)
    }

    /// Writes to a pipe what the kernel takes; see [`Poller::write`].
    pub fn write(&self, fd: BorrowedFd<'_>, chunks: &[IoSlice<'_>]) -> io::Result<usize> {
        self.poller.borrow_mut().write(fd, chunks)
    }

    /// Claims a connection; see [`Poller::accept`].
    pub fn accept(&self, fd: BorrowedFd<'_>, key: Key) -> io::Result<(OwnedFd, PeerAddress)> {
        self.poller.borrow_mut().accept(fd, key)
    }

    /// Takes one datagram; see [`Poller::recv_from`].
    pub fn recv_from(
        &self,
        fd: BorrowedFd<'_>,
        key: Key,
        buffer: &mut [u8],
    ) -> io::Result<(usize, PeerAddress)> {
        self.poller.borrow_mut().recv_from(fd, key, buffer)
    }

    /// Sends one datagram; see [`Poller::send_to`].
    pub fn send_to(
        &self,
        fd: BorrowedFd<'_>,
        key: Key,
        data: &[u8],
        destination: Option<&PeerAddress>,
    ) -> io::Result<()> {
        self.poller.borrow_mut().send_to(fd, key, data, destination)
    }

    /// Lends the loop's read buffer to `use_it`, which may call out: the buffer is out of the engine meanwhile,
    /// and a second borrower gets one of its own.
    pub fn with_scratch<R>(&self, use_it: impl FnOnce(&mut [u8]) -> R) -> R {
        self.with_scratch_of(READ_SIZE, use_it)
    }

    /// Lends so many bytes of the loop's read buffer, which grows to that size.
    pub fn with_scratch_of<R>(&self, size: usize, use_it: impl FnOnce(&mut [u8]) -> R) -> R {
        let mut scratch = self.scratch.take().unwrap_or_default();
        if scratch.len() < size {
            // Zeroed pages, which cost nothing until something is received into them.
            scratch = vec![0; size].into_boxed_slice();
        }
        let result = use_it(scratch.get_mut(..size).unwrap_or_default());
        self.scratch.set(Some(scratch));
        result
    }

    /// Takes out every call that is ready. I/O that was announced and not served is announced again.
    #[must_use = "the calls are the caller's to drop"]
    pub fn take_ready(&self) -> Vec<H::Call> {
        let ready = self.lanes.borrow_mut().clear();
        ready
            .into_iter()
            .filter_map(|ready| if let Ready::Call(call) = ready { Some(call) } else { None })
            .collect()
    }

    /// Closes the loop for good: lets go of every call, timer, registration, and of its own descriptors. Other
    /// threads' calls are refused from here on.
    #[must_use = "what is left is the face's to drop"]
    pub fn close(&self) -> Vec<Leftover<H>> {
        self.closed.set(true);
        self.backlog.clear();
        let unread = self.inbox.close();
        let ready = self.lanes.borrow_mut().clear();
        let timers = self.timers.borrow_mut().clear();
        let signals = self.signals.borrow_mut().clear();
        let sources = self.table.borrow_mut().take_all();
        for (key, entry) in &sources {
            // SAFETY: only told to the back end, which tolerates a descriptor that is gone.
            let fd = unsafe { BorrowedFd::borrow_raw(entry.fd) };
            // What cannot be taken out goes with the back end's own descriptor.
            let _ = self.poller.borrow_mut().update(fd, *key, entry.interest, Interest::NONE);
        }
        let poller = self.poller.replace(Box::new(ClosedPoller));
        let own = (self.wake.take(), self.signal_pipe.take(), self.parking.take(), poller);
        self.inbox.waker().close();
        drop(own);
        let calls = ready.into_iter().filter_map(|ready| match ready {
            Ready::Call(call) => Some(call),
            Ready::Io(..) => None,
        });
        let mut left: Vec<_> = calls.chain(timers).map(Leftover::Call).collect();
        left.extend(unread.into_iter().map(Leftover::Inbound));
        left.extend(signals.into_iter().map(|(_, watch)| Leftover::Watch(watch)));
        for (_, entry) in sources {
            match entry.occupant {
                Occupant::Watch { reader, writer } => {
                    let watches = reader.into_iter().chain(writer).map(|watched| watched.watch);
                    left.extend(watches.map(Leftover::Watch));
                }
                Occupant::Source(source) => left.push(Leftover::Source(source)),
            }
        }
        left
    }

    /// Shows everything the loop holds for the face. Skips what is being changed at this moment: Python's
    /// garbage collector then takes it for reachable, which is safe.
    pub fn for_each_held(&self, show: &mut dyn FnMut(Held<'_, H>)) {
        if let Ok(lanes) = self.lanes.try_borrow() {
            for ready in lanes.iter() {
                if let Ready::Call(call) = ready {
                    show(Held::Call(call));
                }
            }
        }
        self.inbox.for_each(&mut |inbound| show(Held::Inbound(inbound)));
        if let Ok(timers) = self.timers.try_borrow() {
            timers.iter().for_each(|call| show(Held::Call(call)));
        }
        if let Ok(signals) = self.signals.try_borrow() {
            signals.iter().for_each(|(_, watch)| show(Held::Watch(watch)));
        }
        if let Ok(table) = self.table.try_borrow() {
            for (_, entry) in table.iter() {
                match &entry.occupant {
                    Occupant::Watch { reader, writer } => {
                        reader.iter().chain(writer).for_each(|watched| show(Held::Watch(&watched.watch)));
                    }
                    Occupant::Source(source) => show(Held::Source(source)),
                }
            }
        }
    }
}
