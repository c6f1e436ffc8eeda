//! `DatagramSocket`: a datagram socket with `await`. `UdpSocket` and `UnixDatagram` wrap it and add the names and
//! options of their family.
//!
//! # Buffers
//!
//! This process buffers nothing. A datagram stays in the kernel's receive buffer until a task receives it, directly
//! into the task's buffer. The kernel drops datagrams that exceed `SO_RCVBUF`. A datagram that the kernel does not
//! accept is not queued: the sender waits and retries. So a cancelled operation has neither lost nor sent anything.
//!
//! # Fairness
//!
//! One readiness event allows a few datagrams (`Burst` in the engine). Then other tasks run, so that a fast peer
//! cannot starve the loop. The read interest stays registered while tasks wait; an event without a waiter removes it.

use super::endpoint::{DatagramAddress, Endpoint, EngineAddress};
use super::pollable::Pollable;
use crate::event_loop::{Core, current_core};
use crate::host::RustHost;
use crate::task::named;
use mainspring_engine::poller::{PeerAddress, local_address, remote_address};
use mainspring_engine::transport::Transport as _;
use mainspring_engine::transport::{Cx, Datagram};
use socket2::SockRef;
use std::io;
use std::marker::PhantomData;
use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::rc::Rc;

/// A datagram socket of either family: the common part of [`UdpSocket`](crate::net::UdpSocket) and
/// [`UnixDatagram`](crate::net::UnixDatagram). Both deref to it and convert into it with `From`.
///
/// All methods take `&self`, so one task can receive while another sends. It is not `Send`. Dropping it closes the
/// socket at once.
///
/// # Errors
///
/// An error concerns one datagram; the socket stays usable. On a connected socket the kernel also reports ICMP errors
/// of earlier datagrams (`ConnectionRefused`); the next call returns them.
///
/// ```
/// use mainspring::net::{DatagramAddress, DatagramSocket, UdpSocket, UnixDatagram};
///
/// /// Works with UDP and Unix sockets.
/// async fn echo<A: DatagramAddress>(socket: &DatagramSocket<A>) -> std::io::Result<usize> {
///     let mut buffer = [0; 1500];
///     let (length, from) = socket.recv_from(&mut buffer).await?;
///     socket.send_to_addr(&buffer[..length], &from).await
/// }
///
/// mainspring::run(async {
///     let server = UdpSocket::bind("127.0.0.1:0").await?;
///     let client = UdpSocket::bind("127.0.0.1:0").await?;
///     client.send_to(b"hello", server.local_addr()?).await?;
///     assert_eq!(echo(&server).await?, 5);
///     assert_eq!(client.recv(&mut [0; 1500]).await?, 5);
///     // Converted into the common type.
///     let server = DatagramSocket::from(server);
///     assert_ne!(server.local_addr()?, client.local_addr()?);
///
///     let server = UnixDatagram::bind(format!("\0mainspring-doc-echo-{}", std::process::id()))?;
///     let client = UnixDatagram::bind(format!("\0mainspring-doc-asks-{}", std::process::id()))?;
///     client.send_to_addr(b"hi", &server.local_addr()?).await?;
///     assert_eq!(echo(&server).await?, 2);
///     assert_eq!(client.recv(&mut [0; 1500]).await?, 2);
///     Ok::<(), std::io::Error>(())
/// })??;
/// # Ok::<(), mainspring::Error>(())
/// ```
pub struct DatagramSocket<A: DatagramAddress = SocketAddr> {
    endpoint: Rc<Endpoint<Pollable>>,
    address: PhantomData<A>,
}

impl<A: DatagramAddress> DatagramSocket<A> {
    /// Wraps a non-blocking datagram socket.
    pub(in crate::net) fn new(core: &Rc<Core>, socket: OwnedFd) -> Self {
        let endpoint = Endpoint::new(core, socket, 0, false, Pollable::new);
        endpoint.with(|transport, cx| transport.own(cx));
        DatagramSocket { endpoint, address: PhantomData }
    }

    /// Wraps a datagram socket that was created outside of the loop. Makes it non-blocking and attaches it to the
    /// running loop.
    pub(in crate::net) fn adopt(socket: OwnedFd) -> io::Result<Self> {
        let core = current_core()?;
        core.check_open()?;
        SockRef::from(&socket).set_nonblocking(true)?;
        Ok(Self::new(&core, socket))
    }

    pub(in crate::net) fn core(&self) -> io::Result<Rc<Core>> {
        self.endpoint.core().ok_or_else(|| crate::Error::Closed.into())
    }

    /// Runs `f` on the engine's transport. Fails if the socket or the loop is closed.
    fn with<R>(
        &self,
        f: impl FnOnce(&Datagram<RustHost, Pollable>, Cx<'_, RustHost>) -> io::Result<R>,
    ) -> io::Result<R> {
        if let Some(failure) = self.pollable().failure() {
            return Err(failure);
        }
        self.endpoint.with(f).unwrap_or_else(|| Err(crate::Error::Closed.into()))
    }

    fn pollable(&self) -> &Pollable {
        self.endpoint.transport().sink()
    }

    /// Lends the fd to `f`.
    pub(in crate::net) fn with_fd<R>(
        &self,
        f: impl FnOnce(BorrowedFd<'_>) -> io::Result<R>,
    ) -> io::Result<R> {
        self.endpoint.transport().with_fd(f)
    }

    /// Lends the socket to `f`, for socket options.
    pub(in crate::net) fn with_socket<R>(
        &self,
        f: impl FnOnce(SockRef<'_>) -> io::Result<R>,
    ) -> io::Result<R> {
        self.with_fd(|fd| f(SockRef::from(&fd)))
    }

    /// The local address. A Unix socket may be unnamed.
    pub fn local_addr(&self) -> io::Result<A> {
        self.with_fd(|fd| A::from_engine(EngineAddress(local_address(fd))))
    }

    /// The address that the socket is connected to. `NotConnected` if it is not connected.
    ///
    /// ```
    /// use mainspring::net::{UdpSocket, UnixDatagram};
    /// use std::io::ErrorKind;
    /// use std::os::linux::net::SocketAddrExt;
    ///
    /// # mainspring::run(async {
    /// let server = UdpSocket::bind("127.0.0.1:0").await?;
    /// assert_eq!(server.peer_addr().unwrap_err().kind(), ErrorKind::NotConnected);
    /// let client = UdpSocket::bind("127.0.0.1:0").await?;
    /// client.connect(server.local_addr()?).await?;
    /// assert_eq!(client.peer_addr()?, server.local_addr()?);
    ///
    /// let name = format!("mainspring-doc-peer-{}", std::process::id());
    /// let server = UnixDatagram::bind(format!("\0{name}"))?;
    /// assert_eq!(server.peer_addr().unwrap_err().kind(), ErrorKind::NotConnected);
    /// let client = UnixDatagram::unbound()?;
    /// client.connect(format!("\0{name}"))?;
    /// assert_eq!(client.peer_addr()?.as_abstract_name(), Some(name.as_bytes()));
    /// # std::io::Result::Ok(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn peer_addr(&self) -> io::Result<A> {
        self.with_fd(|fd| A::from_engine(EngineAddress(remote_address(fd)?)))
    }

    /// Sends a datagram to `to` and returns its length. Waits while the kernel's send buffer is full.
    ///
    /// Cancel safety: safe; a cancelled datagram was not sent.
    ///
    /// ```
    /// # mainspring::run(async {
    /// let socket = mainspring::net::UdpSocket::bind("127.0.0.1:0").await?;
    /// let own_addr = socket.local_addr()?;
    /// assert_eq!(socket.send_to_addr(b"hello", &own_addr).await?, 5);
    /// assert_eq!(socket.recv_from(&mut [0; 16]).await?, (5, own_addr));
    /// # std::io::Result::Ok(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub async fn send_to_addr(&self, data: &[u8], to: &A) -> io::Result<usize> {
        self.send_to_peer(data, Some(&to.to_engine().0)).await
    }

    /// Sends a datagram to the connected address and returns its length. Waits while the kernel's send buffer is
    /// full.
    ///
    /// Cancel safety: safe; a cancelled datagram was not sent.
    ///
    /// ```
    /// # mainspring::run(async {
    /// use mainspring::net::UdpSocket;
    ///
    /// let socket = UdpSocket::bind("127.0.0.1:0").await?;
    /// assert!(socket.send(b"to whom?").await.is_err());
    /// socket.connect(socket.local_addr()?).await?;
    /// assert_eq!(socket.send(b"to me").await?, 5);
    /// # Ok::<(), std::io::Error>(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub async fn send(&self, data: &[u8]) -> io::Result<usize> {
        self.send_to_peer(data, None).await
    }

    /// Sends as soon as the kernel accepts the datagram.
    pub(in crate::net) async fn send_to_peer(
        &self,
        data: &[u8],
        to: Option<&PeerAddress>,
    ) -> io::Result<usize> {
        let sent = || match self.try_send_to_peer(data, to) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
            sent => Some(sent),
        };
        named(|| "send", self.pollable().writers.wait_until(sent)).await
    }

    /// Sends a datagram to the connected address, or fails with `WouldBlock`. See
    /// [`writable`](DatagramSocket::writable).
    ///
    /// ```
    /// # mainspring::run(async {
    /// let socket = mainspring::net::UdpSocket::bind("127.0.0.1:0").await?;
    /// socket.connect(socket.local_addr()?).await?;
    /// assert_eq!(socket.try_send(b"hello")?, 5);
    /// assert_eq!(socket.recv(&mut [0; 16]).await?, 5);
    /// # std::io::Result::Ok(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn try_send(&self, data: &[u8]) -> io::Result<usize> {
        self.try_send_to_peer(data, None)
    }

    /// Sends at once or fails.
    pub(in crate::net) fn try_send_to_peer(
        &self,
        data: &[u8],
        to: Option<&PeerAddress>,
    ) -> io::Result<usize> {
        self.with(|transport, cx| {
            if transport.is_writing_paused() {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            transport.try_send(cx, data, to).map(|()| data.len())
        })
    }

    /// Receives one datagram and returns its length and sender. Bytes that do not fit into `buffer` are lost.
    ///
    /// Cancel safety: safe; a datagram leaves the kernel only when the call completes. After a few datagrams the call
    /// yields to the loop, even if more are available.
    ///
    /// ```
    /// # mainspring::run(async {
    /// use mainspring::net::UdpSocket;
    ///
    /// let socket = UdpSocket::bind("127.0.0.1:0").await?;
    /// let own_addr = socket.local_addr()?;
    /// socket.send_to(b"hello", own_addr).await?;
    /// let mut buffer = [0; 16];
    /// assert_eq!(socket.recv_from(&mut buffer).await?, (5, own_addr));
    /// assert_eq!(&buffer[..5], b"hello");
    /// # Ok::<(), std::io::Error>(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub async fn recv_from(&self, buffer: &mut [u8]) -> io::Result<(usize, A)> {
        self.receive(|| self.try_recv_from(buffer)).await
    }

    /// Receives one datagram and returns its length. For connected sockets. Otherwise as
    /// [`recv_from`](DatagramSocket::recv_from).
    ///
    /// Cancel safety: safe; no datagram is lost.
    ///
    /// ```
    /// # mainspring::run(async {
    /// let (one, other) = mainspring::net::UnixDatagram::pair()?;
    /// one.send(b"hello").await?;
    /// assert_eq!(other.recv(&mut [0; 16]).await?, 5);
    /// # Ok::<(), std::io::Error>(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub async fn recv(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.receive(|| self.try_recv(buffer)).await
    }

    /// Receives one datagram as [`recv_from`](DatagramSocket::recv_from) does, and leaves it in the kernel.
    ///
    /// Cancel safety: safe; no datagram is lost.
    ///
    /// ```
    /// # mainspring::run(async {
    /// use mainspring::net::UdpSocket;
    ///
    /// let socket = UdpSocket::bind("127.0.0.1:0").await?;
    /// socket.send_to(b"hello", socket.local_addr()?).await?;
    /// let mut buffer = [0; 16];
    /// let peeked = socket.peek_from(&mut buffer).await?;
    /// assert_eq!(socket.recv_from(&mut buffer).await?, peeked);
    /// # Ok::<(), std::io::Error>(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub async fn peek_from(&self, buffer: &mut [u8]) -> io::Result<(usize, A)> {
        let attempt = || {
            let (count, from) = self.attempt(|transport, _| transport.try_peek(buffer))?;
            Ok((count, A::from_engine(EngineAddress(from))?))
        };
        self.receive(attempt).await
    }

    /// Receives one datagram, or fails with `WouldBlock`. See [`readable`](DatagramSocket::readable).
    pub fn try_recv_from(&self, buffer: &mut [u8]) -> io::Result<(usize, A)> {
        let (count, from) = self.attempt(|transport, cx| transport.try_receive(cx, buffer))?;
        Ok((count, A::from_engine(EngineAddress(from))?))
    }

    /// Receives one datagram, or fails with `WouldBlock`. See [`readable`](DatagramSocket::readable).
    pub fn try_recv(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.attempt(|transport, cx| transport.try_receive(cx, buffer)).map(|(count, _)| count)
    }

    /// Tries once, regardless of readiness.
    fn attempt<R>(
        &self,
        attempt: impl FnOnce(&Datagram<RustHost, Pollable>, Cx<'_, RustHost>) -> io::Result<R>,
    ) -> io::Result<R> {
        self.with(|transport, cx| {
            let burst = &transport.sink().burst;
            let received = attempt(transport, cx);
            match &received {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => burst.found_nothing(),
                _ => burst.brought(),
            }
            received
        })
    }

    /// Receives with `attempt` when the socket is readable.
    async fn receive<R>(&self, mut attempt: impl FnMut() -> io::Result<R>) -> io::Result<R> {
        let received = || {
            if self.pollable().burst.has_more() {
                match attempt() {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    received => return Some(received),
                }
            }
            self.want_readable().map(Err)
        };
        named(|| "recv", self.pollable().readers.wait_until(received)).await
    }

    /// Registers read interest. Returns the failure, if any.
    fn want_readable(&self) -> Option<io::Error> {
        let wanted = self.with(|transport, cx| transport.want_readable(cx, true));
        self.pollable().has_readers.set(wanted.is_ok());
        wanted.err()
    }

    /// Waits until a datagram or an error is available. The next attempt may still fail with `WouldBlock` if another
    /// task was faster; wait again then.
    ///
    /// Cancel safety: safe; no datagram is lost.
    ///
    /// ```
    /// # mainspring::run(async {
    /// use mainspring::net::UdpSocket;
    /// use std::io::ErrorKind;
    ///
    /// let socket = UdpSocket::bind("127.0.0.1:0").await?;
    /// let mut buffer = [0; 16];
    /// assert_eq!(socket.try_recv_from(&mut buffer).unwrap_err().kind(), ErrorKind::WouldBlock);
    /// socket.send_to(b"hello", socket.local_addr()?).await?;
    /// let length = loop {
    ///     socket.readable().await?;
    ///     match socket.try_recv(&mut buffer) {
    ///         Err(error) if error.kind() == ErrorKind::WouldBlock => continue,
    ///         received => break received?,
    ///     }
    /// };
    /// assert_eq!(length, 5);
    /// # Ok::<(), std::io::Error>(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub async fn readable(&self) -> io::Result<()> {
        // A burst that turned out to be empty does not count as readable.
        let is_readable = || {
            if self.pollable().burst.has_more() { Some(Ok(())) } else { self.want_readable().map(Err) }
        };
        named(|| "recv", self.pollable().readers.wait_until(is_readable)).await
    }

    /// Waits until the kernel accepts datagrams again after `WouldBlock`; otherwise completes at once. For a Unix
    /// socket the kernel may report this only when most of the queue has been received.
    ///
    /// Cancel safety: safe; no datagram is lost.
    ///
    /// ```
    /// # mainspring::run(async {
    /// let (one, other) = mainspring::net::UnixDatagram::pair()?;
    /// // Fill the queue, then drain it.
    /// while one.try_send(b"hello").is_ok() {}
    /// while other.try_recv(&mut [0; 16]).is_ok() {}
    /// one.writable().await?;
    /// assert_eq!(one.try_send(b"hello")?, 5);
    /// # Ok::<(), std::io::Error>(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub async fn writable(&self) -> io::Result<()> {
        let has_space = || match self.with(|transport, _| Ok(transport.is_writing_paused())) {
            Ok(true) => None,
            is_paused => Some(is_paused.map(drop)),
        };
        named(|| "send", self.pollable().writers.wait_until(has_space)).await
    }

    /// Takes the pending socket error (`SO_ERROR`).
    ///
    /// ```
    /// # mainspring::run(async {
    /// let (one, other) = mainspring::net::UnixDatagram::pair()?;
    /// assert!(one.take_error()?.is_none());
    /// // The peer connects to another socket and discards this datagram.
    /// one.send(b"hello").await?;
    /// let third = mainspring::net::UnixDatagram::bind(format!("\0mainspring-doc-third-{}", std::process::id()))?;
    /// other.connect_addr(&third.local_addr()?)?;
    /// assert_eq!(one.take_error()?.map(|error| error.kind()), Some(std::io::ErrorKind::ConnectionReset));
    /// assert!(one.take_error()?.is_none());
    /// # std::io::Result::Ok(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        self.with_socket(|socket| socket.take_error())
    }

    /// Detaches the socket from the loop.
    pub(in crate::net) fn into_fd(self) -> io::Result<OwnedFd> {
        self.detach().ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    fn detach(&self) -> Option<OwnedFd> {
        match self.endpoint.with(|transport, cx| transport.detach_fd(cx)) {
            Some(socket) => socket,
            // A closed loop has released the socket already.
            None => self.endpoint.transport().take_channel(),
        }
    }

    /// `Debug` for a wrapper of this name.
    pub(in crate::net) fn describe(&self, name: &str, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct(name)
            .field("fd", &self.endpoint.transport().fd())
            .field("local", &self.local_addr().ok())
            .finish_non_exhaustive()
    }
}

impl<A: DatagramAddress> Drop for DatagramSocket<A> {
    fn drop(&mut self) {
        let socket = self.detach();
        drop(socket);
    }
}

impl<A: DatagramAddress> std::fmt::Debug for DatagramSocket<A> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.describe("DatagramSocket", f)
    }
}

/// Implements the traits that a wrapper forwards to its field `socket`.
macro_rules! forward_to_datagram_socket {
    ($socket:ident, $address:ty) => {
        impl std::ops::Deref for $socket {
            type Target = crate::net::DatagramSocket<$address>;

            fn deref(&self) -> &Self::Target {
                &self.socket
            }
        }

        impl From<$socket> for crate::net::DatagramSocket<$address> {
            fn from(socket: $socket) -> Self {
                socket.socket
            }
        }

        impl std::fmt::Debug for $socket {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.socket.describe(stringify!($socket), f)
            }
        }
    };
}

pub(in crate::net) use forward_to_datagram_socket;
