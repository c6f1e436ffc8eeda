//! Binding listening sockets: at IP addresses, and at Unix paths with asyncio's rules for socket files.

use super::options::ServerOptions;
use super::socket_file::{SocketFile, remove_stale};
use crate::event_loop::Core;
use crate::net::address_error::address_error;
use crate::net::resolve::{ToAddress, resolve};
use crate::net::socket_options::{KeepAlive, set_keep_alive};
use crate::net::unix::address::{display_path, to_sock_addr};
use mainspring_engine::poller::{PeerAddress, local_address};
use socket2::{Domain, SockRef, Socket, Type};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::rc::Rc;

/// A bound, non-blocking socket that is not listening yet.
pub(in crate::net) struct BoundSocket {
    pub(in crate::net) socket: OwnedFd,
    pub(in crate::net) address: PeerAddress,
    /// Removes the socket file when the server stops.
    pub(in crate::net) file: Option<SocketFile>,
}

/// Binds one socket per address of `address`. Addresses that this host does not have are skipped, unless there is no
/// other.
pub(in crate::net) async fn bind(
    core: &Rc<Core>,
    address: impl ToAddress,
    options: &ServerOptions,
) -> io::Result<Vec<BoundSocket>> {
    let mut bound = Vec::new();
    let mut last_error = None;
    for address in resolve(core, address.to_address()?).await? {
        match bind_at(address, options) {
            Ok(socket) => bound.push(socket),
            Err(error) => {
                let is_unavailable = is_address_unavailable(&error);
                let text = format!("cannot listen at {address}: {error}");
                let error = address_error(text, error);
                if !is_unavailable {
                    return Err(error);
                }
                last_error = Some(error);
            }
        }
    }
    match last_error {
        Some(error) if bound.is_empty() => Err(error),
        _ => Ok(bound),
    }
}

/// As in asyncio: a name may resolve to IPv6 on a host without IPv6.
fn is_address_unavailable(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EADDRNOTAVAIL | libc::EAFNOSUPPORT))
}

fn bind_at(address: SocketAddr, options: &ServerOptions) -> io::Result<BoundSocket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(socket2::Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    socket.set_reuse_address(options.reuse_address)?;
    if options.reuse_port {
        socket.set_reuse_port(true)?;
    }
    if options.keep_alive {
        // Accepted connections inherit the option.
        set_keep_alive(&SockRef::from(&socket), Some(KeepAlive::default()))?;
    }
    if address.is_ipv6() {
        socket.set_only_v6(options.only_v6)?;
    }
    socket.bind(&address.into())?;
    Ok(BoundSocket::new(socket.into(), None))
}

impl BoundSocket {
    fn new(socket: OwnedFd, file: Option<SocketFile>) -> Self {
        let address = local_address(socket.as_fd());
        BoundSocket { socket, address, file }
    }
}

/// Takes over a socket that the caller has bound.
pub(in crate::net) fn adopt_bound(socket: OwnedFd) -> io::Result<BoundSocket> {
    SockRef::from(&socket).set_nonblocking(true)?;
    Ok(BoundSocket::new(socket, None))
}

/// Binds a socket to a Unix path, or to an abstract name (a leading zero byte).
///
/// As in asyncio, an existing socket file is considered stale and is removed; any other file is an error.
pub(in crate::net) fn bind_unix(
    core: &Rc<Core>,
    path: &Path,
    options: &ServerOptions,
) -> io::Result<BoundSocket> {
    let address = to_sock_addr(path)?;
    let is_file = address.as_pathname().is_some();
    if is_file {
        remove_stale(core, path);
    }
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address).map_err(|error| {
        address_error(format!("cannot listen at {}: {error}", display_path(&address, path)), error)
    })?;
    let file = (is_file && options.cleanup_socket).then(|| SocketFile::new(core, path)).flatten();
    Ok(BoundSocket::new(socket.into(), file))
}
