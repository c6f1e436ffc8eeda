//! Starting TLS on a transport and waiting for the handshake, for both sides.

use super::protocol::{Setup, TlsProtocol};
use crate::net::connection::CancelGuard;
use crate::net::{Protocol, Transport};
use mainspring_engine::tls::TlsOptions;
use rustls::Connection;
use std::io;
use std::rc::Rc;

/// Waits for the handshake on a transport with `protocol` attached. Aborts the connection on failure or cancellation.
pub(super) async fn finish_handshake(lower: &Transport, protocol: &TlsProtocol) -> io::Result<Transport> {
    let guard = CancelGuard::new(lower.clone(), Transport::abort);
    let secure = protocol.handshake().await?;
    guard.disarm();
    Ok(secure)
}

/// Starts TLS on an open transport. `unread` are bytes received before the upgrade.
pub(super) async fn upgrade(
    lower: &Transport,
    unread: &[u8],
    session: Result<Connection, rustls::Error>,
    protocol: Rc<dyn Protocol>,
    options: TlsOptions,
) -> io::Result<Transport> {
    if lower.is_closing() {
        return Err(io::ErrorKind::NotConnected.into());
    }
    let is_writing_paused = lower.inspect(|lower| lower.is_writing_paused()).unwrap_or(false);
    let tls =
        TlsProtocol::new(Setup { session, protocol, options: TlsOptions { is_writing_paused, ..options } });
    let tls = Rc::new(tls);
    tls.expect_handshake();
    lower.set_protocol(Rc::<TlsProtocol>::clone(&tls));
    tls.connection_made(lower);
    if !unread.is_empty() {
        tls.data_received(lower, unread);
    }
    // The old protocol may have paused reading, so as not to consume the handshake.
    lower.resume_reading();
    finish_handshake(lower, &tls).await
}
