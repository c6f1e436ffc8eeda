//! Datagrams, for UDP and Unix sockets alike.
//!
//! Both styles use the engine's datagram transport (`endpoint.rs`). A [`DatagramProtocol`] is called for every
//! datagram, through a [`DatagramTransport`]. A [`DatagramSocket`] is awaited; [`UdpSocket`](crate::net::UdpSocket) and
//! [`UnixDatagram`](crate::net::UnixDatagram) wrap it.

mod endpoint;
mod options;
mod pollable;
mod protocol;
mod socket;
mod transport_handle;

pub use endpoint::DatagramAddress;
pub use options::DatagramOptions;
pub use protocol::DatagramProtocol;
pub use socket::DatagramSocket;
pub use transport_handle::DatagramTransport;

pub(in crate::net) use endpoint::SealedAddress;
pub(in crate::net) use socket::forward_to_datagram_socket;
