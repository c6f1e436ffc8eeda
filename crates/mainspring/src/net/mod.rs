//! TCP, UDP and Unix sockets, in asyncio's two ways: protocols that are called, and streams and sockets that are awaited.
//!
//! Both are one implementation. A [`Transport`] is a transport of the engine's with a [`Protocol`] above it; a [`Stream`]
//! is such a transport whose protocol keeps what arrives in a bounded buffer until it is asked for. [`TcpStream`] and
//! [`UnixStream`] are streams that know what they are on; a [`StreamReader`] and a [`StreamWriter`] are the two sides of
//! one. Likewise a [`DatagramTransport`] is the engine's datagram transport with a [`DatagramProtocol`] above it, and a
//! [`DatagramSocket`] one that leaves datagrams with the kernel until they are asked for; [`UdpSocket`] and
//! [`UnixDatagram`] are such sockets that know what they are on.
//!
//! | asyncio | here |
//! | --- | --- |
//! | `open_connection`, `start_server` | [`open_connection`], [`start_server`] |
//! | `open_unix_connection`, `start_unix_server` | [`open_unix_connection`], [`start_unix_server`] |
//! | `loop.create_connection`, `loop.create_server` | the methods of [`EventLoop`](crate::EventLoop) |
//! | their keyword arguments | [`ConnectOptions`], [`ServerOptions`] |
//! | `sock=`, `connect_accepted_socket` | [`TcpStream::from_std`] and its kin, and the method of the loop; back: [`TcpStream::into_std`] |
//! | `transport.get_extra_info('socket')` | the options of [`Transport`] and [`Stream`]; [`Transport::with_fd`] |
//! | `loop.sendfile` | [`Stream::sendfile`], [`Transport::sendfile`] |
//!
//! What is open belongs to its loop and stays on its thread (`!Send`). Addresses, options, hints and errors are plain values,
//! and go anywhere. What fails is an [`io::Error`] of the system's kind, with the address in its text where
//! there is one; without a loop that runs on this thread, everything that needs one is an error, and no panic.

mod accept_queue;
mod address;
mod addrinfo;
mod at_address;
pub(crate) mod below;
mod bound;
mod connect;
mod connect_options;
mod copy;
mod datagram;
mod datagram_endpoint;
mod datagram_protocol;
mod datagram_socket;
mod datagram_transport;
mod happy_eyeballs;
mod peer_cred;
mod protocol;
mod resolve;
mod sendfile;
mod server;
mod server_options;
mod socket;
mod socket_options;
mod start_server;
mod stream;
mod tcp_listener;
mod tcp_stream;
#[cfg(feature = "rustls")]
pub mod tls;
mod transport;
mod udp_options;
mod udp_socket;
mod unix_address;
mod unix_datagram;
mod unix_listener;
mod unix_stream;

pub(crate) use connect::{connect, connect_socket};

pub use address::{Address, ToAddress};
pub use addrinfo::{AddrInfo, AddrInfoHints, NameInfoFlags};
pub use connect_options::ConnectOptions;
pub use copy::{copy, copy_bidirectional};
pub use datagram::DatagramAddress;
pub use datagram_endpoint::DatagramOptions;
pub use datagram_protocol::DatagramProtocol;
pub use datagram_socket::DatagramSocket;
pub use datagram_transport::DatagramTransport;
pub use peer_cred::UCred;
pub use protocol::Protocol;
pub use resolve::{Family, Lookup, Resolver, Resolving, SocketKind, lookup_host};
pub use server::Server;
pub use server_options::ServerOptions;
pub use socket_options::KeepAlive;
pub use start_server::{Outcome, open_connection, open_unix_connection, start_server, start_unix_server};
pub use stream::{IntoStdError, ReadError, Stream, StreamReader, StreamWriter};
pub use tcp_listener::TcpListener;
pub use tcp_stream::TcpStream;
pub use transport::Transport;
pub use udp_socket::UdpSocket;
pub use unix_datagram::UnixDatagram;
pub use unix_listener::UnixListener;
pub use unix_stream::UnixStream;

pub(crate) use below::{Below, Offered};
pub(crate) use connect::after_what_is_ready;
pub(crate) use stream::LIMIT;

use crate::event_loop::{Core, running_core};
use std::io;
use std::rc::Rc;

/// The loop that runs here, for what has no loop in its hand.
fn current_core() -> io::Result<Rc<Core>> {
    running_core().ok_or_else(|| io::Error::other("no mainspring event loop is running on this thread"))
}

/// The same error once more: for another one who is to be told of it.
fn again(error: &io::Error) -> io::Error {
    #[cfg(feature = "rustls")]
    if let Some(error) = tls::TlsError::of(error) {
        return error.clone().into();
    }
    match error.raw_os_error() {
        Some(number) => io::Error::from_raw_os_error(number),
        None => io::Error::new(error.kind(), error.to_string()),
    }
}
