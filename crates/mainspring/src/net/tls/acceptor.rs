//! `TlsAcceptor`: the server side.

use super::protocol::{Setup, TlsProtocol};
use super::settings::{Timeouts, tls_settings};
use super::stream::TlsStream;
use super::upgrade::{finish_handshake, upgrade};
use crate::event_loop::current_core;
use crate::net::connection::SocketConnection;
use crate::net::server::{Opener, Outcome, report_outcome};
use crate::net::stream::{DEFAULT_LIMIT, PendingStream, Stream};
use crate::net::{Protocol, Server, ServerOptions, ToAddress, Transport};
use crate::task::Task;
use mainspring_engine::tls::TlsOptions;
use rustls::{Connection, ServerConfig, ServerConnection};
use std::io;
use std::rc::Rc;
use std::sync::Arc;

/// Accepts TLS clients. The rustls [`ServerConfig`] sets certificates, client authentication, ALPN, versions and
/// session resumption.
///
/// Clones share the configuration. It is `Send`.
///
/// TLS failures are [`io::Error`]s with a [`TlsError`](super::TlsError) inside.
///
/// ```
/// use mainspring::net::tls::TlsAcceptor;
/// use mainspring::net::tls::rustls::{ServerConfig, server::ResolvesServerCertUsingSni};
/// use mainspring::net::{TcpStream, Protocol, Transport};
/// use std::sync::Arc;
/// use std::time::Duration;
///
/// struct Echo;
///
/// impl Protocol for Echo {
///     fn data_received(&self, transport: &Transport, data: &[u8]) {
///         transport.write(data);
///     }
/// }
///
/// # let _ = mainspring::net::tls::rustls::crypto::ring::default_provider().install_default();
/// // Add certificates here.
/// let certificates = Arc::new(ResolvesServerCertUsingSni::new());
/// let config = ServerConfig::builder().with_no_client_auth().with_cert_resolver(certificates);
/// let acceptor = TlsAcceptor::new(config)
///     .handshake_timeout(Duration::from_secs(5))
///     .shutdown_timeout(Duration::from_secs(1));
/// assert!(acceptor.config().alpn_protocols.is_empty());
///
/// mainspring::run(async {
///     let server = acceptor.create_server("127.0.0.1:0", 100, || Echo).await?;
///     // A client that disconnects before the handshake is not an error.
///     TcpStream::connect(server.local_addr()).await?.close().await?;
///     server.close();
///     server.wait_closed().await;
///     assert!(!server.is_serving());
///     Ok::<(), std::io::Error>(())
/// })??;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct TlsAcceptor {
    config: Arc<ServerConfig>,
    timeouts: Timeouts,
}

tls_settings!(TlsAcceptor, ServerConfig);

impl TlsAcceptor {
    pub(super) fn session(&self) -> Result<Connection, rustls::Error> {
        ServerConnection::new(Arc::clone(&self.config)).map(Connection::Server)
    }

    /// TLS as a protocol for one connection, with `protocol` on top of it. See [`TlsProtocol`].
    ///
    /// ```
    /// # use mainspring::net::tls::rustls::{ClientConfig, RootCertStore, ServerConfig};
    /// # use mainspring::net::tls::rustls::pki_types::PrivatePkcs8KeyDer;
    /// # use mainspring::net::tls::{TlsAcceptor, TlsConnector};
    /// # let _ = mainspring::net::tls::rustls::crypto::ring::default_provider().install_default();
    /// # let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    /// # let certificate = made.cert.der().clone();
    /// # let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    /// # let mut roots = RootCertStore::empty();
    /// # roots.add(certificate.clone()).unwrap();
    /// # let connector =
    /// #     TlsConnector::new(ClientConfig::builder().with_root_certificates(roots).with_no_client_auth());
    /// # let server = ServerConfig::builder().with_no_client_auth();
    /// # let acceptor = TlsAcceptor::new(server.with_single_cert(vec![certificate], key.into()).unwrap());
    /// use mainspring::net::{Protocol, ServerOptions, Transport};
    /// use std::rc::Rc;
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
    /// // A server with custom options.
    /// let make = move || acceptor.protocol(Rc::new(Greeter));
    /// let server = ServerOptions::new().reuse_port(true).create_server("127.0.0.1:0", make).await?;
    /// let stream = connector.open_connection(server.local_addr(), "localhost").await?;
    /// assert_eq!(stream.read_to_end().await?, b"hello");
    /// # std::io::Result::Ok(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn protocol(&self, protocol: Rc<dyn Protocol>) -> TlsProtocol {
        TlsProtocol::new(Setup { session: self.session(), protocol, options: self.options() })
    }

    /// Listens on every address of `address` on the running loop, and attaches a protocol from the factory to each
    /// connection after the handshake: asyncio's `create_server` with `ssl=`. Port 0 selects a free port.
    ///
    /// Failed handshakes are reported to the exception handler, except disconnects by the peer.
    ///
    /// Cancel safety: dropping the future closes the bound sockets.
    ///
    /// ```
    /// # use mainspring::net::tls::rustls::{ClientConfig, RootCertStore, ServerConfig};
    /// # use mainspring::net::tls::rustls::pki_types::PrivatePkcs8KeyDer;
    /// # use mainspring::net::tls::{TlsAcceptor, TlsConnector};
    /// # let _ = mainspring::net::tls::rustls::crypto::ring::default_provider().install_default();
    /// # let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    /// # let certificate = made.cert.der().clone();
    /// # let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    /// # let mut roots = RootCertStore::empty();
    /// # roots.add(certificate.clone()).unwrap();
    /// # let connector =
    /// #     TlsConnector::new(ClientConfig::builder().with_root_certificates(roots).with_no_client_auth());
    /// # let server = ServerConfig::builder().with_no_client_auth();
    /// # let acceptor = TlsAcceptor::new(server.with_single_cert(vec![certificate], key.into()).unwrap());
    /// use mainspring::net::{Protocol, Transport};
    ///
    /// struct Echo;
    ///
    /// impl Protocol for Echo {
    ///     fn data_received(&self, transport: &Transport, data: &[u8]) {
    ///         transport.write(data);
    ///     }
    /// }
    ///
    /// # mainspring::run(async {
    /// let server = acceptor.create_server("127.0.0.1:0", 100, || Echo).await?;
    /// let stream = connector.open_connection(server.local_addr(), "localhost").await?;
    /// stream.write_all(b"a secret").await?;
    /// assert_eq!(stream.read_exactly(8).await?, b"a secret");
    /// # std::io::Result::Ok(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
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

    /// Listens on every address of `address` on the running loop. After each handshake it calls `client_connected`
    /// with the stream and runs the returned future as a task: asyncio's `start_server` with `ssl=`.
    ///
    /// The task returns `()` or a `Result`. Its errors and failed handshakes are reported to the exception handler,
    /// except disconnects by the peer.
    ///
    /// Cancel safety: dropping the future closes the bound sockets.
    ///
    /// ```
    /// # use mainspring::net::tls::rustls::{ClientConfig, RootCertStore, ServerConfig};
    /// # use mainspring::net::tls::rustls::pki_types::PrivatePkcs8KeyDer;
    /// # use mainspring::net::tls::{TlsAcceptor, TlsConnector};
    /// # let _ = mainspring::net::tls::rustls::crypto::ring::default_provider().install_default();
    /// # let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    /// # let certificate = made.cert.der().clone();
    /// # let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    /// # let mut roots = RootCertStore::empty();
    /// # roots.add(certificate.clone()).unwrap();
    /// # let connector =
    /// #     TlsConnector::new(ClientConfig::builder().with_root_certificates(roots).with_no_client_auth());
    /// # let server = ServerConfig::builder().with_no_client_auth();
    /// # let acceptor = TlsAcceptor::new(server.with_single_cert(vec![certificate], key.into()).unwrap());
    /// # mainspring::run(async {
    /// let server = acceptor
    ///     .start_server("127.0.0.1:0", |stream| async move {
    ///         let line = stream.read_line().await?;
    ///         stream.write_all(&line).await?;
    ///         stream.close().await
    ///     })
    ///     .await?;
    /// let stream = connector.open_connection(server.local_addr(), "localhost").await?;
    /// stream.write_all(b"a secret\n").await?;
    /// assert_eq!(stream.read_to_end().await?, b"a secret\n");
    /// # std::io::Result::Ok(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub async fn start_server<F>(
        &self,
        address: impl ToAddress,
        client_connected: impl Fn(TlsStream) -> F + 'static,
    ) -> io::Result<Server>
    where
        F: Future<Output: Outcome> + 'static,
    {
        let opener = self.stream_opener(client_connected);
        ServerOptions::new().create_server_on(&current_core()?, address, opener).await
    }

    /// Opener that runs a task for each connection.
    fn stream_opener<F>(&self, client_connected: impl Fn(TlsStream) -> F + 'static) -> Opener
    where
        F: Future<Output: Outcome> + 'static,
    {
        let acceptor = self.clone();
        let client_connected = Rc::new(client_connected);
        Rc::new(move |core, socket, peer, connection| {
            let pending = PendingStream::new(DEFAULT_LIMIT);
            let tls = Rc::new(acceptor.protocol(pending.protocol()));
            tls.expect_handshake();
            let protocol = Rc::<TlsProtocol>::clone(&tls);
            let lower = SocketConnection::open(core, socket, peer, protocol, Some(connection));
            let (weak_core, handshaking) = (Rc::downgrade(core), lower.clone());
            let client_connected = Rc::clone(&client_connected);
            Task::start(core, async move {
                match finish_handshake(&handshaking, &tls).await {
                    Ok(secure) => {
                        drop((handshaking, tls));
                        let stream = TlsStream::new(pending.open(secure));
                        report_outcome(&weak_core, client_connected(stream).await);
                    }
                    Err(error) => report_outcome(&weak_core, Err::<(), _>(error)),
                }
            });
            lower
        })
    }

    /// Upgrades a stream to TLS, as the server. Unread bytes are treated as the start of the handshake. The write
    /// buffer is sent first.
    ///
    /// Cancel safety: dropping the future closes the connection.
    ///
    /// ```
    /// # use mainspring::net::tls::rustls::{ClientConfig, RootCertStore, ServerConfig};
    /// # use mainspring::net::tls::rustls::pki_types::PrivatePkcs8KeyDer;
    /// # use mainspring::net::tls::{TlsAcceptor, TlsConnector};
    /// # let _ = mainspring::net::tls::rustls::crypto::ring::default_provider().install_default();
    /// # let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    /// # let certificate = made.cert.der().clone();
    /// # let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    /// # let mut roots = RootCertStore::empty();
    /// # roots.add(certificate.clone()).unwrap();
    /// # let connector =
    /// #     TlsConnector::new(ClientConfig::builder().with_root_certificates(roots).with_no_client_auth());
    /// # let server = ServerConfig::builder().with_no_client_auth();
    /// # let acceptor = TlsAcceptor::new(server.with_single_cert(vec![certificate], key.into()).unwrap());
    /// use mainspring::net::UnixStream;
    ///
    /// # mainspring::run(async {
    /// let (stream, peer) = UnixStream::pair()?;
    /// let (client, server) =
    ///     mainspring::try_join((connector.connect("localhost", stream), acceptor.accept(peer))).await?;
    /// server.write_all(b"hello").await?;
    /// assert_eq!(client.read_exactly(5).await?, b"hello");
    /// # std::io::Result::Ok(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub async fn accept(&self, stream: impl Into<Stream>) -> io::Result<TlsStream> {
        TlsStream::upgrade_stream(stream.into(), self.session(), self.options()).await
    }

    /// Upgrades an open connection to TLS, as the server: asyncio's `start_tls` with `server_side=`. From then on
    /// `protocol` receives the events of the TLS connection. `connection_made` is not called again.
    ///
    /// Bytes that the old protocol has received are not part of the handshake. The write buffer is sent first, even
    /// if writing is paused.
    ///
    /// Cancel safety: dropping the future after its first poll closes the connection.
    ///
    /// ```
    /// # use mainspring::net::tls::rustls::{ClientConfig, RootCertStore, ServerConfig};
    /// # use mainspring::net::tls::rustls::pki_types::PrivatePkcs8KeyDer;
    /// # use mainspring::net::tls::{TlsAcceptor, TlsConnector};
    /// # let _ = mainspring::net::tls::rustls::crypto::ring::default_provider().install_default();
    /// # let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    /// # let certificate = made.cert.der().clone();
    /// # let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    /// # let mut roots = RootCertStore::empty();
    /// # roots.add(certificate.clone()).unwrap();
    /// # let connector =
    /// #     TlsConnector::new(ClientConfig::builder().with_root_certificates(roots).with_no_client_auth());
    /// # let server = ServerConfig::builder().with_no_client_auth();
    /// # let acceptor = TlsAcceptor::new(server.with_single_cert(vec![certificate], key.into()).unwrap());
    /// use mainspring::net::{Protocol, Transport, UnixStream};
    /// use std::rc::Rc;
    ///
    /// /// Plain text, until the upgrade.
    /// struct Plain;
    /// impl Protocol for Plain {}
    ///
    /// struct Echo;
    ///
    /// impl Protocol for Echo {
    ///     fn data_received(&self, transport: &Transport, data: &[u8]) {
    ///         transport.write(data);
    ///     }
    /// }
    ///
    /// # mainspring::run(async {
    /// let (stream, peer) = std::os::unix::net::UnixStream::pair()?;
    /// let event_loop = mainspring::EventLoop::current();
    /// let (transport, _) = event_loop.connect_accepted_socket(peer, || Plain).await?;
    /// let upgrade = acceptor.start_tls(&transport, Rc::new(Echo));
    /// let client = connector.connect("localhost", UnixStream::from_std(stream)?);
    /// let (_secure, client) = mainspring::try_join((upgrade, client)).await?;
    /// client.write_all(b"a secret").await?;
    /// assert_eq!(client.read_exactly(8).await?, b"a secret");
    /// # std::io::Result::Ok(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub async fn start_tls(
        &self,
        transport: &Transport,
        protocol: Rc<dyn Protocol>,
    ) -> io::Result<Transport> {
        let options = TlsOptions { is_upgrade: true, ..self.options() };
        upgrade(transport, &[], self.session(), protocol, options).await
    }
}
