//! `TlsConnector`: the client side.

use super::error::TlsError;
use super::protocol::{Setup, TlsProtocol};
use super::settings::{Timeouts, tls_settings};
use super::stream::TlsStream;
use super::upgrade::{finish_handshake, upgrade};
use crate::net::{ConnectOptions, Protocol, Stream, TcpStream, ToAddress, Transport};
use mainspring_engine::tls::TlsOptions;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, Connection};
use std::io;
use std::rc::Rc;
use std::sync::Arc;

/// Connects to TLS servers. The rustls [`ClientConfig`] sets root certificates, client certificates, ALPN, versions
/// and session resumption.
///
/// A server name is a host name or an IP address. It is sent to the server (SNI) and must match the certificate.
/// Clones share the configuration. It is `Send`.
///
/// TLS failures are [`io::Error`]s with a [`TlsError`] inside.
///
/// ```
/// use mainspring::net::tls::rustls::{ClientConfig, RootCertStore};
/// use mainspring::net::tls::{TlsConnector, TlsError};
/// use mainspring::net::{TcpListener, TcpStream};
/// use std::time::Duration;
///
/// # let _ = mainspring::net::tls::rustls::crypto::ring::default_provider().install_default();
/// // Add root certificates here.
/// let roots = RootCertStore::empty();
/// let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
/// let connector = TlsConnector::new(config)
///     .handshake_timeout(Duration::from_secs(5))
///     .shutdown_timeout(Duration::from_secs(1));
/// assert!(connector.config().enable_sni);
///
/// mainspring::run(async {
///     let listener = TcpListener::bind("127.0.0.1:0").await?;
///     let stream = TcpStream::connect(listener.local_addr()).await?;
///     let (server, _) = listener.accept().await?;
///     server.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await?;
///     let error = connector.connect("localhost", stream).await.unwrap_err();
///     assert!(matches!(TlsError::of(&error), Some(TlsError::NotTls)));
///     Ok::<(), std::io::Error>(())
/// })??;
/// # Ok::<(), mainspring::Error>(())
/// ```
#[derive(Clone)]
pub struct TlsConnector {
    config: Arc<ClientConfig>,
    timeouts: Timeouts,
}

tls_settings!(TlsConnector, ClientConfig);

impl TlsConnector {
    /// Fails with [`TlsError::InvalidName`] if the name is invalid.
    pub(super) fn session(&self, server_name: &str) -> io::Result<Result<Connection, rustls::Error>> {
        let name = ServerName::try_from(server_name.to_owned())
            .map_err(|_| TlsError::InvalidName(server_name.to_owned()))?;
        Ok(ClientConnection::new(Arc::clone(&self.config), name).map(Connection::Client))
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
    /// use mainspring::net::{ConnectOptions, Protocol, Transport};
    /// use std::rc::Rc;
    ///
    /// struct Hello;
    ///
    /// impl Protocol for Hello {
    ///     fn connection_made(&self, transport: &Transport) {
    ///         transport.write(b"hello\n");
    ///     }
    /// }
    ///
    /// # mainspring::run(async {
    /// # let server = acceptor
    /// #     .start_server("127.0.0.1:0", |stream| async move {
    /// #         assert_eq!(stream.read_line().await?, b"hello\n");
    /// #         stream.close().await
    /// #     })
    /// #     .await?;
    /// // A connection with custom options.
    /// let tls = connector.protocol("localhost", Rc::new(Hello))?;
    /// let options = ConnectOptions::new().local_addr("127.0.0.1:0");
    /// let (_transport, tls) = options.create_connection(server.local_addr(), || tls).await?;
    /// let secure = tls.handshake().await?;
    /// assert!(secure.get_protocol().is_some());
    /// # server.close();
    /// # server.wait_closed().await;
    ///
    /// assert!(connector.protocol("not a name", Rc::new(Hello)).is_err());
    /// # std::io::Result::Ok(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn protocol(&self, server_name: &str, protocol: Rc<dyn Protocol>) -> io::Result<TlsProtocol> {
        let session = self.session(server_name)?;
        Ok(TlsProtocol::new(Setup { session, protocol, options: self.options() }))
    }

    /// Connects to `address` on the running loop, performs the handshake with the named server, and attaches a
    /// protocol: asyncio's `create_connection` with `ssl=`.
    ///
    /// Completes when the protocol's `connection_made` has run. If the connection fails earlier, the protocol is not
    /// called.
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
    /// use mainspring::net::{Protocol, Transport};
    /// use mainspring::{EventLoop, Future};
    ///
    /// /// Sends a question and stores the answer.
    /// struct Ask(Future<Vec<u8>>);
    ///
    /// impl Protocol for Ask {
    ///     fn connection_made(&self, transport: &Transport) {
    ///         transport.write(b"a secret\n");
    ///     }
    ///     fn data_received(&self, _: &Transport, data: &[u8]) {
    ///         self.0.set_result(data.to_vec()).unwrap();
    ///     }
    /// }
    ///
    /// # mainspring::run(async {
    /// # let server = acceptor
    /// #     .start_server("127.0.0.1:0", |stream| async move {
    /// #         let line = stream.read_line().await?;
    /// #         stream.write_all(&line).await?;
    /// #         stream.close().await
    /// #     })
    /// #     .await?;
    /// let answer = EventLoop::current().create_future();
    /// let make = || Ask(answer.clone());
    /// let (transport, _) = connector.create_connection(server.local_addr(), "localhost", make).await?;
    /// assert_eq!(answer.await.unwrap(), b"a secret\n");
    /// transport.close();
    /// # std::io::Result::Ok(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub async fn create_connection<P: Protocol>(
        &self,
        address: impl ToAddress,
        server_name: &str,
        protocol_factory: impl FnOnce() -> P,
    ) -> io::Result<(Transport, Rc<P>)> {
        let protocol = Rc::new(protocol_factory());
        let tls = self.protocol(server_name, Rc::<P>::clone(&protocol))?;
        tls.expect_handshake();
        let (lower, tls) = ConnectOptions::new().create_connection(address, || tls).await?;
        Ok((finish_handshake(&lower, &tls).await?, protocol))
    }

    /// Connects to `address` on the running loop and performs the handshake with the named server: asyncio's
    /// `open_connection` with `ssl=`. [`TlsStream::into_split`] returns reader and writer.
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
    /// use mainspring::net::tls::TlsError;
    ///
    /// # mainspring::run(async {
    /// # let server = acceptor
    /// #     .start_server("127.0.0.1:0", |stream| async move { stream.write_all(b"hello").await })
    /// #     .await?;
    /// let stream = connector.open_connection(server.local_addr(), "localhost").await?;
    /// assert_eq!(stream.read_to_end().await?, b"hello");
    ///
    /// let error = connector.open_connection(server.local_addr(), "not a name").await.unwrap_err();
    /// assert!(matches!(TlsError::of(&error), Some(TlsError::InvalidName(_))));
    /// # std::io::Result::Ok(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub async fn open_connection(&self, address: impl ToAddress, server_name: &str) -> io::Result<TlsStream> {
        let session = self.session(server_name)?;
        let stream = TcpStream::connect(address).await?;
        TlsStream::upgrade_stream(stream.into(), session, self.options()).await
    }

    /// Upgrades a stream to TLS, as the client. Unread bytes are treated as the start of the handshake. The write
    /// buffer is sent first. [`ConnectOptions`](crate::net::ConnectOptions) offers more control over the stream.
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
    /// use mainspring::net::{ConnectOptions, TcpStream};
    ///
    /// # mainspring::run(async {
    /// # let server = acceptor
    /// #     .start_server("127.0.0.1:0", |stream| async move { stream.write_all(b"hello").await })
    /// #     .await?;
    /// let plain: TcpStream = ConnectOptions::new().limit(1024).connect(server.local_addr()).await?;
    /// let stream = connector.connect("localhost", plain).await?;
    /// assert_eq!(stream.read_to_end().await?, b"hello");
    /// # std::io::Result::Ok(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub async fn connect(&self, server_name: &str, stream: impl Into<Stream>) -> io::Result<TlsStream> {
        let session = self.session(server_name)?;
        TlsStream::upgrade_stream(stream.into(), session, self.options()).await
    }

    /// Upgrades an open connection to TLS, as the client: asyncio's `start_tls`. From then on `protocol` receives the
    /// events of the TLS connection. `connection_made` is not called again.
    ///
    /// Bytes that the old protocol has received are not part of the handshake, so call this while the peer waits for
    /// the handshake. The write buffer is sent first, even if writing is paused.
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
    /// use mainspring::{EventLoop, Future, try_join};
    /// use std::rc::Rc;
    ///
    /// /// Plain text, until the upgrade.
    /// struct Plain;
    /// impl Protocol for Plain {}
    ///
    /// struct Receive(Future<Vec<u8>>);
    ///
    /// impl Protocol for Receive {
    ///     fn data_received(&self, _: &Transport, data: &[u8]) {
    ///         self.0.set_result(data.to_vec()).unwrap();
    ///     }
    /// }
    ///
    /// # mainspring::run(async {
    /// let event_loop = EventLoop::current();
    /// let (stream, peer) = std::os::unix::net::UnixStream::pair()?;
    /// let (transport, _) = event_loop.connect_accepted_socket(stream, || Plain).await?;
    /// let received = event_loop.create_future();
    /// let upgrade = connector.start_tls(&transport, "localhost", Rc::new(Receive(received.clone())));
    /// let (_secure, server) = try_join((upgrade, acceptor.accept(UnixStream::from_std(peer)?))).await?;
    /// server.write_all(b"a secret").await?;
    /// assert_eq!(received.await.unwrap(), b"a secret");
    /// # std::io::Result::Ok(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub async fn start_tls(
        &self,
        transport: &Transport,
        server_name: &str,
        protocol: Rc<dyn Protocol>,
    ) -> io::Result<Transport> {
        let options = TlsOptions { is_upgrade: true, ..self.options() };
        upgrade(transport, &[], self.session(server_name)?, protocol, options).await
    }
}
