//! `UnixStream`: a Unix connection with `await`.

use super::address::{display_path, to_sock_addr};
use super::peer_cred::{UCred, peer_cred};
use crate::event_loop::{Core, EventLoop, current_core};
use crate::net::address_error::address_error;
use crate::net::connect::{adopt_stream_socket, attach_protocol};
use crate::net::connection::{Protocol, SocketConnection, Transport};
use crate::net::stream::{DEFAULT_LIMIT, IntoStdError, Stream, forward_to_stream};
use crate::time::sleep;
use mainspring_engine::poller::{PeerAddress, peer_address};
use mainspring_engine::socket_ops::connect_backoff;
use socket2::{Domain, Socket, Type};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::SocketAddr as UnixAddress;
use std::path::Path;
use std::rc::Rc;

/// A Unix connection. Derefs to [`Stream`].
///
/// All methods take `&self`: one task can read while others write, and messages of several tasks are not interleaved
/// ([`StreamWriter::write_all`](crate::net::StreamWriter::write_all)). Dropping it closes the connection after the
/// write buffer is sent, as long as the loop runs. It is not `Send`.
///
/// ```
/// use mainspring::net::UnixStream;
///
/// mainspring::run(async {
///     let (stream, peer) = UnixStream::pair()?;
///     stream.write_all(b"ping\n").await?;
///     assert_eq!(peer.read_line().await?, b"ping\n");
///     assert!(stream.peer_addr().unwrap().is_unnamed() && stream.local_addr().unwrap().is_unnamed());
///     Ok::<(), std::io::Error>(())
/// })??;
/// # Ok::<(), mainspring::Error>(())
/// ```
pub struct UnixStream {
    stream: Stream,
}

forward_to_stream!(UnixStream);

impl UnixStream {
    pub(in crate::net) fn new(core: &Rc<Core>, socket: OwnedFd, peer: PeerAddress, limit: usize) -> Self {
        let open = |protocol| SocketConnection::open(core, socket, peer, protocol, None);
        UnixStream { stream: Stream::open(limit, open) }
    }

    /// Connects to `path`, or to an abstract name (a leading zero byte), on the running loop.
    ///
    /// Cancel safety: dropping the future cancels the attempt and closes its socket.
    ///
    /// ```
    /// use mainspring::net::{UnixListener, UnixStream};
    ///
    /// mainspring::run(async {
    ///     let name = format!("\0mainspring-unix-stream-{}", std::process::id());
    ///     let listener = UnixListener::bind(&name)?;
    ///     let stream = UnixStream::connect(&name).await?;
    ///     assert!(listener.accept().await?.peer_addr().unwrap().is_unnamed());
    ///     stream.close().await
    /// })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub async fn connect(path: impl AsRef<Path>) -> io::Result<Self> {
        let core = current_core()?;
        let (socket, peer) = connect(path.as_ref()).await?;
        Ok(Self::new(&core, socket, peer, DEFAULT_LIMIT))
    }

    /// Creates a connected pair on the running loop.
    pub fn pair() -> io::Result<(Self, Self)> {
        let (first, second) = std::os::unix::net::UnixStream::pair()?;
        Ok((Self::from_std(first)?, Self::from_std(second)?))
    }

    /// Attaches a connection of std to the running loop.
    ///
    /// ```
    /// use mainspring::net::UnixStream;
    ///
    /// # mainspring::run(async {
    /// let (first, second) = std::os::unix::net::UnixStream::pair()?;
    /// let stream = UnixStream::from_std(first)?;
    /// assert!(stream.local_addr().unwrap().is_unnamed());
    /// UnixStream::from_std(second)?.write_all(b"hello").await?;
    /// assert_eq!(stream.read_exactly(5).await?, b"hello");
    /// # std::io::Result::Ok(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn from_std(stream: std::os::unix::net::UnixStream) -> io::Result<Self> {
        let core = current_core()?;
        let (socket, peer) = adopt_stream_socket(stream.into())?;
        Ok(Self::new(&core, socket, peer, DEFAULT_LIMIT))
    }

    /// Detaches the connection from the loop and returns the socket, connected and non-blocking. Fails and returns
    /// the stream in the same cases as [`TcpStream::into_std`](crate::net::TcpStream::into_std).
    ///
    /// ```
    /// use mainspring::net::UnixStream;
    /// use std::io::Write;
    ///
    /// # mainspring::run(async {
    /// let (stream, peer) = UnixStream::pair()?;
    /// let mut plain: std::os::unix::net::UnixStream = stream.into_std()?;
    /// plain.write_all(b"hello")?;
    /// assert_eq!(peer.read_exactly(5).await?, b"hello");
    /// # std::io::Result::Ok(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn into_std(self) -> Result<std::os::unix::net::UnixStream, IntoStdError<Self>> {
        match self.stream.take_socket() {
            Ok(socket) => Ok(socket.into()),
            Err(error) => Err(IntoStdError::new(error, self)),
        }
    }

    /// The peer's address. A client is usually unnamed.
    pub fn peer_addr(&self) -> Option<UnixAddress> {
        self.transport().unix_peer_addr()
    }

    /// The credentials of the peer. Fails if the connection is closed.
    ///
    /// ```
    /// # mainspring::run(async {
    /// let (stream, _peer) = mainspring::net::UnixStream::pair()?;
    /// assert_eq!(stream.peer_cred()?.pid(), Some(std::process::id()));
    /// # std::io::Result::Ok(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    #[doc(alias = "SO_PEERCRED")]
    pub fn peer_cred(&self) -> io::Result<UCred> {
        self.transport().with_fd(peer_cred)
    }

    /// The local address.
    pub fn local_addr(&self) -> Option<UnixAddress> {
        self.transport().unix_local_addr()
    }
}

impl EventLoop {
    /// Connects to a Unix path, or to an abstract name (a leading zero byte), and attaches a protocol. Completes when
    /// the protocol's `connection_made` has run.
    ///
    /// Cancel safety: dropping the future cancels the attempt and closes its socket.
    ///
    /// ```
    /// use mainspring::net::UnixListener;
    /// use mainspring::{EventLoop, Protocol, Transport};
    ///
    /// struct Hello;
    ///
    /// impl Protocol for Hello {
    ///     fn connection_made(&self, transport: &Transport) {
    ///         transport.write(b"hello");
    ///         transport.close();
    ///     }
    /// }
    ///
    /// mainspring::run(async {
    ///     let name = format!("\0mainspring-connect-{}", std::process::id());
    ///     let listener = UnixListener::bind(&name)?;
    ///     EventLoop::current().create_unix_connection(&name, || Hello).await?;
    ///     assert_eq!(listener.accept().await?.read_to_end().await?, b"hello");
    ///     Ok::<(), std::io::Error>(())
    /// })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub async fn create_unix_connection<P: Protocol>(
        &self,
        path: impl AsRef<Path>,
        protocol_factory: impl FnOnce() -> P,
    ) -> io::Result<(Transport, Rc<P>)> {
        let core = self.core();
        core.check_open()?;
        let (socket, peer) = connect(path.as_ref()).await?;
        attach_protocol(core, socket, peer, protocol_factory).await
    }
}

/// Connects and returns the non-blocking socket.
async fn connect(path: &Path) -> io::Result<(OwnedFd, PeerAddress)> {
    let address = to_sock_addr(path)?;
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    let mut attempts = 0;
    loop {
        match socket.connect(&address) {
            Ok(()) => break,
            // The listener's queue is full. A blocking connect would wait here.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                sleep(connect_backoff(attempts)).await;
                attempts += 1;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => {
                let text = format!("cannot connect to {}: {error}", display_path(&address, path));
                return Err(address_error(text, error));
            }
        }
    }
    let peer = peer_address(socket.as_fd());
    Ok((socket.into(), peer))
}
