//! Connecting: every address in event, without blocking, and without a trace when it is given up.

mod happy_eyeballs;
mod options;

pub use options::ConnectOptions;

use crate::event_loop::{Core, EventLoop, ready};
use crate::host::{Call, Watch};
use crate::net::address_error::address_error;
use crate::net::connection::CancelGuard;
use crate::net::connection::Protocol;
use crate::net::connection::SocketConnection;
use crate::net::connection::Transport;
use crate::net::resolve::{ToAddress, resolve};
use happy_eyeballs::{interleave, race};
use mainspring_engine::Direction;
use mainspring_engine::poller::{PeerAddress, peer_address};
use rustix::io::Errno;
use socket2::{Domain, SockRef, Socket, Type};
use std::cell::Cell;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::task::{Poll, Waker};

impl EventLoop {
    /// Connects to `address` and puts a protocol on the connection. Done when the protocol's `connection_made`
    /// has run.
    ///
    /// All addresses of a name are tried in event; the error is that of the last, and its text tells of all.
    /// [`ConnectOptions`] has more ways to do it.
    ///
    /// Cancel safety: dropping this future gives the attempt up and closes its socket.
    ///
    /// ```
    /// use mainspring::net::TcpListener;
    /// use mainspring::{EventLoop, Protocol, Transport};
    ///
    /// struct Hello;
    ///
    /// impl Protocol for Hello {
    ///     fn connection_made(&self, transport: &Transport) {
    ///         transport.write(b"hello");
    ///     }
    /// }
    ///
    /// mainspring::run(async {
    ///     let listener = TcpListener::bind("127.0.0.1:0").await?;
    ///     let address = listener.local_addr();
    ///     let (transport, _protocol) = EventLoop::current().create_connection(address, || Hello).await?;
    ///     let (stream, _) = listener.accept().await?;
    ///     assert_eq!(stream.read_exactly(5).await?, b"hello");
    ///     transport.close();
    ///     Ok::<(), std::io::Error>(())
    /// })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub async fn create_connection<P: Protocol>(
        &self,
        address: impl ToAddress,
        protocol_factory: impl FnOnce() -> P,
    ) -> io::Result<(Transport, Rc<P>)> {
        let core = self.core();
        core.check_open()?;
        let (socket, peer) = connect(core, address, &ConnectOptions::default()).await?;
        attach_protocol(core, socket, PeerAddress::Inet(peer), protocol_factory).await
    }

    /// Puts a protocol on a connection that was accepted, or made, outside of the loop: asyncio's
    /// `connect_accepted_socket`, and `create_connection` with its `sock`. The connection may be TCP's or a Unix one.
    ///
    /// Cancel safety: dropping this future closes the connection.
    ///
    /// ```
    /// use mainspring::net::UnixStream;
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
    ///     let (near, far) = std::os::unix::net::UnixStream::pair()?;
    ///     let (transport, _) = EventLoop::current().connect_accepted_socket(near, || Echo).await?;
    ///     let far = UnixStream::from_std(far)?;
    ///     far.write_all(b"hello").await?;
    ///     assert_eq!(far.read_exactly(5).await?, b"hello");
    ///     transport.close();
    ///     Ok::<(), std::io::Error>(())
    /// })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub async fn connect_accepted_socket<P: Protocol>(
        &self,
        socket: impl Into<OwnedFd>,
        protocol_factory: impl FnOnce() -> P,
    ) -> io::Result<(Transport, Rc<P>)> {
        let core = self.core();
        core.check_open()?;
        let (socket, peer) = adopt_stream_socket(socket.into())?;
        attach_protocol(core, socket, peer, protocol_factory).await
    }
}

/// A stream socket of the program's, made fit for the loop, and its peer.
pub(in crate::net) fn adopt_stream_socket(socket: OwnedFd) -> io::Result<(OwnedFd, PeerAddress)> {
    let reference = SockRef::from(&socket);
    if reference.r#type()? != Type::STREAM {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "a stream socket is expected"));
    }
    reference.set_nonblocking(true)?;
    let peer = peer_address(socket.as_fd());
    Ok((socket, peer))
}

/// Puts a protocol on a connection; done when its `connection_made` has run.
pub(in crate::net) async fn attach_protocol<P: Protocol>(
    core: &Rc<Core>,
    socket: OwnedFd,
    peer: PeerAddress,
    protocol_factory: impl FnOnce() -> P,
) -> io::Result<(Transport, Rc<P>)> {
    let protocol = Rc::new(protocol_factory());
    let transport = SocketConnection::open(core, socket, peer, Rc::<P>::clone(&protocol), None);
    Ok(wait_until_made(core, transport, protocol).await)
}

/// Waits until `connection_made` has run, and returns the transport. Dropped before, it aborts the connection.
pub(crate) async fn wait_until_made<P>(
    core: &Core,
    transport: Transport,
    protocol: Rc<P>,
) -> (Transport, Rc<P>) {
    let guard = CancelGuard::new(transport.clone(), Transport::abort);
    after_ready_calls(core).await;
    guard.disarm();
    (transport, protocol)
}

/// Waits until everything has run that is ready now, also if it is polled for another reason meanwhile.
pub(crate) async fn after_ready_calls(core: &Core) {
    let event = Rc::new(OneShotEvent::default());
    core.call_soon(Call::Watch(Rc::<OneShotEvent>::clone(&event)));
    event.wait().await;
}

/// A connected, non-blocking socket to the first address that answers.
pub(crate) async fn connect(
    core: &Rc<Core>,
    address: impl ToAddress,
    options: &ConnectOptions,
) -> io::Result<(OwnedFd, SocketAddr)> {
    let from = match options.local.clone() {
        Some(Ok(local)) => Some(resolve(core, local).await?),
        Some(Err(text)) => return Err(io::Error::new(io::ErrorKind::InvalidInput, text)),
        None => None,
    };
    let mut addresses = resolve(core, address.to_address()?).await?;
    let delay = options.happy_eyeballs_delay;
    addresses = interleave(addresses, options.interleave.unwrap_or(usize::from(delay.is_some())));
    if let ([address], None) = (addresses.as_slice(), &from) {
        // The common case needs no race.
        return match connect_to(core, *address, None).await {
            Ok(socket) => Ok((socket, *address)),
            Err(error) => Err(combine_errors(vec![(*address, error)])),
        };
    }
    let attempt = async |address| match connect_to(core, address, from.as_deref()).await {
        Ok(socket) => Ok((socket, address)),
        Err(error) => Err((address, error)),
    };
    let attempts = addresses.into_iter().map(attempt).collect();
    race(attempts, delay).await.map_err(combine_errors)
}

/// The error of the last, whose text tells of all.
fn combine_errors(mut failures: Vec<(SocketAddr, io::Error)>) -> io::Error {
    let tell = |(address, error): &_| format!("cannot connect to {address}: {error}");
    let texts: Vec<_> = failures.iter().map(tell).collect();
    match failures.pop() {
        Some((_, error)) => address_error(texts.join("; "), error),
        None => io::ErrorKind::InvalidInput.into(),
    }
}

/// Binds to the first address of the right family that can be bound.
fn bind(socket: &Socket, family: Domain, from: &[SocketAddr]) -> io::Result<()> {
    let mut refusal = io::Error::new(
        io::ErrorKind::AddrNotAvailable,
        "no local address is of the family of the address to connect to",
    );
    for &address in from.iter().filter(|&&address| Domain::for_address(address) == family) {
        match socket.bind(&address.into()) {
            Ok(()) => return Ok(()),
            Err(error) => {
                let text = format!("cannot bind to {address}: {error}");
                refusal = address_error(text, error);
            }
        }
    }
    Err(refusal)
}

async fn connect_to(
    core: &Rc<Core>,
    address: SocketAddr,
    from: Option<&[SocketAddr]>,
) -> io::Result<OwnedFd> {
    let family = Domain::for_address(address);
    let socket = Socket::new(family, Type::STREAM, Some(socket2::Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    if let Some(from) = from {
        bind(&socket, family, from)?;
    }
    connect_socket(core, &socket, address).await?;
    Ok(socket.into())
}

/// Connects a socket, which does not block.
pub(crate) async fn connect_socket(core: &Rc<Core>, socket: &Socket, address: SocketAddr) -> io::Result<()> {
    match socket.connect(&address.into()) {
        Ok(()) => Ok(()),
        Err(error) if is_in_progress(&error) => wait_connected(core, socket).await,
        Err(error) => Err(error),
    }
}

/// Waits until a connection that is under way stands.
async fn wait_connected(core: &Rc<Core>, socket: &Socket) -> io::Result<()> {
    loop {
        core.check_open()?;
        ready(core, socket.as_fd(), Direction::Outbound).await?;
        if let Some(error) = socket.take_error()? {
            return Err(error);
        }
        // A back end may have announced what is not so: then the socket has no peer yet.
        match socket.peer_addr() {
            Ok(_) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotConnected => {}
            Err(error) => return Err(error),
        }
    }
}

/// Also after a signal the kernel goes on connecting.
fn is_in_progress(error: &io::Error) -> bool {
    let number = error.raw_os_error().map(Errno::from_raw_os_error);
    matches!(number, Some(Errno::INPROGRESS | Errno::INTR))
}

/// Whether the loop has announced what a task waits for.
#[derive(Default)]
struct OneShotEvent {
    is_ready: Cell<bool>,
    waker: Cell<Option<Waker>>,
}

impl OneShotEvent {
    async fn wait(&self) {
        poll_fn(|cx| {
            if self.is_ready.get() {
                return Poll::Ready(());
            }
            let former = self.waker.replace(Some(cx.waker().clone()));
            drop(former);
            Poll::Pending
        })
        .await;
    }
}

impl Watch for OneShotEvent {
    fn fire(&self) {
        self.is_ready.set(true);
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    fn cancel(&self) {}
}
