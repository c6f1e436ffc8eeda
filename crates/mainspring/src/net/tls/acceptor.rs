//! `TlsAcceptor`: the server's side.

use super::protocol::{Setup, TlsProtocol};
use super::stream::TlsStream;
use super::upgrade::{Limits, establish, upgrade};
use crate::net::server::Opener;
use crate::net::socket::SocketConnection;
use crate::net::start_server::{Outcome, tell};
use crate::net::stream::{Buffered, LIMIT, Stream};
use crate::net::{Protocol, Server, ServerOptions, ToAddress, Transport, current_core};
use crate::task::Task;
use crate::tls::TlsOptions;
use rustls::{Connection, ServerConfig, ServerConnection};
use std::fmt;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Serves TLS clients, as a [`ServerConfig`] of rustls has it: certificates to show, what to ask of clients, ALPN,
/// versions, sessions to go on with.
///
/// A clone shares the configuration. It may be sent to other threads.
///
/// ```
/// use mainspring::net::tls::TlsAcceptor;
/// use mainspring::net::tls::rustls::{ServerConfig, server::ResolvesServerCertUsingSni};
/// use mainspring::{Protocol, Transport};
/// use std::sync::Arc;
///
/// struct Echo;
///
/// impl Protocol for Echo {
///     fn data_received(&self, transport: &Transport, data: &[u8]) {
///         transport.write(data);
///     }
/// }
///
/// // Certificates to show are added here.
/// let certificates = Arc::new(ResolvesServerCertUsingSni::new());
/// let config = ServerConfig::builder().with_no_client_auth().with_cert_resolver(certificates);
/// let acceptor = TlsAcceptor::new(config);
///
/// mainspring::run(async {
///     let server = acceptor.create_server("127.0.0.1:0", 100, || Echo).await?;
///     server.close();
///     server.wait_closed().await;
///     Ok::<(), std::io::Error>(())
/// })??;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct TlsAcceptor {
    config: Arc<ServerConfig>,
    limits: Limits,
}

impl TlsAcceptor {
    /// With asyncio's time limits: a minute for the handshake, half a minute for the shutdown.
    pub fn new(config: impl Into<Arc<ServerConfig>>) -> Self {
        TlsAcceptor { config: config.into(), limits: Limits::default() }
    }

    /// Limits how long a handshake may take.
    #[must_use]
    pub fn handshake_timeout(mut self, limit: Duration) -> Self {
        self.limits.handshake = limit;
        self
    }

    /// Limits how long a shutdown may take: until the peer has answered our goodbye and taken what was sent.
    #[must_use]
    pub fn shutdown_timeout(mut self, limit: Duration) -> Self {
        self.limits.shutdown = limit;
        self
    }

    /// The configuration.
    pub fn config(&self) -> &Arc<ServerConfig> {
        &self.config
    }

    pub(super) fn session(&self) -> Result<Connection, rustls::Error> {
        ServerConnection::new(Arc::clone(&self.config)).map(Connection::Server)
    }

    pub(super) fn options(&self) -> TlsOptions {
        self.limits.options()
    }

    /// TLS as a protocol for one connection, below `protocol`. See [`TlsProtocol`].
    pub fn protocol(&self, protocol: Rc<dyn Protocol>) -> TlsProtocol {
        TlsProtocol::new(Setup { session: self.session(), protocol, options: self.options() })
    }

    /// Listens on every address of `address` (port 0: one that is free) on the loop that runs here, and puts a protocol
    /// of the factory on each connection that comes and shakes hands. asyncio's `create_server` with `ssl=`.
    ///
    /// The exception handler is told of handshakes that fail, unless it is only that the peer went away.
    ///
    /// Cancel safety: giving up stops listening.
    pub async fn create_server<P: Protocol>(
        &self,
        address: impl ToAddress,
        backlog: u32,
        protocol_factory: impl Fn() -> P + 'static,
    ) -> io::Result<Server> {
        let acceptor = self.clone();
        let factory = move || acceptor.protocol(Rc::new(protocol_factory()));
        ServerOptions::new().backlog(backlog).create_server(address, factory).await
    }

    /// Listens on every address of `address` on the loop that runs here, and runs a task for each connection that comes
    /// and shakes hands: what `client_connected` gives for its stream. asyncio's `start_server` with `ssl=`.
    ///
    /// The task may end with nothing or with a `Result`, whose error the exception handler is told, but for a peer that
    /// went away; so it is told of handshakes.
    ///
    /// Cancel safety: dropping this future closes what was bound.
    pub async fn start_server<F>(
        &self,
        address: impl ToAddress,
        client_connected: impl Fn(TlsStream) -> F + 'static,
    ) -> io::Result<Server>
    where
        F: Future<Output: Outcome> + 'static,
    {
        let opener = self.streams(client_connected);
        ServerOptions::new().create_server_on(&current_core()?, address, opener).await
    }

    /// Runs a task for each connection.
    fn streams<F>(&self, client_connected: impl Fn(TlsStream) -> F + 'static) -> Opener
    where
        F: Future<Output: Outcome> + 'static,
    {
        let acceptor = self.clone();
        let client_connected = Rc::new(client_connected);
        Rc::new(move |core, socket, peer, connection| {
            let buffered = Rc::new(Buffered::new(LIMIT));
            let tls = Rc::new(acceptor.protocol(Rc::<Buffered>::clone(&buffered)));
            tls.expect_handshake();
            let protocol = Rc::<TlsProtocol>::clone(&tls);
            let below = SocketConnection::open(core, socket, peer, protocol, Some(connection));
            let (then, handshaking) = (Rc::downgrade(core), below.clone());
            let client_connected = Rc::clone(&client_connected);
            Task::start(core, async move {
                match establish(&handshaking, &tls).await {
                    Ok(secure) => {
                        drop((handshaking, tls));
                        let stream = TlsStream::new(Stream::of(&secure, buffered));
                        drop(secure);
                        tell(&then, client_connected(stream).await);
                    }
                    Err(error) => tell(&then, Err::<(), _>(error)),
                }
            });
            below
        })
    }

    /// Makes a stream secure, as its server. What was received and not read is taken for the beginning of TLS, and what
    /// was written is sent before it.
    ///
    /// Cancel safety: giving up closes the connection.
    pub async fn accept(&self, stream: impl Into<Stream>) -> io::Result<TlsStream> {
        TlsStream::over(stream.into(), self.session(), self.options()).await
    }

    /// Makes a connection secure that is in use, as its server: asyncio's `start_tls` with `server_side=`. From here on
    /// `protocol` is told of the secure connection, and of nothing else; it is not told that it is connected once more.
    ///
    /// Bytes that the protocol received before are not part of it. What was written before is sent before, also if
    /// writing is paused.
    ///
    /// Cancel safety: giving up closes the connection.
    pub async fn start_tls(
        &self,
        transport: &Transport,
        protocol: Rc<dyn Protocol>,
    ) -> io::Result<Transport> {
        let options = TlsOptions { is_upgrade: true, ..self.options() };
        upgrade(transport, &[], self.session(), protocol, options).await
    }
}

impl fmt::Debug for TlsAcceptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsAcceptor").field("limits", &self.limits).finish_non_exhaustive()
    }
}
