//! `TlsProtocol`: the protocol that runs TLS on a transport.

use super::connection::TlsConnection;
use super::error::TlsError;
use super::handshake::Handshake;
use super::session::RustlsSession;
use crate::host::Failure;
use crate::net::{Protocol, Transport};
use mainspring_engine::tls::TlsOptions;
use rustls::Connection;
use std::cell::{Cell, OnceCell};
use std::fmt;
use std::io;
use std::rc::Rc;

/// TLS as a protocol: it runs on any transport and attaches the user's protocol to a TLS transport on top of it.
/// asyncio's `SSLProtocol`.
///
/// Created by [`TlsConnector::protocol`](super::TlsConnector::protocol) and
/// [`TlsAcceptor::protocol`](super::TlsAcceptor::protocol), for one connection. Use it for transports that are
/// created in other ways; [`TlsConnector::create_connection`](super::TlsConnector::create_connection),
/// [`TlsAcceptor::create_server`](super::TlsAcceptor::create_server) and both `start_tls` use it themselves.
///
/// If nothing [waits](TlsProtocol::handshake) for the handshake, a failure is reported to the exception handler,
/// except disconnects by the peer. It is not `Send`.
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
/// use mainspring::{EventLoop, Protocol, Transport};
/// use std::rc::Rc;
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
/// // On a connection that was created in another way.
/// let (stream, peer) = std::os::unix::net::UnixStream::pair()?;
/// let make = || acceptor.protocol(Rc::new(Echo));
/// let (_transport, tls) = EventLoop::current().connect_accepted_socket(peer, make).await?;
/// let client = connector.connect("localhost", UnixStream::from_std(stream)?).await?;
/// let secure: Transport = tls.handshake().await?;
/// secure.write(b"hello");
/// assert_eq!(client.read_exactly(5).await?, b"hello");
/// # std::io::Result::Ok(())
/// # })??;
/// # Ok::<(), mainspring::Error>(())
/// ```
pub struct TlsProtocol {
    setup: Cell<Option<Setup>>,
    handshake: Rc<Handshake>,
    connection: OnceCell<Rc<TlsConnection>>,
}

/// The parameters for creating the connection once there is a transport.
pub(super) struct Setup {
    pub(super) session: Result<Connection, rustls::Error>,
    pub(super) protocol: Rc<dyn Protocol>,
    pub(super) options: TlsOptions,
}

impl TlsProtocol {
    pub(super) fn new(setup: Setup) -> Self {
        TlsProtocol { setup: Cell::new(Some(setup)), handshake: Rc::default(), connection: OnceCell::new() }
    }

    /// Announces that a task will wait for the handshake.
    pub(super) fn expect_handshake(&self) {
        self.handshake.expect_waiter();
    }

    /// Waits for the end of the handshake and returns the TLS transport. Only one task can wait at a time.
    ///
    /// Cancel safety: safe; the handshake continues. A later failure is reported to the exception handler and
    /// returned by the next call.
    pub async fn handshake(&self) -> io::Result<Transport> {
        self.handshake.wait().await?;
        match self.connection.get() {
            Some(connection) => Ok(connection.transport()),
            None => Err(TlsError::HandshakeReset.into()),
        }
    }

    fn make_connection(&self, lower: &Transport) -> io::Result<Rc<TlsConnection>> {
        let Some(Setup { session, protocol, options }) = self.setup.take() else {
            return Err(io::Error::other("a TlsProtocol is for one connection: create another one"));
        };
        let session =
            RustlsSession::new(session.map_err(TlsError::Rustls)?, &options, Rc::clone(&self.handshake));
        TlsConnection::new(session, protocol, lower, options)
            .ok_or_else(|| io::ErrorKind::NotConnected.into())
    }
}

impl Protocol for TlsProtocol {
    fn connection_made(&self, transport: &Transport) {
        // If the transport is upgraded right after it is created, its `connection_made` arrives later.
        if self.connection.get().is_some_and(|connection| connection.runs_over(transport)) {
            return;
        }
        match self.make_connection(transport) {
            Ok(connection) => {
                let connection = self.connection.get_or_init(|| connection);
                connection.start_handshake();
            }
            Err(error) => {
                let failure = Failure::Io(error);
                // The waiter gets the error from here; the peer sees the connection close.
                self.handshake.settle(Err(&failure));
                transport.fail(failure, "TLS cannot be started");
            }
        }
    }

    fn data_received(&self, _: &Transport, data: &[u8]) {
        if let Some(connection) = self.connection.get() {
            connection.with(|machine, cx| machine.data_received(cx, data));
        }
    }

    fn eof_received(&self, _: &Transport) -> bool {
        let connection = self.connection.get();
        connection
            .and_then(|connection| connection.with(|machine, cx| machine.eof_received(cx)))
            .unwrap_or(false)
    }

    fn connection_lost(&self, _: &Transport, error: Option<io::Error>) {
        let failure = error.map(Failure::Io);
        match self.connection.get() {
            Some(connection) => {
                connection.with(|machine, cx| machine.connection_lost(cx, failure));
            }
            None => {
                let reset = Failure::Io(TlsError::HandshakeReset.into());
                self.handshake.settle(Err(failure.as_ref().unwrap_or(&reset)));
            }
        }
    }

    fn pause_writing(&self, _: &Transport) {
        if let Some(connection) = self.connection.get() {
            connection.with(|machine, _| {
                machine.pause_writing();
                Ok(())
            });
        }
    }

    fn resume_writing(&self, _: &Transport) {
        if let Some(connection) = self.connection.get() {
            connection.with(|machine, cx| machine.resume_writing(cx));
        }
    }
}

impl fmt::Debug for TlsProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let transport = self.connection.get().map(TlsConnection::transport);
        f.debug_struct("TlsProtocol").field("transport", &transport).finish_non_exhaustive()
    }
}
