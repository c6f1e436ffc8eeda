//! `sock_recv` and its kin: operations on sockets that the program owns, with `await`; and no more than the wait for one,
//! for any descriptor.
//!
//! Each is tried at once, and again whenever the kernel says that something has changed. The rules about what is left
//! where when an operation is given up are those of [`socket_ops`](crate::socket_ops).

use super::{Core, EventLoop};
use crate::host::Watch;
use crate::net::connect_socket;
use mainspring_engine::poller::PeerAddress;
use mainspring_engine::socket_ops::{Pending, Ready};
use mainspring_engine::{Direction, READ_SIZE};
use socket2::SockRef;
use std::cell::Cell;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::task::{Poll, Waker};

/// These are for sockets of the standard library and others that are no transports: borrowed while the operation
/// waits, and never blocked on, whatever mode they are in (but see [`sock_accept`](EventLoop::sock_accept)). One
/// operation at a time waits for a socket in each direction: a second one takes the place of the first, which fails with
/// `ResourceBusy`; so does who waits for a socket that becomes a transport's, or is one's.
impl EventLoop {
    /// Waits until `file` can be read without waiting, or has an end or an error to tell: for whatever is a descriptor and
    /// no stream of ours, a device or another library's socket. Whoever reads then must not block: somebody else may have
    /// been quicker. What the system cannot watch, as a plain file, is an error.
    ///
    /// Cancel safety: safe; it only looks.
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
    /// let mut there = [0; 5];
    /// assert_eq!(reader.read(&mut there)?, 5);
    /// # Ok::<(), std::io::Error>(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    #[doc(alias = "AsyncFd")]
    pub async fn readable(&self, file: &impl AsFd) -> io::Result<()> {
        self.core().check_open()?;
        ready(self.core(), file.as_fd(), Direction::Inbound).await
    }

    /// Waits until `file` can be written without waiting, or has an error to tell. Else as
    /// [`readable`](EventLoop::readable).
    ///
    /// Cancel safety: safe; it only looks.
    #[doc(alias = "AsyncFd")]
    pub async fn writable(&self, file: &impl AsFd) -> io::Result<()> {
        self.core().check_open()?;
        ready(self.core(), file.as_fd(), Direction::Outbound).await
    }

    /// Receives up to `count` bytes, and no more than 250 KiB, but waits for one. Nothing is the end of the stream.
    ///
    /// Cancel safety: given up, it has taken nothing out of the socket.
    ///
    /// ```
    /// use std::os::unix::net::UnixStream;
    ///
    /// # mainspring::run(async {
    /// let event_loop = mainspring::EventLoop::current();
    /// let (here, there) = UnixStream::pair()?;
    /// event_loop.sock_sendall(&there, b"hello").await?;
    /// assert_eq!(event_loop.sock_recv(&here, 100).await?, b"hello");
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
            let received = core.engine.with_scratch_of(count.min(READ_SIZE), receive);
            if let Some(data) = received? {
                return Ok(data);
            }
            ready(core, socket, Direction::Inbound).await?;
        }
    }

    /// Sends all of `data`. One at a time may send on a socket: else the messages are mixed, and the one that has to give
    /// way fails. A stream of [`net`](crate::net) is for several tasks.
    ///
    /// Cancel safety: given up, it has sent some of it, and nobody knows how much.
    ///
    /// ```
    /// use std::io::Read;
    /// use std::os::unix::net::UnixStream;
    ///
    /// # mainspring::run(async {
    /// let (here, mut there) = UnixStream::pair()?;
    /// mainspring::EventLoop::current().sock_sendall(&here, b"hello").await?;
    /// let mut received = [0; 5];
    /// there.read_exact(&mut received)?;
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

    /// Connects `socket`, for those who have options to set before that. It has to be non-blocking: else this blocks the
    /// loop. [`TcpStream::from_std`](crate::net::TcpStream::from_std) makes a stream of it.
    ///
    /// Cancel safety: given up, the socket goes on connecting; to close it ends that.
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

    /// Accepts a connection, which is non-blocking. The listener has to be as well: else this blocks the loop when
    /// the connection that was announced is gone again.
    ///
    /// Cancel safety: given up, it has accepted nothing.
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
            match core.engine.poller().accept(listener) {
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

/// Waits until the socket is ready. Whether done or given up, the loop no longer watches it afterwards.
pub(crate) async fn ready(core: &Rc<Core>, socket: BorrowedFd<'_>, direction: Direction) -> io::Result<()> {
    struct Leave<'a>(&'a Core, Pending<Ready>);
    impl Drop for Leave<'_> {
        fn drop(&mut self) {
            let watch = self.1.leave(&self.0.engine);
            drop(watch);
        }
    }
    let announced = Rc::new(Announced::default());
    let waiting = Leave(core, Pending::new(Ready(direction)));
    let replaced = waiting.1.wait(&core.engine, socket, Rc::<Announced>::clone(&announced))?;
    if let Some(replaced) = replaced {
        replaced.cancel();
    }
    poll_fn(|cx| {
        match announced.what.get() {
            Some(true) => return Poll::Ready(Ok(())),
            Some(false) => {
                let text = "somebody else has this descriptor now, or waits for it: one at a time can";
                return Poll::Ready(Err(io::Error::new(io::ErrorKind::ResourceBusy, text)));
            }
            None => {}
        }
        let former = announced.waker.replace(Some(cx.waker().clone()));
        drop(former);
        Poll::Pending
    })
    .await
}

/// What the loop has told a task that waits.
#[derive(Default)]
struct Announced {
    /// That the socket is ready, or that somebody else watches it now.
    what: Cell<Option<bool>>,
    waker: Cell<Option<Waker>>,
}

impl Announced {
    fn tell(&self, is_ready: bool) {
        self.what.set(Some(is_ready));
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

impl Watch for Announced {
    fn fire(&self) {
        self.tell(true);
    }

    fn cancel(&self) {
        if self.what.get().is_none() {
            self.tell(false);
        }
    }
}
