//! Unix sockets: [`UnixStream`], [`UnixListener`], [`UnixDatagram`] and their addresses.

pub(in crate::net) mod address;
mod datagram;
mod listener;
#[allow(unsafe_code, reason = "getsockopt(SO_PEERCRED)")]
mod peer_cred;
mod stream;

pub use datagram::UnixDatagram;
pub use listener::UnixListener;
pub use peer_cred::UCred;
pub use stream::UnixStream;
