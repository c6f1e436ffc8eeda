//! Pipe transports, and which fds they accept.

mod read;
mod write;

pub use read::ReadPipe;
pub use write::WritePipe;

use rustix::fs::{FileType, fstat};
use std::io;
use std::os::fd::AsFd;

/// The kinds of files that pipe transports serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PipeKind {
    /// An end of a `pipe(2)`, or a named fifo.
    Fifo,
    /// A socket.
    Socket,
    /// A terminal, or another character device.
    CharacterDevice,
}

impl PipeKind {
    /// Whether the kernel reports to the writer that the reader has closed. Not for a terminal: the same device is
    /// read and written, so readability says nothing about a reader.
    pub(super) fn reports_reader_close(self) -> bool {
        matches!(self, PipeKind::Fifo | PipeKind::Socket)
    }
}

/// Makes `fd` non-blocking and returns its kind. `None`, without effect, for other files: a regular file is always
/// ready.
pub fn prepare_pipe(fd: impl AsFd) -> io::Result<Option<PipeKind>> {
    let fd = fd.as_fd();
    let kind = match FileType::from_raw_mode(fstat(fd)?.st_mode) {
        FileType::Fifo => PipeKind::Fifo,
        FileType::Socket => PipeKind::Socket,
        FileType::CharacterDevice => PipeKind::CharacterDevice,
        _ => return Ok(None),
    };
    rustix::io::ioctl_fionbio(fd, true)?;
    Ok(Some(kind))
}
