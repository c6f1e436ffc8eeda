//! `TlsStream`: a TLS connection with `await`.

use super::info::TlsInfo;
use super::upgrade::upgrade;
use crate::net::stream::{PendingStream, Stream, forward_to_stream};
use mainspring_engine::tls::TlsOptions;
use rustls::Connection;
use rustls::pki_types::CertificateDer;
use std::io;
use std::net::SocketAddr;

/// A TLS connection. Derefs to [`Stream`].
///
/// Created by [`TlsConnector::open_connection`](super::TlsConnector::open_connection), or from a connection of any
/// kind by [`TlsConnector::connect`](super::TlsConnector::connect) and
/// [`TlsAcceptor::accept`](super::TlsAcceptor::accept).
///
/// All methods take `&self`: one task can read while others write, and messages of several tasks are not interleaved
/// ([`StreamWriter::write_all`](crate::net::StreamWriter::write_all)). Dropping it sends the write buffer and
/// close_notify, then closes the connection. It is not `Send`.
///
/// If the peer disconnects without close_notify, reading fails with the kind `UnexpectedEof` instead of returning the
/// end of the stream. See [`TlsError::Truncated`](super::TlsError::Truncated).
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
/// use mainspring::net::TcpListener;
/// use mainspring::net::tls::TlsStream;
///
/// async fn serve(listener: TcpListener, acceptor: TlsAcceptor) -> std::io::Result<()> {
///     loop {
///         let (stream, _) = listener.accept().await?;
///         let acceptor = acceptor.clone();
///         // In its own task, because a handshake can take long.
///         mainspring::spawn(async move {
///             let stream = acceptor.accept(stream).await?;
///             let line = stream.read_line().await?;
///             stream.write_all(&line).await?;
///             stream.close().await
///         });
///     }
/// }
///
/// # mainspring::run(async {
/// let listener = TcpListener::bind("127.0.0.1:0").await?;
/// let address = listener.local_addr();
/// mainspring::spawn(serve(listener, acceptor));
///
/// let stream: TlsStream = connector.open_connection(address, "localhost").await?;
/// assert!(stream.peer_addr() == Some(address) && stream.local_addr().is_some());
/// assert_eq!((stream.peer_certificates().len(), stream.alpn_protocol()), (1, None));
/// assert!(stream.tls_info().protocol_version().is_some());
/// stream.write_all(b"hello\n").await?;
/// assert_eq!(stream.read_to_end().await?, b"hello\n");
/// # std::io::Result::Ok(())
/// # })??;
/// # Ok::<(), mainspring::Error>(())
/// ```
pub struct TlsStream {
    stream: Stream,
}

forward_to_stream!(TlsStream);

impl TlsStream {
    pub(super) fn new(stream: Stream) -> Self {
        TlsStream { stream }
    }

    /// Upgrades an open stream to TLS. Unread bytes are the start of the handshake.
    pub(super) async fn upgrade_stream(
        stream: Stream,
        session: Result<Connection, rustls::Error>,
        options: TlsOptions,
    ) -> io::Result<Self> {
        let pending = PendingStream::new(stream.split().0.limit());
        let (lower, unread) = stream.into_transport();
        let secure = upgrade(&lower, &unread, session, pending.protocol(), options).await?;
        Ok(Self::new(pending.open(secure)))
    }

    /// The negotiated parameters.
    pub fn tls_info(&self) -> TlsInfo {
        TlsInfo::of(self.transport()).unwrap_or_default()
    }

    /// The peer's certificate chain, its own certificate first. Empty if it sent none.
    pub fn peer_certificates(&self) -> Vec<CertificateDer<'static>> {
        self.tls_info().peer_certificates().to_vec()
    }

    /// The protocol negotiated by ALPN, such as `b"h2"`.
    pub fn alpn_protocol(&self) -> Option<Vec<u8>> {
        self.tls_info().alpn_protocol().map(<[u8]>::to_vec)
    }

    /// The peer's address, if this is a TCP connection.
    pub fn peer_addr(&self) -> Option<SocketAddr> {
        self.transport().peer_addr()
    }

    /// The local address, if this is a TCP connection.
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.transport().local_addr()
    }
}
