//! Connections: the [`Transport`] handle, its [`Protocol`], and the kinds of connection behind it.
//!
//! - `transport_handle.rs` is the public handle; it works on any kind of connection.
//! - `transport_impl.rs` is the trait that each kind implements. `socket.rs` is the kind for stream sockets; pipes,
//!   files and TLS sessions are the other kinds (`crate::pipe`, `crate::net::tls`).
//! - `protocol.rs` is the public trait, and the adapter between it and the engine.

mod cancel_guard;
mod protocol;
mod sendfile;
mod socket;
mod transport_handle;
mod transport_impl;

pub use protocol::Protocol;
pub use transport_handle::Transport;

pub(crate) use cancel_guard::CancelGuard;
#[cfg(feature = "rustls")]
pub(in crate::net) use protocol::WeakStreamProtocol;
pub(crate) use protocol::{ProtocolRef, ProtocolSlot};
pub(in crate::net) use socket::SocketConnection;
pub(in crate::net) use transport_handle::WeakTransport;
pub(crate) use transport_impl::{TransportImpl, WithFd, WriteOutcome, write_refused_error};
