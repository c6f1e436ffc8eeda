//! UDP: [`UdpSocket`] and its socket options.

mod options;
mod socket;

pub use socket::UdpSocket;
