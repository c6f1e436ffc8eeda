//! `UCred`: credentials of the peer of a Unix connection (`SO_PEERCRED`).

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Credentials of the peer of a Unix connection, taken when the connection was made.
///
/// Returned by [`UnixStream::peer_cred`](crate::net::UnixStream::peer_cred). The kernel guarantees them, so a server
/// can use them for access control. It is `Send` and `Sync`.
///
/// ```
/// # mainspring::run(async {
/// let (stream, _peer) = mainspring::net::UnixStream::pair()?;
/// let peer = stream.peer_cred()?;
/// assert_eq!(peer.pid(), Some(std::process::id()));
/// assert_eq!((peer.uid(), peer.gid()), (stream.peer_cred()?.uid(), stream.peer_cred()?.gid()));
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
    /// The process id. `None` if the process is not visible in this process's pid namespace.
    pub fn pid(&self) -> Option<u32> {
        u32::try_from(self.pid).ok().filter(|&pid| pid != 0)
    }

    /// The user id.
    pub fn uid(&self) -> u32 {
        self.uid
    }

    /// The group id.
    pub fn gid(&self) -> u32 {
        self.gid
    }
}

pub(in crate::net) fn peer_cred(socket: BorrowedFd<'_>) -> io::Result<UCred> {
    let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut size = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the fd is open while it is borrowed. `peer` is plain data and `size` is its size; both outlive the
    // call.
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
