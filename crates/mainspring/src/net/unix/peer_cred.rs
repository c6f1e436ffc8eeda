//! Who is at the other end of a Unix connection, as the kernel knows it.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// The process at the other end of a Unix connection, as it was when the connection was made.
///
/// Given by [`UnixStream::peer_cred`](crate::net::UnixStream::peer_cred). The kernel vouches for it, so a server may
/// decide by it whom it serves. It is `Send` and `Sync`.
///
/// ```
/// # mainspring::run(async {
/// let (near, _far) = mainspring::net::UnixStream::pair()?;
/// let peer = near.peer_cred()?;
/// assert_eq!(peer.pid(), Some(std::process::id()));
/// assert_eq!((peer.uid(), peer.gid()), (near.peer_cred()?.uid(), near.peer_cred()?.gid()));
/// # std::io::Result::Ok(())
/// # })??;
/// # Ok::<(), mainspring::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UCred {
    pid: i32,
    uid: u32,
    gid: u32,
}

impl UCred {
    /// The process; `None` for one that this process cannot see, because it has a name space of its own.
    pub fn pid(&self) -> Option<u32> {
        u32::try_from(self.pid).ok().filter(|&pid| pid != 0)
    }

    /// Its user.
    pub fn uid(&self) -> u32 {
        self.uid
    }

    /// Its group.
    pub fn gid(&self) -> u32 {
        self.gid
    }
}

pub(in crate::net) fn peer_cred(socket: BorrowedFd<'_>) -> io::Result<UCred> {
    let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut size = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the descriptor is open while it is borrowed; `peer` is plain numbers, and `size` says how much of it there is
    // to write to. Both outlive the call.
    let answer = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut peer).cast(),
            &raw mut size,
        )
    };
    if answer != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(UCred { pid: peer.pid, uid: peer.uid, gid: peer.gid })
}
