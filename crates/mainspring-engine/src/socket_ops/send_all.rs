//! Sending a whole message.

use super::Operation;
use crate::{Direction, Engine, Host};
use std::io;
use std::os::fd::BorrowedFd;

/// Sends all of `data`.
///
/// One attempt is one `send`, so that a peer that reads as fast as this side writes does not starve the loop.
pub struct SendAll<D> {
    data: D,
    sent: usize,
}

impl<D: AsRef<[u8]>> SendAll<D> {
    /// A message; the first `sent` bytes are already sent.
    pub fn new(data: D, sent: usize) -> Self {
        SendAll { data, sent }
    }

    /// The message.
    pub fn data(&self) -> &D {
        &self.data
    }
}

impl<H: Host, D: AsRef<[u8]>> Operation<H> for SendAll<D> {
    type Output = ();

    fn direction(&self) -> Direction {
        Direction::Outbound
    }

    fn advance(&mut self, engine: &Engine<H>, socket: BorrowedFd<'_>) -> io::Result<Option<()>> {
        let rest = self.data.as_ref().get(self.sent..).unwrap_or_default();
        let Some(sent) = engine.try_send(socket, rest)? else { return Ok(None) };
        self.sent += sent;
        Ok((sent == rest.len()).then_some(()))
    }
}
