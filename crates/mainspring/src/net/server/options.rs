//! `ServerOptions`: how to listen, and the functions that start a server or a listener.

use super::bind::{adopt_bound, bind, bind_unix};
use super::streams::{Outcome, stream_opener};
use super::{Opener, Server};
use crate::event_loop::{Core, current_core};
use crate::net::connection::{Protocol, SocketConnection};
use crate::net::resolve::ToAddress;
use crate::net::stream::{DEFAULT_LIMIT, StreamReader, StreamWriter};
use crate::net::tcp::TcpListener;
use crate::net::unix::UnixListener;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::rc::Rc;

/// How to listen: the keyword arguments of asyncio's `create_server` and `start_server`.
///
/// ```
/// use mainspring::net::{ServerOptions, TcpStream};
///
/// mainspring::run(async {
///     let options = ServerOptions::new().backlog(1000).reuse_port(true).start_serving(false);
///     let server = options
///         .start_server("127.0.0.1:0", |reader, writer| async move {
///             writer.write_all(&reader.read_to_end().await?).await
///         })
///         .await?;
///     assert!(!server.is_serving() && TcpStream::connect(server.local_addr()).await.is_err());
///     server.start_serving()?;
///     let stream = TcpStream::connect(server.local_addr()).await?;
///     stream.shutdown();
///     assert_eq!(stream.read_to_end().await?, b"");
///     Ok::<(), std::io::Error>(())
/// })??;
/// # Ok::<(), mainspring::Error>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "options do nothing by themselves"]
pub struct ServerOptions {
    pub(in crate::net) backlog: u32,
    pub(in crate::net) reuse_address: bool,
    pub(in crate::net) reuse_port: bool,
    pub(in crate::net) only_v6: bool,
    pub(in crate::net) keep_alive: bool,
    pub(in crate::net) start_serving: bool,
    pub(in crate::net) cleanup_socket: bool,
    pub(in crate::net) limit: usize,
}

impl Default for ServerOptions {
    fn default() -> Self {
        ServerOptions {
            backlog: 100,
            reuse_address: true,
            reuse_port: false,
            only_v6: true,
            keep_alive: false,
            start_serving: true,
            cleanup_socket: true,
            limit: DEFAULT_LIMIT,
        }
    }
}

impl ServerOptions {
    /// asyncio's defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the length of the kernel's queue of connections. Default: 100.
    pub fn backlog(self, backlog: u32) -> Self {
        ServerOptions { backlog, ..self }
    }

    /// Sets `SO_REUSEADDR`: the address can be bound while old connections are in TIME_WAIT. Default: on.
    ///
    /// ```
    /// use mainspring::net::ServerOptions;
    ///
    /// # mainspring::run(async {
    /// // Two listening sockets never share an address this way.
    /// let options = ServerOptions::new().reuse_address(false);
    /// let listener = options.bind("127.0.0.1:0").await?;
    /// let refused = options.bind(listener.local_addr()).await.unwrap_err();
    /// assert_eq!(refused.kind(), std::io::ErrorKind::AddrInUse);
    /// # std::io::Result::Ok(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn reuse_address(self, reuse_address: bool) -> Self {
        ServerOptions { reuse_address, ..self }
    }

    /// Sets `SO_REUSEPORT`: several sockets may listen on the address if all set it, and the kernel distributes
    /// connections among them. Default: off.
    pub fn reuse_port(self, reuse_port: bool) -> Self {
        ServerOptions { reuse_port, ..self }
    }

    /// Sets `IPV6_V6ONLY`: an IPv6 socket does not accept IPv4 connections, so that both addresses of a name can be
    /// bound. Default: on.
    ///
    /// ```
    /// use mainspring::net::{ServerOptions, TcpStream};
    ///
    /// # mainspring::run(async {
    /// # // Skipped on a machine without IPv6.
    /// # if ServerOptions::new().bind("[::1]:0").await.is_err() { return Ok(()) }
    /// let listener = ServerOptions::new().only_v6(false).bind("[::]:0").await?;
    /// let client = TcpStream::connect(("127.0.0.1", listener.local_addr().port())).await?;
    /// let (_, from) = listener.accept().await?;
    /// assert_eq!(Some(from.port()), client.local_addr().map(|local| local.port()));
    /// # std::io::Result::Ok(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn only_v6(self, only_v6: bool) -> Self {
        ServerOptions { only_v6, ..self }
    }

    /// Sets `SO_KEEPALIVE` on accepted connections. Default: off.
    ///
    /// ```
    /// use mainspring::net::{ServerOptions, TcpStream};
    ///
    /// # mainspring::run(async {
    /// let listener = ServerOptions::new().keep_alive(true).bind("127.0.0.1:0").await?;
    /// let _client = TcpStream::connect(listener.local_addr()).await?;
    /// assert!(listener.accept().await?.0.keep_alive()?);
    /// # std::io::Result::Ok(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn keep_alive(self, keep_alive: bool) -> Self {
        ServerOptions { keep_alive, ..self }
    }

    /// Whether a [`Server`] accepts at once. Otherwise call [`Server::start_serving`]. Default: on.
    pub fn start_serving(self, start_serving: bool) -> Self {
        ServerOptions { start_serving, ..self }
    }

    /// Whether closing a Unix server removes its socket file. Default: on.
    ///
    /// ```
    /// use mainspring::net::ServerOptions;
    ///
    /// # mainspring::run(async {
    /// # let path = std::env::temp_dir().join(format!("mainspring-doc-cleanup-{}", std::process::id()));
    /// let listener = ServerOptions::new().cleanup_socket(false).bind_unix(&path)?;
    /// drop(listener);
    /// assert!(path.exists());
    /// # std::fs::remove_file(path)?;
    /// # std::io::Result::Ok(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn cleanup_socket(self, cleanup_socket: bool) -> Self {
        ServerOptions { cleanup_socket, ..self }
    }

    /// Sets the [limit](StreamReader::limit) of the readers.
    ///
    /// ```
    /// use mainspring::net::{ReadError, ServerOptions, TcpStream};
    ///
    /// # mainspring::run(async {
    /// let listener = ServerOptions::new().limit(4).bind("127.0.0.1:0").await?;
    /// let client = TcpStream::connect(listener.local_addr()).await?;
    /// let (stream, _) = listener.accept().await?;
    /// client.write_all(b"a line that is too long\n").await?;
    /// assert!(matches!(stream.read_line().await, Err(ReadError::LimitOverrun { limit: 4, .. })));
    /// # std::io::Result::Ok(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn limit(self, limit: usize) -> Self {
        ServerOptions { limit, ..self }
    }

    /// See [`EventLoop::create_server`](crate::EventLoop::create_server). Uses the running loop.
    ///
    /// Cancel safety: dropping the future closes the bound sockets.
    ///
    /// ```
    /// use mainspring::net::{Protocol, ServerOptions, TcpStream, Transport};
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
    /// # mainspring::run(async {
    /// let server = ServerOptions::new().backlog(10).create_server("127.0.0.1:0", || Greeter).await?;
    /// assert_eq!(TcpStream::connect(server.local_addr()).await?.read_to_end().await?, b"hello");
    /// # std::io::Result::Ok(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub async fn create_server<P: Protocol>(
        &self,
        address: impl ToAddress,
        protocol_factory: impl Fn() -> P + 'static,
    ) -> io::Result<Server> {
        self.create_server_on(&current_core()?, address, protocol_opener(protocol_factory)).await
    }

    pub(crate) async fn create_server_on(
        &self,
        core: &Rc<Core>,
        address: impl ToAddress,
        opener: Opener,
    ) -> io::Result<Server> {
        core.check_open()?;
        let bound = bind(core, address, self).await?;
        Server::new(core, bound, self, opener)
    }

    /// As [`create_server`](ServerOptions::create_server), on a socket that the caller has bound: the `sock` argument
    /// of asyncio's `create_server`.
    ///
    /// ```
    /// use mainspring::Protocol;
    /// use mainspring::net::ServerOptions;
    ///
    /// struct Silent;
    /// impl Protocol for Silent {}
    ///
    /// mainspring::run(async {
    ///     let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    ///     let address = listener.local_addr()?;
    ///     let server = ServerOptions::new().create_server_from(listener, || Silent)?;
    ///     assert_eq!(server.local_addr(), address);
    ///     Ok::<(), std::io::Error>(())
    /// })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn create_server_from<P: Protocol>(
        &self,
        socket: impl Into<OwnedFd>,
        protocol_factory: impl Fn() -> P + 'static,
    ) -> io::Result<Server> {
        let core = current_core()?;
        Server::new(&core, vec![adopt_bound(socket.into())?], self, protocol_opener(protocol_factory))
    }

    /// See [`EventLoop::create_unix_server`](crate::EventLoop::create_unix_server). Uses the running loop.
    ///
    /// ```
    /// use mainspring::net::{Protocol, ServerOptions, Transport, UnixStream};
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
    /// # mainspring::run(async {
    /// let name = format!("\0mainspring-doc-create-unix-{}", std::process::id());
    /// let _server = ServerOptions::new().backlog(10).create_unix_server(&name, || Greeter)?;
    /// assert_eq!(UnixStream::connect(&name).await?.read_to_end().await?, b"hello");
    /// # std::io::Result::Ok(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn create_unix_server<P: Protocol>(
        &self,
        path: impl AsRef<Path>,
        protocol_factory: impl Fn() -> P + 'static,
    ) -> io::Result<Server> {
        self.create_unix_server_on(&current_core()?, path.as_ref(), protocol_opener(protocol_factory))
    }

    pub(crate) fn create_unix_server_on(
        &self,
        core: &Rc<Core>,
        path: &Path,
        opener: Opener,
    ) -> io::Result<Server> {
        core.check_open()?;
        let bound = bind_unix(core, path, self)?;
        Server::new(core, vec![bound], self, opener)
    }

    /// See [`start_server`](crate::net::start_server).
    ///
    /// Cancel safety: dropping the future closes the bound sockets.
    pub async fn start_server<F>(
        &self,
        address: impl ToAddress,
        client_connected: impl Fn(StreamReader, StreamWriter) -> F + 'static,
    ) -> io::Result<Server>
    where
        F: Future<Output: Outcome> + 'static,
    {
        self.create_server_on(&current_core()?, address, stream_opener(self.limit, client_connected)).await
    }

    /// See [`start_unix_server`](crate::net::start_unix_server).
    ///
    /// ```
    /// use mainspring::net::{ServerOptions, UnixStream};
    ///
    /// # mainspring::run(async {
    /// let name = format!("\0mainspring-doc-start-unix-{}", std::process::id());
    /// let options = ServerOptions::new().backlog(10);
    /// let _server = options.start_unix_server(&name, |_, writer| async move { writer.write(b"hello") })?;
    /// assert_eq!(UnixStream::connect(&name).await?.read_to_end().await?, b"hello");
    /// # std::io::Result::Ok(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn start_unix_server<F>(
        &self,
        path: impl AsRef<Path>,
        client_connected: impl Fn(StreamReader, StreamWriter) -> F + 'static,
    ) -> io::Result<Server>
    where
        F: Future<Output: Outcome> + 'static,
    {
        self.create_unix_server_on(
            &current_core()?,
            path.as_ref(),
            stream_opener(self.limit, client_connected),
        )
    }

    /// See [`TcpListener::bind`].
    ///
    /// Cancel safety: dropping the future closes the bound sockets.
    ///
    /// ```
    /// use mainspring::net::{ServerOptions, TcpStream};
    ///
    /// # mainspring::run(async {
    /// let listener = ServerOptions::new().backlog(10).bind("127.0.0.1:0").await?;
    /// let client = TcpStream::connect(listener.local_addr()).await?;
    /// assert_eq!(Some(listener.accept().await?.1), client.local_addr());
    /// # std::io::Result::Ok(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub async fn bind(&self, address: impl ToAddress) -> io::Result<TcpListener> {
        let core = current_core()?;
        TcpListener::new(&core, bind(&core, address, self).await?, self)
    }

    /// See [`UnixListener::bind`].
    ///
    /// ```
    /// use mainspring::net::{ServerOptions, UnixStream};
    ///
    /// # mainspring::run(async {
    /// let name = format!("\0mainspring-doc-bind-unix-{}", std::process::id());
    /// let listener = ServerOptions::new().limit(1024).bind_unix(&name)?;
    /// let _client = UnixStream::connect(&name).await?;
    /// assert_eq!(listener.accept().await?.split().0.limit(), 1024);
    /// # std::io::Result::Ok(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn bind_unix(&self, path: impl AsRef<Path>) -> io::Result<UnixListener> {
        let core = current_core()?;
        UnixListener::new(&core, bind_unix(&core, path.as_ref(), self)?, self)
    }
}

/// Opener that attaches a protocol from the factory to each connection.
pub(in crate::net) fn protocol_opener<P: Protocol>(factory: impl Fn() -> P + 'static) -> Opener {
    Rc::new(move |core, socket, peer, connection| {
        SocketConnection::open(core, socket, peer, Rc::new(factory()), Some(connection))
    })
}
