//! `TcpListener`: accepts TCP connections with `await`.

use super::stream::TcpStream;
use crate::event_loop::{Core, current_core};
use crate::net::ToAddress;
use crate::net::server::{AcceptQueue, BoundSocket, ServerOptions, adopt_bound, socket_address};
use crate::net::stream::IntoStdError;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::rc::Rc;

/// A listening TCP socket. Dropping it stops listening. It is not `Send`.
///
/// ```
/// use mainspring::net::{TcpListener, TcpStream};
///
/// mainspring::run(async {
///     let listener = TcpListener::bind("127.0.0.1:0").await?;
///     let client = TcpStream::connect(listener.local_addr()).await?;
///     let (server, peer) = listener.accept().await?;
///     assert_eq!(Some(peer), client.local_addr());
///     client.write_all(b"ping").await?;
///     let mut ping = [0; 4];
///     server.read_exact(&mut ping).await?;
///     assert_eq!(&ping, b"ping");
///     Ok::<(), std::io::Error>(())
/// })??;
/// # Ok::<(), mainspring::Error>(())
/// ```
pub struct TcpListener {
    queue: AcceptQueue,
    addresses: Vec<SocketAddr>,
    limit: usize,
}

impl TcpListener {
    pub(in crate::net) fn new(
        core: &Rc<Core>,
        bound: Vec<BoundSocket>,
        options: &ServerOptions,
    ) -> io::Result<Self> {
        let addresses = bound.iter().filter_map(|bound| socket_address(&bound.address)).collect();
        Ok(TcpListener { queue: AcceptQueue::new(core, bound, options)?, addresses, limit: options.limit })
    }

    /// Listens on every address of `address`, on the running loop. Port 0 selects a free port. [`ServerOptions`]
    /// offers more control. An error names the address and has the system's error as its
    /// [`source`](std::error::Error::source).
    ///
    /// Cancel safety: dropping the future closes the bound sockets.
    pub async fn bind(address: impl ToAddress) -> io::Result<Self> {
        ServerOptions::default().bind(address).await
    }

    /// Attaches a listener of std to the running loop.
    ///
    /// ```
    /// mainspring::run(async {
    ///     let bound = std::net::TcpListener::bind("127.0.0.1:0")?;
    ///     let address = bound.local_addr()?;
    ///     let listener = mainspring::net::TcpListener::from_std(bound)?;
    ///     assert_eq!(listener.local_addr(), address);
    ///     Ok::<(), std::io::Error>(())
    /// })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn from_std(listener: std::net::TcpListener) -> io::Result<Self> {
        let core = current_core()?;
        Self::new(&core, vec![adopt_bound(listener.into())?], &ServerOptions::default())
    }

    /// Detaches the listener from the loop. The socket keeps listening and is non-blocking.
    ///
    /// Fails and returns the listener if accepted connections wait for `accept()` (up to sixteen), or if it listens
    /// on several addresses.
    ///
    /// ```
    /// use mainspring::net::{TcpListener, TcpStream};
    ///
    /// # mainspring::run(async {
    /// let mut listener = TcpListener::bind("127.0.0.1:0").await?;
    /// let _client = TcpStream::connect(listener.local_addr()).await?;
    /// let plain: std::net::TcpListener = loop {
    ///     match listener.into_std() {
    ///         Ok(plain) => break plain,
    ///         // A connection waits: accept it first.
    ///         Err(refused) => listener = refused.into_inner(),
    ///     }
    ///     let _served = listener.accept().await?;
    /// };
    /// assert!(plain.local_addr()?.port() > 0);
    /// # std::io::Result::Ok(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn into_std(mut self) -> Result<std::net::TcpListener, IntoStdError<Self>> {
        match self.queue.take_socket() {
            Ok(socket) => Ok(socket.into()),
            Err(error) => Err(IntoStdError::new(error, self)),
        }
    }

    /// Waits for the next connection and returns it with the peer's address. Fails if the loop is closed. A temporary
    /// failure, such as too many open files, is reported to the exception handler and retried.
    ///
    /// Cancel safety: safe; an unreturned connection stays in the queue.
    pub async fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        loop {
            let (core, socket, peer) = self.queue.accept().await?;
            // A TCP listener has only peers with IP addresses.
            if let Some(peer) = socket_address(&peer) {
                return Ok((TcpStream::new(&core, socket, peer, self.limit), peer));
            }
        }
    }

    /// The first address of the listener.
    pub fn local_addr(&self) -> SocketAddr {
        let unspecified = SocketAddr::from(([0, 0, 0, 0], 0));
        self.addresses.first().copied().unwrap_or(unspecified)
    }

    /// All addresses of the listener.
    ///
    /// ```
    /// use mainspring::net::TcpListener;
    ///
    /// # mainspring::run(async {
    /// let both: Vec<std::net::SocketAddr> = vec![([127, 0, 0, 1], 0).into(), ([127, 0, 0, 2], 0).into()];
    /// let listener = TcpListener::bind(both).await?;
    /// assert_eq!(listener.local_addrs().len(), 2);
    /// assert_eq!(listener.local_addrs()[0], listener.local_addr());
    /// # std::io::Result::Ok(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn local_addrs(&self) -> &[SocketAddr] {
        &self.addresses
    }

    pub(in crate::net) fn with_fd<R>(
        &self,
        f: impl FnOnce(BorrowedFd<'_>) -> io::Result<R>,
    ) -> io::Result<R> {
        self.queue.with_fd(f)
    }
}

impl fmt::Debug for TcpListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TcpListener").field("addresses", &self.addresses).finish_non_exhaustive()
    }
}
