//! `TlsStream`: a TLS connection that is read and written with `await`.

use super::info::TlsInfo;
use super::upgrade::upgrade;
use crate::net::stream::{Buffered, Stream, stream_on};
use crate::tls::TlsOptions;
use rustls::Connection;
use rustls::pki_types::CertificateDer;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;

/// A TLS connection, read and written with `await`: a [`Stream`], which it derefs to.
///
/// Made by [`TlsConnector::open_connection`](super::TlsConnector::open_connection), or of a connection of any kind by
/// [`TlsConnector::connect`](super::TlsConnector::connect) and [`TlsAcceptor::accept`](super::TlsAcceptor::accept).
///
/// All methods take `&self`: one task may read while another writes. Dropping it closes the connection in order: what is
/// queued still goes out, and goodbye is said. It stays on its thread (`!Send`).
///
/// Reading gives an error of kind `UnexpectedEof`, and not the end of the stream, if the peer goes without a goodbye: see
/// [`TlsError::Truncated`](super::TlsError::Truncated).
///
/// ```
/// use mainspring::net::tls::{TlsAcceptor, TlsConnector, TlsStream};
/// use mainspring::net::TcpListener;
/// use std::net::SocketAddr;
///
/// async fn serve(listener: TcpListener, acceptor: TlsAcceptor) -> std::io::Result<()> {
///     loop {
///         let (stream, _) = listener.accept().await?;
///         let acceptor = acceptor.clone();
///         // In a task of its own: a handshake may take long.
///         mainspring::spawn(async move {
///             let stream = acceptor.accept(stream).await?;
///             let line = stream.read_line().await?;
///             stream.write_all(&line).await?;
///             stream.close().await
///         });
///     }
/// }
///
/// async fn ask(address: SocketAddr, connector: TlsConnector) -> std::io::Result<Vec<u8>> {
///     let stream: TlsStream = connector.open_connection(address, "localhost").await?;
///     println!("{:?}", stream.tls_info().protocol_version());
///     stream.write_all(b"hello\n").await?;
///     stream.read_to_end().await
/// }
/// ```
pub struct TlsStream {
    stream: Stream,
}

stream_on!(TlsStream);

impl TlsStream {
    pub(super) fn new(stream: Stream) -> Self {
        TlsStream { stream }
    }

    /// Puts TLS on a connection that is in use. What was received and not read is the beginning of it.
    pub(super) async fn over(
        stream: Stream,
        session: Result<Connection, rustls::Error>,
        options: TlsOptions,
    ) -> io::Result<Self> {
        let buffered = Rc::new(Buffered::new(stream.split().0.limit()));
        let (below, unread) = stream.into_transport();
        let secure = upgrade(&below, &unread, session, Rc::<Buffered>::clone(&buffered), options).await?;
        Ok(Self::new(Stream::of(&secure, buffered)))
    }

    /// What was agreed on with the peer.
    pub fn tls_info(&self) -> TlsInfo {
        TlsInfo::of(self.transport()).unwrap_or_default()
    }

    /// The peer's certificates, its own first; none if it showed none.
    pub fn peer_certificates(&self) -> Vec<CertificateDer<'static>> {
        self.tls_info().peer_certificates().to_vec()
    }

    /// The protocol that was agreed on by ALPN, such as `b"h2"`.
    pub fn alpn_protocol(&self) -> Option<Vec<u8>> {
        self.tls_info().alpn_protocol().map(<[u8]>::to_vec)
    }

    /// The peer's address, of a connection over the Internet protocols.
    pub fn peer_addr(&self) -> Option<SocketAddr> {
        self.transport().peer_addr()
    }

    /// The address of this end, likewise.
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.transport().local_addr()
    }
}
