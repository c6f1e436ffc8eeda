//! Sending a file without a copy of it in this process.

use super::{Operation, unless_too_early};
use crate::engine::{Direction, Engine, Host};
use rustix::fs::{SeekFrom, seek, sendfile};
use rustix::io::retry_on_intr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The most one `sendfile` is asked for: more than the kernel takes at once on any system.
const MAX_BLOCK: u64 = 1 << 30;

/// Sends a part of a file with `sendfile(2)`: up to `count` bytes from `offset` on, or to the end of the file.
///
/// It owns a descriptor of the file, so that closing the file object in the middle does not make it send another
/// file that got the same number.
///
/// ```
#[doc = include_str!("../doc/plain_host.txt")]
/// use mainspring::engine::Engine;
/// use mainspring::socket_ops::{Operation, SendFile};
/// use std::fs::File;
/// use std::io::{Read, Seek};
/// use std::os::fd::{AsFd, OwnedFd};
/// use std::os::unix::net::UnixStream;
///
/// let engine = Engine::new(Plain, open_epoll()?, Box::new(MonotonicClock))?;
/// let mut file = File::open("Cargo.toml")?;
/// let (here, mut there) = UnixStream::pair()?;
/// let mut send = SendFile::new(OwnedFd::from(file.try_clone()?), 1, Some(7));
/// while send.advance(&engine, here.as_fd())?.is_none() {}
/// assert_eq!(send.sent(), 7);
/// send.update_position()?;
/// assert_eq!(file.stream_position()?, 8);
/// let mut received = [0; 7];
/// there.read_exact(&mut received)?;
/// assert_eq!(&received, b"package");
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct SendFile {
    file: OwnedFd,
    offset: u64,
    count: Option<u64>,
    sent: u64,
}

impl SendFile {
    /// Sends from `file`, a duplicate of the program's own descriptor.
    pub fn new(file: OwnedFd, offset: u64, count: Option<u64>) -> Self {
        SendFile { file, offset, count, sent: 0 }
    }

    /// How much has been sent so far.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// Puts the file's own position, which `sendfile` does not move, behind what was sent.
    pub fn update_position(&self) -> io::Result<()> {
        seek(&self.file, SeekFrom::Start(self.offset + self.sent))?;
        Ok(())
    }

    /// How much the next call is asked for.
    fn block(&self) -> usize {
        let left = self.count.map_or(MAX_BLOCK, |count| count.saturating_sub(self.sent));
        left.min(MAX_BLOCK) as usize
    }
}

impl<H: Host> Operation<H> for SendFile {
    /// How much was sent.
    type Output = u64;

    fn direction(&self) -> Direction {
        Direction::Outbound
    }

    fn advance(&mut self, _: &Engine<H>, socket: BorrowedFd<'_>) -> io::Result<Option<u64>> {
        let block = self.block();
        if block == 0 {
            return Ok(Some(self.sent));
        }
        let mut from = self.offset + self.sent;
        let call = || sendfile(socket, self.file.as_fd(), Some(&mut from), block);
        let Some(sent) = unless_too_early(retry_on_intr(call).map_err(io::Error::from))? else {
            return Ok(None);
        };
        self.sent += sent as u64;
        // The end of the file, or of what was asked for.
        let is_over = sent == 0 || self.count == Some(self.sent);
        Ok(is_over.then_some(self.sent))
    }
}
