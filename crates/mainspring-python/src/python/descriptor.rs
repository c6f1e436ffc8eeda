//! File descriptors that Python objects own.
//!
//! CPython has no type for an open descriptor: `fileno()` returns a number, and -1 after `close()`. Rust's `BorrowedFd`
//! demands that the descriptor stays open. Each function here says why it is.

use std::io;
use std::os::fd::{BorrowedFd, RawFd};

/// The descriptor of `socket`, a `socket.socket` that is borrowed for as long as the result. `None` for -1.
///
/// The caller has just read `fd` from the socket, and runs no Python code that could close it while it has the result.
#[inline]
pub fn of_socket<T>(socket: &T, fd: RawFd) -> Option<BorrowedFd<'_>> {
    let _: &T = socket;
    // SAFETY: not -1. The socket object owns the descriptor, and see above.
    (fd >= 0).then(|| unsafe { BorrowedFd::borrow_raw(fd) })
}

/// The descriptor that `hold` keeps open: a `SocketHold`, which the socket counts as a user, or a `FileHold`, whose file
/// the program leaves open, as asyncio demands. Neither is created with a negative number.
#[inline]
pub fn held_by<T>(hold: &T, fd: RawFd) -> BorrowedFd<'_> {
    let _: &T = hold;
    debug_assert!(fd >= 0);
    // SAFETY: not -1, and open for as long as `hold` exists. If a program breaks the rule for files, the kernel answers
    // `EBADF`: the descriptor is only passed to system calls.
    unsafe { BorrowedFd::borrow_raw(fd) }
}

/// The descriptor `fd` of a file object that is borrowed for as long as the result. Asks the kernel whether it is open,
/// and fails with `EBADF` if not.
pub fn borrow_open<T>(file: &T, fd: RawFd) -> io::Result<BorrowedFd<'_>> {
    let _: &T = file;
    // SAFETY: `F_GETFD` accepts any number and changes nothing.
    if unsafe { libc::fcntl(fd, libc::F_GETFD) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has refused -1 above. The descriptor is open, and no Python code that could close it runs
    // before the caller has used it: the interpreter lock is held.
    Ok(unsafe { BorrowedFd::borrow_raw(fd) })
}
