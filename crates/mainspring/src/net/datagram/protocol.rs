//! `DatagramProtocol`: callbacks of a datagram endpoint.

use super::endpoint::{DatagramAddress, Endpoint, EngineAddress};
use super::transport_handle::DatagramTransport;
use crate::host::{Failure, RustHost};
use crate::panics::catch;
use mainspring_engine::poller::PeerAddress;
use mainspring_engine::transport::{Cx, DatagramSink, Refusal};
use std::cell::RefCell;
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::rc::{Rc, Weak};

/// Receives the events of a datagram endpoint, as asyncio's `DatagramProtocol`.
///
/// The loop calls the methods one at a time: `connection_made` first, then `datagram_received` and `error_received`
/// any number of times, and `connection_lost` once at the end. They take `&self` because calls can nest (`send_to`
/// may call `pause_writing` or `error_received`); keep state in cells.
///
/// If a method panics, the panic is reported to the exception handler and the endpoint stays open.
///
/// The address type selects the kind of endpoint: `DatagramProtocol` is for UDP,
/// `DatagramProtocol<std::os::unix::net::SocketAddr>` is for Unix sockets.
///
/// ```
/// use mainspring::net::{DatagramOptions, DatagramProtocol, DatagramTransport, UdpSocket};
/// use std::net::SocketAddr;
///
/// struct Echo;
///
/// impl DatagramProtocol for Echo {
///     fn datagram_received(&self, transport: &DatagramTransport, data: &[u8], from: SocketAddr) {
///         transport.send_to(data, from);
///     }
/// }
///
/// mainspring::run(async {
///     let options = DatagramOptions::new().local_addr("127.0.0.1:0");
///     let event_loop = mainspring::EventLoop::current();
///     let (server, _) = event_loop.create_datagram_endpoint(options, || Echo).await?;
///     let client = UdpSocket::bind("127.0.0.1:0").await?;
///     client.send_to(b"hello", server.local_addr().unwrap()).await?;
///     assert_eq!(client.recv(&mut [0; 16]).await?, 5);
///     Ok::<(), std::io::Error>(())
/// })??;
/// # Ok::<(), mainspring::Error>(())
/// ```
#[expect(unused_variables, reason = "the default methods do nothing; the names document the parameters")]
pub trait DatagramProtocol<A: DatagramAddress = SocketAddr>: 'static {
    /// The endpoint is open. Keep a clone of the transport to send later.
    fn connection_made(&self, transport: &DatagramTransport<A>) {}

    /// A datagram arrived. At most 256 KiB of it are delivered. Datagrams wait in the kernel's buffer; the kernel
    /// drops them when the buffer is full.
    fn datagram_received(&self, transport: &DatagramTransport<A>, data: &[u8], from: A) {}

    /// A datagram could not be sent or received, or an ICMP error came back. The endpoint stays open.
    fn error_received(&self, transport: &DatagramTransport<A>, error: io::Error) {}

    /// The endpoint is closed. `error` is `None` after a regular close.
    fn connection_lost(&self, transport: &DatagramTransport<A>, error: Option<io::Error>) {}

    /// The write buffer is above the high-water mark: stop sending.
    fn pause_writing(&self, transport: &DatagramTransport<A>) {}

    /// The write buffer is down to the low-water mark: sending may continue.
    fn resume_writing(&self, transport: &DatagramTransport<A>) {}
}

/// Adapts a protocol to the engine's transport.
pub(in crate::net) struct ProtocolAdapter<A: DatagramAddress> {
    endpoint: Weak<Endpoint<ProtocolAdapter<A>>>,
    protocol: RefCell<Option<Rc<dyn DatagramProtocol<A>>>>,
    pub(in crate::net) local: Option<A>,
    pub(in crate::net) remote: Option<A>,
    /// Whether the socket is connected to the remote address.
    pub(in crate::net) is_connected: bool,
}

impl<A: DatagramAddress> ProtocolAdapter<A> {
    pub(in crate::net) fn new(
        endpoint: Weak<Endpoint<Self>>,
        protocol: Rc<dyn DatagramProtocol<A>>,
        local: Option<A>,
        remote: Option<A>,
        is_connected: bool,
    ) -> Self {
        ProtocolAdapter { endpoint, protocol: RefCell::new(Some(protocol)), local, remote, is_connected }
    }

    /// Calls the protocol, unless it is detached.
    fn call_protocol(
        &self,
        call: impl FnOnce(&dyn DatagramProtocol<A>, &DatagramTransport<A>),
    ) -> Result<(), Failure> {
        let protocol = self.protocol.borrow().clone();
        let (Some(protocol), Some(endpoint)) = (protocol, self.endpoint.upgrade()) else { return Ok(()) };
        let transport = DatagramTransport::from_endpoint(endpoint);
        catch(|| call(&*protocol, &transport)).map_err(Failure::Panic)
    }
}

impl<A: DatagramAddress> DatagramSink<RustHost> for ProtocolAdapter<A> {
    type Foreign = Infallible;

    fn connection_made(&self, _: Cx<'_, RustHost>) -> Result<(), Failure> {
        self.call_protocol(|protocol, transport| protocol.connection_made(transport))
    }

    fn datagram_received(&self, _: Cx<'_, RustHost>, data: &[u8], from: PeerAddress) -> Result<(), Failure> {
        let from = A::from_engine(EngineAddress(from)).map_err(Failure::Io)?;
        self.call_protocol(|protocol, transport| protocol.datagram_received(transport, data, from))
    }

    fn error_received(&self, _: Cx<'_, RustHost>, failure: Failure) -> Result<(), Failure> {
        self.call_protocol(|protocol, transport| protocol.error_received(transport, failure.into()))
    }

    fn send_foreign(&self, _: Cx<'_, RustHost>, _: &[u8], to: &Infallible) -> Result<(), Refusal<Failure>> {
        match *to {}
    }

    fn connection_lost(&self, _: Cx<'_, RustHost>, failure: Option<Failure>) -> Result<(), Failure> {
        self.call_protocol(|protocol, transport| {
            protocol.connection_lost(transport, failure.map(io::Error::from))
        })
    }

    fn pause_writing(&self, _: Cx<'_, RustHost>) -> Result<(), Failure> {
        self.call_protocol(|protocol, transport| protocol.pause_writing(transport))
    }

    fn resume_writing(&self, _: Cx<'_, RustHost>) -> Result<(), Failure> {
        self.call_protocol(|protocol, transport| protocol.resume_writing(transport))
    }

    fn detach(&self, _: Cx<'_, RustHost>) -> Result<(), Failure> {
        let protocol = self.protocol.borrow_mut().take();
        catch(|| drop(protocol)).map_err(Failure::Panic)
    }
}
