//! What may be a pipe, and how a descriptor becomes one that a loop can serve.

mod read;
mod write;

pub use read::ReadPipe;
pub use write::WritePipe;

use rustix::fs::{FileType, fstat};
use std::io;
use std::os::fd::AsFd;

/// The kinds of files that pipe transports are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PipeKind {
    /// An end of a `pipe(2)`, or a fifo that has a name.
    Fifo,
    /// A socket.
    Socket,
    /// A terminal, or another character device.
    CharacterDevice,
}

impl PipeKind {
    /// Whether the kernel tells the writing end that nobody reads any more. A terminal is written and read by the same
    /// device, so that what can be read there says nothing about its reader.
    pub(super) fn reports_reader_close(self) -> bool {
        matches!(self, PipeKind::Fifo | PipeKind::Socket)
    }
}

/// Makes `fd` non-blocking and tells its kind; `None`, and nothing done, if it is none that a transport could serve: a
/// regular file is always ready.
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
