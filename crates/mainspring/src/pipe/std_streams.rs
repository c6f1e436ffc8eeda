//! The standard streams of this process.
//!
//! The standard fds are shared with other code in this process and with the parent process. O_NONBLOCK belongs to the
//! open file, so setting it would also affect the parent, for example a shell. It is never set here. A pipe or a
//! terminal is opened again through `/proc/self/fd`, and only the new open file is non-blocking. Where that is
//! impossible (a regular file, a socket, no `/proc`), the executor does the blocking calls.

use super::streams::{blocking_reader, blocking_writer, reader_on, writer_on};
use crate::event_loop::current_core;
use crate::net::{StreamReader, StreamWriter};
use rustix::fs::{Mode, OFlags};
use std::io::{self, IsTerminal};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// The standard input of this process as a stream on the running loop.
///
/// The loop polls a pipe or a terminal. Anything else is read by a thread of the executor, which stays in its call
/// until data arrives, even if the loop is closed.
///
/// Each call returns a reader with its own buffer: bytes that one reader has taken are lost for all others, including
/// [`std::io::stdin`].
///
/// ```
/// # use std::{io::Write, os::fd::AsRawFd};
/// # let (typed, mut keyboard) = std::io::pipe()?;
/// # keyboard.write_all(b"42\n")?;
/// # // SAFETY: both are open; the example runs in its own process, and nothing else uses fd 0.
/// # unsafe { libc::dup2(typed.as_raw_fd(), 0) };
/// # mainspring::run(async {
/// let stdin = mainspring::pipe::stdin()?;
/// // Reads one line.
/// let line = stdin.read_line().await?;
/// assert_eq!(line, b"42\n");
/// # std::io::Result::Ok(())
/// # })??;
/// # Ok::<(), mainspring::Error>(())
/// ```
pub fn stdin() -> io::Result<StreamReader> {
    let core = current_core()?;
    match reopen(io::stdin().as_fd(), OFlags::RDONLY) {
        Some(own) => reader_on(&core, own),
        None => Ok(blocking_reader(&core, duplicate(io::stdin().as_fd())?)),
    }
}

/// The standard output of this process as a stream on the running loop.
///
/// It has no buffer of its own, and it does not flush the buffer of [`println!`]. The loop polls a pipe or a
/// terminal. Anything else is written by the executor; closing the loop waits until everything is written.
///
/// ```
/// # use std::{io::Read, os::fd::AsRawFd};
/// # let (mut screen, written) = std::io::pipe()?;
/// # // SAFETY: both are open; the example runs in its own process, and nothing else uses this fd.
/// # unsafe { libc::dup2(written.as_raw_fd(), 1) };
/// # mainspring::run(async {
/// let stdout = mainspring::pipe::stdout()?;
/// stdout.write_all(b"hello\n").await?;
/// # std::io::Result::Ok(())
/// # })??;
/// # let mut shown = [0; 6];
/// # screen.read_exact(&mut shown)?;
/// # assert_eq!(&shown, b"hello\n");
/// # Ok::<(), mainspring::Error>(())
/// ```
pub fn stdout() -> io::Result<StreamWriter> {
    std_writer(io::stdout().as_fd())
}

/// The standard error of this process as a stream on the running loop. See [`stdout`].
///
/// ```
/// # use std::{io::Read, os::fd::AsRawFd};
/// # let (mut screen, written) = std::io::pipe()?;
/// # // SAFETY: both are open; the example runs in its own process, and nothing else uses this fd.
/// # unsafe { libc::dup2(written.as_raw_fd(), 2) };
/// # mainspring::run(async {
/// let stderr = mainspring::pipe::stderr()?;
/// stderr.write_all(b"oh\n").await?;
/// # std::io::Result::Ok(())
/// # })??;
/// # let mut shown = [0; 3];
/// # screen.read_exact(&mut shown)?;
/// # assert_eq!(&shown, b"oh\n");
/// # Ok::<(), mainspring::Error>(())
/// ```
pub fn stderr() -> io::Result<StreamWriter> {
    std_writer(io::stderr().as_fd())
}

fn std_writer(shared: BorrowedFd<'_>) -> io::Result<StreamWriter> {
    let core = current_core()?;
    match reopen(shared, OFlags::WRONLY) {
        Some(own) => writer_on(&core, own),
        None => Ok(blocking_writer(&core, duplicate(shared)?)),
    }
}

/// Duplicates a shared fd.
fn duplicate(shared: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    shared.try_clone_to_owned()
}

/// Opens a pipe or terminal again. `None` for anything else, and if the system refuses.
fn reopen(shared: BorrowedFd<'_>, access: OFlags) -> Option<OwnedFd> {
    let mode = rustix::fs::fstat(shared).ok()?.st_mode;
    let is_pipe = rustix::fs::FileType::from_raw_mode(mode) == rustix::fs::FileType::Fifo;
    if !is_pipe && !shared.is_terminal() {
        return None;
    }
    let name = format!("/proc/self/fd/{}", shared.as_raw_fd());
    let flags = access | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
    rustix::fs::open(name, flags, Mode::empty()).ok()
}
