//! What the two sides of TLS share: time limits, and waiting for a handshake without leaving anything behind.

use super::protocol::{Setup, TlsProtocol};
use crate::net::connection::CancelGuard;
use crate::net::{Protocol, Transport};
use mainspring_engine::tls::TlsOptions;
use rustls::Connection;
use std::io;
use std::rc::Rc;

/// Waits for the handshake on a transport that has `protocol` on it. Given up, or failed, the connection is aborted.
pub(super) async fn finish_handshake(below: &Transport, protocol: &TlsProtocol) -> io::Result<Transport> {
    let guard = CancelGuard::new(below.clone(), Transport::abort);
    let secure = protocol.handshake().await?;
    guard.disarm();
    Ok(secure)
}

/// Puts TLS on a transport that is in use. `early` has arrived already, and nobody has read it.
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
    let is_writing_paused = below.look(|below| below.is_writing_paused()).unwrap_or(false);
    let tls =
        TlsProtocol::new(Setup { session, protocol, options: TlsOptions { is_writing_paused, ..options } });
    let tls = Rc::new(tls);
    tls.expect_handshake();
    below.set_protocol(Rc::<TlsProtocol>::clone(&tls));
    tls.connection_made(below);
    if !early.is_empty() {
        tls.data_received(below, early);
    }
    // A protocol may have paused it, to leave alone what comes after the agreement on TLS.
    below.resume_reading();
    finish_handshake(below, &tls).await
}
