//! The stream operations as plain system calls: what claiming means for every back end that learns of
//! readiness only. And the datagram operations, which are no more than that on any back end.
//!
//! None of them blocks, whatever mode the socket is in, but for `accept`, whose listener must be non-blocking:
//! there is no flag for one call. All of them go on after a signal: a signal handler's work is done by the
//! loop, not here.
//!
//! They are for sockets. A pipe or a terminal answers `ENOTSOCK`; those are served by `file.rs`.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::io::{Errno, retry_on_intr};
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendFlags, SocketAddrAny, SocketAddrUnix, SocketFlags,
    acceptfrom_with,
};

use super::{PeerAddress, sys};

/// The most chunks one `sendmsg` takes (`UIO_MAXIOV`); it refuses more with `EMSGSIZE`.
const MAX_CHUNKS: usize = 1024;

/// One `recv`.
#[inline(always)]
pub fn recv(fd: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<usize> {
    // Not `retry_on_intr`, of which the compiler makes a call: see "how deep" in docs/ARCHITECTURE.md.
    loop {
        match rustix::net::recv(fd, &mut *buffer, RecvFlags::DONTWAIT) {
            Err(Errno::INTR) => {}
            outcome => return Ok(outcome?.0),
        }
    }
}

/// One `send`, or one `sendmsg` when there are several chunks: the plain call is the cheaper one.
#[inline(always)]
pub fn send(fd: BorrowedFd<'_>, chunks: &[IoSlice<'_>]) -> io::Result<usize> {
    send_with(fd, chunks, SendFlags::empty())
}

/// The same, of what more belongs to. Only TCP makes something of it.
pub(super) fn send_more(fd: BorrowedFd<'_>, chunks: &[IoSlice<'_>]) -> io::Result<usize> {
    send_with(fd, chunks, SendFlags::MORE)
}

/// One `setsockopt`: the kernel lets go what it keeps when the cork is pulled, also where there was none.
pub(super) fn push(fd: BorrowedFd<'_>) -> io::Result<()> {
    Ok(rustix::net::sockopt::set_tcp_cork(fd, false)?)
}

#[inline(always)]
fn send_with(fd: BorrowedFd<'_>, chunks: &[IoSlice<'_>], flags: SendFlags) -> io::Result<usize> {
    let flags = flags | SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    match chunks {
        // As in `recv`.
        [chunk] => loop {
            match rustix::net::send(fd, chunk, flags) {
                Err(Errno::INTR) => {}
                outcome => return Ok(outcome?),
            }
        },
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

/// The same, of a datagram that stays where it is.
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

/// One `sendto`, or `send` on a connected socket. A datagram leaves as a whole or not at all.
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

/// The address a socket is bound to; `Other` if the kernel does not tell.
pub fn local_address(fd: BorrowedFd<'_>) -> PeerAddress {
    rustix::net::getsockname(fd).map_or(PeerAddress::Other, to_peer_address)
}

/// The address a socket is connected to; `Other` if the kernel does not tell.
pub fn peer_address(fd: BorrowedFd<'_>) -> PeerAddress {
    remote_address(fd).unwrap_or(PeerAddress::Other)
}

/// The same; `NotConnected` if the socket is connected to none.
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
