//! Socket options of transports, streams and listeners.

use super::connection::Transport;
use super::stream::Stream;
use super::tcp::TcpListener;
use socket2::{SockRef, TcpKeepalive};
use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// Parameters of TCP keep-alive. `None` keeps the system's default.
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
    /// Idle time before the first probe (`TCP_KEEPIDLE`).
    pub idle: Option<Duration>,
    /// Time between probes (`TCP_KEEPINTVL`).
    pub interval: Option<Duration>,
    /// Unanswered probes before the connection is closed (`TCP_KEEPCNT`).
    pub retries: Option<u32>,
}

impl Transport {
    /// Lends the fd to `f`, for system calls of the caller. `NotConnected` once the transport is closed.
    ///
    /// ```
    /// mainspring::run(async {
    ///     let (stream, _peer) = mainspring::net::UnixStream::pair()?;
    ///     stream.write_all(b"hello").await?;
    ///     let copy = stream.transport().with_fd(|fd| fd.try_clone_to_owned())?;
    ///     let plain = std::os::unix::net::UnixStream::from(copy);
    ///     assert!(plain.local_addr()?.is_unnamed());
    ///     Ok::<(), std::io::Error>(())
    /// })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn with_fd<R>(&self, f: impl FnOnce(BorrowedFd<'_>) -> io::Result<R>) -> io::Result<R> {
        let mut result = None;
        let mut f = Some(f);
        let lent = self.inspect(|transport| {
            transport.with_fd(&mut |fd| {
                result = f.take().map(|f| f(fd));
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
            fn option<R>(&self, f: impl FnOnce(SockRef<'_>) -> io::Result<R>) -> io::Result<R> {
                let $this = self;
                $with(|fd: BorrowedFd<'_>| f(SockRef::from(&fd)))
            }

            /// Gets `TCP_NODELAY`. On by default, as in asyncio.
            pub fn nodelay(&self) -> io::Result<bool> {
                self.option(|socket| socket.tcp_nodelay())
            }

            /// Sets `TCP_NODELAY`.
            pub fn set_nodelay(&self, nodelay: bool) -> io::Result<()> {
                self.option(|socket| socket.set_tcp_nodelay(nodelay))
            }

            /// Gets `SO_KEEPALIVE`.
            pub fn keep_alive(&self) -> io::Result<bool> {
                self.option(|socket| socket.keepalive())
            }

            /// Sets `SO_KEEPALIVE` and its parameters. `None` turns it off.
            pub fn set_keep_alive(&self, keep_alive: Option<KeepAlive>) -> io::Result<()> {
                self.option(|socket| set_keep_alive(&socket, keep_alive))
            }

            /// Gets `SO_LINGER`: how long `close(2)` waits until the peer has received everything.
            pub fn linger(&self) -> io::Result<Option<Duration>> {
                self.option(|socket| socket.linger())
            }

            /// Sets `SO_LINGER`. Zero resets the connection on close; any other duration may block the loop.
            pub fn set_linger(&self, linger: Option<Duration>) -> io::Result<()> {
                self.option(|socket| socket.set_linger(linger))
            }

            /// Gets `IP_TTL`: the maximum number of hops of a packet.
            pub fn ttl(&self) -> io::Result<u32> {
                self.option(|socket| socket.ttl_v4())
            }

            /// Sets `IP_TTL`.
            pub fn set_ttl(&self, ttl: u32) -> io::Result<()> {
                self.option(|socket| socket.set_ttl_v4(ttl))
            }

            /// Gets `SO_RCVBUF`: the size of the kernel's receive buffer in bytes.
            pub fn recv_buffer_size(&self) -> io::Result<usize> {
                self.option(|socket| socket.recv_buffer_size())
            }

            /// Sets `SO_RCVBUF`. Linux doubles the value.
            pub fn set_recv_buffer_size(&self, size: usize) -> io::Result<()> {
                self.option(|socket| socket.set_recv_buffer_size(size))
            }

            /// Gets `SO_SNDBUF`: the size of the kernel's send buffer in bytes.
            pub fn send_buffer_size(&self) -> io::Result<usize> {
                self.option(|socket| socket.send_buffer_size())
            }

            /// Sets `SO_SNDBUF`. Linux doubles the value.
            pub fn set_send_buffer_size(&self, size: usize) -> io::Result<()> {
                self.option(|socket| socket.set_send_buffer_size(size))
            }
        }
    };
}

socket_options!(
    /// # Options
    ///
    /// Each method gets or sets the socket option of the same name and returns the system's error, or `NotConnected`
    /// once the transport is closed.
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
    /// // The system may allocate more than requested.
    /// assert!(transport.recv_buffer_size()? >= 100_000 && transport.send_buffer_size()? >= 100_000);
    /// # std::io::Result::Ok(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    Transport, this => |f| this.with_fd(f)
);
socket_options!(
    /// # Options
    ///
    /// Each method gets or sets the socket option of the same name and returns the system's error, or `NotConnected`
    /// once the stream is closed.
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
    /// // The system may allocate more than requested.
    /// assert!(stream.recv_buffer_size()? >= 100_000 && stream.send_buffer_size()? >= 100_000);
    /// # std::io::Result::Ok(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    Stream, this => |f| this.transport().with_fd(f)
);
socket_options!(
    /// # Options
    ///
    /// Each method gets or sets the socket option of the same name and returns the system's error. Accepted
    /// connections inherit the options.
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
    /// // The system may allocate more than requested.
    /// assert!(listener.recv_buffer_size()? >= 100_000 && listener.send_buffer_size()? >= 100_000);
    /// # std::io::Result::Ok(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    TcpListener, this => |f| this.with_fd(f)
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
