//! `Server`: listening sockets with a protocol for each connection.

use super::address::{ToAddress, resolve};
use super::protocol::Protocol;
use super::socket::SocketConnection;
use super::waiters::Waiters;
use crate::engine::Readiness;
use crate::event_loop::{Core, EventLoop, ExceptionContext};
use crate::host::{Failure, RustHost, Source};
use crate::panics::catch;
use crate::poller::PeerAddress;
use crate::transport::{Acceptor, Cx, Listener, Notice};
use socket2::{Domain, Socket, Type};
use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::rc::{Rc, Weak};
use std::task::Poll;

/// Listens, and makes a protocol for each connection. Made by [`EventLoop::create_server`].
///
/// Dropping it stops listening; the connections go on.
pub struct Server {
    state: Rc<State>,
    addresses: Vec<SocketAddr>,
}

struct State {
    core: Weak<Core>,
    listeners: RefCell<Vec<Rc<Listener<RustHost, Serving>>>>,
    is_closed: Cell<bool>,
    connections: Cell<usize>,
    waiting: Waiters,
}

/// One connection of a server, counted until it is dropped.
pub(crate) struct Connection(Rc<State>);

impl Connection {
    fn new(state: Rc<State>) -> Self {
        state.connections.set(state.connections.get() + 1);
        Connection(state)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.0.connections.set(self.0.connections.get().saturating_sub(1));
        self.0.waiting.wake();
    }
}

impl EventLoop {
    /// Listens on every address of `address` (port 0: one that is free), and puts a protocol of the factory on
    /// each connection that comes. At most `backlog` connections wait in the kernel.
    ///
    /// ```
    /// use mainspring::{EventLoop, Protocol, Transport};
    ///
    /// struct Greeter;
    ///
    /// impl Protocol for Greeter {
    ///     fn connection_made(&self, transport: &Transport) {
    ///         transport.write(b"hello");
    ///         transport.close();
    ///     }
    /// }
    ///
    /// mainspring::run(async {
    ///     let server = EventLoop::current().create_server("127.0.0.1:0", 100, || Greeter).await?;
    ///     let stream = mainspring::net::TcpStream::connect(server.local_addr()).await?;
    ///     assert_eq!(stream.read_to_end().await?, b"hello");
    ///     Ok::<(), std::io::Error>(())
    /// })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub async fn create_server<P: Protocol>(
        &self,
        address: impl ToAddress,
        backlog: u32,
        protocol_factory: impl Fn() -> P + 'static,
    ) -> io::Result<Server> {
        let core = self.core();
        core.check_open()?;
        let factory: Factory = Rc::new(move || Rc::new(protocol_factory()));
        let sockets = listen(core, address, backlog).await?;
        let state = Rc::new(State {
            core: Rc::downgrade(core),
            listeners: RefCell::default(),
            is_closed: Cell::new(false),
            connections: Cell::new(0),
            waiting: Waiters::default(),
        });
        let mut server = Server { state, addresses: Vec::new() };
        for (socket, address) in sockets {
            let serving = Serving {
                core: Rc::downgrade(core),
                server: Rc::downgrade(&server.state),
                factory: Rc::clone(&factory),
            };
            let listener = Rc::new(Listener::new(socket, serving, backlog as usize));
            server.addresses.push(address);
            server.state.listeners.borrow_mut().push(Rc::clone(&listener));
            with_listener(core, &listener, |listener, cx| listener.start(cx))?;
        }
        Ok(server)
    }
}

/// Bound, listening, non-blocking sockets, with their addresses.
pub(super) async fn listen(
    core: &Rc<Core>,
    address: impl ToAddress,
    backlog: u32,
) -> io::Result<Vec<(OwnedFd, SocketAddr)>> {
    let mut sockets = Vec::new();
    for address in resolve(core, address.to_address()?).await? {
        let listening = listen_at(address, backlog)
            .map_err(|error| io::Error::new(error.kind(), format!("cannot listen at {address}: {error}")))?;
        sockets.push(listening);
    }
    Ok(sockets)
}

fn listen_at(address: SocketAddr, backlog: u32) -> io::Result<(OwnedFd, SocketAddr)> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(socket2::Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    socket.set_reuse_address(true)?;
    if address.is_ipv6() {
        // Both addresses of a name may be bound then, as asyncio does.
        socket.set_only_v6(true)?;
    }
    socket.bind(&address.into())?;
    socket.listen(i32::try_from(backlog).unwrap_or(i32::MAX))?;
    let bound = socket.local_addr()?.as_socket().unwrap_or(address);
    Ok((socket.into(), bound))
}

/// Works on a listener with the loop at hand.
pub(super) fn with_listener<A: Acceptor<RustHost> + 'static, R>(
    core: &Core,
    listener: &Rc<Listener<RustHost, A>>,
    work: impl FnOnce(&Listener<RustHost, A>, Cx<'_, RustHost>) -> R,
) -> R {
    let this: Rc<dyn Source> = Rc::<Listener<RustHost, A>>::clone(listener);
    work(listener, Cx { engine: &core.engine, this: &this })
}

impl<A: Acceptor<RustHost> + 'static> Source for Listener<RustHost, A> {
    fn io_ready(self: Rc<Self>, core: &Core, _: Readiness) -> Result<(), Failure> {
        with_listener(core, &self, |listener, cx| Listener::io_ready(listener, cx))
    }

    fn notified(self: Rc<Self>, core: &Core, notice: Notice) -> Result<(), Failure> {
        with_listener(core, &self, |listener, cx| Listener::notified(listener, cx, notice))
    }
}

type Factory = Rc<dyn Fn() -> Rc<dyn Protocol>>;

/// Puts protocols on what a server accepts.
struct Serving {
    core: Weak<Core>,
    server: Weak<State>,
    factory: Factory,
}

impl Acceptor<RustHost> for Serving {
    fn accepted(&self, _: Cx<'_, RustHost>, connection: OwnedFd, peer: PeerAddress) -> Result<(), Failure> {
        let (Some(core), Some(server)) = (self.core.upgrade(), self.server.upgrade()) else { return Ok(()) };
        let factory = Rc::clone(&self.factory);
        match catch(|| factory()) {
            Ok(protocol) => {
                let counted = Connection::new(server);
                SocketConnection::open(&core, connection, peer, protocol, Some(counted));
            }
            Err(text) => {
                let message = "The protocol factory of a server panicked";
                core.call_exception_handler(&ExceptionContext::of_panic(message, text));
            }
        }
        Ok(())
    }
}

pub(super) fn socket_address(peer: PeerAddress) -> Option<SocketAddr> {
    if let PeerAddress::Inet(address) = peer { Some(address) } else { None }
}

impl Server {
    /// Where the server listens; the first address if there are several.
    pub fn local_addr(&self) -> SocketAddr {
        let nowhere = SocketAddr::from(([0, 0, 0, 0], 0));
        self.addresses.first().copied().unwrap_or(nowhere)
    }

    /// Every address the server listens at.
    pub fn local_addrs(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Whether the server listens.
    pub fn is_serving(&self) -> bool {
        !self.state.is_closed.get()
    }

    /// Stops listening. Connections that were accepted go on.
    pub fn close(&self) {
        if self.state.is_closed.replace(true) {
            return;
        }
        let listeners = self.state.listeners.take();
        if let Some(core) = self.state.core.upgrade() {
            for listener in &listeners {
                let socket = with_listener(&core, listener, |listener, cx| listener.close(cx));
                drop(socket);
            }
        }
        drop(listeners);
        self.state.waiting.wake();
    }

    /// Waits until the server is closed and all its connections are gone.
    pub async fn wait_closed(&self) {
        self.wait_until(|state| state.is_closed.get() && state.connections.get() == 0).await;
    }

    /// Waits until the server is closed.
    pub async fn serve_forever(&self) {
        self.wait_until(|state| state.is_closed.get()).await;
    }

    async fn wait_until(&self, is_so: impl Fn(&State) -> bool) {
        poll_fn(|cx| {
            if is_so(&self.state) {
                return Poll::Ready(());
            }
            self.state.waiting.join(cx);
            Poll::Pending
        })
        .await;
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.close();
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("addresses", &self.addresses)
            .field("serving", &self.is_serving())
            .field("connections", &self.state.connections.get())
            .finish_non_exhaustive()
    }
}
