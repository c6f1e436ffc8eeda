//! `TcpStream`: a connection that is read and written with `await`.
//!
//! It is a transport whose protocol keeps what arrives until it is read. When more than twice [`LIMIT`] waits
//! the transport is paused, and the peer comes to wait; it is resumed when the reader is down to [`LIMIT`]:
//! asyncio's `StreamReader`.

use super::connect::connect;
use super::protocol::Protocol;
use super::socket::SocketConnection;
use super::transport::Transport;
use super::waiters::Waiters;
use super::{ToAddress, current_core};
use crate::event_loop::Core;
use crate::poller::PeerAddress;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::io::{self, Read};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::task::{Context, Poll};

/// asyncio's limit for a reader's buffer.
const LIMIT: usize = 64 * 1024;

/// A large write goes out in pieces of this size, so that no more than one is ever queued.
const PIECE: usize = 256 * 1024;

/// A TCP connection, read and written with `await`.
///
/// All methods take `&self`: one task may read while another writes. Dropping it closes the connection in
/// order: what is queued still goes out while the loop runs.
pub struct TcpStream {
    transport: Transport,
    buffered: Rc<Buffered>,
}

/// The protocol of a stream.
#[derive(Default)]
struct Buffered {
    received: RefCell<VecDeque<u8>>,
    is_reading_paused: Cell<bool>,
    is_at_eof: Cell<bool>,
    is_writing_paused: Cell<bool>,
    is_lost: Cell<bool>,
    error: RefCell<Option<io::Error>>,
    readers: Waiters,
    writers: Waiters,
}

impl Protocol for Buffered {
    fn data_received(&self, transport: &Transport, data: &[u8]) {
        self.received.borrow_mut().extend(data);
        if self.received.borrow().len() > 2 * LIMIT && !self.is_reading_paused.replace(true) {
            transport.pause_reading();
        }
        self.readers.wake();
    }

    fn eof_received(&self, _: &Transport) -> bool {
        self.is_at_eof.set(true);
        self.readers.wake();
        true
    }

    fn connection_lost(&self, _: &Transport, error: Option<io::Error>) {
        self.is_lost.set(true);
        *self.error.borrow_mut() = error;
        self.readers.wake();
        self.writers.wake();
    }

    fn pause_writing(&self, _: &Transport) {
        self.is_writing_paused.set(true);
    }

    fn resume_writing(&self, _: &Transport) {
        self.is_writing_paused.set(false);
        self.writers.wake();
    }
}

impl Buffered {
    /// Why the connection was lost, if it was for a reason.
    fn error(&self) -> Option<io::Error> {
        let error = self.error.borrow();
        error.as_ref().map(|error| match error.raw_os_error() {
            Some(number) => io::Error::from_raw_os_error(number),
            None => io::Error::new(error.kind(), error.to_string()),
        })
    }
}

impl TcpStream {
    pub(super) fn new(core: &Rc<Core>, socket: OwnedFd, peer: SocketAddr) -> Self {
        let buffered = Rc::new(Buffered::default());
        let transport = SocketConnection::open(
            core,
            socket,
            PeerAddress::Inet(peer),
            Rc::<Buffered>::clone(&buffered),
            None,
        );
        TcpStream { transport, buffered }
    }

    /// Connects to `address`, trying every address of a name in turn, on the loop that runs here. Dropping this
    /// future gives the attempt up and closes its socket.
    pub async fn connect(address: impl ToAddress) -> io::Result<Self> {
        let core = current_core()?;
        let (socket, peer) = connect(&core, address).await?;
        Ok(Self::new(&core, socket, peer))
    }

    /// The transport below, for its settings.
    pub fn transport(&self) -> &Transport {
        &self.transport
    }

    /// The peer's address.
    pub fn peer_addr(&self) -> Option<SocketAddr> {
        self.transport.peer_addr()
    }

    /// The address of this end.
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.transport.local_addr()
    }

    /// Reads some bytes, as many as are there and fit, but waits for one. Zero is the end of the stream.
    pub async fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        poll_fn(|cx| self.poll_read(cx, buffer)).await
    }

    /// Fills `buffer`; `UnexpectedEof` if the stream ends before. Cancelled in between, what was read is lost.
    pub async fn read_exact(&self, buffer: &mut [u8]) -> io::Result<()> {
        let mut rest = buffer;
        while !rest.is_empty() {
            match self.read(rest).await? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                count => rest = rest.get_mut(count..).unwrap_or_default(),
            }
        }
        Ok(())
    }

    /// Reads to the end of the stream.
    pub async fn read_to_end(&self) -> io::Result<Vec<u8>> {
        let mut all = Vec::new();
        let mut piece = vec![0; LIMIT];
        loop {
            match self.read(&mut piece).await? {
                0 => return Ok(all),
                count => all.extend_from_slice(piece.get(..count).unwrap_or_default()),
            }
        }
    }

    fn poll_read(&self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        let state = &self.buffered;
        let mut received = state.received.borrow_mut();
        if !received.is_empty() || buffer.is_empty() {
            let count = received.read(buffer);
            let is_down = received.len() <= LIMIT;
            drop(received);
            if is_down && state.is_reading_paused.replace(false) {
                self.transport.resume_reading();
            }
            return Poll::Ready(count);
        }
        drop(received);
        if let Some(error) = state.error() {
            return Poll::Ready(Err(error));
        }
        // A transport that is just being lost will tell why: until then its end is not the stream's.
        let is_closed = self.transport.is_closing() && !self.transport.is_lost();
        if state.is_at_eof.get() || state.is_lost.get() || is_closed {
            return Poll::Ready(Ok(0));
        }
        state.readers.join(cx);
        Poll::Pending
    }

    /// Writes all of `data`: returns when the last of it is sent or queued, and no more is queued than the
    /// transport's high-water mark. Cancelled in between, some of it is written.
    pub async fn write_all(&self, data: &[u8]) -> io::Result<()> {
        for piece in data.chunks(PIECE) {
            self.check_writable()?;
            self.transport.write(piece);
            self.drain().await?;
        }
        Ok(())
    }

    /// Waits until no more is queued than the transport allows; at once if that is so already.
    pub async fn drain(&self) -> io::Result<()> {
        let state = &self.buffered;
        poll_fn(|cx| {
            if state.is_lost.get() {
                return Poll::Ready(Err(self.lost()));
            }
            if !state.is_writing_paused.get() {
                return Poll::Ready(Ok(()));
            }
            state.writers.join(cx);
            Poll::Pending
        })
        .await
    }

    fn check_writable(&self) -> io::Result<()> {
        self.transport.check_write()?;
        if self.buffered.is_lost.get() || self.transport.is_closing() {
            return Err(self.lost());
        }
        Ok(())
    }

    fn lost(&self) -> io::Error {
        self.buffered.error().unwrap_or_else(|| io::ErrorKind::ConnectionReset.into())
    }

    /// Writes no more: the peer sees the end of the stream after what is queued. Reading goes on.
    pub fn shutdown(&self) {
        self.transport.write_eof();
    }

    /// Closes the connection and waits until what is queued is sent and the connection is gone.
    pub async fn close(self) -> io::Result<()> {
        self.transport.close();
        let state = &self.buffered;
        poll_fn(|cx| {
            if state.is_lost.get() {
                return Poll::Ready(());
            }
            state.readers.join(cx);
            Poll::Pending
        })
        .await;
        state.error().map_or(Ok(()), Err)
    }
}

impl Drop for TcpStream {
    fn drop(&mut self) {
        self.transport.close();
    }
}

impl fmt::Debug for TcpStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TcpStream").field("transport", &self.transport).finish_non_exhaustive()
    }
}
