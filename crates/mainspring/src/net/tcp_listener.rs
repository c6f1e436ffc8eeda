//! `TcpListener`: connections that are awaited.

use super::server::{listen, socket_address, with_listener};
use super::tcp_stream::TcpStream;
use super::waiters::Waiters;
use super::{ToAddress, current_core};
use crate::event_loop::Core;
use crate::host::{Failure, RustHost};
use crate::poller::PeerAddress;
use crate::transport::{Acceptor, Cx, Listener};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::rc::{Rc, Weak};
use std::task::Poll;

/// asyncio's backlog.
const BACKLOG: u32 = 100;

/// So many connections are taken from the kernel before anybody asks for them.
const MAX_ACCEPTED: usize = 16;

/// Listens for connections, each to be awaited. Dropping it stops listening.
///
/// ```
/// use mainspring::net::{TcpListener, TcpStream};
///
/// mainspring::run(async {
///     let listener = TcpListener::bind("127.0.0.1:0").await?;
///     let client = TcpStream::connect(listener.local_addr()).await?;
///     let (server, peer) = listener.accept().await?;
///     assert_eq!(Some(peer), client.local_addr());
///     client.write_all(b"ping").await?;
///     let mut ping = [0; 4];
///     server.read_exact(&mut ping).await?;
///     assert_eq!(&ping, b"ping");
///     Ok::<(), std::io::Error>(())
/// })??;
/// # Ok::<(), mainspring::Error>(())
/// ```
pub struct TcpListener {
    core: Weak<Core>,
    listeners: Vec<Rc<Listener<RustHost, Queue>>>,
    accepted: Rc<Accepted>,
    addresses: Vec<SocketAddr>,
}

/// What was accepted, and who waits for it.
#[derive(Default)]
struct Accepted {
    connections: RefCell<VecDeque<(OwnedFd, SocketAddr)>>,
    waiting: Waiters,
}

struct Queue(Rc<Accepted>);

impl Acceptor<RustHost> for Queue {
    fn accepted(&self, _: Cx<'_, RustHost>, connection: OwnedFd, peer: PeerAddress) -> Result<(), Failure> {
        // A listener of an Internet family has peers of no other.
        if let Some(peer) = socket_address(peer) {
            self.0.connections.borrow_mut().push_back((connection, peer));
            self.0.waiting.wake();
        }
        Ok(())
    }

    fn has_room(&self) -> bool {
        self.0.connections.borrow().len() < MAX_ACCEPTED
    }
}

impl TcpListener {
    /// Listens on every address of `address`, on the loop that runs here. Port 0: one that is free.
    pub async fn bind(address: impl ToAddress) -> io::Result<Self> {
        let core = current_core()?;
        let accepted = Rc::new(Accepted::default());
        let mut listener = TcpListener {
            core: Rc::downgrade(&core),
            listeners: Vec::new(),
            accepted: Rc::clone(&accepted),
            addresses: Vec::new(),
        };
        for (socket, address) in listen(&core, address, BACKLOG).await? {
            listener.addresses.push(address);
            let queue = Queue(Rc::clone(&accepted));
            listener.listeners.push(Rc::new(Listener::new(socket, queue, BACKLOG as usize)));
        }
        for listener in &listener.listeners {
            with_listener(&core, listener, |listener, cx| listener.start(cx))?;
        }
        Ok(listener)
    }

    /// The next connection, and where it comes from.
    pub async fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        poll_fn(|cx| {
            let Some(core) = self.core.upgrade().filter(|core| core.check_open().is_ok()) else {
                return Poll::Ready(Err(crate::Error::Closed.into()));
            };
            let next = self.accepted.connections.borrow_mut().pop_front();
            let Some((socket, peer)) = next else {
                self.accepted.waiting.join(cx);
                return Poll::Pending;
            };
            // There is room again. A connection that is there is not lost to a listener that fails: the exception
            // handler has been told.
            for listener in &self.listeners {
                let _ = with_listener(&core, listener, |listener, cx| listener.resume(cx));
            }
            Poll::Ready(Ok((TcpStream::new(&core, socket, peer), peer)))
        })
        .await
    }

    /// Where it listens; the first address if there are several.
    pub fn local_addr(&self) -> SocketAddr {
        let nowhere = SocketAddr::from(([0, 0, 0, 0], 0));
        self.addresses.first().copied().unwrap_or(nowhere)
    }
}

impl Drop for TcpListener {
    fn drop(&mut self) {
        let Some(core) = self.core.upgrade() else { return };
        for listener in self.listeners.drain(..) {
            let socket = with_listener(&core, &listener, |listener, cx| listener.close(cx));
            drop(socket);
        }
    }
}

impl fmt::Debug for TcpListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TcpListener").field("addresses", &self.addresses).finish_non_exhaustive()
    }
}
