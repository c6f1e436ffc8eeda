//! Connecting: every address in turn, without blocking, and without a trace when it is given up.

use super::address::{ToAddress, resolve};
use super::protocol::Protocol;
use super::socket::SocketConnection;
use super::transport::Transport;
use crate::engine::Direction;
use crate::event_loop::{Core, EventLoop};
use crate::host::{Call, Watch};
use crate::poller::PeerAddress;
use rustix::io::Errno;
use socket2::{Domain, Socket, Type};
use std::cell::Cell;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::rc::Rc;
use std::task::{Poll, Waker};

impl EventLoop {
    /// Connects to `address` and puts a protocol on the connection. Done when the protocol's `connection_made`
    /// has run.
    ///
    /// All addresses of a name are tried in turn; the error is that of the last, and its text tells of all.
    /// Dropping this future gives the attempt up and closes its socket.
    pub async fn create_connection<P: Protocol>(
        &self,
        address: impl ToAddress,
        protocol_factory: impl FnOnce() -> P,
    ) -> io::Result<(Transport, Rc<P>)> {
        /// A connection nobody has been given yet.
        struct Unclaimed(Option<Transport>);
        impl Drop for Unclaimed {
            fn drop(&mut self) {
                if let Some(transport) = self.0.take() {
                    transport.abort();
                }
            }
        }
        let core = self.core();
        core.check_open()?;
        let (socket, peer) = connect(core, address).await?;
        let protocol = Rc::new(protocol_factory());
        let transport =
            SocketConnection::open(core, socket, PeerAddress::Inet(peer), Rc::<P>::clone(&protocol), None);
        let mut unclaimed = Unclaimed(Some(transport.clone()));
        after_what_is_ready(core).await;
        unclaimed.0 = None;
        Ok((transport, protocol))
    }
}

/// Waits until everything has run that is ready now, also if it is polled for another reason meanwhile.
async fn after_what_is_ready(core: &Core) {
    let turn = Rc::new(Announced::default());
    core.call_soon(Call::Watch(Rc::<Announced>::clone(&turn)));
    turn.wait().await;
}

/// A connected, non-blocking socket to the first address that answers.
pub(super) async fn connect(core: &Rc<Core>, address: impl ToAddress) -> io::Result<(OwnedFd, SocketAddr)> {
    let mut failures = Vec::new();
    for address in resolve(core, address.to_address()?).await? {
        match connect_to(core, address).await {
            Ok(socket) => return Ok((socket, address)),
            Err(error) => failures.push((address, error)),
        }
    }
    let kind = failures.last().map_or(io::ErrorKind::InvalidInput, |(_, error)| error.kind());
    let texts: Vec<_> =
        failures.iter().map(|(address, error)| format!("cannot connect to {address}: {error}")).collect();
    Err(io::Error::new(kind, texts.join("; ")))
}

async fn connect_to(core: &Rc<Core>, address: SocketAddr) -> io::Result<OwnedFd> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(socket2::Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    match socket.connect(&address.into()) {
        Ok(()) => return Ok(socket.into()),
        Err(error) if is_under_way(&error) => {}
        Err(error) => return Err(error),
    }
    loop {
        writable(core, &socket).await?;
        if let Some(error) = socket.take_error()? {
            return Err(error);
        }
        // A back end may have announced what is not so: then the socket has no peer yet.
        match socket.peer_addr() {
            Ok(_) => return Ok(socket.into()),
            Err(error) if error.kind() == io::ErrorKind::NotConnected => {}
            Err(error) => return Err(error),
        }
    }
}

/// Also after a signal the kernel goes on connecting.
fn is_under_way(error: &io::Error) -> bool {
    let number = error.raw_os_error().map(Errno::from_raw_os_error);
    matches!(number, Some(Errno::INPROGRESS | Errno::INTR))
}

/// Waits until the socket is writable. Whether done or dropped, the loop no longer watches it afterwards.
async fn writable(core: &Rc<Core>, socket: &Socket) -> io::Result<()> {
    struct Unwatch<'a>(&'a Core, RawFd);
    impl Drop for Unwatch<'_> {
        fn drop(&mut self) {
            // What the kernel says to this no longer matters: the socket is closed or handed on.
            let _ = self.0.engine.unwatch(self.1, Direction::Outbound);
        }
    }
    let announced = Rc::new(Announced::default());
    let fd = socket.as_raw_fd();
    core.check_open()?;
    core.engine.watch(fd, Direction::Outbound, Rc::<Announced>::clone(&announced))?;
    let _unwatch = Unwatch(core, fd);
    announced.wait().await;
    Ok(())
}

/// Whether the loop has announced what a task waits for.
#[derive(Default)]
struct Announced {
    is_ready: Cell<bool>,
    waker: Cell<Option<Waker>>,
}

impl Announced {
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

impl Watch for Announced {
    fn fire(&self) {
        self.is_ready.set(true);
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    fn cancel(&self) {}
}
