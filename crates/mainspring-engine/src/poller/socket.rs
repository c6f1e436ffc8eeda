//! Stream and datagram operations as plain system calls.
//!
//! None of them blocks, in whatever mode the socket is, except `accept`, whose listener must be non-blocking: there
//! is no per-call flag. All of them retry after `EINTR`: the loop runs signal handlers, not the system call's caller.
//!
//! They work on sockets. A pipe or a terminal fails with `ENOTSOCK`; `file.rs` serves those.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::io::retry_on_intr;
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendFlags, SocketAddrAny, SocketAddrUnix, SocketFlags,
    acceptfrom_with,
};

use super::{PeerAddress, sys};

/// The most chunks of one `sendmsg` (`UIO_MAXIOV`); more fail with `EMSGSIZE`.
const MAX_CHUNKS: usize = 1024;

/// One `recv`.
#[inline(always)]
pub fn recv(fd: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<usize> {
    Ok(retry_on_intr(|| rustix::net::recv(fd, &mut *buffer, RecvFlags::DONTWAIT))?.0)
}

/// One `send`, or one `sendmsg` for several chunks: `send` is cheaper.
#[inline(always)]
pub fn send(fd: BorrowedFd<'_>, chunks: &[IoSlice<'_>]) -> io::Result<usize> {
    send_with(fd, chunks, SendFlags::empty())
}

/// As [`send`], with `MSG_MORE`. Only TCP honours it.
pub(super) fn send_more(fd: BorrowedFd<'_>, chunks: &[IoSlice<'_>]) -> io::Result<usize> {
    send_with(fd, chunks, SendFlags::MORE)
}

/// One `setsockopt`: clearing `TCP_CORK` sends pending data, even if the cork was not set.
pub(super) fn push(fd: BorrowedFd<'_>) -> io::Result<()> {
    Ok(rustix::net::sockopt::set_tcp_cork(fd, false)?)
}

#[inline(always)]
fn send_with(fd: BorrowedFd<'_>, chunks: &[IoSlice<'_>], flags: SendFlags) -> io::Result<usize> {
    let flags = flags | SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    match chunks {
        [chunk] => Ok(retry_on_intr(|| rustix::net::send(fd, chunk, flags))?),
        _ => send_several(fd, chunks, flags),
    }
}

fn send_several(fd: BorrowedFd<'_>, chunks: &[IoSlice<'_>], flags: SendFlags) -> io::Result<usize> {
    let chunks = match chunks {
        [] => return Ok(0),
        chunks => &chunks[..chunks.len().min(MAX_CHUNKS)],
    };
    let send = || rustix::net::sendmsg(fd, chunks, &mut SendAncillaryBuffer::default(), flags);
    Ok(retry_on_intr(send)?)
}

/// One `accept4`.
pub(super) fn accept(fd: BorrowedFd<'_>) -> io::Result<(OwnedFd, PeerAddress)> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let (connection, address) = retry_on_intr(|| acceptfrom_with(fd, flags))?;
    Ok((connection, address.map_or(PeerAddress::Other, to_peer_address)))
}

/// One `recvfrom`.
pub(super) fn recv_from(fd: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<(usize, PeerAddress)> {
    recv_from_with(fd, buffer, RecvFlags::DONTWAIT)
}

/// As `recv_from`, but leaves the datagram in the kernel's queue.
pub fn peek_from(fd: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<(usize, PeerAddress)> {
    recv_from_with(fd, buffer, RecvFlags::DONTWAIT | RecvFlags::PEEK)
}

fn recv_from_with(
    fd: BorrowedFd<'_>,
    buffer: &mut [u8],
    flags: RecvFlags,
) -> io::Result<(usize, PeerAddress)> {
    let (received, _, address) = retry_on_intr(|| rustix::net::recvfrom(fd, &mut *buffer, flags))?;
    Ok((received, address.map_or(PeerAddress::Other, to_peer_address)))
}

/// One `sendto`, or `send` on a connected socket. A datagram is sent as a whole or not at all.
pub(super) fn send_to(fd: BorrowedFd<'_>, data: &[u8], destination: Option<&PeerAddress>) -> io::Result<()> {
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    match destination {
        None => retry_on_intr(|| rustix::net::send(fd, data, flags))?,
        Some(PeerAddress::Inet(address)) => retry_on_intr(|| rustix::net::sendto(fd, data, flags, address))?,
        Some(PeerAddress::Unix(name)) => {
            let address = match name.as_slice() {
                [0, abstract_name @ ..] => SocketAddrUnix::new_abstract_name(abstract_name)?,
                path => SocketAddrUnix::new(path)?,
            };
            retry_on_intr(|| rustix::net::sendto(fd, data, flags, &address))?
        }
        Some(PeerAddress::Other) => return Err(io::ErrorKind::InvalidInput.into()),
    };
    Ok(())
}

/// The address that a socket is bound to; `Other` if `getsockname` fails.
pub fn local_address(fd: BorrowedFd<'_>) -> PeerAddress {
    rustix::net::getsockname(fd).map_or(PeerAddress::Other, to_peer_address)
}

/// The address that a socket is connected to; `Other` if `getpeername` fails.
pub fn peer_address(fd: BorrowedFd<'_>) -> PeerAddress {
    remote_address(fd).unwrap_or(PeerAddress::Other)
}

/// As [`peer_address`], but fails with `NotConnected` for an unconnected socket.
pub fn remote_address(fd: BorrowedFd<'_>) -> io::Result<PeerAddress> {
    Ok(rustix::net::getpeername(fd)?.map_or(PeerAddress::Other, to_peer_address))
}

fn to_peer_address(address: SocketAddrAny) -> PeerAddress {
    match address.address_family() {
        AddressFamily::UNIX => PeerAddress::Unix(match sys::unix_name(&address) {
            [] => Vec::new(),
            abstract_name @ [0, ..] => abstract_name.to_vec(),
            path => path.split(|&byte| byte == 0).next().unwrap_or_default().to_vec(),
        }),
        _ => SocketAddr::try_from(address).map_or(PeerAddress::Other, PeerAddress::Inet),
    }
}
