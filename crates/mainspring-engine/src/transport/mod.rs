//! Transports: the state machines between a descriptor and the protocol above it.
//!
//! A transport here is asyncio's: it delivers what arrives as it arrives, queues what cannot be sent at once,
//! tells its protocol when the queue is too long and when it is short again, and ends with exactly one
//! `connection_lost`. It is written once, generic over the face: [`Upper`] is the protocol as a transport sees
//! it, [`TransportHost`] what a transport needs of its face beyond [`Host`].
//!
//! Every method takes `cx`, the engine and the transport's own handle: the transport does not hold a reference
//! to itself, so its owner (a Python object, an `Rc`) stays the only thing that keeps it alive.
//!
//! # Failures
//!
//! What a method here gives back as `Err` is a failure of the face: of its protocol, where a transport has nothing to do
//! about it, or of its host. Whoever called reports it, as [`Host::run_call`] does; the transport is in order all the same.
//! Failures of the system come back only where it is said. All others go to [`TransportHost::report`], or end the
//! transport through [`TransportHost::report_fatal`].
//!
//! # Threads
//!
//! A transport belongs to its loop, and one thread at a time uses both. Neither is `Send`: a face that moves them between
//! threads, as Python's does under the interpreter lock, answers for that itself.
//!
//! # A face and a protocol
//!
//! A face that has nothing but connections, and a protocol that writes down what it is told:
//!
//! ```
//! use mainspring_engine::clock::MonotonicClock;
//! use mainspring_engine::{Engine, Host, Readiness};
//! use mainspring_engine::poller::open_epoll;
//! use mainspring_engine::transport::{Claim, Cx, Notice, Stream, TransportHost, Upper};
//! use std::cell::{OnceCell, RefCell};
//! use std::io::{self, Write};
//! use std::net::Shutdown;
//! use std::os::fd::OwnedFd;
//! use std::os::unix::net::UnixStream;
//! use std::rc::{Rc, Weak};
//!
//! type Connection = Rc<Stream<Face, Record>>;
//!
//! /// What this face schedules.
//! enum Call {
//!     Io(Connection, Readiness),
//!     Notice(Connection, Notice),
//! }
//! # #[derive(Clone)]
//! # enum Never {}
//! # impl From<Never> for Call {
//! #     fn from(never: Never) -> Self {
//! #         match never {}
//! #     }
//! # }
//!
//! #[derive(Default)]
//! struct Face(OnceCell<Weak<Engine<Face>>>);
//!
//! impl Face {
//!     fn engine(&self) -> Rc<Engine<Face>> {
//!         self.0.get().and_then(Weak::upgrade).expect("a loop is there while it runs")
//!     }
//! }
//!
//! impl Host for Face {
//!     type Call = Call;
//!     type Watch = Never;
//!     type Source = Connection;
//!     type Inbound = ();
//!     type Error = io::Error;
//!
//!     fn run_call(&self, call: Call) -> io::Result<()> {
//!         let engine = self.engine();
//!         match call {
//!             Call::Io(this, readiness) => this.io_ready(Cx { engine: &engine, this: &this }, readiness),
//!             Call::Notice(this, notice) => this.notified(Cx { engine: &engine, this: &this }, notice),
//!         }
//!     }
//!
//!     fn io_ready(&self, this: Connection, readiness: Readiness) -> Option<Call> {
//!         Some(Call::Io(this, readiness))
//!     }
//!
//!     fn turn_ended(&self, this: Connection) -> io::Result<()> {
//!         this.turn_ended(Cx { engine: &self.engine(), this: &this });
//!         Ok(())
//!     }
//! #
//! #     fn receive(&self, (): ()) -> Call {
//! #         unreachable!("no other thread is there")
//! #     }
//! #
//! #     fn blocking(&self, wait: &mut dyn FnMut()) {
//! #         wait();
//! #     }
//! #
//! #     fn interrupted(&self) -> io::Result<()> {
//! #         Ok(())
//! #     }
//! #
//! #     fn os_error(&self, error: io::Error) -> io::Error {
//! #         error
//! #     }
//! }
//!
//! impl TransportHost for Face {
//!     type Channel = OwnedFd;
//!     type Chunk = Vec<u8>;
//!
//!     fn notice(&self, this: &Connection, notice: Notice) -> io::Result<Call> {
//!         Ok(Call::Notice(Rc::clone(this), notice))
//!     }
//!
//!     fn report(&self, _: &Connection, error: io::Error, message: &str) -> io::Result<()> {
//!         eprintln!("{message}: {error}");
//!         Ok(())
//!     }
//!
//!     fn report_fatal(&self, this: &Connection, error: io::Error, message: &str) -> io::Result<io::Error> {
//!         self.report(this, error.kind().into(), message)?;
//!         Ok(error)
//!     }
//!
//!     fn warn_write_after_loss(&self, _: &Connection) -> io::Result<()> {
//!         Ok(())
//!     }
//! }
//!
//! #[derive(Clone, Default)]
//! struct Record(Rc<RefCell<Vec<String>>>);
//!
//! impl Record {
//!     fn note(&self, what: &str) -> io::Result<()> {
//!         self.0.borrow_mut().push(what.to_owned());
//!         Ok(())
//!     }
//! }
//!
//! impl Upper<Face> for Record {
//!     fn connection_made(&self, _: Cx<'_, Face>) -> io::Result<()> {
//!         self.note("made")
//!     }
//!
//!     fn data_received(&self, _: Cx<'_, Face>, data: &[u8]) -> io::Result<()> {
//!         self.note(&String::from_utf8_lossy(data))
//!     }
//!
//!     fn eof_received(&self, _: Cx<'_, Face>) -> io::Result<bool> {
//!         self.note("eof").map(|()| false)
//!     }
//!
//!     fn connection_lost(&self, _: Cx<'_, Face>, error: Option<io::Error>) -> io::Result<()> {
//!         self.note(if error.is_some() { "failed" } else { "lost" })
//!     }
//!
//!     fn is_buffered(&self) -> bool {
//!         false
//!     }
//! #
//! #     fn receive_into(&self, _: Cx<'_, Face>, _: Claim<'_>) -> io::Result<io::Result<usize>> {
//! #         unreachable!("it is not buffered")
//! #     }
//! #
//! #     fn buffer_updated(&self, _: Cx<'_, Face>, _: usize) -> io::Result<()> {
//! #         unreachable!("it is not buffered")
//! #     }
//! #
//! #     fn pause_writing(&self, _: Cx<'_, Face>) -> io::Result<()> {
//! #         self.note("pause")
//! #     }
//! #
//! #     fn resume_writing(&self, _: Cx<'_, Face>) -> io::Result<()> {
//! #         self.note("resume")
//! #     }
//! #
//! #     fn detach(&self, _: Cx<'_, Face>) -> io::Result<()> {
//! #         Ok(())
//! #     }
//! }
//!
//! let engine = Rc::new(Engine::new(Face::default(), open_epoll()?, Box::new(MonotonicClock))?);
//! # assert!(engine.host().0.set(Rc::downgrade(&engine)).is_ok());
//! let (here, mut there) = UnixStream::pair()?;
//! here.set_nonblocking(true)?;
//! let told = Record::default();
//! let connection = Rc::new(Stream::new(OwnedFd::from(here), told.clone()));
//! connection.open(Cx { engine: &engine, this: &connection })?;
//!
//! there.write_all(b"hello")?;
//! there.shutdown(Shutdown::Write)?;
//! engine.run_until_idle()?;
//! assert_eq!(*told.0.borrow(), ["made", "hello", "eof", "lost"]);
//! # Ok::<(), io::Error>(())
//! ```

mod datagram;
mod endpoint;
mod flow_control;
mod listener;
mod pipe;
mod stream;
mod write_buffer;
mod write_coalescing;
mod write_queue;

pub use datagram::{
    Burst, Datagram, DatagramUpper, Destination, MAX_DATAGRAM, Queued, QueuedDatagram, Received, Refusal,
};
pub use flow_control::{FlowControl, WaterMarks};
pub use listener::{Acceptor, Listener};
pub use pipe::{PipeKind, ReadPipe, WritePipe, prepare_pipe};
pub use stream::Stream;
pub use write_queue::WriteQueue;

use crate::memory;
use crate::{Engine, Host};
use std::cell::Cell;
use std::io;
use std::os::fd::AsFd;

/// What a transport needs of its face beyond [`Host`].
pub trait TransportHost: Host {
    /// The owner of a stream's descriptor. Dropping it closes the descriptor, and nothing else does.
    type Channel: AsFd;

    /// Bytes that wait to be sent, kept alive by the queue.
    type Chunk: AsRef<[u8]>;

    /// A call that will [`Stream::notified`] (or [`Listener::notified`]) this source of `notice`.
    fn notice(&self, source: &Self::Source, notice: Notice) -> Result<Self::Call, Self::Error>;

    /// The call for [`Notice::ConnectionLost`], for a face whose calls show what the connection was lost by. The
    /// protocol is told the error itself, whatever becomes of this.
    fn lost_notice(
        &self,
        source: &Self::Source,
        _error: Option<&Self::Error>,
    ) -> Result<Self::Call, Self::Error> {
        self.notice(source, Notice::ConnectionLost)
    }

    /// Something went wrong on a transport that goes on living: tells the exception handler. A failure that
    /// has to end the loop comes back.
    fn report(&self, source: &Self::Source, error: Self::Error, message: &str) -> Result<(), Self::Error>;

    /// Something went wrong that ends the transport: tells the exception handler, or a log where the system's
    /// everyday failures go, and gives the failure back for `connection_lost`. `Err` as in
    /// [`TransportHost::report`].
    fn report_fatal(
        &self,
        source: &Self::Source,
        error: Self::Error,
        message: &str,
    ) -> Result<Self::Error, Self::Error>;

    /// Data was written to a transport whose connection is gone, for the fifth time or more.
    fn warn_write_after_loss(&self, source: &Self::Source) -> Result<(), Self::Error>;
}

/// The deferred steps of a transport's life: each is a call of its own in the loop's order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// Tell the protocol that it is connected.
    ConnectionMade,
    /// Begin to deliver data; its own step because asyncio reads only after `connection_made` has run, also
    /// if that failed.
    StartReading,
    /// Tell the protocol that there is nothing more to read. Only pipes tell it by a step of its own: a connection
    /// waits for the answer.
    EofReceived,
    /// Tell the protocol that the connection is gone, and close the descriptor.
    ConnectionLost,
    /// Accept again after the system ran out of something.
    ResumeAccepting,
    /// TLS: go on delivering what has arrived.
    ContinueReading,
    /// TLS: the handshake has taken too long.
    HandshakeTimeout,
    /// TLS: the shutdown has taken too long.
    ShutdownTimeout,
    /// TLS: all is said; close the transport below.
    CloseLower,
}

/// Why a call on a transport was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteRefused {
    /// `write_eof` was called before.
    AfterEof,
    /// Somebody has reserved the sending end.
    Reserved,
}

/// From so many writes on a lost connection on, each one is worth a warning (asyncio's number).
const WARN_AFTER_LOST_WRITES: u32 = 5;

/// Counts a write on a connection that is gone, after `writes` of them; the host is told of one that is worth it.
#[cold]
pub fn count_lost_write<H: TransportHost>(cx: Cx<'_, H>, writes: &Cell<u32>) -> Result<(), H::Error> {
    let before = writes.get();
    writes.set(before.saturating_add(1));
    if before >= WARN_AFTER_LOST_WRITES { cx.host().warn_write_after_loss(cx.this) } else { Ok(()) }
}

/// The engine and the transport's own handle, for one call.
pub struct Cx<'a, H: Host> {
    /// The loop the transport lives on.
    pub engine: &'a Engine<H>,
    /// The transport's handle, as the engine holds it.
    pub this: &'a H::Source,
}

impl<H: Host> Clone for Cx<'_, H> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<H: Host> Copy for Cx<'_, H> {}

impl<'a, H: Host> Cx<'a, H> {
    /// The host of the engine.
    pub fn host(&self) -> &'a H {
        self.engine.host()
    }

    /// Schedules a step; fails if there is no memory for it.
    pub fn call_soon(&self, call: H::Call) -> Result<(), H::Error> {
        match self.engine.try_call_soon(call) {
            Ok(()) => Ok(()),
            Err(call) => {
                drop(call);
                Err(self.out_of_memory())
            }
        }
    }

    /// The failure of something that there is no memory for.
    pub fn out_of_memory(&self) -> H::Error {
        self.host().os_error(memory::out_of_memory())
    }
}

/// Whether a claim is to be made again when the kernel announces something: nothing was there, or a back end let a
/// signal interrupt it.
fn is_retryable(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// A claim into a buffer that the protocol provides: gives how much was received.
pub type Claim<'a> = &'a mut dyn FnMut(&mut [u8]) -> io::Result<usize>;

/// The protocol above a stream transport. Every method may call any method of any transport, this one included.
pub trait Upper<H: Host> {
    /// The connection stands.
    fn connection_made(&self, cx: Cx<'_, H>) -> Result<(), H::Error>;

    /// Whether the protocol brings its own buffers ([`Upper::receive_into`]) instead of taking
    /// [`Upper::data_received`].
    fn is_buffered(&self) -> bool;

    /// Bytes arrived; never none.
    fn data_received(&self, cx: Cx<'_, H>, data: &[u8]) -> Result<(), H::Error>;

    /// The same for a transport that can give the bytes away: those of `chunk` from `skip` on, never none.
    fn chunk_received(&self, cx: Cx<'_, H>, chunk: H::Chunk, skip: usize) -> Result<(), H::Error>
    where
        H: TransportHost,
    {
        self.data_received(cx, chunk.as_ref().get(skip..).unwrap_or_default())
    }

    /// Asks the protocol for a buffer and lets `claim` fill it. `Err` is the protocol's failure to give one.
    fn receive_into(&self, cx: Cx<'_, H>, claim: Claim<'_>) -> Result<io::Result<usize>, H::Error>;

    /// So many bytes of the last buffer were filled.
    fn buffer_updated(&self, cx: Cx<'_, H>, filled: usize) -> Result<(), H::Error>;

    /// The peer sends no more. `true` keeps the transport open for writing.
    fn eof_received(&self, cx: Cx<'_, H>) -> Result<bool, H::Error>;

    /// The connection is gone; `None` if it was closed in order. Called last, and once.
    fn connection_lost(&self, cx: Cx<'_, H>, error: Option<H::Error>) -> Result<(), H::Error>;

    /// More waits to be sent than the high-water mark.
    fn pause_writing(&self, cx: Cx<'_, H>) -> Result<(), H::Error>;

    /// What waits to be sent is down to the low-water mark again.
    fn resume_writing(&self, cx: Cx<'_, H>) -> Result<(), H::Error>;

    /// For whoever has reserved the sending end: nothing is queued any more, or the connection is gone.
    fn drained(&self, cx: Cx<'_, H>) -> Result<(), H::Error> {
        let _ = cx;
        Ok(())
    }

    /// Drops everything the protocol side holds for this connection: the transport is at its end.
    fn detach(&self, cx: Cx<'_, H>) -> Result<(), H::Error>;
}
