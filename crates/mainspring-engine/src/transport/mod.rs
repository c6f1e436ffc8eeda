//! Transports: the state machines between an fd and a protocol.
//!
//! Transports follow asyncio: a transport delivers data as it arrives, queues data that cannot be sent at once,
//! pauses and resumes its protocol by the size of that queue, and ends with exactly one `connection_lost`. Each is
//! generic over the host: [`ProtocolSink`] is the protocol, [`TransportHost`] the part of the host that transports need
//! beyond [`Host`].
//!
//! Every method takes `cx`, the engine and the transport's own handle. The transport holds no reference to itself, so
//! its owner (a Python object, an `Rc`) alone keeps it alive.
//!
//! # Failures
//!
//! An `Err` from a method is an error of the protocol, where the transport does not handle it, or of the host. The
//! caller reports it, as [`Host::run_call`] does; the transport stays consistent. System errors are returned only
//! where documented. All others go to [`TransportHost::report`], or end the transport through
//! [`TransportHost::report_fatal`].
//!
//! # Threads
//!
//! A transport belongs to its loop, and one thread at a time uses both. Neither is `Send`: a host that moves them
//! between threads, as Python's does under the interpreter lock, must ensure exclusive access itself.
//!
//! # Example
//!
//! A host with connections only, and a protocol that records its callbacks:
//!
//! ```
//! use mainspring_engine::clock::MonotonicClock;
//! use mainspring_engine::{Engine, Host, Readiness};
//! use mainspring_engine::poller::open_epoll;
//! use mainspring_engine::transport::{RecvFn, Cx, DeferredCall, Stream, TransportHost, ProtocolSink};
//! use std::cell::{OnceCell, RefCell};
//! use std::io::{self, Write};
//! use std::net::Shutdown;
//! use std::os::fd::OwnedFd;
//! use std::os::unix::net::UnixStream;
//! use std::rc::{Rc, Weak};
//!
//! type Connection = Rc<Stream<ExampleHost, Record>>;
//!
//! /// The calls of this host.
//! enum Call {
//!     Io(Connection, Readiness),
//!     Deferred(Connection, DeferredCall),
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
//! struct ExampleHost(OnceCell<Weak<Engine<ExampleHost>>>);
//!
//! impl ExampleHost {
//!     fn engine(&self) -> Rc<Engine<ExampleHost>> {
//!         self.0.get().and_then(Weak::upgrade).expect("the engine exists while it runs")
//!     }
//! }
//!
//! impl Host for ExampleHost {
//!     type Call = Call;
//!     type Handle = Call;
//!     type Watch = Never;
//!     type Source = Connection;
//!     type Owner = ();
//!     type Inbound = ();
//!     type Error = io::Error;
//!
//!     fn run_call(&self, call: Call) -> io::Result<()> {
//!         let engine = self.engine();
//!         match call {
//!             Call::Io(this, readiness) => this.io_ready(Cx { engine: &engine, this: &this }, readiness),
//!             Call::Deferred(this, deferred) => this.run_deferred(Cx { engine: &engine, this: &this }, deferred),
//!         }
//!     }
//!
//!     fn io_ready(&self, this: Connection, readiness: Readiness) -> Option<Call> {
//!         Some(Call::Io(this, readiness))
//!     }
//!
//!     fn scope_ended(&self, this: Connection) -> io::Result<()> {
//!         this.scope_ended(Cx { engine: &self.engine(), this: &this });
//!         Ok(())
//!     }
//! #
//! #     fn receive(&self, (): ()) -> Option<Call> {
//! #         unreachable!("there is no other thread")
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
//! impl TransportHost for ExampleHost {
//!     type Channel = OwnedFd;
//!     type Chunk = Vec<u8>;
//!
//!     fn deferred_call(&self, this: &Connection, deferred: DeferredCall) -> io::Result<Call> {
//!         Ok(Call::Deferred(Rc::clone(this), deferred))
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
//! impl ProtocolSink<ExampleHost> for Record {
//!     fn connection_made(&self, _: Cx<'_, ExampleHost>) -> io::Result<()> {
//!         self.note("made")
//!     }
//!
//!     fn data_received(&self, _: Cx<'_, ExampleHost>, data: &[u8]) -> io::Result<()> {
//!         self.note(&String::from_utf8_lossy(data))
//!     }
//!
//!     fn eof_received(&self, _: Cx<'_, ExampleHost>) -> io::Result<bool> {
//!         self.note("eof").map(|()| false)
//!     }
//!
//!     fn connection_lost(&self, _: Cx<'_, ExampleHost>, error: Option<io::Error>) -> io::Result<()> {
//!         self.note(if error.is_some() { "failed" } else { "lost" })
//!     }
//!
//!     fn is_buffered(&self) -> bool {
//!         false
//!     }
//! #
//! #     fn receive_into(&self, _: Cx<'_, ExampleHost>, _: RecvFn<'_>) -> io::Result<io::Result<usize>> {
//! #         unreachable!("it is not buffered")
//! #     }
//! #
//! #     fn buffer_updated(&self, _: Cx<'_, ExampleHost>, _: usize) -> io::Result<()> {
//! #         unreachable!("it is not buffered")
//! #     }
//! #
//! #     fn pause_writing(&self, _: Cx<'_, ExampleHost>) -> io::Result<()> {
//! #         self.note("pause")
//! #     }
//! #
//! #     fn resume_writing(&self, _: Cx<'_, ExampleHost>) -> io::Result<()> {
//! #         self.note("resume")
//! #     }
//! #
//! #     fn detach(&self, _: Cx<'_, ExampleHost>) -> io::Result<()> {
//! #         Ok(())
//! #     }
//! }
//!
//! let engine = Rc::new(Engine::new(ExampleHost::default(), open_epoll()?, Box::new(MonotonicClock))?);
//! # assert!(engine.host().0.set(Rc::downgrade(&engine)).is_ok());
//! let (here, mut there) = UnixStream::pair()?;
//! here.set_nonblocking(true)?;
//! let record = Record::default();
//! let connection = Rc::new(Stream::new(OwnedFd::from(here), record.clone()));
//! connection.open(Cx { engine: &engine, this: &connection })?;
//!
//! there.write_all(b"hello")?;
//! there.shutdown(Shutdown::Write)?;
//! engine.run_until_idle()?;
//! assert_eq!(*record.0.borrow(), ["made", "hello", "eof", "lost"]);
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
    Burst, Datagram, DatagramSink, Destination, MAX_DATAGRAM, Queued, QueuedDatagram, Received, Refusal,
};
pub use endpoint::Transport;
pub use flow_control::{FlowControl, WaterMarks, complete_water_marks};
pub use listener::{Acceptor, Listener};
pub use pipe::{PipeKind, ReadPipe, WritePipe, prepare_pipe};
pub use stream::Stream;
pub use write_queue::WriteQueue;

use crate::memory;
use crate::{Engine, Host};
use std::cell::Cell;
use std::io;
use std::os::fd::AsFd;

/// The part of a host that transports need beyond [`Host`].
pub trait TransportHost: Host {
    /// The owner of a transport's fd. Dropping it closes the fd, and nothing else does.
    type Channel: AsFd;

    /// Queued bytes, owned by the queue.
    type Chunk: AsRef<[u8]>;

    /// The host's name for a transport, for [`Engine::owner_of`](crate::Engine::owner_of).
    fn owner(&self, source: &Self::Source) -> Option<Self::Owner> {
        let _ = source;
        None
    }

    /// A call that runs [`Stream::run_deferred`] (or [`Listener::run_deferred`]) of `source` with `deferred`.
    fn deferred_call(
        &self,
        source: &Self::Source,
        deferred: DeferredCall,
    ) -> Result<Self::Handle, Self::Error>;

    /// The call for [`DeferredCall::ConnectionLost`], for a host that shows the error in the call. The protocol gets the
    /// error regardless of this call.
    fn deferred_connection_lost(
        &self,
        source: &Self::Source,
        _error: Option<&Self::Error>,
    ) -> Result<Self::Handle, Self::Error> {
        self.deferred_call(source, DeferredCall::ConnectionLost)
    }

    /// Reports an error that does not end the transport to the exception handler. Returns an error that must stop the
    /// loop.
    fn report(&self, source: &Self::Source, error: Self::Error, message: &str) -> Result<(), Self::Error>;

    /// Reports an error that ends the transport: to the exception handler, or to a log if it is a common system
    /// error. Returns the error for `connection_lost`. `Err` as in [`TransportHost::report`].
    fn report_fatal(
        &self,
        source: &Self::Source,
        error: Self::Error,
        message: &str,
    ) -> Result<Self::Error, Self::Error>;

    /// Warns of a write to a lost connection, from the fifth on.
    fn warn_write_after_loss(&self, source: &Self::Source) -> Result<(), Self::Error>;
}

/// The deferred steps of a transport. Each is a separate call in the loop's order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeferredCall {
    /// Call `connection_made`.
    ConnectionMade,
    /// Start to deliver data. A separate step, because asyncio starts to read only after `connection_made` has run,
    /// even if that failed.
    StartReading,
    /// Call `eof_received`. Only pipes use a separate step: a stream needs the result at once.
    EofReceived,
    /// Call `connection_lost`, and close the fd.
    ConnectionLost,
    /// Accept again after the system ran out of a resource.
    ResumeAccepting,
    /// TLS: continue to deliver received data.
    ContinueReading,
    /// TLS: the handshake timed out.
    HandshakeTimeout,
    /// TLS: the shutdown timed out.
    ShutdownTimeout,
    /// TLS: the shutdown is complete; close the lower transport.
    CloseLower,
}

/// Why a write was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteRefused {
    /// After `write_eof`.
    AfterEof,
    /// While the sending direction is reserved ([`Stream::reserve_writing`]).
    Reserved,
}

/// The number of writes on a lost connection from which on each is worth a warning (asyncio's number).
const WARN_AFTER_LOST_WRITES: u32 = 5;

/// Counts a write on a lost connection, and warns from the limit on.
#[cold]
pub fn count_lost_write<H: TransportHost>(cx: Cx<'_, H>, writes: &Cell<u32>) -> Result<(), H::Error> {
    let before = writes.get();
    writes.set(before.saturating_add(1));
    if before >= WARN_AFTER_LOST_WRITES { cx.host().warn_write_after_loss(cx.this) } else { Ok(()) }
}

/// The engine and the transport's own handle, for one call.
pub struct Cx<'a, H: Host> {
    /// The loop of the transport.
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

    /// Schedules a call; fails if there is no memory.
    pub fn call_soon(&self, call: impl Into<H::Call>) -> Result<(), H::Error> {
        let call = call.into();
        if self.host().schedules(&call)? {
            return Ok(());
        }
        match self.engine.try_call_soon(call) {
            Ok(()) => Ok(()),
            Err(call) => {
                drop(call);
                Err(self.out_of_memory())
            }
        }
    }

    /// An out-of-memory error.
    pub fn out_of_memory(&self) -> H::Error {
        self.host().os_error(memory::out_of_memory())
    }
}

/// Whether to repeat the system call at the next readiness event.
fn is_retryable(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// Receives into a buffer of the protocol. Returns the number of bytes.
pub type RecvFn<'a> = &'a mut dyn FnMut(&mut [u8]) -> io::Result<usize>;

/// The protocol above a stream transport. Every method may call any method of any transport, this one included.
pub trait ProtocolSink<H: Host> {
    /// The connection is established.
    fn connection_made(&self, cx: Cx<'_, H>) -> Result<(), H::Error>;

    /// Whether the protocol supplies buffers ([`ProtocolSink::receive_into`]) instead of taking [`ProtocolSink::data_received`].
    fn is_buffered(&self) -> bool;

    /// Bytes arrived; `data` is not empty.
    fn data_received(&self, cx: Cx<'_, H>, data: &[u8]) -> Result<(), H::Error>;

    /// As [`ProtocolSink::data_received`], for a transport that can give the bytes away: those of `chunk` from `skip` on,
    /// not empty.
    fn chunk_received(&self, cx: Cx<'_, H>, chunk: H::Chunk, skip: usize) -> Result<(), H::Error>
    where
        H: TransportHost,
    {
        self.data_received(cx, chunk.as_ref().get(skip..).unwrap_or_default())
    }

    /// Gets a buffer from the protocol and lets `claim` fill it. `Err` is the protocol's error.
    fn receive_into(&self, cx: Cx<'_, H>, claim: RecvFn<'_>) -> Result<io::Result<usize>, H::Error>;

    /// The protocol's last buffer got `filled` bytes.
    fn buffer_updated(&self, cx: Cx<'_, H>, filled: usize) -> Result<(), H::Error>;

    /// The peer has closed its sending direction. `true` keeps the transport open for writing.
    fn eof_received(&self, cx: Cx<'_, H>) -> Result<bool, H::Error>;

    /// The connection is lost; `None` after an orderly close. Called last, and once.
    fn connection_lost(&self, cx: Cx<'_, H>, error: Option<H::Error>) -> Result<(), H::Error>;

    /// The write buffer is above the high-water mark.
    fn pause_writing(&self, cx: Cx<'_, H>) -> Result<(), H::Error>;

    /// The write buffer is at or below the low-water mark again.
    fn resume_writing(&self, cx: Cx<'_, H>) -> Result<(), H::Error>;

    /// The sending direction is reserved, and the write buffer is empty or the connection lost.
    fn drained(&self, cx: Cx<'_, H>) -> Result<(), H::Error> {
        let _ = cx;
        Ok(())
    }

    /// Drops everything that the protocol holds for this connection: the transport has ended.
    fn detach(&self, cx: Cx<'_, H>) -> Result<(), H::Error>;
}
