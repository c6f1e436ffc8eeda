//! `TlsConnector`: the client's side.

use super::error::TlsError;
use super::protocol::{Setup, TlsProtocol};
use super::stream::TlsStream;
use super::upgrade::{Limits, establish, upgrade};
use crate::net::{ConnectOptions, Protocol, Stream, TcpStream, ToAddress, Transport};
use crate::tls::TlsOptions;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, Connection};
use std::fmt;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Connects to TLS servers, as a [`ClientConfig`] of rustls has it: certificates to trust and to show, ALPN, versions,
/// sessions to go on with.
///
/// A server's name is a host name or an IP address; it is told to the server (SNI) and must be in its certificate.
/// A clone shares the configuration. It may be sent to other threads.
///
/// ```
/// use mainspring::net::tls::TlsConnector;
/// use mainspring::net::tls::rustls::{ClientConfig, RootCertStore};
/// use mainspring::{Protocol, Transport};
/// use std::time::Duration;
///
/// struct Hello;
///
/// impl Protocol for Hello {
///     fn connection_made(&self, transport: &Transport) {
///         transport.write(b"hello");
///     }
/// }
///
/// // Certificates to trust are added here.
/// let roots = RootCertStore::empty();
/// let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
/// let connector = TlsConnector::new(config).handshake_timeout(Duration::from_secs(5));
///
/// mainspring::run(async {
///     // Nobody listens at port 1.
///     let refused = connector.create_connection("127.0.0.1:1", "localhost", || Hello).await;
///     assert!(refused.is_err());
/// })?;
/// # Ok::<(), mainspring::Error>(())
/// ```
#[derive(Clone)]
pub struct TlsConnector {
    config: Arc<ClientConfig>,
    limits: Limits,
}

impl TlsConnector {
    /// With asyncio's time limits: a minute for the handshake, half a minute for the shutdown.
    pub fn new(config: impl Into<Arc<ClientConfig>>) -> Self {
        TlsConnector { config: config.into(), limits: Limits::default() }
    }

    /// Limits how long the handshake may take.
    #[must_use]
    pub fn handshake_timeout(mut self, limit: Duration) -> Self {
        self.limits.handshake = limit;
        self
    }

    /// Limits how long the shutdown may take: until the peer has answered our goodbye and taken what was sent.
    #[must_use]
    pub fn shutdown_timeout(mut self, limit: Duration) -> Self {
        self.limits.shutdown = limit;
        self
    }

    /// The configuration.
    pub fn config(&self) -> &Arc<ClientConfig> {
        &self.config
    }

    /// [`TlsError::InvalidName`] for what is no name.
    pub(super) fn session(&self, server_name: &str) -> io::Result<Result<Connection, rustls::Error>> {
        let name = ServerName::try_from(server_name.to_owned())
            .map_err(|_| TlsError::InvalidName(server_name.to_owned()))?;
        Ok(ClientConnection::new(Arc::clone(&self.config), name).map(Connection::Client))
    }

    pub(super) fn options(&self) -> TlsOptions {
        self.limits.options()
    }

    /// TLS as a protocol for one connection, below `protocol`. See [`TlsProtocol`].
    pub fn protocol(&self, server_name: &str, protocol: Rc<dyn Protocol>) -> io::Result<TlsProtocol> {
        let session = self.session(server_name)?;
        Ok(TlsProtocol::new(Setup { session, protocol, options: self.options() }))
    }

    /// Connects to `address` on the loop that runs here, shakes hands with the server of this name, and puts a protocol
    /// on the secure connection. asyncio's `create_connection` with `ssl=`.
    ///
    /// Done when the protocol's `connection_made` has run. A protocol whose connection fails before is told nothing.
    ///
    /// Cancel safety: giving up closes the connection.
    pub async fn create_connection<P: Protocol>(
        &self,
        address: impl ToAddress,
        server_name: &str,
        protocol_factory: impl FnOnce() -> P,
    ) -> io::Result<(Transport, Rc<P>)> {
        let protocol = Rc::new(protocol_factory());
        let tls = self.protocol(server_name, Rc::<P>::clone(&protocol))?;
        tls.expect_handshake();
        let (below, tls) = ConnectOptions::new().create_connection(address, || tls).await?;
        Ok((establish(&below, &tls).await?, protocol))
    }

    /// Connects to `address` on the loop that runs here, and shakes hands with the server of this name. asyncio's
    /// `open_connection` with `ssl=`; [`TlsStream::into_split`] gives reader and writer.
    ///
    /// Cancel safety: giving up closes the connection.
    pub async fn open_connection(&self, address: impl ToAddress, server_name: &str) -> io::Result<TlsStream> {
        let session = self.session(server_name)?;
        let stream = TcpStream::connect(address).await?;
        TlsStream::over(stream.into(), session, self.options()).await
    }

    /// Makes a stream secure, as its client. What was received and not read is taken for the beginning of TLS, and what
    /// was written is sent before it. [`ConnectOptions`](crate::net::ConnectOptions) has more ways to make a stream.
    ///
    /// Cancel safety: giving up closes the connection.
    pub async fn connect(&self, server_name: &str, stream: impl Into<Stream>) -> io::Result<TlsStream> {
        let session = self.session(server_name)?;
        TlsStream::over(stream.into(), session, self.options()).await
    }

    /// Makes a connection secure that is in use, as its client: asyncio's `start_tls`. From here on `protocol` is told of
    /// the secure connection, and of nothing else; it is not told that it is connected once more.
    ///
    /// What the protocol had received before is not part of it, so it is best called where the peer was told to begin
    /// with TLS and waits. What was written before is sent before, also if writing is paused.
    ///
    /// Cancel safety: giving up closes the connection.
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

impl fmt::Debug for TlsConnector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsConnector").field("limits", &self.limits).finish_non_exhaustive()
    }
}
