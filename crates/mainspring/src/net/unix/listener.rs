//! `UnixListener`: accepts Unix connections with `await`.

use super::address as unix_address;
use super::stream::UnixStream;
use crate::event_loop::{Core, current_core};
use crate::net::server::{AcceptQueue, BoundSocket, ServerOptions, adopt_bound};
use crate::net::stream::IntoStdError;
use mainspring_engine::poller::PeerAddress;
use std::fmt;
use std::io;
use std::os::unix::net::SocketAddr as UnixAddress;
use std::path::Path;
use std::rc::Rc;

/// A listening Unix socket. Dropping it stops listening. It is not `Send`.
///
/// ```
/// use mainspring::net::{UnixListener, UnixStream};
///
/// mainspring::run(async {
///     let path = std::env::temp_dir().join(format!("mainspring-listener-{}", std::process::id()));
///     let listener = UnixListener::bind(&path)?;
///     assert_eq!(listener.local_addr().unwrap().as_pathname(), Some(path.as_path()));
///     let stream = UnixStream::connect(&path).await?;
///     let peer = listener.accept().await?;
///     assert_eq!(stream.peer_addr().unwrap().as_pathname(), Some(path.as_path()));
///     stream.write_all(b"hello\n").await?;
///     assert_eq!(peer.read_line().await?, b"hello\n");
///     drop(listener);
///     assert!(!path.exists());
///     Ok::<(), std::io::Error>(())
/// })??;
/// # Ok::<(), mainspring::Error>(())
/// ```
pub struct UnixListener {
    queue: AcceptQueue,
    address: PeerAddress,
    limit: usize,
}

impl UnixListener {
    pub(in crate::net) fn new(
        core: &Rc<Core>,
        bound: BoundSocket,
        options: &ServerOptions,
    ) -> io::Result<Self> {
        let address = bound.address.clone();
        Ok(UnixListener {
            queue: AcceptQueue::new(core, vec![bound], options)?,
            address,
            limit: options.limit,
        })
    }

    /// Listens at `path`, or at an abstract name (a leading zero byte), on the running loop. See
    /// [`EventLoop::create_unix_server`](crate::EventLoop::create_unix_server) for the rules about the socket file.
    /// [`ServerOptions`] offers more control. An error names the address and has the system's error as its
    /// [`source`](std::error::Error::source).
    pub fn bind(path: impl AsRef<Path>) -> io::Result<Self> {
        ServerOptions::default().bind_unix(path)
    }

    /// Attaches a listener of std to the running loop. The caller remains responsible for the socket file.
    ///
    /// ```
    /// use mainspring::net::{UnixListener, UnixStream};
    /// use std::os::linux::net::SocketAddrExt;
    /// use std::os::unix::net::SocketAddr;
    ///
    /// # mainspring::run(async {
    /// let name = format!("mainspring-doc-listen-{}", std::process::id());
    /// let address = SocketAddr::from_abstract_name(&name)?;
    /// let listener = UnixListener::from_std(std::os::unix::net::UnixListener::bind_addr(&address)?)?;
    /// assert_eq!(listener.local_addr().unwrap().as_abstract_name(), Some(name.as_bytes()));
    /// let stream = UnixStream::connect(format!("\0{name}")).await?;
    /// stream.write_all(b"hello").await?;
    /// assert_eq!(listener.accept().await?.read_exactly(5).await?, b"hello");
    /// # std::io::Result::Ok(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn from_std(listener: std::os::unix::net::UnixListener) -> io::Result<Self> {
        Self::new(&current_core()?, adopt_bound(listener.into())?, &ServerOptions::default())
    }

    /// Detaches the listener from the loop. The socket keeps listening and is non-blocking. The caller becomes
    /// responsible for the socket file. Fails and returns the listener in the same cases as
    /// [`TcpListener::into_std`](crate::net::TcpListener::into_std).
    ///
    /// ```
    /// use mainspring::net::{UnixListener, UnixStream};
    ///
    /// # mainspring::run(async {
    /// let name = format!("\0mainspring-doc-unlisten-{}", std::process::id());
    /// let plain: std::os::unix::net::UnixListener = UnixListener::bind(&name)?.into_std()?;
    /// let _stream = UnixStream::connect(&name).await?;
    /// let (_peer, _) = plain.accept()?;
    /// # std::io::Result::Ok(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn into_std(mut self) -> Result<std::os::unix::net::UnixListener, IntoStdError<Self>> {
        match self.queue.take_socket() {
            Ok(socket) => Ok(socket.into()),
            Err(error) => Err(IntoStdError::new(error, self)),
        }
    }

    /// Waits for the next connection. Errors are as those of
    /// [`TcpListener::accept`](crate::net::TcpListener::accept).
    ///
    /// Cancel safety: safe; an unreturned connection stays in the queue.
    pub async fn accept(&self) -> io::Result<UnixStream> {
        let (core, socket, peer) = self.queue.accept().await?;
        Ok(UnixStream::new(&core, socket, peer, self.limit))
    }

    /// The address of the listener.
    pub fn local_addr(&self) -> Option<UnixAddress> {
        unix_address::to_std(&self.address)
    }
}

impl fmt::Debug for UnixListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UnixListener").field("address", &self.address).finish_non_exhaustive()
    }
}
