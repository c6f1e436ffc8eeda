//! TLS, by rustls. Behind the feature `rustls`.
//!
//! [`TlsConnector`] and [`TlsAcceptor`] take configurations of rustls, which is re-exported here as
//! [`tls::rustls`](rustls) so that versions agree: certificates, ALPN, client certificates and the reuse of sessions are
//! those of the configuration. Above, a TLS connection is a [`Transport`](super::Transport) like any other, and a
//! [`TlsStream`] a [`Stream`](super::Stream).
//!
//! # Cryptography
//!
//! The cryptography is that of the configuration too, and this crate takes whichever it has: it asks for no default and
//! sets none. The feature `rustls` alone comes without any. A provider comes with one of these:
//!
//! - the feature `rustls-ring`, which needs a C compiler;
//! - the feature `rustls-aws-lc-rs`, rustls's own choice, which on some systems needs CMake as well;
//! - the program's own dependency on rustls, with its features; `aws_lc_rs` is on by default there;
//! - any other [`CryptoProvider`](rustls::crypto::CryptoProvider).
//!
//! rustls's `ClientConfig::builder()` and `ServerConfig::builder()` panic in a program that has no provider or two, which may
//! be because different crates have asked for them, unless a default is set. So a program either sets it when it begins, or
//! names the provider for each configuration:
//!
//! ```
//! use mainspring::net::tls::rustls::crypto::ring;
//! use mainspring::net::tls::rustls::{ClientConfig, RootCertStore};
//! use mainspring::net::tls::TlsConnector;
//! use std::sync::Arc;
//!
//! // Either once, in `main`. An error says that there is a default already.
//! let _ = ring::default_provider().install_default();
//! let config = ClientConfig::builder();
//!
//! // Or each time.
//! let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
//! let config = config.with_safe_default_protocol_versions()?;
//! let roots = RootCertStore::empty();
//! let connector = TlsConnector::new(config.with_root_certificates(roots).with_no_client_auth());
//! # Ok::<(), mainspring::net::tls::rustls::Error>(())
//! ```
//!
//! # Endings
//!
//! As in asyncio, closing says goodbye and waits for the peer's, within a time limit: a peer that keeps its side open
//! makes it wait that long. Other than there, one direction can end alone
//! ([`Transport::write_eof`](super::Transport::write_eof)), and a stream that ends without the peer's goodbye is a
//! failure, [`TlsError::Truncated`]: somebody may have cut it.
//!
//! # Inside
//!
//! The engine's TLS machine ([`mainspring_engine::tls`]) does the work: `session.rs` is the cryptography it asks for,
//! `connection.rs` the connection on top of another transport, `protocol.rs` what that transport sees.

mod acceptor;
mod connection;
mod connector;
mod error;
mod handshake;
mod info;
mod protocol;
mod session;
mod settings;
mod stream;
mod upgrade;

pub use acceptor::TlsAcceptor;
pub use connector::TlsConnector;
pub use error::TlsError;
pub use info::TlsInfo;
pub use protocol::TlsProtocol;
pub use rustls;
pub use stream::TlsStream;
