//! TLS, based on rustls. Requires the feature `rustls`.
//!
//! [`TlsConnector`] and [`TlsAcceptor`] take rustls configurations, which set certificates, ALPN, client
//! authentication and session resumption. The crate is re-exported as [`tls::rustls`](rustls), so that versions
//! match. A TLS connection is an ordinary [`Transport`](super::Transport), and a [`TlsStream`] is a
//! [`Stream`](super::Stream).
//!
//! # Cryptography
//!
//! The configuration also selects the cryptography; this crate neither requires nor sets a default. The feature
//! `rustls` alone has none. A provider comes from one of these:
//!
//! - the feature `rustls-ring`, which needs a C compiler;
//! - the feature `rustls-aws-lc-rs`, the default of rustls, which needs CMake on some systems;
//! - the program's own dependency on rustls with its features; `aws_lc_rs` is on by default there;
//! - any other [`CryptoProvider`](rustls::crypto::CryptoProvider).
//!
//! `ClientConfig::builder()` and `ServerConfig::builder()` panic if the program has no provider, or several without a
//! default, for example because different crates enabled them. So either set a default at the start, or name the
//! provider in each configuration:
//!
//! ```
//! use mainspring::net::tls::rustls::crypto::ring;
//! use mainspring::net::tls::rustls::{ClientConfig, RootCertStore};
//! use mainspring::net::tls::TlsConnector;
//! use std::sync::Arc;
//!
//! // Once, in `main`. An error means that a default is set already.
//! let _ = ring::default_provider().install_default();
//! let config = ClientConfig::builder();
//!
//! // Or for each configuration.
//! let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
//! let config = config.with_safe_default_protocol_versions()?;
//! let roots = RootCertStore::empty();
//! let connector = TlsConnector::new(config.with_root_certificates(roots).with_no_client_auth());
//! # Ok::<(), mainspring::net::tls::rustls::Error>(())
//! ```
//!
//! # Closing
//!
//! As in asyncio, closing sends close_notify and waits for the peer's answer within a timeout. Unlike asyncio,
//! half-close is supported ([`Transport::write_eof`](super::Transport::write_eof)), and a connection that ends
//! without close_notify fails with [`TlsError::Truncated`], because it may have been truncated by an attacker.
//!
//! # Implementation
//!
//! The engine's state machine ([`mainspring_engine::tls`]) drives the connection. `session.rs` adapts rustls to it,
//! `connection.rs` is the connection over another transport, `protocol.rs` is the protocol of that transport.

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
