//! `UnixDatagram`: Unix datagram sockets with `await`.

use super::address::{show, show_std, to_socket_address};
use crate::net::address_error::address_error;
use crate::net::datagram::{DatagramSocket, datagram_socket_on};
use mainspring_engine::poller::PeerAddress;
use socket2::{Domain, Socket, Type};
use std::io;
use std::net::Shutdown;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram as StdUnixDatagram};
use std::path::Path;

/// A Unix datagram socket, asked with `await`: a [`DatagramSocket`], which it derefs to, bound to a path, to an abstract name,
/// or to none. Where a path is asked for, one that begins with a zero byte is an abstract name, as in asyncio.
///
/// As [`UdpSocket`](crate::net::UdpSocket), but no datagram is ever lost: a sender waits while its receiver's queue is full. A path
/// that it was bound to stays in the file system when the socket is dropped, as with std. It stays on its loop's thread
/// (it is not `Send`).
///
/// A datagram of a socket without a name comes from an unnamed address, and so does one of a peer whose path has no place left
/// for its end (108 bytes), which std has no address for.
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
/// Between two that know each other, with and without waiting:
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
/// // Off the loop.
/// let plain: std::os::unix::net::UnixDatagram = one.into_std()?;
/// # drop(plain);
/// # Ok::<(), std::io::Error>(())
/// # })??;
/// # Ok::<(), mainspring::Error>(())
/// ```
pub struct UnixDatagram {
    socket: DatagramSocket<SocketAddr>,
}

datagram_socket_on!(UnixDatagram, SocketAddr);

impl UnixDatagram {
    /// A socket bound to a path, which must not exist, on the loop that runs here. An error names the path, and has the
    /// system's own error as its [`source`](std::error::Error::source).
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
        let address = to_socket_address(path.as_ref())?;
        let socket = Socket::new(Domain::UNIX, Type::DGRAM, None)?;
        socket.bind(&address).map_err(|error| refused("bind", &show(&address, path.as_ref()), error))?;
        Self::from_std(socket.into())
    }

    /// A socket bound to an address of std: a path or an abstract name.
    pub fn bind_addr(address: &SocketAddr) -> io::Result<Self> {
        let socket = StdUnixDatagram::bind_addr(address);
        Self::from_std(socket.map_err(|error| refused("bind", &show_std(address), error))?)
    }

    /// A socket without a name: it can send, and receive once it is connected and the other side knows it.
    pub fn unbound() -> io::Result<Self> {
        Self::from_std(StdUnixDatagram::unbound()?)
    }

    /// Two sockets that are connected to each other, on the loop that runs here.
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

    /// Puts a socket of std on the loop that runs here, and makes it non-blocking.
    ///
    /// ```
    /// # mainspring::run(async {
    /// use mainspring::net::UnixDatagram;
    ///
    /// let (one, other) = std::os::unix::net::UnixDatagram::pair()?;
    /// let socket = UnixDatagram::from_std(one)?;
    /// other.send(b"hello")?;
    /// assert_eq!(socket.recv(&mut [0; 16]).await?, 5);
    /// // And back; it stays non-blocking.
    /// let one = socket.into_std()?;
    /// assert_eq!(one.send(b"hello")?, 5);
    /// # Ok::<(), std::io::Error>(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn from_std(socket: StdUnixDatagram) -> io::Result<Self> {
        DatagramSocket::adopt(socket.into()).map(|socket| UnixDatagram { socket })
    }

    /// Takes the socket off the loop. It stays non-blocking. See [`UnixDatagram::from_std`].
    pub fn into_std(self) -> io::Result<StdUnixDatagram> {
        self.socket.into_fd().map(StdUnixDatagram::from)
    }

    /// Connects to the socket bound to a path: receives from no other from now on, and [`send`](DatagramSocket::send) sends to it.
    /// Errors are as those of [`UnixDatagram::bind`].
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
        let address = to_socket_address(path.as_ref())?;
        self.with_socket(|socket| socket.connect(&address))
            .map_err(|error| refused("connect", &show(&address, path.as_ref()), error))
    }

    /// Connects to the socket of this name; else as [`UnixDatagram::connect`].
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
            .map_err(|error| refused("connect", &show_std(address), error))
    }

    /// Ends one or both directions, for both sockets.
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

    /// Sends a datagram to the socket bound to a path, and gives its length. Waits while that one's queue is full.
    ///
    /// The kernel tells when there is room only to a connected socket. One that is not asks again in every pass of the loop
    /// while it waits: connect where that matters.
    ///
    /// Cancel safety: a datagram that is given up was not sent.
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

    /// Sends a datagram now, or fails with `WouldBlock`. See [`writable`](DatagramSocket::writable).
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

/// A path, or an abstract name where it begins with a zero byte.
fn peer_address_of(path: &Path) -> PeerAddress {
    PeerAddress::Unix(path.as_os_str().as_bytes().to_vec())
}

/// The error of an operation with an address, which it names.
fn refused(what: &str, address: &str, error: io::Error) -> io::Error {
    address_error(format!("cannot {what} to {address}: {error}"), error)
}
