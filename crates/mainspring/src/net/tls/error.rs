//! `TlsError`: TLS failures other than I/O errors.

use rustls::{CertificateError, InvalidMessage};
use std::fmt;
use std::io;
use std::time::Duration;

/// A TLS failure. It is contained in an [`io::Error`]; [`TlsError::of`] extracts it. It is `Send` and `Sync`.
///
/// ```
/// use mainspring::net::tls::TlsError;
/// use std::io;
///
/// let error = io::Error::from(TlsError::Truncated);
/// assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
/// assert!(matches!(TlsError::of(&error), Some(TlsError::Truncated)));
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum TlsError {
    /// The peer does not speak TLS; the connection may be unencrypted. `InvalidData`.
    NotTls,
    /// The server's certificate is valid, but for another name. `InvalidData`.
    WrongName {
        /// The requested name.
        expected: String,
        /// The names in the certificate.
        presented: Vec<String>,
    },
    /// The server name is neither a host name nor an IP address. `InvalidInput`.
    InvalidName(String),
    /// The peer closed the connection during the handshake. `ConnectionReset`.
    HandshakeReset,
    /// The handshake exceeded this timeout. `TimedOut`.
    HandshakeTimeout(Duration),
    /// The peer did not answer close_notify, or did not receive the data, within this timeout. `TimedOut`.
    ShutdownTimeout(Duration),
    /// The connection ended without the peer's close_notify: it may have been truncated by an attacker.
    /// `UnexpectedEof`.
    Truncated,
    /// Any other error of rustls. `InvalidData`.
    Rustls(rustls::Error),
}

impl TlsError {
    /// The TLS failure inside `error`, if any.
    pub fn of(error: &io::Error) -> Option<&TlsError> {
        error.get_ref()?.downcast_ref()
    }

    /// Converts an error that rustls returned during the handshake.
    pub(super) fn from_handshake(error: rustls::Error) -> Self {
        match error {
            rustls::Error::InvalidMessage(
                InvalidMessage::InvalidContentType | InvalidMessage::UnknownProtocolVersion,
            ) => TlsError::NotTls,
            rustls::Error::InvalidCertificate(CertificateError::NotValidForNameContext {
                expected,
                presented,
            }) => TlsError::WrongName { expected: expected.to_str().into_owned(), presented },
            other => TlsError::Rustls(other),
        }
    }

    fn kind(&self) -> io::ErrorKind {
        match self {
            TlsError::NotTls | TlsError::WrongName { .. } | TlsError::Rustls(_) => io::ErrorKind::InvalidData,
            TlsError::InvalidName(_) => io::ErrorKind::InvalidInput,
            TlsError::HandshakeReset => io::ErrorKind::ConnectionReset,
            TlsError::HandshakeTimeout(_) | TlsError::ShutdownTimeout(_) => io::ErrorKind::TimedOut,
            TlsError::Truncated => io::ErrorKind::UnexpectedEof,
        }
    }
}

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TlsError::NotTls => f.write_str("the peer does not speak TLS"),
            TlsError::WrongName { expected, presented } => {
                write!(f, "the certificate is not valid for {expected:?}, only for {}", presented.join(", "))
            }
            TlsError::InvalidName(name) => {
                write!(f, "invalid server name {name:?}: expected a host name or an IP address")
            }
            TlsError::HandshakeReset => {
                f.write_str("the peer closed the connection during the TLS handshake")
            }
            TlsError::HandshakeTimeout(limit) => {
                write!(f, "the TLS handshake took longer than {limit:?}")
            }
            TlsError::ShutdownTimeout(limit) => {
                write!(f, "the TLS shutdown took longer than {limit:?}")
            }
            TlsError::Truncated => f.write_str("the peer closed the connection without a TLS close_notify"),
            TlsError::Rustls(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for TlsError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        if let TlsError::Rustls(error) = self { Some(error) } else { None }
    }
}

impl From<TlsError> for io::Error {
    fn from(error: TlsError) -> Self {
        io::Error::new(error.kind(), error)
    }
}
