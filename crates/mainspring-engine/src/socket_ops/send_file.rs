//! Sending a file with `sendfile(2)`.

use super::{Operation, none_if_would_block};
use crate::{Direction, Engine, Host};
use rustix::fs::{SeekFrom, seek, sendfile};
use rustix::io::retry_on_intr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The most that one `sendfile` is asked for: more than any kernel sends at once.
const MAX_BLOCK: u64 = 1 << 30;

/// Sends a part of a file with `sendfile(2)`: up to `count` bytes from `offset` on, or to the end of the file.
///
/// It owns an fd of the file. If the program closes the file object meanwhile, the kernel may reuse the number for
/// another file.
pub struct SendFile {
    file: OwnedFd,
    offset: u64,
    count: Option<u64>,
    sent: u64,
}

impl SendFile {
    /// Sends from `file`, a duplicate of the program's fd.
    pub fn new(file: OwnedFd, offset: u64, count: Option<u64>) -> Self {
        SendFile { file, offset, count, sent: 0 }
    }

    /// Bytes sent so far.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// Moves the file position, which `sendfile` leaves alone, behind the bytes that were sent.
    pub fn update_position(&self) -> io::Result<()> {
        seek(&self.file, SeekFrom::Start(self.offset + self.sent))?;
        Ok(())
    }

    /// The size of the next request.
    fn block(&self) -> usize {
        let left = self.count.map_or(MAX_BLOCK, |count| count.saturating_sub(self.sent));
        left.min(MAX_BLOCK) as usize
    }
}

impl<H: Host> Operation<H> for SendFile {
    /// Bytes sent.
    type Output = u64;

    fn direction(&self) -> Direction {
        Direction::Outbound
    }

    fn advance(&mut self, engine: &Engine<H>, socket: BorrowedFd<'_>) -> io::Result<Option<u64>> {
        let block = self.block();
        if block == 0 {
            return Ok(Some(self.sent));
        }
        let mut from = self.offset + self.sent;
        let call = || sendfile(socket, self.file.as_fd(), Some(&mut from), block);
        let Some(sent) = none_if_would_block(retry_on_intr(call).map_err(io::Error::from))? else {
            return Ok(None);
        };
        engine.add_sent(sent);
        self.sent += sent as u64;
        // End of file, or the requested count is reached.
        let is_over = sent == 0 || self.count == Some(self.sent);
        Ok(is_over.then_some(self.sent))
    }
}
