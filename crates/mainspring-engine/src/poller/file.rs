//! `read(2)` and `write(2)`, for pipes and terminals.
//!
//! The fd must be non-blocking: these calls have no per-call flag for that. Both retry after `EINTR`. Writing to a
//! pipe without a reader fails with `BrokenPipe` as long as the process ignores `SIGPIPE`, which Rust and Python
//! programs do from their start.

use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;

use rustix::io::retry_on_intr;

/// The most chunks of one `writev` (`UIO_MAXIOV`); more fail with `EINVAL`.
const MAX_CHUNKS: usize = 1024;

/// One `read`.
pub(super) fn read(fd: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<usize> {
    Ok(retry_on_intr(|| rustix::io::read(fd, &mut *buffer))?)
}

/// One `write`, or one `writev` for several chunks.
pub(super) fn write(fd: BorrowedFd<'_>, chunks: &[IoSlice<'_>]) -> io::Result<usize> {
    let written = match chunks {
        [] => 0,
        [chunk] => retry_on_intr(|| rustix::io::write(fd, chunk))?,
        _ => {
            let chunks = chunks.get(..MAX_CHUNKS).unwrap_or(chunks);
            retry_on_intr(|| rustix::io::writev(fd, chunks))?
        }
    };
    Ok(written)
}
