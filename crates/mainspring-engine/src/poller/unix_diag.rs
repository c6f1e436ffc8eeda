//! The peer of a Unix socket, from the kernel's socket diagnostics (`sock_diag(7)`).
//!
//! No other interface names the peer of a socket without an address, such as one of `socketpair()`.

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with,
};

const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLM_F_REQUEST: u16 = 1;
const UDIAG_SHOW_PEER: u32 = 4;
const UNIX_DIAG_PEER: u16 = 2;
/// `struct nlmsghdr`.
const HEADER_LEN: usize = 16;
/// `struct unix_diag_msg`.
const MESSAGE_LEN: usize = 16;

/// The inode of the socket that the Unix socket `inode` is connected to. `None` without a peer, or if the kernel does
/// not say.
pub(super) fn inode_of_peer(inode: u64) -> Option<u64> {
    let inode = u32::try_from(inode).ok()?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket =
        socket_with(AddressFamily::NETLINK, SocketType::DGRAM, flags, Some(netlink::SOCK_DIAG)).ok()?;
    send(&socket, &request(inode), SendFlags::empty()).ok()?;
    let mut reply = [0; 1024];
    // The kernel answers during `send`.
    let (len, _) = recv(&socket, &mut reply, RecvFlags::empty()).ok()?;
    peer_in(reply.get(..len)?, inode)
}

/// A `struct nlmsghdr` and a `struct unix_diag_req`.
fn request(inode: u32) -> Vec<u8> {
    let mut request = Vec::with_capacity(40);
    request.extend(40_u32.to_ne_bytes());
    request.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    request.extend(NLM_F_REQUEST.to_ne_bytes());
    request.extend([0; 8]); // sequence number and port
    request.extend([AddressFamily::UNIX.as_raw() as u8, 0, 0, 0]);
    request.extend(u32::MAX.to_ne_bytes()); // all states
    request.extend(inode.to_ne_bytes());
    request.extend(UDIAG_SHOW_PEER.to_ne_bytes());
    request.extend([u8::MAX; 8]); // no cookie
    request
}

/// The attribute `UNIX_DIAG_PEER` of a reply about `inode`.
fn peer_in(reply: &[u8], inode: u32) -> Option<u64> {
    let kind = u16_at(reply, 4)?;
    if kind != SOCK_DIAG_BY_FAMILY || u32_at(reply, HEADER_LEN + 4)? != inode {
        return None;
    }
    let mut at = HEADER_LEN + MESSAGE_LEN;
    loop {
        let len = usize::from(u16_at(reply, at)?);
        if u16_at(reply, at + 2)? == UNIX_DIAG_PEER {
            // A peer that was closed has no inode.
            return u32_at(reply, at + 4).filter(|&inode| inode != 0).map(u64::from);
        }
        // Attributes are aligned to four bytes. Each has a header of four.
        at += len.max(4).next_multiple_of(4);
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::fstat;
    use std::os::unix::net::UnixStream;

    #[test]
    fn the_ends_of_a_pair_are_peers() {
        let (one, other) = UnixStream::pair().unwrap();
        let (one, other) = (fstat(&one).unwrap().st_ino, fstat(&other).unwrap().st_ino);
        assert_eq!(inode_of_peer(one), Some(other));
        assert_eq!(inode_of_peer(other), Some(one));
    }

    #[test]
    fn a_closed_peer_is_none() {
        let (one, other) = UnixStream::pair().unwrap();
        drop(other);
        assert_eq!(inode_of_peer(fstat(&one).unwrap().st_ino), None);
    }

    #[test]
    fn a_reply_that_was_cut_off_has_no_peer() {
        for len in 0..40 {
            assert_eq!(peer_in(&vec![0; len], 0), None);
        }
    }
}
