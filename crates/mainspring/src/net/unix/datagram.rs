//! `UnixDatagram`: Unix datagram sockets with `await`.

use super::address::{display_path, display_std, to_sock_addr};
use crate::net::address_error::address_error;
use crate::net::datagram::{DatagramSocket, forward_to_datagram_socket};
use mainspring_engine::poller::PeerAddress;
use socket2::{Domain, Socket, Type};
use std::io;
use std::net::Shutdown;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram as StdUnixDatagram};
use std::path::Path;

/// A Unix datagram socket: bound to a path or to an abstract name, or unbound. Derefs to [`DatagramSocket`]. A path
/// with a leading zero byte is an abstract name, as in asyncio.
///
/// As [`UdpSocket`](crate::net::UdpSocket), but no datagram is dropped: the sender waits while the receiver's queue
/// is full. As with std, the socket file stays when the socket is dropped. It is not `Send`.
///
/// Datagrams of an unbound socket come from an unnamed address. So do those of a peer whose path fills all 108 bytes,
/// which std cannot represent.
///
/// ```
/// use mainspring::net::UnixDatagram;
/// use std::os::linux::net::SocketAddrExt;
/// use std::os::unix::net::SocketAddr;
///
/// mainspring::run(async {
///     let name = SocketAddr::from_abstract_name(format!("mainspring-doc-{}", std::process::id()))?;
///     let server = UnixDatagram::bind_addr(&name)?;
///     let client = UnixDatagram::unbound()?;
///     client.send_to_addr(b"hello", &name).await?;
///
///     let mut buffer = [0; 16];
///     let (length, from) = server.recv_from(&mut buffer).await?;
///     assert_eq!(&buffer[..length], b"hello");
///     assert!(from.is_unnamed());
///     Ok::<(), std::io::Error>(())
/// })??;
/// # Ok::<(), mainspring::Error>(())
/// ```
///
/// A connected pair, with and without waiting:
///
/// ```
/// # mainspring::run(async {
/// let (one, other) = mainspring::net::UnixDatagram::pair()?;
/// let mut buffer = [0; 16];
/// one.send(b"hello").await?;
/// assert_eq!(other.recv(&mut buffer).await?, 5);
/// one.try_send(b"again")?;
/// assert_eq!(other.try_recv(&mut buffer)?, 5);
/// assert_eq!(other.try_recv_from(&mut buffer).unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
/// assert!(one.local_addr()?.is_unnamed());
/// // Detached from the loop.
/// let plain: std::os::unix::net::UnixDatagram = one.into_std()?;
/// # drop(plain);
/// # Ok::<(), std::io::Error>(())
/// # })??;
/// # Ok::<(), mainspring::Error>(())
/// ```
pub struct UnixDatagram {
    socket: DatagramSocket<SocketAddr>,
}

forward_to_datagram_socket!(UnixDatagram, SocketAddr);

impl UnixDatagram {
    /// Binds a socket to a path, which must not exist, on the running loop. An error names the path and has the
    /// system's error as its [`source`](std::error::Error::source).
    ///
    /// ```
    /// # mainspring::run(async {
    /// use mainspring::net::UnixDatagram;
    ///
    /// let path = std::env::temp_dir().join(format!("mainspring-doc-bind-{}", std::process::id()));
    /// let socket = UnixDatagram::bind(&path)?;
    /// assert_eq!(socket.local_addr()?.as_pathname(), Some(path.as_path()));
    /// std::fs::remove_file(path)?;
    /// # Ok::<(), std::io::Error>(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn bind(path: impl AsRef<Path>) -> io::Result<Self> {
        let address = to_sock_addr(path.as_ref())?;
        let socket = Socket::new(Domain::UNIX, Type::DGRAM, None)?;
        socket
            .bind(&address)
            .map_err(|error| operation_error("bind", &display_path(&address, path.as_ref()), error))?;
        Self::from_std(socket.into())
    }

    /// Binds a socket to an address of std: a path or an abstract name.
    pub fn bind_addr(address: &SocketAddr) -> io::Result<Self> {
        let socket = StdUnixDatagram::bind_addr(address);
        Self::from_std(socket.map_err(|error| operation_error("bind", &display_std(address), error))?)
    }

    /// Creates an unbound socket. It can send; it can receive only from a connected peer that knows it.
    pub fn unbound() -> io::Result<Self> {
        Self::from_std(StdUnixDatagram::unbound()?)
    }

    /// Creates a connected pair on the running loop.
    ///
    /// ```
    /// # mainspring::run(async {
    /// use mainspring::net::UnixDatagram;
    ///
    /// let (one, other) = UnixDatagram::pair()?;
    /// one.send(b"hello").await?;
    /// assert_eq!(other.recv(&mut [0; 16]).await?, 5);
    /// # Ok::<(), std::io::Error>(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn pair() -> io::Result<(Self, Self)> {
        let (one, other) = StdUnixDatagram::pair()?;
        Ok((Self::from_std(one)?, Self::from_std(other)?))
    }

    /// Attaches a socket of std to the running loop and makes it non-blocking.
    ///
    /// ```
    /// # mainspring::run(async {
    /// use mainspring::net::UnixDatagram;
    ///
    /// let (one, other) = std::os::unix::net::UnixDatagram::pair()?;
    /// let socket = UnixDatagram::from_std(one)?;
    /// other.send(b"hello")?;
    /// assert_eq!(socket.recv(&mut [0; 16]).await?, 5);
    /// // And back. It stays non-blocking.
    /// let one = socket.into_std()?;
    /// assert_eq!(one.send(b"hello")?, 5);
    /// # Ok::<(), std::io::Error>(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn from_std(socket: StdUnixDatagram) -> io::Result<Self> {
        DatagramSocket::adopt(socket.into()).map(|socket| UnixDatagram { socket })
    }

    /// Detaches the socket from the loop. It stays non-blocking. See [`UnixDatagram::from_std`].
    pub fn into_std(self) -> io::Result<StdUnixDatagram> {
        self.socket.into_fd().map(StdUnixDatagram::from)
    }

    /// Connects to the socket bound to a path: this socket then receives from it only, and
    /// [`send`](DatagramSocket::send) sends to it. Errors are as those of [`UnixDatagram::bind`].
    ///
    /// ```
    /// # mainspring::run(async {
    /// use mainspring::net::UnixDatagram;
    ///
    /// let path = std::env::temp_dir().join(format!("mainspring-doc-connect-{}", std::process::id()));
    /// let server = UnixDatagram::bind(&path)?;
    /// let client = UnixDatagram::unbound()?;
    /// client.connect(&path)?;
    /// client.send(b"hello").await?;
    /// assert_eq!(server.recv(&mut [0; 16]).await?, 5);
    /// std::fs::remove_file(path)?;
    /// # Ok::<(), std::io::Error>(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn connect(&self, path: impl AsRef<Path>) -> io::Result<()> {
        let address = to_sock_addr(path.as_ref())?;
        self.with_socket(|socket| socket.connect(&address))
            .map_err(|error| operation_error("connect", &display_path(&address, path.as_ref()), error))
    }

    /// Connects to this address. Otherwise as [`UnixDatagram::connect`].
    ///
    /// ```
    /// # mainspring::run(async {
    /// use mainspring::net::UnixDatagram;
    ///
    /// let server = UnixDatagram::bind(format!("\0mainspring-doc-name-{}", std::process::id()))?;
    /// let client = UnixDatagram::unbound()?;
    /// client.connect_addr(&server.local_addr()?)?;
    /// client.send(b"hello").await?;
    /// assert_eq!(server.recv(&mut [0; 16]).await?, 5);
    /// # Ok::<(), std::io::Error>(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn connect_addr(&self, address: &SocketAddr) -> io::Result<()> {
        use rustix::net::{SocketAddrUnix, connect};
        let to = match (address.as_pathname(), address.as_abstract_name()) {
            (Some(path), _) => SocketAddrUnix::new(path)?,
            (None, Some(name)) => SocketAddrUnix::new_abstract_name(name)?,
            (None, None) => SocketAddrUnix::new_unnamed(),
        };
        self.with_fd(|fd| Ok(connect(fd, &to)?))
            .map_err(|error| operation_error("connect", &display_std(address), error))
    }

    /// Shuts down one or both directions of the connection.
    ///
    /// ```
    /// # mainspring::run(async {
    /// use mainspring::net::UnixDatagram;
    ///
    /// let (one, _other) = UnixDatagram::pair()?;
    /// one.shutdown(std::net::Shutdown::Write)?;
    /// assert_eq!(one.send(b"hello").await.unwrap_err().kind(), std::io::ErrorKind::BrokenPipe);
    /// # Ok::<(), std::io::Error>(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        self.with_socket(|socket| socket.shutdown(how))
    }

    /// Sends a datagram to the socket bound to a path and returns its length. Waits while the receiver's queue is
    /// full.
    ///
    /// The kernel reports free space in the receiver's queue only to connected sockets. An unconnected socket retries
    /// in every loop iteration, so connect it if the receiver is slow.
    ///
    /// Cancel safety: safe; a cancelled datagram was not sent.
    ///
    /// ```
    /// # mainspring::run(async {
    /// use mainspring::net::UnixDatagram;
    ///
    /// let path = std::env::temp_dir().join(format!("mainspring-doc-send-{}", std::process::id()));
    /// let server = UnixDatagram::bind(&path)?;
    /// UnixDatagram::unbound()?.send_to(b"hello", &path).await?;
    /// assert_eq!(server.recv(&mut [0; 16]).await?, 5);
    /// std::fs::remove_file(path)?;
    /// # Ok::<(), std::io::Error>(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub async fn send_to(&self, data: &[u8], path: impl AsRef<Path>) -> io::Result<usize> {
        self.send_to_peer(data, Some(&peer_address_of(path.as_ref()))).await
    }

    /// Sends a datagram, or fails with `WouldBlock`. See [`writable`](DatagramSocket::writable).
    ///
    /// ```
    /// use mainspring::net::UnixDatagram;
    /// use std::io::ErrorKind;
    ///
    /// # mainspring::run(async {
    /// let name = format!("\0mainspring-doc-try-{}", std::process::id());
    /// let server = UnixDatagram::bind(&name)?;
    /// let mut buffer = [0; 16];
    /// assert_eq!(server.try_recv_from(&mut buffer).unwrap_err().kind(), ErrorKind::WouldBlock);
    /// assert_eq!(UnixDatagram::unbound()?.try_send_to(b"hello", &name)?, 5);
    /// let (length, from) = server.try_recv_from(&mut buffer)?;
    /// assert!(length == 5 && from.is_unnamed());
    /// # std::io::Result::Ok(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn try_send_to(&self, data: &[u8], path: impl AsRef<Path>) -> io::Result<usize> {
        self.try_send_to_peer(data, Some(&peer_address_of(path.as_ref())))
    }
}

/// Converts a path, or an abstract name (a leading zero byte).
fn peer_address_of(path: &Path) -> PeerAddress {
    PeerAddress::Unix(path.as_os_str().as_bytes().to_vec())
}

/// An error that names the operation and the address.
fn operation_error(operation: &str, address: &str, error: io::Error) -> io::Error {
    address_error(format!("cannot {operation} to {address}: {error}"), error)
}
