//! `TlsInfo`: the negotiated parameters of a TLS connection.

use super::connection::TlsConnection;
use crate::net::Transport;
use rustls::pki_types::CertificateDer;
use rustls::{Connection, HandshakeKind, ProtocolVersion, SupportedCipherSuite};

/// The negotiated parameters of a TLS connection: asyncio's `get_extra_info` of a TLS transport. It is a copy that is
/// `Send` and may outlive the connection.
///
/// ```
/// use mainspring::net::tls::{TlsInfo, rustls};
/// use mainspring::net::{Transport, UnixStream};
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
///
/// /// Checks the parameters of a transport.
/// fn is_modern(transport: &Transport) -> bool {
///     let Some(info) = TlsInfo::of(transport) else { return false };
///     info.protocol_version() == Some(rustls::ProtocolVersion::TLSv1_3)
/// }
///
/// # mainspring::run(async {
/// let (stream, peer) = UnixStream::pair()?;
/// assert!(!is_modern(stream.transport()));
/// let (client, server) =
///     mainspring::try_join((connector.connect("localhost", stream), acceptor.accept(peer))).await?;
/// assert!(is_modern(client.transport()));
///
/// let info: TlsInfo = server.tls_info();
/// assert_eq!(info.server_name(), Some("localhost"));
/// assert!(info.cipher_suite().is_some() && !info.is_resumed());
/// assert!(info.alpn_protocol().is_none() && info.peer_certificates().is_empty());
/// # std::io::Result::Ok(())
/// # })??;
/// # Ok::<(), mainspring::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct TlsInfo {
    peer_certificates: Vec<CertificateDer<'static>>,
    alpn_protocol: Option<Vec<u8>>,
    protocol_version: Option<ProtocolVersion>,
    cipher_suite: Option<SupportedCipherSuite>,
    server_name: Option<String>,
    is_resumed: bool,
}

impl TlsInfo {
    /// The parameters of a TLS connection, complete once `connection_made` is called. `None` for another kind of
    /// connection.
    pub fn of(transport: &Transport) -> Option<TlsInfo> {
        transport
            .inspect(|lower| lower.extra()?.downcast_ref::<TlsConnection>()?.session().inspect(Self::new))
            .flatten()
    }

    fn new(connection: &Connection) -> Self {
        let server_name = match connection {
            Connection::Server(server) => server.server_name().map(str::to_owned),
            Connection::Client(_) => None,
        };
        TlsInfo {
            peer_certificates: connection.peer_certificates().map(<[_]>::to_vec).unwrap_or_default(),
            alpn_protocol: connection.alpn_protocol().map(<[_]>::to_vec),
            protocol_version: connection.protocol_version(),
            cipher_suite: connection.negotiated_cipher_suite(),
            server_name,
            is_resumed: connection.handshake_kind() == Some(HandshakeKind::Resumed),
        }
    }

    /// The peer's certificate chain, its own certificate first. Empty if it sent none.
    pub fn peer_certificates(&self) -> &[CertificateDer<'static>] {
        &self.peer_certificates
    }

    /// The protocol negotiated by ALPN, such as `b"h2"`.
    pub fn alpn_protocol(&self) -> Option<&[u8]> {
        self.alpn_protocol.as_deref()
    }

    /// The TLS version.
    pub fn protocol_version(&self) -> Option<ProtocolVersion> {
        self.protocol_version
    }

    /// The cipher suite.
    pub fn cipher_suite(&self) -> Option<SupportedCipherSuite> {
        self.cipher_suite
    }

    /// The name that the client requested (SNI). `None` on the client side.
    pub fn server_name(&self) -> Option<&str> {
        self.server_name.as_deref()
    }

    /// Whether the connection resumed an earlier session, without certificates.
    pub fn is_resumed(&self) -> bool {
        self.is_resumed
    }
}
