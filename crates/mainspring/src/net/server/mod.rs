//! `Server`: listening sockets that attach a protocol or a task to each connection.

mod accept_queue;
mod bind;
mod connections;
mod listening;
mod options;
mod socket_file;
mod streams;

pub use options::ServerOptions;
pub use streams::{Outcome, open_connection, open_unix_connection, start_server, start_unix_server};

pub(in crate::net) use accept_queue::AcceptQueue;
pub(in crate::net) use bind::{BoundSocket, adopt_bound};
pub(crate) use connections::{ConnectionGuard, Opener};
#[cfg(feature = "rustls")]
pub(in crate::net) use streams::report_outcome;

use crate::event_loop::{Core, EventLoop};
use crate::host::RustHost;
use crate::net::connection::{Protocol, Transport, WeakTransport};
use crate::net::resolve::ToAddress;
use crate::net::unix::address as unix_address;
use crate::sync::wait_list::WaitList;
use crate::task::named;
use connections::ServerAcceptor;
use listening::{start_listening, with_listener};
use mainspring_engine::poller::PeerAddress;
use mainspring_engine::transport::Listener;
use options::protocol_opener;
use slab::Slab;
use socket_file::SocketFile;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::unix::net::SocketAddr as UnixAddress;
use std::path::Path;
use std::rc::{Rc, Weak};

/// A listening server. Created by [`EventLoop::create_server`], [`start_server`](crate::net::start_server) and their
/// siblings.
///
/// Dropping it stops listening; open connections continue. It is not `Send`.
///
/// ```
/// use mainspring::net::{TcpStream, start_server};
///
/// mainspring::run(async {
///     let server = start_server("127.0.0.1:0", |reader, _writer| async move {
///         let _ = reader.read_to_end().await;
///     })
///     .await?;
///     let client = TcpStream::connect(server.local_addr()).await?;
///     client.write_all(b"x").await?;
///     server.close();
///     server.close_clients();
///     server.wait_closed().await;
///     assert!(!server.is_serving());
///     assert_eq!(client.read_to_end().await?, b"");
///     Ok::<(), std::io::Error>(())
/// })??;
/// # Ok::<(), mainspring::Error>(())
/// ```
pub struct Server {
    state: Rc<ServerState>,
    addresses: Vec<PeerAddress>,
    inet: Vec<SocketAddr>,
}

struct ServerState {
    core: Weak<Core>,
    backlog: u32,
    listeners: RefCell<Vec<Rc<Listener<RustHost, ServerAcceptor>>>>,
    files: Cell<Vec<SocketFile>>,
    is_started: Cell<bool>,
    is_closed: Cell<bool>,
    /// Open connections. An entry is `None` while its connection is being opened.
    clients: RefCell<Slab<Option<WeakTransport>>>,
    waiters: WaitList,
}

impl EventLoop {
    /// Listens on every address of `address` and attaches a protocol from the factory to each connection. Port 0
    /// selects a free port. `backlog` is the length of the kernel's queue.
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
    ///
    /// [`ServerOptions`] offers more control.
    ///
    /// Cancel safety: dropping the future closes the bound sockets.
    pub async fn create_server<P: Protocol>(
        &self,
        address: impl ToAddress,
        backlog: u32,
        protocol_factory: impl Fn() -> P + 'static,
    ) -> io::Result<Server> {
        let options = ServerOptions::default().backlog(backlog);
        options.create_server_on(self.core(), address, protocol_opener(protocol_factory)).await
    }

    /// Listens at a Unix path, or at an abstract name (a leading zero byte), and attaches a protocol from the factory
    /// to each connection.
    ///
    /// As in asyncio, an existing socket file is considered stale and is removed; any other file is an error. Closing
    /// the server removes the file, unless another file has replaced it.
    ///
    /// ```
    /// use mainspring::net::UnixStream;
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
    ///     let path = std::env::temp_dir().join(format!("mainspring-unix-{}", std::process::id()));
    ///     let server = EventLoop::current().create_unix_server(&path, || Greeter)?;
    ///     assert_eq!(server.unix_addr().unwrap().as_pathname(), Some(path.as_path()));
    ///     assert_eq!(UnixStream::connect(&path).await?.read_to_end().await?, b"hello");
    ///     Ok::<(), std::io::Error>(())
    /// })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn create_unix_server<P: Protocol>(
        &self,
        path: impl AsRef<Path>,
        protocol_factory: impl Fn() -> P + 'static,
    ) -> io::Result<Server> {
        let opener = protocol_opener(protocol_factory);
        ServerOptions::default().create_unix_server_on(self.core(), path.as_ref(), opener)
    }
}

impl Server {
    pub(in crate::net) fn new(
        core: &Rc<Core>,
        bound: Vec<BoundSocket>,
        options: &ServerOptions,
        opener: Opener,
    ) -> io::Result<Self> {
        let state = Rc::new(ServerState {
            core: Rc::downgrade(core),
            backlog: options.backlog,
            listeners: RefCell::default(),
            files: Cell::default(),
            is_started: Cell::new(false),
            is_closed: Cell::new(false),
            clients: RefCell::default(),
            waiters: WaitList::new(),
        });
        let mut server = Server { state, addresses: Vec::new(), inet: Vec::new() };
        let (mut listeners, mut files) = (Vec::new(), Vec::new());
        for BoundSocket { socket, address, file } in bound {
            let acceptor = ServerAcceptor {
                core: Rc::downgrade(core),
                server: Rc::downgrade(&server.state),
                opener: Rc::clone(&opener),
            };
            listeners.push(Rc::new(Listener::new(socket, acceptor, options.backlog as usize)));
            server.inet.extend(socket_address(&address));
            server.addresses.push(address);
            files.extend(file);
        }
        server.state.files.set(files);
        *server.state.listeners.borrow_mut() = listeners;
        if options.start_serving {
            server.start_serving()?;
        }
        Ok(server)
    }

    /// Starts accepting, if [`ServerOptions::start_serving`] was `false`. Repeated calls have no effect. Fails if the
    /// server is closed.
    ///
    /// ```
    /// use mainspring::net::{ServerOptions, TcpStream};
    ///
    /// # mainspring::run(async {
    /// let options = ServerOptions::new().start_serving(false);
    /// let server = options.start_server("127.0.0.1:0", |_, writer| async move { writer.write(b"hello") }).await?;
    /// assert!(!server.is_serving());
    /// server.start_serving()?;
    /// assert!(server.is_serving());
    /// assert_eq!(TcpStream::connect(server.local_addr()).await?.read_to_end().await?, b"hello");
    /// server.close();
    /// assert_eq!(server.start_serving().unwrap_err().kind(), std::io::ErrorKind::NotConnected);
    /// # std::io::Result::Ok(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn start_serving(&self) -> io::Result<()> {
        if self.state.is_closed.get() {
            return Err(io::Error::new(
                io::ErrorKind::NotConnected,
                "the server is closed: create a new one to listen again",
            ));
        }
        if self.state.is_started.replace(true) {
            return Ok(());
        }
        let core = self.state.core.upgrade().ok_or(crate::Error::Closed)?;
        core.check_open()?;
        let listeners = self.state.listeners.borrow().clone();
        for listener in &listeners {
            start_listening(&core, listener, self.state.backlog)?;
        }
        Ok(())
    }

    /// The first address of the server. For a Unix server, the unspecified address with port 0.
    pub fn local_addr(&self) -> SocketAddr {
        let unspecified = SocketAddr::from(([0, 0, 0, 0], 0));
        self.inet.first().copied().unwrap_or(unspecified)
    }

    /// All IP addresses of the server.
    ///
    /// ```
    /// # mainspring::run(async {
    /// let both: Vec<std::net::SocketAddr> = vec![([127, 0, 0, 1], 0).into(), ([127, 0, 0, 2], 0).into()];
    /// let server = mainspring::net::start_server(both, |_, _| async {}).await?;
    /// assert_eq!(server.local_addrs().len(), 2);
    /// assert_eq!(server.local_addrs()[0], server.local_addr());
    /// # std::io::Result::Ok(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn local_addrs(&self) -> &[SocketAddr] {
        &self.inet
    }

    /// The Unix address of the server, if it has one.
    ///
    /// ```
    /// # mainspring::run(async {
    /// use std::os::linux::net::SocketAddrExt;
    ///
    /// let name = format!("mainspring-doc-unix-addr-{}", std::process::id());
    /// let server = mainspring::net::start_unix_server(format!("\0{name}"), |_, _| async {})?;
    /// assert_eq!(server.unix_addr().unwrap().as_abstract_name(), Some(name.as_bytes()));
    /// # std::io::Result::Ok(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn unix_addr(&self) -> Option<UnixAddress> {
        self.addresses.iter().find_map(unix_address::to_std)
    }

    /// Whether the server is accepting connections.
    pub fn is_serving(&self) -> bool {
        self.state.is_started.get() && !self.state.is_closed.get()
    }

    /// Stops listening. Open connections continue.
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
        let files = self.state.files.take();
        drop(files);
        self.state.waiters.wake_all();
    }

    /// Closes all open connections after their write buffers are sent.
    pub fn close_clients(&self) {
        self.clients().iter().for_each(Transport::close);
    }

    /// Closes all open connections at once and drops their write buffers.
    ///
    /// ```
    /// use mainspring::net::{TcpStream, start_server};
    ///
    /// # mainspring::run(async {
    /// let server = start_server("127.0.0.1:0", |reader, writer| async move {
    ///     writer.write(b"welcome");
    ///     let _ = reader.read_to_end().await;
    /// })
    /// .await?;
    /// let client = TcpStream::connect(server.local_addr()).await?;
    /// assert_eq!(client.read_exactly(7).await?, b"welcome");
    /// server.close();
    /// server.abort_clients();
    /// // The server has dropped the connection, although the client has not closed it.
    /// server.wait_closed().await;
    /// assert_eq!(client.read_to_end().await.unwrap_or_default(), b"");
    /// # std::io::Result::Ok(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn abort_clients(&self) {
        self.clients().iter().for_each(Transport::abort);
    }

    fn clients(&self) -> Vec<Transport> {
        let clients = self.state.clients.borrow();
        clients.iter().filter_map(|(_, client)| client.as_ref()?.upgrade()).collect()
    }

    /// Waits until the server is closed and all its connections are lost.
    ///
    /// Cancel safety: safe; the call only waits.
    pub async fn wait_closed(&self) {
        self.wait_until(|state| state.is_closed.get() && state.clients.borrow().is_empty()).await;
    }

    /// Starts accepting if necessary, and waits until the server is closed.
    ///
    /// Cancel safety: dropping the future closes the server, as in asyncio.
    ///
    /// ```
    /// use mainspring::net::{TcpStream, start_server};
    ///
    /// # mainspring::run(async {
    /// let server = start_server("127.0.0.1:0", |_, writer| async move { writer.write(b"hello") }).await?;
    /// let address = server.local_addr();
    /// let serving = mainspring::spawn(async move { server.serve_forever().await });
    /// assert_eq!(TcpStream::connect(address).await?.read_to_end().await?, b"hello");
    /// serving.cancel();
    /// assert!(serving.await.is_err());
    /// assert!(TcpStream::connect(address).await.is_err());
    /// # std::io::Result::Ok(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub async fn serve_forever(&self) -> io::Result<()> {
        struct CloseOnDrop<'a>(&'a Server);
        impl Drop for CloseOnDrop<'_> {
            fn drop(&mut self) {
                self.0.close();
            }
        }
        self.start_serving()?;
        let _close = CloseOnDrop(self);
        self.wait_until(|state| state.is_closed.get()).await;
        Ok(())
    }

    async fn wait_until(&self, condition: impl Fn(&ServerState) -> bool) {
        // Nothing changes after the loop is closed.
        let is_done = |state: &ServerState| {
            let core = state.core.upgrade();
            condition(state) || core.is_none_or(|core| core.check_open().is_err())
        };
        named(|| "Server::wait_closed", self.state.waiters.wait_until(|| is_done(&self.state).then_some(())))
            .await;
    }
}

/// The address, if it is an IP address.
pub(in crate::net) fn socket_address(peer: &PeerAddress) -> Option<SocketAddr> {
    if let PeerAddress::Inet(address) = peer { Some(*address) } else { None }
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
            .field("connections", &self.state.clients.borrow().len())
            .finish_non_exhaustive()
    }
}
