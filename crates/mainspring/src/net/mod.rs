//! TCP, UDP and Unix sockets. Like asyncio, the module has two styles: protocols with callbacks, and streams and
//! sockets with `await`.
//!
//! Both styles share one implementation. A [`Transport`] is the engine's transport with a [`Protocol`]. A [`Stream`] is
//! a transport whose protocol stores received bytes in a bounded buffer until they are read. [`TcpStream`] and
//! [`UnixStream`] are streams with the addresses of their family; a [`StreamReader`] and a [`StreamWriter`] are the two
//! halves of a stream. A [`DatagramTransport`] is the engine's datagram transport with a [`DatagramProtocol`]. A
//! [`DatagramSocket`] leaves datagrams in the kernel until they are received; [`UdpSocket`] and [`UnixDatagram`] wrap
//! it.
//!
//! | asyncio | here |
//! | --- | --- |
//! | `open_connection`, `start_server` | [`open_connection`], [`start_server`] |
//! | `open_unix_connection`, `start_unix_server` | [`open_unix_connection`], [`start_unix_server`] |
//! | `loop.create_connection`, `loop.create_server` | the methods of [`EventLoop`](crate::EventLoop) |
//! | their keyword arguments | [`ConnectOptions`], [`ServerOptions`] |
//! | `sock=`, `connect_accepted_socket` | [`TcpStream::from_std`] and its siblings, and the method of the loop; the reverse is [`TcpStream::into_std`] |
//! | `transport.get_extra_info('socket')` | the options of [`Transport`] and [`Stream`]; [`Transport::with_fd`] |
//! | `loop.sendfile` | [`Stream::sendfile`], [`Transport::sendfile`] |
//!
//! Open sockets belong to their loop and are not `Send`. Addresses, options, hints and errors are plain values and
//! are `Send`. Failures are [`io::Error`]s with the system's kind; the message names the address where there is one.
//! A function that needs a running loop returns an error if this thread runs none; it does not panic.

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

pub(crate) use connect::{after_ready_calls, connect, connect_socket, wait_connection_made};
pub(crate) use connection::{TransportImpl, WriteOutcome};
pub(crate) use stream::DEFAULT_LIMIT;

use std::io;

/// Copies an error, so that several waiters can receive it.
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
