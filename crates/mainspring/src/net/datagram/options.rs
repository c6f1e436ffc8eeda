//! `DatagramOptions`, and the methods of the loop that create datagram endpoints.

use super::endpoint::{DatagramAddress, EngineAddress};
use super::protocol::DatagramProtocol;
use super::transport_handle::DatagramTransport;
use crate::event_loop::{Core, EventLoop};
use crate::net::address_error::address_error;
use crate::net::connect::after_ready_calls;
use crate::net::connection::CancelGuard;
use crate::net::resolve::{Address, Family, Hints, SocketKind, ToAddress, resolve_with};
use mainspring_engine::poller::local_address;
use socket2::{Domain, Socket, Type};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::SocketAddr as UnixAddress;
use std::rc::Rc;

/// How to create a UDP endpoint: the arguments of asyncio's `create_datagram_endpoint`.
///
/// ```
/// use mainspring::net::{DatagramOptions, UdpSocket};
///
/// mainspring::run(async {
///     let options = DatagramOptions::new().local_addr("127.0.0.1:0").reuse_port(true).broadcast(true);
///     let first = UdpSocket::with_options(options).await?;
///     let again = DatagramOptions::new().local_addr(first.local_addr()?).reuse_port(true);
///     let second = UdpSocket::with_options(again).await?;
///     assert_eq!(first.local_addr()?, second.local_addr()?);
///     Ok::<(), std::io::Error>(())
/// })??;
/// # Ok::<(), mainspring::Error>(())
/// ```
#[derive(Debug, Default)]
#[must_use = "options do nothing by themselves"]
pub struct DatagramOptions {
    local: Option<GivenAddress>,
    remote: Option<GivenAddress>,
    family: Option<Family>,
    reuse_port: bool,
    broadcast: bool,
    socket: Option<std::net::UdpSocket>,
}

/// The address from the caller, or the error if it is invalid.
type GivenAddress = io::Result<Address>;

impl DatagramOptions {
    /// No options. Set at least an address, a family or a socket.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the local address. If it is a name, the first usable address. Without it the kernel chooses a port at the
    /// first send.
    pub fn local_addr(self, address: impl ToAddress) -> Self {
        DatagramOptions { local: Some(address.to_address()), ..self }
    }

    /// Sets the peer: the endpoint receives from this address only, and `send` sends to it.
    ///
    /// ```
    /// use mainspring::net::{DatagramOptions, UdpSocket};
    ///
    /// # mainspring::run(async {
    /// let server = UdpSocket::bind("127.0.0.1:0").await?;
    /// let client = UdpSocket::with_options(DatagramOptions::new().remote_addr(server.local_addr()?)).await?;
    /// client.send(b"hello").await?;
    /// assert_eq!(server.recv_from(&mut [0; 16]).await?, (5, client.local_addr()?));
    /// # std::io::Result::Ok(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn remote_addr(self, address: impl ToAddress) -> Self {
        DatagramOptions { remote: Some(address.to_address()), ..self }
    }

    /// Uses only addresses of this family.
    ///
    /// ```
    /// use mainspring::net::{DatagramOptions, Family, UdpSocket};
    ///
    /// # mainspring::run(async {
    /// let options = DatagramOptions::new().local_addr(("localhost", 0)).family(Family::V4);
    /// assert!(UdpSocket::with_options(options).await?.local_addr()?.is_ipv4());
    /// let neither = DatagramOptions::new().local_addr("127.0.0.1:0").family(Family::V6);
    /// assert_eq!(UdpSocket::with_options(neither).await.unwrap_err().kind(), std::io::ErrorKind::InvalidInput);
    /// # std::io::Result::Ok(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn family(self, family: Family) -> Self {
        DatagramOptions { family: Some(family), ..self }
    }

    /// Sets `SO_REUSEPORT`: several sockets may share the port, and the kernel distributes datagrams among them.
    pub fn reuse_port(self, reuse_port: bool) -> Self {
        DatagramOptions { reuse_port, ..self }
    }

    /// Sets `SO_BROADCAST`. As in asyncio, the endpoint then receives from every address, even with a remote address.
    pub fn broadcast(self, broadcast: bool) -> Self {
        DatagramOptions { broadcast, ..self }
    }

    /// Uses an existing socket and ignores all other options.
    ///
    /// ```
    /// use mainspring::net::{DatagramOptions, UdpSocket};
    ///
    /// # mainspring::run(async {
    /// let plain = std::net::UdpSocket::bind("127.0.0.1:0")?;
    /// let address = plain.local_addr()?;
    /// let socket = UdpSocket::with_options(DatagramOptions::new().socket(plain)).await?;
    /// assert_eq!(socket.local_addr()?, address);
    /// # std::io::Result::Ok(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn socket(self, socket: std::net::UdpSocket) -> Self {
        DatagramOptions { socket: Some(socket), ..self }
    }

    /// Creates the socket.
    pub(in crate::net) async fn open(self, core: &Core) -> io::Result<OpenSocket> {
        core.check_open()?;
        if let Some(socket) = self.socket {
            socket.set_nonblocking(true)?;
            let remote = socket.peer_addr().ok();
            return Ok(OpenSocket { socket: socket.into(), is_connected: remote.is_some(), remote });
        }
        let hints = Hints { family: self.family, kind: Some(SocketKind::Datagram) };
        let local = addresses(core, self.local, hints).await?;
        let remote = addresses(core, self.remote, hints).await?;
        let mut failure = None;
        for (local, remote) in combinations(&local, &remote) {
            let given = local.or(remote).map(Family::of).or(self.family);
            let Some(family) = given.filter(|family| self.family.is_none_or(|wanted| wanted == *family))
            else {
                continue;
            };
            let opened = open_socket(family, local, remote, self.reuse_port, self.broadcast);
            match opened {
                Ok(opened) => return Ok(opened),
                Err(error) => failure = Some(error),
            }
        }
        let none = "a datagram endpoint needs an address, a family or a socket; both addresses must have the same family";
        Err(failure.unwrap_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, none)))
    }
}

/// A datagram socket ready for use.
pub(in crate::net) struct OpenSocket {
    pub(in crate::net) socket: OwnedFd,
    pub(in crate::net) remote: Option<SocketAddr>,
    pub(in crate::net) is_connected: bool,
}

async fn addresses(
    core: &Core,
    given: Option<GivenAddress>,
    hints: Hints,
) -> io::Result<Option<Vec<SocketAddr>>> {
    match given {
        None => Ok(None),
        Some(address) => resolve_with(core, address?, hints).await.map(Some),
    }
}

/// All pairs of a local and a remote address of the same family. A missing side is `None`.
fn combinations(
    local: &Option<Vec<SocketAddr>>,
    remote: &Option<Vec<SocketAddr>>,
) -> Vec<(Option<SocketAddr>, Option<SocketAddr>)> {
    let each = |addresses: &Option<Vec<SocketAddr>>| match addresses {
        None => vec![None],
        Some(addresses) => addresses.iter().copied().map(Some).collect(),
    };
    let remote = each(remote);
    let pair = |local: Option<SocketAddr>| remote.iter().map(move |remote| (local, *remote));
    let is_same_family = |(local, remote): &(Option<SocketAddr>, Option<SocketAddr>)| match (local, remote) {
        (Some(local), Some(remote)) => Family::of(*local) == Family::of(*remote),
        _ => true,
    };
    each(local).into_iter().flat_map(pair).filter(is_same_family).collect()
}

fn open_socket(
    family: Family,
    local: Option<SocketAddr>,
    remote: Option<SocketAddr>,
    reuse_port: bool,
    broadcast: bool,
) -> io::Result<OpenSocket> {
    let domain = match family {
        Family::V4 => Domain::IPV4,
        Family::V6 => Domain::IPV6,
    };
    let socket = Socket::new(domain, Type::DGRAM, Some(socket2::Protocol::UDP))?;
    socket.set_nonblocking(true)?;
    if reuse_port {
        socket.set_reuse_port(true)?;
    }
    if broadcast {
        socket.set_broadcast(true)?;
    }
    let describe = |operation: &str, address: SocketAddr, error: io::Error| {
        address_error(format!("cannot {operation} {address}: {error}"), error)
    };
    if let Some(local) = local {
        socket.bind(&local.into()).map_err(|error| describe("bind to", local, error))?;
    }
    // As in asyncio, a broadcast socket is not connected, because answers come from other addresses.
    let is_connected = remote.is_some() && !broadcast;
    if let Some(remote) = remote.filter(|_| is_connected) {
        socket.connect(&remote.into()).map_err(|error| describe("connect to", remote, error))?;
    }
    Ok(OpenSocket { socket: socket.into(), remote, is_connected })
}

impl EventLoop {
    /// Creates a UDP endpoint and attaches a protocol. Completes when the protocol's `connection_made` has run.
    ///
    /// Cancel safety: dropping the future cancels the attempt and closes its socket. If `connection_made` has run,
    /// `connection_lost` follows.
    ///
    /// ```
    /// use mainspring::net::{DatagramOptions, DatagramProtocol, DatagramTransport};
    /// use mainspring::{EventLoop, Future};
    /// use std::net::SocketAddr;
    ///
    /// /// Echoes in upper case.
    /// struct Loud;
    /// impl DatagramProtocol for Loud {
    ///     fn datagram_received(&self, transport: &DatagramTransport, data: &[u8], from: SocketAddr) {
    ///         transport.send_to(&data.to_ascii_uppercase(), from);
    ///     }
    /// }
    ///
    /// /// Sends a question and stores the answer.
    /// struct Ask(Future<Vec<u8>>);
    /// impl DatagramProtocol for Ask {
    ///     fn connection_made(&self, transport: &DatagramTransport) {
    ///         transport.send(b"hello");
    ///     }
    ///     fn datagram_received(&self, _: &DatagramTransport, data: &[u8], _: SocketAddr) {
    ///         self.0.set_result(data.to_vec()).unwrap();
    ///     }
    /// }
    ///
    /// mainspring::run(async {
    ///     let event_loop = EventLoop::current();
    ///     let local = DatagramOptions::new().local_addr("127.0.0.1:0");
    ///     let (server, _) = event_loop.create_datagram_endpoint(local, || Loud).await?;
    ///     let remote = DatagramOptions::new().remote_addr(server.local_addr().unwrap());
    ///     let answer = event_loop.create_future();
    ///     let asking = answer.clone();
    ///     let (client, _) = event_loop.create_datagram_endpoint(remote, || Ask(asking)).await?;
    ///     assert_eq!(answer.await.unwrap(), b"HELLO");
    ///     client.close();
    ///     server.close();
    ///     Ok::<(), std::io::Error>(())
    /// })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub async fn create_datagram_endpoint<P: DatagramProtocol>(
        &self,
        options: DatagramOptions,
        protocol_factory: impl FnOnce() -> P,
    ) -> io::Result<(DatagramTransport, Rc<P>)> {
        let OpenSocket { socket, remote, is_connected } = options.open(self.core()).await?;
        attach_protocol(self.core(), socket, remote, is_connected, protocol_factory).await
    }

    /// Attaches a protocol to a Unix datagram socket of std, which may be bound or unbound, connected or not, or one
    /// of a pair. Otherwise as [`EventLoop::create_datagram_endpoint`].
    ///
    /// Cancel safety: as [`EventLoop::create_datagram_endpoint`].
    ///
    /// ```
    /// use mainspring::net::{DatagramProtocol, DatagramTransport, UnixDatagram};
    /// use std::os::unix::net::{SocketAddr, UnixDatagram as StdUnixDatagram};
    ///
    /// struct Echo;
    /// impl DatagramProtocol<SocketAddr> for Echo {
    ///     fn datagram_received(&self, transport: &DatagramTransport<SocketAddr>, data: &[u8], _: SocketAddr) {
    ///         transport.send(data);
    ///     }
    /// }
    ///
    /// mainspring::run(async {
    ///     let (one, other) = StdUnixDatagram::pair()?;
    ///     let event_loop = mainspring::EventLoop::current();
    ///     let (transport, _) = event_loop.create_unix_datagram_endpoint(one, || Echo).await?;
    ///     let other = UnixDatagram::from_std(other)?;
    ///     other.send(b"hello").await?;
    ///     let mut buffer = [0; 16];
    ///     assert_eq!(other.recv(&mut buffer).await?, 5);
    ///     transport.close();
    ///     Ok::<(), std::io::Error>(())
    /// })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub async fn create_unix_datagram_endpoint<P: DatagramProtocol<UnixAddress>>(
        &self,
        socket: std::os::unix::net::UnixDatagram,
        protocol_factory: impl FnOnce() -> P,
    ) -> io::Result<(DatagramTransport<UnixAddress>, Rc<P>)> {
        self.core().check_open()?;
        socket.set_nonblocking(true)?;
        let remote = socket.peer_addr().ok();
        let is_connected = remote.is_some();
        attach_protocol(self.core(), socket.into(), remote, is_connected, protocol_factory).await
    }
}

/// Attaches a protocol to a socket and waits until `connection_made` has run.
async fn attach_protocol<A: DatagramAddress, P: DatagramProtocol<A>>(
    core: &Rc<Core>,
    socket: OwnedFd,
    remote: Option<A>,
    is_connected: bool,
    protocol_factory: impl FnOnce() -> P,
) -> io::Result<(DatagramTransport<A>, Rc<P>)> {
    let local = A::from_engine(EngineAddress(local_address(socket.as_fd()))).ok();
    let protocol = Rc::new(protocol_factory());
    let protocol_slot = Rc::<P>::clone(&protocol);
    let transport = DatagramTransport::open(core, socket, protocol_slot, local, remote, is_connected);
    let guard = CancelGuard::new(transport.clone(), DatagramTransport::abort);
    after_ready_calls(core).await;
    guard.disarm();
    Ok((transport, protocol))
}
