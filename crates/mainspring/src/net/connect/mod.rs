//! Connecting: tries the addresses of a name without blocking. Dropping the future closes the sockets.

mod happy_eyeballs;
mod options;

pub use options::ConnectOptions;

use crate::event_loop::{Core, EventLoop, ready};
use crate::host::{Call, Watch};
use crate::net::address_error::address_error;
use crate::net::connection::{CancelGuard, Protocol, SocketConnection, Transport};
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
    /// Connects to `address` and attaches a protocol. Completes when the protocol's `connection_made` has run.
    ///
    /// The addresses of a name are tried in turn. If all fail, the error has the kind of the last failure and its
    /// message lists all of them. [`ConnectOptions`] offers more control.
    ///
    /// Cancel safety: dropping the future cancels the attempt and closes its socket.
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

    /// Attaches a protocol to a connected TCP or Unix stream socket that was created outside of the loop. It covers
    /// asyncio's `connect_accepted_socket` and the `sock` argument of `create_connection`.
    ///
    /// Cancel safety: dropping the future closes the connection.
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
    ///     let (stream, peer) = std::os::unix::net::UnixStream::pair()?;
    ///     let (transport, _) = EventLoop::current().connect_accepted_socket(stream, || Echo).await?;
    ///     let peer = UnixStream::from_std(peer)?;
    ///     peer.write_all(b"hello").await?;
    ///     assert_eq!(peer.read_exactly(5).await?, b"hello");
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

/// Checks that `socket` is a stream socket, makes it non-blocking, and returns it with the address of its peer.
pub(in crate::net) fn adopt_stream_socket(socket: OwnedFd) -> io::Result<(OwnedFd, PeerAddress)> {
    let reference = SockRef::from(&socket);
    if reference.r#type()? != Type::STREAM {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "expected a stream socket (SOCK_STREAM)"));
    }
    reference.set_nonblocking(true)?;
    let peer = peer_address(socket.as_fd());
    Ok((socket, peer))
}

/// Attaches a protocol to a connected socket. Completes when `connection_made` has run.
pub(in crate::net) async fn attach_protocol<P: Protocol>(
    core: &Rc<Core>,
    socket: OwnedFd,
    peer: PeerAddress,
    protocol_factory: impl FnOnce() -> P,
) -> io::Result<(Transport, Rc<P>)> {
    let protocol = Rc::new(protocol_factory());
    let transport = SocketConnection::open(core, socket, peer, Rc::<P>::clone(&protocol), None);
    Ok(wait_connection_made(core, transport, protocol).await)
}

/// Waits until `connection_made` has run, then returns the transport. Dropping the future earlier aborts the
/// connection.
pub(crate) async fn wait_connection_made<P>(
    core: &Core,
    transport: Transport,
    protocol: Rc<P>,
) -> (Transport, Rc<P>) {
    let guard = CancelGuard::new(transport.clone(), Transport::abort);
    after_ready_calls(core).await;
    guard.disarm();
    (transport, protocol)
}

/// Waits until all calls that are ready now have run. Spurious polls do not end the wait.
pub(crate) async fn after_ready_calls(core: &Core) {
    let event = Rc::new(OneShotEvent::default());
    core.call_soon(Call::Watch(Rc::<OneShotEvent>::clone(&event)));
    event.wait().await;
}

/// Connects to the first address that accepts, and returns the non-blocking socket.
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
        // With one address there is nothing to race.
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

/// Keeps the kind of the last error; the message lists all errors.
fn combine_errors(mut failures: Vec<(SocketAddr, io::Error)>) -> io::Error {
    let describe = |(address, error): &_| format!("cannot connect to {address}: {error}");
    let texts: Vec<_> = failures.iter().map(describe).collect();
    match failures.pop() {
        Some((_, error)) => address_error(texts.join("; "), error),
        None => io::ErrorKind::InvalidInput.into(),
    }
}

/// Binds to the first address of the right family that can be bound.
fn bind(socket: &Socket, family: Domain, from: &[SocketAddr]) -> io::Result<()> {
    let mut last_error = io::Error::new(
        io::ErrorKind::AddrNotAvailable,
        "no local address has the family of the remote address",
    );
    for &address in from.iter().filter(|&&address| Domain::for_address(address) == family) {
        match socket.bind(&address.into()) {
            Ok(()) => return Ok(()),
            Err(error) => {
                let text = format!("cannot bind to {address}: {error}");
                last_error = address_error(text, error);
            }
        }
    }
    Err(last_error)
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

/// Connects a non-blocking socket.
pub(crate) async fn connect_socket(core: &Rc<Core>, socket: &Socket, address: SocketAddr) -> io::Result<()> {
    match socket.connect(&address.into()) {
        Ok(()) => Ok(()),
        Err(error) if is_in_progress(&error) => wait_connected(core, socket).await,
        Err(error) => Err(error),
    }
}

/// Waits until a connect in progress has finished.
async fn wait_connected(core: &Rc<Core>, socket: &Socket) -> io::Result<()> {
    loop {
        core.check_open()?;
        ready(core, socket.as_fd(), Direction::Outbound).await?;
        if let Some(error) = socket.take_error()? {
            return Err(error);
        }
        // A spurious event: the socket has no peer yet, so wait again.
        match socket.peer_addr() {
            Ok(_) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotConnected => {}
            Err(error) => return Err(error),
        }
    }
}

/// EINTR: the kernel continues to connect after a signal.
fn is_in_progress(error: &io::Error) -> bool {
    let number = error.raw_os_error().map(Errno::from_raw_os_error);
    matches!(number, Some(Errno::INPROGRESS | Errno::INTR))
}

/// A one-shot event: the loop sets it, one task waits for it.
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
