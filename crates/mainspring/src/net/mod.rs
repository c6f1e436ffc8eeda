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

mod address_error;
mod connect;
pub(crate) mod connection;
mod datagram;
mod resolve;
mod server;
mod socket_options;
mod stream;
mod tcp;
#[cfg(feature = "rustls")]
pub mod tls;
mod udp;
mod unix;

pub use connect::ConnectOptions;
pub use connection::{Protocol, Transport};
pub use datagram::{DatagramAddress, DatagramOptions, DatagramProtocol, DatagramSocket, DatagramTransport};
pub use resolve::{
    AddrInfo, AddrInfoHints, Address, Family, Lookup, NameInfoFlags, Resolver, Resolving, SocketKind,
    ToAddress, lookup_host,
};
pub use server::{
    Outcome, Server, ServerOptions, open_connection, open_unix_connection, start_server, start_unix_server,
};
pub use socket_options::KeepAlive;
pub use stream::{IntoStdError, ReadError, Stream, StreamReader, StreamWriter, copy, copy_bidirectional};
pub use tcp::{TcpListener, TcpStream};
pub use udp::UdpSocket;
pub use unix::{UCred, UnixDatagram, UnixListener, UnixStream};

pub(crate) use connect::{after_ready_calls, connect, connect_socket, wait_until_made};
pub(crate) use connection::{Below, Offered};
pub(crate) use stream::LIMIT;

use std::io;

/// The same error once more: for another one who is to be told of it.
fn clone_error(error: &io::Error) -> io::Error {
    #[cfg(feature = "rustls")]
    if let Some(error) = tls::TlsError::of(error) {
        return error.clone().into();
    }
    match error.raw_os_error() {
        Some(number) => io::Error::from_raw_os_error(number),
        None => io::Error::new(error.kind(), error.to_string()),
    }
}
