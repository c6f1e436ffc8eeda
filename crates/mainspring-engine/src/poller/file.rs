//! `read(2)` and `write(2)`: for pipes and terminals, which are watched with `READ` and `WRITE` by every back end.
//!
//! The descriptor must be non-blocking: there is no flag for one call. Both go on after a signal, as the stream
//! operations do. Writing to a pipe whose reader is gone is `BrokenPipe` as long as the process ignores `SIGPIPE`,
//! which Rust's and Python's programs do from their start; no call can ask for that by itself.

use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;

use rustix::io::retry_on_intr;

/// The most chunks one `writev` takes (`UIO_MAXIOV`); it refuses more with `EINVAL`.
const MAX_CHUNKS: usize = 1024;

/// One `read`.
pub(super) fn read(fd: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<usize> {
    Ok(retry_on_intr(|| rustix::io::read(fd, &mut *buffer))?)
}

/// One `write`, or one `writev` when there are several chunks.
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
