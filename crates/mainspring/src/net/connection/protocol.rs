//! `Protocol`: what is above a transport.

use super::transport_handle::Transport;
use crate::host::{Failure, RustHost};
use crate::net::server::Connection;
use crate::net::stream::Ends;
use crate::panics::catch;
use crate::sync::wait_list::WaitList;
use mainspring_engine::transport::{Claim, Cx, Upper};
use std::cell::{Cell, OnceCell, RefCell};
use std::io;
use std::rc::{Rc, Weak};

/// What a connection's events are told to, as asyncio's `Protocol`.
///
/// The methods are called on the loop, one after the other: `connection_made` first, then `data_received` any
/// number of times, `eof_received` if the peer ends its side first, and `connection_lost` last, once. They take
/// `&self` because they may be called again while they run (a `write` may call `pause_writing`); state goes
/// into cells.
///
/// A method that panics harms nobody else, and the exception handler is told. As in asyncio, `data_received` and
/// `eof_received` lose their connection by it, and the others do not.
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
#[expect(unused_variables, reason = "the defaults use nothing, and the names are for the reader")]
pub trait Protocol: 'static {
    /// The connection stands. The transport may be kept, for writing later.
    fn connection_made(&self, transport: &Transport) {}

    /// Bytes arrived: some of what the peer sent, not one of its writes.
    fn data_received(&self, transport: &Transport, data: &[u8]) {}

    /// The peer sends no more. `true` leaves the transport open for writing, as long as somebody keeps it;
    /// `false` closes it.
    fn eof_received(&self, transport: &Transport) -> bool {
        false
    }

    /// The connection is gone: with an error, or in order.
    fn connection_lost(&self, transport: &Transport, error: Option<io::Error>) {}

    /// More waits to be sent than the high-water mark: better to write no more for now.
    fn pause_writing(&self, transport: &Transport) {}

    /// What waits to be sent is down to the low-water mark.
    fn resume_writing(&self, transport: &Transport) {}
}

/// Whom a connection tells of its events.
#[derive(Clone)]
pub(crate) enum Told {
    /// A protocol, which the connection keeps.
    Kept(Rc<dyn Protocol>),
    /// A stream, which is its users' and keeps the connection.
    Stream(Weak<Ends>),
}

impl<P: Protocol> From<Rc<P>> for Told {
    fn from(protocol: Rc<P>) -> Self {
        Told::Kept(protocol)
    }
}

impl From<Rc<dyn Protocol>> for Told {
    fn from(protocol: Rc<dyn Protocol>) -> Self {
        Told::Kept(protocol)
    }
}

impl Told {
    /// Tells it, if there is still somebody to tell.
    fn tell<R>(&self, tell: impl FnOnce(&dyn Protocol) -> R) -> Option<R> {
        match self {
            Told::Kept(protocol) => Some(tell(&**protocol)),
            Told::Stream(ends) => ends.upgrade().map(|ends| tell(ends.protocol())),
        }
    }

    fn into_protocol(self) -> Rc<dyn Protocol> {
        match self {
            Told::Kept(protocol) => protocol,
            Told::Stream(ends) => Rc::new(OfStream(ends)),
        }
    }
}

/// The protocol of a stream, for others than its connection. It does not keep the stream.
pub(in crate::net) struct OfStream(pub(in crate::net) Weak<Ends>);

impl OfStream {
    fn tell(&self, tell: impl FnOnce(&dyn Protocol)) {
        if let Some(ends) = self.0.upgrade() {
            tell(ends.protocol());
        }
    }
}

impl Protocol for OfStream {
    fn data_received(&self, transport: &Transport, data: &[u8]) {
        self.tell(|stream| stream.data_received(transport, data));
    }

    fn eof_received(&self, transport: &Transport) -> bool {
        self.0.upgrade().is_some_and(|ends| ends.protocol().eof_received(transport))
    }

    fn connection_lost(&self, transport: &Transport, error: Option<io::Error>) {
        self.tell(|stream| stream.connection_lost(transport, error));
    }

    fn pause_writing(&self, transport: &Transport) {
        self.tell(|stream| stream.pause_writing(transport));
    }

    fn resume_writing(&self, transport: &Transport) {
        self.tell(|stream| stream.resume_writing(transport));
    }
}

/// A protocol, as the engine's transports see it: one for every kind of them.
pub(crate) struct Above {
    told: RefCell<Option<Told>>,
    /// Counts the connection at the server that accepted it.
    connection: Cell<Option<Box<Connection>>>,
    /// Who waits until nothing is queued, to send past the queue. There from when somebody does.
    drained: OnceCell<Box<WaitList>>,
}

impl Above {
    pub(crate) fn new(told: impl Into<Told>, connection: Option<Connection>) -> Self {
        Above {
            told: RefCell::new(Some(told.into())),
            connection: Cell::new(connection.map(Box::new)),
            drained: OnceCell::new(),
        }
    }

    /// The protocol, until the connection is gone.
    pub(in crate::net) fn protocol(&self) -> Option<Rc<dyn Protocol>> {
        self.told().map(Told::into_protocol)
    }

    fn told(&self) -> Option<Told> {
        self.told.borrow().clone()
    }

    /// Wakes the task that waits to receive from the stream, if this is one and a task does.
    #[inline]
    pub(super) fn wake_reader(&self) -> bool {
        let stream = match &*self.told.borrow() {
            Some(Told::Stream(ends)) => ends.upgrade(),
            _ => None,
        };
        stream.is_some_and(|ends| ends.protocol().wake_reader())
    }

    pub(in crate::net) fn drained(&self) -> &WaitList {
        self.drained.get_or_init(Box::default)
    }

    /// Puts another protocol in the place of this one, which comes back; the new one does if the connection is gone.
    pub(in crate::net) fn replace(&self, protocol: Rc<dyn Protocol>) -> Told {
        let new = protocol.into();
        match &mut *self.told.borrow_mut() {
            Some(current) => std::mem::replace(current, new),
            None => new,
        }
    }

    /// Calls the protocol, unless it has been let go.
    fn tell<R: Default>(
        &self,
        cx: Cx<'_, RustHost>,
        tell: impl FnOnce(&dyn Protocol, &Transport) -> R,
    ) -> Result<R, Failure> {
        let Some(told) = self.told() else { return Ok(R::default()) };
        let transport = Transport::new(Rc::clone(cx.this));
        let told = catch(|| told.tell(|protocol| tell(protocol, &transport)));
        told.map(Option::unwrap_or_default).map_err(Failure::Panic)
    }
}

impl Upper<RustHost> for Above {
    fn connection_made(&self, cx: Cx<'_, RustHost>) -> Result<(), Failure> {
        self.tell(cx, |protocol, transport| protocol.connection_made(transport))
    }

    fn is_buffered(&self) -> bool {
        false
    }

    fn data_received(&self, cx: Cx<'_, RustHost>, data: &[u8]) -> Result<(), Failure> {
        self.tell(cx, |protocol, transport| protocol.data_received(transport, data))
    }

    fn receive_into(&self, _: Cx<'_, RustHost>, _: Claim<'_>) -> Result<io::Result<usize>, Failure> {
        Ok(Err(io::ErrorKind::Unsupported.into()))
    }

    fn buffer_updated(&self, _: Cx<'_, RustHost>, _: usize) -> Result<(), Failure> {
        Ok(())
    }

    fn eof_received(&self, cx: Cx<'_, RustHost>) -> Result<bool, Failure> {
        self.tell(cx, |protocol, transport| protocol.eof_received(transport))
    }

    fn connection_lost(&self, cx: Cx<'_, RustHost>, failure: Option<Failure>) -> Result<(), Failure> {
        if let Some(below) = cx.this.below() {
            below.about_to_go();
        }
        self.tell(cx, |protocol, transport| protocol.connection_lost(transport, failure.map(io::Error::from)))
    }

    fn pause_writing(&self, cx: Cx<'_, RustHost>) -> Result<(), Failure> {
        self.tell(cx, |protocol, transport| protocol.pause_writing(transport))
    }

    fn resume_writing(&self, cx: Cx<'_, RustHost>) -> Result<(), Failure> {
        self.tell(cx, |protocol, transport| protocol.resume_writing(transport))
    }

    fn drained(&self, _: Cx<'_, RustHost>) -> Result<(), Failure> {
        if let Some(drained) = self.drained.get() {
            drained.wake_all();
        }
        Ok(())
    }

    fn detach(&self, _: Cx<'_, RustHost>) -> Result<(), Failure> {
        let told = self.told.take();
        let connection = self.connection.take();
        let dropped = catch(|| drop(told)).map_err(Failure::Panic);
        drop(connection);
        dropped
    }
}
