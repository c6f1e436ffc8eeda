//! TLS, by rustls. Behind the feature `rustls`.
//!
//! [`TlsConnector`] and [`TlsAcceptor`] take configurations of rustls, which is re-exported here as
//! [`tls::rustls`](rustls) so that versions agree: certificates, ALPN, client certificates and the reuse of sessions are
//! those of the configuration. Its cryptography is `ring`'s, unless the program brings another provider. Above, a TLS
//! connection is a [`Transport`](super::Transport) like any other, and a [`TlsStream`] a [`Stream`](super::Stream).
//!
//! As in asyncio, closing says goodbye and waits for the peer's, within a time limit: a peer that keeps its side open
//! makes it wait that long. Other than there, one direction can end alone
//! ([`Transport::write_eof`](super::Transport::write_eof)), and a stream that ends without the peer's goodbye is a
//! failure, [`TlsError::Truncated`]: somebody may have cut it.
//!
//! # Inside
//!
//! The engine's TLS machine ([`crate::tls`]) does the work: `session.rs` is the cryptography it asks for,
//! `connection.rs` the connection on top of another transport, `protocol.rs` what that transport sees.

mod acceptor;
mod connection;
mod connector;
mod error;
mod handshake;
mod info;
mod protocol;
mod session;
mod stream;
mod upgrade;

pub use acceptor::TlsAcceptor;
pub use connector::TlsConnector;
pub use error::TlsError;
pub use info::TlsInfo;
pub use protocol::TlsProtocol;
pub use rustls;
pub use stream::TlsStream;
