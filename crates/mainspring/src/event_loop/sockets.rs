//! `sock_recv` and related operations on sockets that the program owns, and `readable` and `writable` for any
//! descriptor.
//!
//! Each operation is tried at once, and again after each readiness event.

use super::{Core, EventLoop};
use crate::host::Watch;
use crate::net::connect_socket;
use crate::task::waits_for;
use mainspring_engine::poller::PeerAddress;
use mainspring_engine::socket_ops::{Pending, Ready};
use mainspring_engine::{Direction, READ_SIZE};
use socket2::SockRef;
use std::cell::Cell;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::task::{Poll, Waker};

/// For sockets that are not transports, such as those of the standard library. The socket is borrowed while the
/// operation waits. The operations never block, whatever mode the socket is in, except as
/// [`sock_accept`](EventLoop::sock_accept) describes. One operation per direction can wait for a socket: a second one
/// replaces the first, which fails with `ResourceBusy`. It also fails so if a transport owns the socket or takes it
/// over.
impl EventLoop {
    /// Waits until `file` is readable, at its end or in error: for fds that are not streams of this crate, such as
    /// devices or sockets of other libraries. The read that follows must be non-blocking, because another reader may be
    /// faster. Fails for files that the system cannot watch, such as regular files.
    ///
    /// Cancel safety: nothing is lost.
    ///
    /// ```
    /// use std::io::{Read, Write};
    ///
    /// # mainspring::run(async {
    /// let (mut reader, mut writer) = std::io::pipe()?;
    /// writer.write_all(b"hello")?;
    /// let event_loop = mainspring::EventLoop::current();
    /// event_loop.writable(&writer).await?;
    /// event_loop.readable(&reader).await?;
    /// let mut received = [0; 5];
    /// assert_eq!(reader.read(&mut received)?, 5);
    /// # Ok::<(), std::io::Error>(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    #[doc(alias = "AsyncFd")]
    pub async fn readable(&self, file: &impl AsFd) -> io::Result<()> {
        self.core().check_open()?;
        ready(self.core(), file.as_fd(), Direction::Inbound).await
    }

    /// Waits until `file` is writable, or in error. Otherwise as [`readable`](EventLoop::readable).
    ///
    /// Cancel safety: nothing is lost.
    #[doc(alias = "AsyncFd")]
    pub async fn writable(&self, file: &impl AsFd) -> io::Result<()> {
        self.core().check_open()?;
        ready(self.core(), file.as_fd(), Direction::Outbound).await
    }

    /// Receives up to `count` bytes, at most 250 KiB. Waits for at least one. An empty result is the end of the
    /// stream.
    ///
    /// Cancel safety: nothing is taken from the socket.
    ///
    /// ```
    /// use std::os::unix::net::UnixStream;
    ///
    /// # mainspring::run(async {
    /// let event_loop = mainspring::EventLoop::current();
    /// let (socket, peer) = UnixStream::pair()?;
    /// event_loop.sock_sendall(&peer, b"hello").await?;
    /// assert_eq!(event_loop.sock_recv(&socket, 100).await?, b"hello");
    /// # Ok::<(), std::io::Error>(())
    /// # })??;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub async fn sock_recv(&self, socket: &impl AsFd, count: usize) -> io::Result<Vec<u8>> {
        let (core, socket) = (self.core(), socket.as_fd());
        let receive = |buffer: &mut [u8]| -> io::Result<_> {
            let received = core.engine.try_recv(socket, buffer)?;
            Ok(received.map(|received| buffer.get(..received).unwrap_or_default().to_vec()))
        };
        loop {
            core.check_open()?;
            let received = core.engine.with_read_buffer_of(count.min(READ_SIZE), receive);
            if let Some(data) = received? {
                return Ok(data);
            }
            ready(core, socket, Direction::Inbound).await?;
        }
    }

    /// Sends all of `data`. One task at a time may send on a socket: a second one would mix the messages, so the
    /// first one fails. A stream of [`net`](crate::net) supports several tasks.
    ///
    /// Cancel safety: an unknown part of the data was sent.
    ///
    /// ```
    /// use std::io::Read;
    /// use std::os::unix::net::UnixStream;
    ///
    /// # mainspring::run(async {
    /// let (socket, mut peer) = UnixStream::pair()?;
    /// mainspring::EventLoop::current().sock_sendall(&socket, b"hello").await?;
    /// let mut received = [0; 5];
    /// peer.read_exact(&mut received)?;
    /// assert_eq!(&received, b"hello");
    /// # Ok::<(), std::io::Error>(())
    /// # })??;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub async fn sock_sendall(&self, socket: &impl AsFd, data: &[u8]) -> io::Result<()> {
        let (core, socket) = (self.core(), socket.as_fd());
        let mut rest = data;
        while !rest.is_empty() {
            core.check_open()?;
            match core.engine.try_send(socket, rest)? {
                Some(sent) => rest = rest.get(sent..).unwrap_or_default(),
                None => ready(core, socket, Direction::Outbound).await?,
            }
        }
        Ok(())
    }

    /// Connects `socket`, which may have options set. It must be non-blocking: otherwise this blocks the loop.
    /// [`TcpStream::from_std`](crate::net::TcpStream::from_std) makes a stream of it.
    ///
    /// Cancel safety: the socket continues to connect until it is closed.
    ///
    /// ```
    /// use mainspring::net::{TcpListener, TcpStream};
    /// use socket2::{Domain, Socket, Type};
    ///
    /// # mainspring::run(async {
    /// let listener = TcpListener::bind("127.0.0.1:0").await?;
    /// let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    /// socket.set_nonblocking(true)?;
    /// socket.set_recv_buffer_size(1 << 20)?;
    /// mainspring::EventLoop::current().sock_connect(&socket, listener.local_addr()).await?;
    /// let stream = TcpStream::from_std(socket.into())?;
    /// assert_eq!(stream.peer_addr(), Some(listener.local_addr()));
    /// # Ok::<(), std::io::Error>(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    #[doc(alias = "TcpSocket")]
    pub async fn sock_connect(&self, socket: &impl AsFd, address: SocketAddr) -> io::Result<()> {
        self.core().check_open()?;
        connect_socket(self.core(), &SockRef::from(socket), address).await
    }

    /// Accepts a connection, which is non-blocking. The listener must also be non-blocking: otherwise this blocks the
    /// loop if the connection is gone before it is accepted.
    ///
    /// Cancel safety: nothing is accepted.
    ///
    /// ```
    /// use std::net::{TcpListener, TcpStream};
    ///
    /// # mainspring::run(async {
    /// let event_loop = mainspring::EventLoop::current();
    /// let listener = TcpListener::bind("127.0.0.1:0")?;
    /// listener.set_nonblocking(true)?;
    /// let client = TcpStream::connect(listener.local_addr()?)?;
    /// let (connection, peer) = event_loop.sock_accept(&listener).await?;
    /// assert_eq!(peer, Some(client.local_addr()?));
    /// event_loop.sock_sendall(&connection, b"welcome").await?;
    /// # Ok::<(), std::io::Error>(())
    /// # })??;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub async fn sock_accept(&self, listener: &impl AsFd) -> io::Result<(OwnedFd, Option<SocketAddr>)> {
        let (core, listener) = (self.core(), listener.as_fd());
        loop {
            core.check_open()?;
            match core.engine.with_poller(|poller| poller.accept(listener)) {
                Ok((connection, PeerAddress::Inet(peer))) => return Ok((connection, Some(peer))),
                Ok((connection, _)) => return Ok((connection, None)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    ready(core, listener, Direction::Inbound).await?;
                }
                Err(error) => return Err(error),
            }
        }
    }
}

/// Waits until the socket is ready. Afterwards, or if this future is dropped, the loop does not watch it any more.
pub(crate) async fn ready(core: &Rc<Core>, socket: BorrowedFd<'_>, direction: Direction) -> io::Result<()> {
    struct UnwatchOnDrop<'a>(&'a Core, Pending<Ready>);
    impl Drop for UnwatchOnDrop<'_> {
        fn drop(&mut self) {
            let watch = self.1.leave(&self.0.engine);
            drop(watch);
        }
    }
    let wait = Rc::new(ReadinessWait::default());
    let waiting = UnwatchOnDrop(core, Pending::new(Ready(direction)));
    let replaced = waiting.1.wait(&core.engine, socket, Rc::<ReadinessWait>::clone(&wait))?;
    if let Some(replaced) = replaced {
        replaced.cancel();
    }
    poll_fn(|cx| {
        match wait.is_ready.get() {
            Some(true) => return Poll::Ready(Ok(())),
            Some(false) => {
                let fd = socket.as_raw_fd();
                let text = format!(
                    "file descriptor {fd} is already awaited by another task, or used by a transport"
                );
                return Poll::Ready(Err(io::Error::new(io::ErrorKind::ResourceBusy, text)));
            }
            None => {}
        }
        let former = wait.waker.replace(Some(cx.waker().clone()));
        drop(former);
        waits_for("a socket");
        Poll::Pending
    })
    .await
}

/// The state of a task that waits for readiness.
#[derive(Default)]
struct ReadinessWait {
    /// `true` if the socket is ready, `false` if another task or a transport has taken the descriptor.
    is_ready: Cell<Option<bool>>,
    waker: Cell<Option<Waker>>,
}

impl ReadinessWait {
    fn finish(&self, is_ready: bool) {
        self.is_ready.set(Some(is_ready));
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

impl Watch for ReadinessWait {
    fn fire(&self) {
        self.finish(true);
    }

    fn cancel(&self) {
        if self.is_ready.get().is_none() {
            self.finish(false);
        }
    }
}
