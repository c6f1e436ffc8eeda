//! The options of the sockets below transports, streams and listeners.

use super::connection::Transport;
use super::stream::Stream;
use super::tcp::TcpListener;
use socket2::{SockRef, TcpKeepalive};
use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// When a connection that is silent is asked whether it is still there, and when it is given up. What is not said is the
/// system's choice.
///
/// ```
/// use mainspring::net::{KeepAlive, TcpListener, TcpStream};
/// use std::time::Duration;
///
/// mainspring::run(async {
///     let listener = TcpListener::bind("127.0.0.1:0").await?;
///     let stream = TcpStream::connect(listener.local_addr()).await?;
///     let minute = Duration::from_secs(60);
///     stream.set_keep_alive(Some(KeepAlive { idle: Some(minute), ..KeepAlive::default() }))?;
///     assert!(stream.keep_alive()?);
///     Ok::<(), std::io::Error>(())
/// })??;
/// # Ok::<(), mainspring::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeepAlive {
    /// Silent for so long, it is asked.
    pub idle: Option<Duration>,
    /// So long after an unanswered question it is asked again.
    pub interval: Option<Duration>,
    /// So many unanswered questions end it.
    pub retries: Option<u32>,
}

impl Transport {
    /// Lends the descriptor to `use_it`, for a system call of the program's own. `NotConnected` once it is closed.
    ///
    /// ```
    /// mainspring::run(async {
    ///     let (near, _far) = mainspring::net::UnixStream::pair()?;
    ///     near.write_all(b"hello").await?;
    ///     let copy = near.transport().with_fd(|fd| fd.try_clone_to_owned())?;
    ///     let plain = std::os::unix::net::UnixStream::from(copy);
    ///     assert!(plain.local_addr()?.is_unnamed());
    ///     Ok::<(), std::io::Error>(())
    /// })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn with_fd<R>(&self, use_it: impl FnOnce(BorrowedFd<'_>) -> io::Result<R>) -> io::Result<R> {
        let mut result = None;
        let mut use_it = Some(use_it);
        let lent = self.look(|below| {
            below.with_fd(&mut |fd| {
                result = use_it.take().map(|use_it| use_it(fd));
                Ok(())
            })
        });
        lent.unwrap_or_else(|| Err(io::ErrorKind::NotConnected.into()))?;
        result.unwrap_or_else(|| Err(io::ErrorKind::NotConnected.into()))
    }
}

macro_rules! socket_options {
    ($(#[$doc:meta])* $socket:ty, $this:ident => $with:expr) => {
        $(#[$doc])*
        impl $socket {
            fn option<R>(&self, use_it: impl FnOnce(SockRef<'_>) -> io::Result<R>) -> io::Result<R> {
                let $this = self;
                $with(|fd: BorrowedFd<'_>| use_it(SockRef::from(&fd)))
            }

            /// Whether small pieces are sent at once (`TCP_NODELAY`). They are, unless it was set otherwise.
            pub fn nodelay(&self) -> io::Result<bool> {
                self.option(|socket| socket.tcp_nodelay())
            }

            /// Sets `TCP_NODELAY`.
            pub fn set_nodelay(&self, nodelay: bool) -> io::Result<()> {
                self.option(|socket| socket.set_tcp_nodelay(nodelay))
            }

            /// Whether a silent peer is asked whether it is still there (`SO_KEEPALIVE`).
            pub fn keep_alive(&self) -> io::Result<bool> {
                self.option(|socket| socket.keepalive())
            }

            /// Asks a silent peer whether it is still there, or no longer.
            pub fn set_keep_alive(&self, keep_alive: Option<KeepAlive>) -> io::Result<()> {
                self.option(|socket| set_keep_alive(&socket, keep_alive))
            }

            /// How long closing the descriptor waits for the peer to take what was sent (`SO_LINGER`).
            pub fn linger(&self) -> io::Result<Option<Duration>> {
                self.option(|socket| socket.linger())
            }

            /// Sets `SO_LINGER`. Zero resets the connection when it is closed; anything else may block the loop then.
            pub fn set_linger(&self, linger: Option<Duration>) -> io::Result<()> {
                self.option(|socket| socket.set_linger(linger))
            }

            /// How many hops a packet may take (`IP_TTL`).
            pub fn ttl(&self) -> io::Result<u32> {
                self.option(|socket| socket.ttl_v4())
            }

            /// Sets `IP_TTL`.
            pub fn set_ttl(&self, ttl: u32) -> io::Result<()> {
                self.option(|socket| socket.set_ttl_v4(ttl))
            }

            /// The kernel's buffer for what arrives, in bytes (`SO_RCVBUF`).
            pub fn recv_buffer_size(&self) -> io::Result<usize> {
                self.option(|socket| socket.recv_buffer_size())
            }

            /// Sets `SO_RCVBUF`; Linux makes it twice that.
            pub fn set_recv_buffer_size(&self, size: usize) -> io::Result<()> {
                self.option(|socket| socket.set_recv_buffer_size(size))
            }

            /// The kernel's buffer for what is sent, in bytes (`SO_SNDBUF`).
            pub fn send_buffer_size(&self) -> io::Result<usize> {
                self.option(|socket| socket.send_buffer_size())
            }

            /// Sets `SO_SNDBUF`; Linux makes it twice that.
            pub fn set_send_buffer_size(&self, size: usize) -> io::Result<()> {
                self.option(|socket| socket.set_send_buffer_size(size))
            }
        }
    };
}

socket_options!(
    /// # Options
    ///
    /// Each is the option of the socket that it is named after, and fails as that does, or with `NotConnected` once the transport is closed.
    ///
    /// ```
    /// use mainspring::net::KeepAlive;
    /// use std::time::Duration;
    /// # use mainspring::net::{Protocol, TcpListener};
    /// # struct Quiet;
    /// # impl Protocol for Quiet {}
    /// # mainspring::run(async {
    /// # let listener = TcpListener::bind("127.0.0.1:0").await?;
    ///
    /// let event_loop = mainspring::EventLoop::current();
    /// let (transport, _) = event_loop.create_connection(listener.local_addr(), || Quiet).await?;
    /// transport.set_nodelay(false)?;
    /// assert!(!transport.nodelay()?);
    /// transport.set_keep_alive(Some(KeepAlive { idle: Some(Duration::from_secs(60)), ..KeepAlive::default() }))?;
    /// assert!(transport.keep_alive()?);
    /// transport.set_linger(Some(Duration::ZERO))?;
    /// assert_eq!(transport.linger()?, Some(Duration::ZERO));
    /// transport.set_ttl(9)?;
    /// assert_eq!(transport.ttl()?, 9);
    /// transport.set_recv_buffer_size(100_000)?;
    /// transport.set_send_buffer_size(100_000)?;
    /// // The system may give more than was asked for.
    /// assert!(transport.recv_buffer_size()? >= 100_000 && transport.send_buffer_size()? >= 100_000);
    /// # std::io::Result::Ok(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    Transport, this => |use_it| this.with_fd(use_it)
);
socket_options!(
    /// # Options
    ///
    /// Each is the option of the socket that it is named after, and fails as that does, or with `NotConnected` once the stream is closed.
    ///
    /// ```
    /// use mainspring::net::KeepAlive;
    /// use std::time::Duration;
    /// use mainspring::net::{TcpListener, TcpStream};
    ///
    /// # mainspring::run(async {
    /// # let listener = TcpListener::bind("127.0.0.1:0").await?;
    /// let stream = TcpStream::connect(listener.local_addr()).await?;
    /// stream.set_nodelay(false)?;
    /// assert!(!stream.nodelay()?);
    /// stream.set_keep_alive(Some(KeepAlive { idle: Some(Duration::from_secs(60)), ..KeepAlive::default() }))?;
    /// assert!(stream.keep_alive()?);
    /// stream.set_linger(Some(Duration::ZERO))?;
    /// assert_eq!(stream.linger()?, Some(Duration::ZERO));
    /// stream.set_ttl(9)?;
    /// assert_eq!(stream.ttl()?, 9);
    /// stream.set_recv_buffer_size(100_000)?;
    /// stream.set_send_buffer_size(100_000)?;
    /// // The system may give more than was asked for.
    /// assert!(stream.recv_buffer_size()? >= 100_000 && stream.send_buffer_size()? >= 100_000);
    /// # std::io::Result::Ok(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    Stream, this => |use_it| this.transport().with_fd(use_it)
);
socket_options!(
    /// # Options
    ///
    /// Each is the option of the socket that it is named after, and fails as that does. Connections that it accepts inherit them.
    ///
    /// ```
    /// use mainspring::net::KeepAlive;
    /// use std::time::Duration;
    /// use mainspring::net::TcpListener;
    ///
    /// # mainspring::run(async {
    /// let listener = TcpListener::bind("127.0.0.1:0").await?;
    /// listener.set_nodelay(false)?;
    /// assert!(!listener.nodelay()?);
    /// listener.set_keep_alive(Some(KeepAlive { idle: Some(Duration::from_secs(60)), ..KeepAlive::default() }))?;
    /// assert!(listener.keep_alive()?);
    /// listener.set_linger(Some(Duration::ZERO))?;
    /// assert_eq!(listener.linger()?, Some(Duration::ZERO));
    /// listener.set_ttl(9)?;
    /// assert_eq!(listener.ttl()?, 9);
    /// listener.set_recv_buffer_size(100_000)?;
    /// listener.set_send_buffer_size(100_000)?;
    /// // The system may give more than was asked for.
    /// assert!(listener.recv_buffer_size()? >= 100_000 && listener.send_buffer_size()? >= 100_000);
    /// # std::io::Result::Ok(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    TcpListener, this => |use_it| this.with_fd(use_it)
);

pub(super) fn set_keep_alive(socket: &SockRef<'_>, keep_alive: Option<KeepAlive>) -> io::Result<()> {
    let Some(wanted) = keep_alive else { return socket.set_keepalive(false) };
    let mut parameters = TcpKeepalive::new();
    if let Some(idle) = wanted.idle {
        parameters = parameters.with_time(idle);
    }
    if let Some(interval) = wanted.interval {
        parameters = parameters.with_interval(interval);
    }
    if let Some(retries) = wanted.retries {
        parameters = parameters.with_retries(retries);
    }
    socket.set_tcp_keepalive(&parameters)
}
