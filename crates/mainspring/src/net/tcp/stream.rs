//! `TcpStream`: a TCP connection with `await`.

use crate::event_loop::{Core, current_core};
use crate::net::ToAddress;
use crate::net::connect::{ConnectOptions, adopt_stream_socket};
use crate::net::connection::SocketConnection;
use crate::net::stream::{DEFAULT_LIMIT, IntoStdError, Stream, forward_to_stream};
use mainspring_engine::poller::PeerAddress;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::rc::Rc;

/// A TCP connection. Derefs to [`Stream`].
///
/// All methods take `&self`: one task can read while others write, and messages of several tasks are not interleaved
/// ([`StreamWriter::write_all`](crate::net::StreamWriter::write_all)). Dropping it closes the connection after the
/// write buffer is sent, as long as the loop runs. It is not `Send`.
///
/// ```
/// use mainspring::net::{TcpListener, TcpStream};
///
/// mainspring::run(async {
///     let listener = TcpListener::bind("127.0.0.1:0").await?;
///     let stream = TcpStream::connect(listener.local_addr()).await?;
///     let (peer, _) = listener.accept().await?;
///     assert_eq!(peer.peer_addr(), stream.local_addr());
///     stream.set_nodelay(false)?;
///     stream.write_all(b"ping\n").await?;
///     assert_eq!(peer.read_line().await?, b"ping\n");
///     stream.close().await
/// })??;
/// # Ok::<(), mainspring::Error>(())
/// ```
pub struct TcpStream {
    stream: Stream,
}

forward_to_stream!(TcpStream);

impl TcpStream {
    pub(in crate::net) fn new(core: &Rc<Core>, socket: OwnedFd, peer: SocketAddr, limit: usize) -> Self {
        let open = |protocol| SocketConnection::open(core, socket, PeerAddress::Inet(peer), protocol, None);
        TcpStream { stream: Stream::open(limit, open) }
    }

    /// Connects to `address` on the running loop. The addresses of a name are tried in turn. [`ConnectOptions`]
    /// offers more control.
    ///
    /// If all attempts fail, the error has the kind of the last failure, and its message lists every address with its
    /// failure. The system's error is the [`source`](std::error::Error::source).
    ///
    /// Cancel safety: dropping the future cancels the attempt and closes its socket.
    ///
    /// ```
    /// use mainspring::net::TcpStream;
    /// use std::error::Error;
    /// use std::io;
    ///
    /// # mainspring::run(async {
    /// // Nothing listens on a port that is no longer bound.
    /// let free = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    /// let refused = TcpStream::connect(free).await.unwrap_err();
    /// assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
    /// assert!(refused.to_string().starts_with(&format!("cannot connect to {free}: ")));
    /// let system = refused.source().and_then(|source| source.downcast_ref::<io::Error>());
    /// assert_eq!(system.and_then(io::Error::raw_os_error), Some(libc::ECONNREFUSED));
    /// # std::io::Result::Ok(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub async fn connect(address: impl ToAddress) -> io::Result<Self> {
        ConnectOptions::default().connect(address).await
    }

    /// Attaches a connection of std to the running loop.
    ///
    /// ```
    /// mainspring::run(async {
    ///     let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    ///     let made = std::net::TcpStream::connect(listener.local_addr()?)?;
    ///     let stream = mainspring::net::TcpStream::from_std(made)?;
    ///     assert_eq!(stream.peer_addr(), listener.local_addr().ok());
    ///     Ok::<(), std::io::Error>(())
    /// })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn from_std(stream: std::net::TcpStream) -> io::Result<Self> {
        let core = current_core()?;
        let peer = stream.peer_addr()?;
        let (socket, _) = adopt_stream_socket(stream.into())?;
        Ok(Self::new(&core, socket, peer, DEFAULT_LIMIT))
    }

    /// Detaches the connection from the loop and returns the socket: connected, with its options, and non-blocking
    /// ([`set_nonblocking`](std::net::TcpStream::set_nonblocking) changes that). Unread bytes in the kernel stay
    /// readable.
    ///
    /// Fails and returns the stream if data would be lost:
    ///
    /// - The stream's buffer has unread bytes. Read them first: [`buffered`](crate::net::StreamReader::buffered)
    ///   returns their number, [`read_some`](Stream::read_some) takes them.
    /// - The write buffer is not empty. Wait until it is sent, as below.
    /// - The connection or its loop is closed, or a file is being sent.
    ///
    /// Clones of its [`transport`](Stream::transport) are closed afterwards. A protocol that was set on them is
    /// detached without a callback.
    ///
    /// ```
    /// use mainspring::net::{TcpListener, TcpStream};
    /// use std::io::{Read, Write};
    ///
    /// # mainspring::run(async {
    /// let listener = TcpListener::bind("127.0.0.1:0").await?;
    /// let stream = TcpStream::connect(listener.local_addr()).await?;
    /// let (peer, _) = listener.accept().await?;
    /// stream.write_all(&[7; 1_000_000]).await?;
    /// // With a high-water mark of zero, drain() waits until everything is sent. The peer has to read for that.
    /// stream.transport().set_write_buffer_limits(Some(0), None).unwrap();
    /// let (_, drained) = mainspring::join((peer.read_exactly(1_000_000), stream.drain())).await;
    /// drained?;
    ///
    /// let mut plain = stream.into_std()?;
    /// plain.set_nonblocking(false)?;
    /// peer.write_all(b"hello").await?;
    /// let answer = std::thread::spawn(move || {
    ///     let mut hello = [0; 5];
    ///     plain.read_exact(&mut hello)?;
    ///     plain.write_all(&hello)
    /// });
    /// assert_eq!(peer.read_exactly(5).await?, b"hello");
    /// answer.join().unwrap()?;
    /// # std::io::Result::Ok(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn into_std(self) -> Result<std::net::TcpStream, IntoStdError<Self>> {
        match self.stream.take_socket() {
            Ok(socket) => Ok(socket.into()),
            Err(error) => Err(IntoStdError::new(error, self)),
        }
    }

    /// The peer's address.
    pub fn peer_addr(&self) -> Option<SocketAddr> {
        self.transport().peer_addr()
    }

    /// The local address.
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.transport().local_addr()
    }
}
