//! `Protocol`, and how a transport refers to its protocol.

use super::transport_handle::Transport;
use crate::host::{Failure, RustHost};
use crate::net::server::ConnectionGuard;
use crate::net::stream::SharedStream;
use crate::panics::catch;
use crate::sync::wait_list::WaitList;
use mainspring_engine::transport::{Cx, ProtocolSink, RecvFn};
use std::cell::{Cell, OnceCell, RefCell};
use std::io;
use std::rc::{Rc, Weak};

/// Receives the events of a connection: asyncio's `Protocol`.
///
/// The methods are called on the loop, one after the other: `connection_made` first, then `data_received` any number of
/// times, `eof_received` if the peer shuts down its sending side, and `connection_lost` last, once. They take `&self`
/// because calls can nest (`write` may call `pause_writing`); keep state in cells.
///
/// A panic in a method is reported to the exception handler. As in asyncio, a panic in `data_received` or
/// `eof_received` aborts the connection; in the others it does not.
///
/// ```
/// use mainspring::net::TcpStream;
/// use mainspring::{EventLoop, Protocol, Transport};
///
/// struct Echo;
///
/// impl Protocol for Echo {
///     fn data_received(&self, transport: &Transport, data: &[u8]) {
///         transport.write(data);
///     }
/// }
///
/// mainspring::run(async {
///     let server = EventLoop::current().create_server("127.0.0.1:0", 100, || Echo).await?;
///     let client = TcpStream::connect(server.local_addr()).await?;
///     client.write_all(b"hello").await?;
///     assert_eq!(client.read_exactly(5).await?, b"hello");
///     Ok::<(), std::io::Error>(())
/// })??;
/// # Ok::<(), mainspring::Error>(())
/// ```
#[expect(unused_variables, reason = "the default methods do nothing; the names document the parameters")]
pub trait Protocol: 'static {
    /// The connection is established. Keep a clone of the transport to write later.
    fn connection_made(&self, transport: &Transport) {}

    /// Bytes arrived. Their boundaries are not those of the peer's writes.
    fn data_received(&self, transport: &Transport, data: &[u8]) {}

    /// The peer has shut down its sending side. `true` keeps the transport open for writing, as long as it is
    /// referenced; `false` closes it.
    fn eof_received(&self, transport: &Transport) -> bool {
        false
    }

    /// The connection is closed: with an error, or gracefully.
    fn connection_lost(&self, transport: &Transport, error: Option<io::Error>) {}

    /// More than the high-water mark is queued: stop writing.
    fn pause_writing(&self, transport: &Transport) {}

    /// The queue is down to the low-water mark: writing may continue.
    fn resume_writing(&self, transport: &Transport) {}
}

/// How a connection refers to its protocol.
#[derive(Clone)]
pub(crate) enum ProtocolRef {
    /// A protocol that the connection owns.
    Owned(Rc<dyn Protocol>),
    /// A stream, which owns the connection.
    Stream(Weak<SharedStream>),
}

impl<P: Protocol> From<Rc<P>> for ProtocolRef {
    fn from(protocol: Rc<P>) -> Self {
        ProtocolRef::Owned(protocol)
    }
}

impl From<Rc<dyn Protocol>> for ProtocolRef {
    fn from(protocol: Rc<dyn Protocol>) -> Self {
        ProtocolRef::Owned(protocol)
    }
}

impl ProtocolRef {
    /// Calls the protocol, if it still exists.
    fn call<R>(&self, call: impl FnOnce(&dyn Protocol) -> R) -> Option<R> {
        match self {
            ProtocolRef::Owned(protocol) => Some(call(&**protocol)),
            ProtocolRef::Stream(shared) => shared.upgrade().map(|stream| call(stream.protocol())),
        }
    }

    fn into_protocol(self) -> Rc<dyn Protocol> {
        match self {
            ProtocolRef::Owned(protocol) => protocol,
            ProtocolRef::Stream(shared) => Rc::new(WeakStreamProtocol(shared)),
        }
    }
}

/// The protocol of a stream as an `Rc<dyn Protocol>`. It does not keep the stream alive.
pub(in crate::net) struct WeakStreamProtocol(pub(in crate::net) Weak<SharedStream>);

impl WeakStreamProtocol {
    fn call(&self, call: impl FnOnce(&dyn Protocol)) {
        if let Some(shared) = self.0.upgrade() {
            call(shared.protocol());
        }
    }
}

impl Protocol for WeakStreamProtocol {
    fn data_received(&self, transport: &Transport, data: &[u8]) {
        self.call(|stream| stream.data_received(transport, data));
    }

    fn eof_received(&self, transport: &Transport) -> bool {
        self.0.upgrade().is_some_and(|shared| shared.protocol().eof_received(transport))
    }

    fn connection_lost(&self, transport: &Transport, error: Option<io::Error>) {
        self.call(|stream| stream.connection_lost(transport, error));
    }

    fn pause_writing(&self, transport: &Transport) {
        self.call(|stream| stream.pause_writing(transport));
    }

    fn resume_writing(&self, transport: &Transport) {
        self.call(|stream| stream.resume_writing(transport));
    }
}

/// The protocol of a connection, as the engine's transports call it.
pub(crate) struct ProtocolSlot {
    protocol_ref: RefCell<Option<ProtocolRef>>,
    extras: OnceCell<Box<SlotExtras>>,
}

/// Data that few connections have.
#[derive(Default)]
struct SlotExtras {
    /// Registers the connection with the server that accepted it.
    connection_guard: Cell<Option<ConnectionGuard>>,
    /// Tasks that wait for an empty write buffer, to send on the fd directly. Allocated on first use.
    drained: OnceCell<Box<WaitList>>,
}

impl ProtocolSlot {
    pub(crate) fn new(
        protocol_ref: impl Into<ProtocolRef>,
        connection_guard: Option<ConnectionGuard>,
    ) -> Self {
        let slot =
            ProtocolSlot { protocol_ref: RefCell::new(Some(protocol_ref.into())), extras: OnceCell::new() };
        if connection_guard.is_some() {
            slot.extras().connection_guard.set(connection_guard);
        }
        slot
    }

    /// The protocol, until the connection is closed.
    pub(in crate::net) fn protocol(&self) -> Option<Rc<dyn Protocol>> {
        self.protocol_ref().map(ProtocolRef::into_protocol)
    }

    fn protocol_ref(&self) -> Option<ProtocolRef> {
        self.protocol_ref.borrow().clone()
    }

    /// Wakes the task that waits to receive, if the protocol is a stream. Returns whether there was one.
    #[inline]
    pub(super) fn wake_reader(&self) -> bool {
        let stream = match &*self.protocol_ref.borrow() {
            Some(ProtocolRef::Stream(shared)) => shared.upgrade(),
            _ => None,
        };
        stream.is_some_and(|shared| shared.protocol().wake_reader())
    }

    fn extras(&self) -> &SlotExtras {
        self.extras.get_or_init(Box::default)
    }

    pub(in crate::net) fn drained(&self) -> &WaitList {
        self.extras().drained.get_or_init(Box::default)
    }

    /// Replaces the protocol and returns the previous one; returns the new one if the connection is closed.
    pub(in crate::net) fn replace(&self, protocol: Rc<dyn Protocol>) -> ProtocolRef {
        let new = protocol.into();
        match &mut *self.protocol_ref.borrow_mut() {
            Some(current) => std::mem::replace(current, new),
            None => new,
        }
    }

    /// Calls the protocol, unless it was released.
    fn call<R: Default>(
        &self,
        cx: Cx<'_, RustHost>,
        call: impl FnOnce(&dyn Protocol, &Transport) -> R,
    ) -> Result<R, Failure> {
        let Some(protocol_ref) = self.protocol_ref() else { return Ok(R::default()) };
        let transport = Transport::new(Rc::clone(cx.this));
        let protocol_ref = catch(|| protocol_ref.call(|protocol| call(protocol, &transport)));
        protocol_ref.map(Option::unwrap_or_default).map_err(Failure::Panic)
    }
}

impl ProtocolSink<RustHost> for ProtocolSlot {
    fn connection_made(&self, cx: Cx<'_, RustHost>) -> Result<(), Failure> {
        self.call(cx, |protocol, transport| protocol.connection_made(transport))
    }

    fn is_buffered(&self) -> bool {
        false
    }

    fn data_received(&self, cx: Cx<'_, RustHost>, data: &[u8]) -> Result<(), Failure> {
        self.call(cx, |protocol, transport| protocol.data_received(transport, data))
    }

    fn receive_into(&self, _: Cx<'_, RustHost>, _: RecvFn<'_>) -> Result<io::Result<usize>, Failure> {
        Ok(Err(io::ErrorKind::Unsupported.into()))
    }

    fn buffer_updated(&self, _: Cx<'_, RustHost>, _: usize) -> Result<(), Failure> {
        Ok(())
    }

    fn eof_received(&self, cx: Cx<'_, RustHost>) -> Result<bool, Failure> {
        self.call(cx, |protocol, transport| protocol.eof_received(transport))
    }

    fn connection_lost(&self, cx: Cx<'_, RustHost>, failure: Option<Failure>) -> Result<(), Failure> {
        if let Some(transport) = cx.this.transport_impl() {
            transport.before_close();
        }
        self.call(cx, |protocol, transport| protocol.connection_lost(transport, failure.map(io::Error::from)))
    }

    fn pause_writing(&self, cx: Cx<'_, RustHost>) -> Result<(), Failure> {
        self.call(cx, |protocol, transport| protocol.pause_writing(transport))
    }

    fn resume_writing(&self, cx: Cx<'_, RustHost>) -> Result<(), Failure> {
        self.call(cx, |protocol, transport| protocol.resume_writing(transport))
    }

    fn drained(&self, _: Cx<'_, RustHost>) -> Result<(), Failure> {
        if let Some(drained) = self.extras.get().and_then(|extras| extras.drained.get()) {
            drained.wake_all();
        }
        Ok(())
    }

    fn detach(&self, _: Cx<'_, RustHost>) -> Result<(), Failure> {
        let protocol_ref = self.protocol_ref.take();
        let connection_guard = self.extras.get().and_then(|extras| extras.connection_guard.take());
        let dropped = catch(|| drop(protocol_ref)).map_err(Failure::Panic);
        drop(connection_guard);
        dropped
    }
}
