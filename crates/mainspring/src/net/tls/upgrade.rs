//! Starting TLS on a transport and waiting for the handshake, for both sides.

use super::protocol::{Setup, TlsProtocol};
use crate::net::connection::CancelGuard;
use crate::net::{Protocol, Transport};
use mainspring_engine::tls::TlsOptions;
use rustls::Connection;
use std::io;
use std::rc::Rc;

/// Waits for the handshake on a transport with `protocol` attached. Aborts the connection on failure or cancellation.
pub(super) async fn finish_handshake(below: &Transport, protocol: &TlsProtocol) -> io::Result<Transport> {
    let guard = CancelGuard::new(below.clone(), Transport::abort);
    let secure = protocol.handshake().await?;
    guard.disarm();
    Ok(secure)
}

/// Starts TLS on an open transport. `early` are bytes that have arrived and were not read.
pub(super) async fn upgrade(
    below: &Transport,
    early: &[u8],
    session: Result<Connection, rustls::Error>,
    protocol: Rc<dyn Protocol>,
    options: TlsOptions,
) -> io::Result<Transport> {
    if below.is_closing() {
        return Err(io::ErrorKind::NotConnected.into());
    }
    let is_writing_paused = below.inspect(|below| below.is_writing_paused()).unwrap_or(false);
    let tls =
        TlsProtocol::new(Setup { session, protocol, options: TlsOptions { is_writing_paused, ..options } });
    let tls = Rc::new(tls);
    tls.expect_handshake();
    below.set_protocol(Rc::<TlsProtocol>::clone(&tls));
    tls.connection_made(below);
    if !early.is_empty() {
        tls.data_received(below, early);
    }
    // The old protocol may have paused reading, so as not to consume the handshake.
    below.resume_reading();
    finish_handshake(below, &tls).await
}
