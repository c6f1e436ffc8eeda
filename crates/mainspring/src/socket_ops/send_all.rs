//! Sending a whole message.

use super::Operation;
use crate::engine::{Direction, Engine, Host};
use std::io;
use std::os::fd::BorrowedFd;

/// Sends all of `data`, however many attempts it takes.
///
/// One attempt is one `send`: a peer that reads as fast as this side writes does not keep the loop for itself.
///
/// ```
#[doc = include_str!("../doc/plain_host.txt")]
/// use mainspring::engine::Engine;
/// use mainspring::socket_ops::{Operation, SendAll};
/// use std::io::Read;
/// use std::os::fd::AsFd;
/// use std::os::unix::net::UnixStream;
///
/// let engine = Engine::new(Plain, open_epoll()?, Box::new(MonotonicClock))?;
/// let (here, mut there) = UnixStream::pair()?;
/// // The first try has sent three bytes.
/// let mut send = SendAll::new("hello", 3);
/// assert_eq!(send.advance(&engine, here.as_fd())?, Some(()));
/// assert_eq!(send.data(), &"hello");
/// let mut received = [0; 2];
/// there.read_exact(&mut received)?;
/// assert_eq!(&received, b"lo");
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct SendAll<D> {
    data: D,
    sent: usize,
}

impl<D: AsRef<[u8]>> SendAll<D> {
    /// A message of which the first `sent` bytes have been sent.
    pub fn new(data: D, sent: usize) -> Self {
        SendAll { data, sent }
    }

    /// What it sends.
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
