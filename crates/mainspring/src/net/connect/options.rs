//! `ConnectOptions`: how to connect.

use super::{attach_protocol, connect};
use crate::event_loop::current_core;
use crate::net::connection::{Protocol, Transport};
use crate::net::resolve::{Address, ToAddress};
use crate::net::stream::{DEFAULT_LIMIT, StreamReader, StreamWriter};
use crate::net::tcp::TcpStream;
use mainspring_engine::poller::PeerAddress;
use std::io;
use std::rc::Rc;
use std::time::Duration;

/// How to connect: the keyword arguments of asyncio's `create_connection` and `open_connection`.
///
/// ```
/// use mainspring::net::{ConnectOptions, TcpListener};
/// use std::time::Duration;
///
/// mainspring::run(async {
///     let listener = TcpListener::bind("127.0.0.1:0").await?;
///     let options = ConnectOptions::new()
///         .happy_eyeballs_delay(Duration::from_millis(250))
///         .local_addr("127.0.0.1:0")
///         .limit(1024);
///     let stream = options.connect(listener.local_addr()).await?;
///     assert_eq!(stream.split().0.limit(), 1024);
///     assert_eq!(listener.accept().await?.1, stream.local_addr().unwrap());
///     Ok::<(), std::io::Error>(())
/// })??;
/// # Ok::<(), mainspring::Error>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "options do nothing by themselves"]
pub struct ConnectOptions {
    pub(in crate::net) happy_eyeballs_delay: Option<Duration>,
    pub(in crate::net) interleave: Option<usize>,
    pub(in crate::net) local: Option<Result<Address, String>>,
    limit: usize,
}

impl Default for ConnectOptions {
    fn default() -> Self {
        ConnectOptions { happy_eyeballs_delay: None, interleave: None, local: None, limit: DEFAULT_LIMIT }
    }
}

impl ConnectOptions {
    /// asyncio's defaults: tries the addresses in turn, from any local address.
    pub fn new() -> Self {
        Self::default()
    }

    /// Starts the next attempt after this delay even if the current one has not failed; the first success wins (RFC
    /// 8305, which recommends 250 ms). Without a delay, an attempt starts when the one before it has failed.
    pub fn happy_eyeballs_delay(self, delay: Duration) -> Self {
        ConnectOptions { happy_eyeballs_delay: Some(delay), ..self }
    }

    /// Interleaves the address families: `first_family_count` addresses of the first family, then alternating. Zero
    /// keeps the order of the resolver. The default is one with a [delay](ConnectOptions::happy_eyeballs_delay), else
    /// zero.
    ///
    /// ```
    /// use mainspring::net::{ConnectOptions, TcpListener};
    /// use std::time::Duration;
    ///
    /// # mainspring::run(async {
    /// let listener = TcpListener::bind("127.0.0.1:0").await?;
    /// // Nothing listens at the first address. It is still tried first, and the second right after it.
    /// let addresses = vec!["[::1]:1".parse().unwrap(), listener.local_addr()];
    /// let options = ConnectOptions::new().happy_eyeballs_delay(Duration::from_secs(1)).interleave(1);
    /// let stream = options.connect(addresses).await?;
    /// assert_eq!(stream.peer_addr(), Some(listener.local_addr()));
    /// # std::io::Result::Ok(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn interleave(self, first_family_count: usize) -> Self {
        ConnectOptions { interleave: Some(first_family_count), ..self }
    }

    /// Binds to this local address before connecting. If it is a name, the first address of the right family that can
    /// be bound is used.
    pub fn local_addr(self, address: impl ToAddress) -> Self {
        // A builder cannot fail: `connect` reports an invalid address.
        let local = address.to_address().map_err(|error| error.to_string());
        ConnectOptions { local: Some(local), ..self }
    }

    /// Sets the [limit](StreamReader::limit) of the stream's reader.
    pub fn limit(self, limit: usize) -> Self {
        ConnectOptions { limit, ..self }
    }

    /// Connects on the running loop. See [`TcpStream::connect`], also for the errors.
    ///
    /// Cancel safety: dropping the future cancels all attempts and closes their sockets.
    ///
    /// ```
    /// use mainspring::net::ConnectOptions;
    /// use std::error::Error;
    /// use std::io;
    ///
    /// # mainspring::run(async {
    /// // The address is in use by a listener, so nothing can connect from it.
    /// let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    /// let taken = listener.local_addr()?;
    /// let refused = ConnectOptions::new().local_addr(taken).connect("127.0.0.1:1").await.unwrap_err();
    /// assert!(refused.to_string().contains(&format!("cannot bind to {taken}: ")));
    /// let system = refused.source().and_then(|source| source.downcast_ref::<io::Error>());
    /// assert_eq!(system.map(io::Error::kind), Some(io::ErrorKind::AddrInUse));
    /// # std::io::Result::Ok(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub async fn connect(&self, address: impl ToAddress) -> io::Result<TcpStream> {
        let core = current_core()?;
        let (socket, peer) = connect(&core, address, self).await?;
        Ok(TcpStream::new(&core, socket, peer, self.limit))
    }

    /// Connects on the running loop and returns the two halves of the stream. See
    /// [`open_connection`](crate::net::open_connection).
    ///
    /// Cancel safety: as [`ConnectOptions::connect`].
    ///
    /// ```
    /// use mainspring::net::{ConnectOptions, start_server};
    ///
    /// # mainspring::run(async {
    /// let server = start_server("127.0.0.1:0", |_reader, writer| async move { writer.write(b"hello") }).await?;
    /// let (reader, _writer) = ConnectOptions::new().limit(4).open_connection(server.local_addr()).await?;
    /// assert_eq!((reader.limit(), reader.read_to_end().await?), (4, b"hello".to_vec()));
    /// # std::io::Result::Ok(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub async fn open_connection(&self, address: impl ToAddress) -> io::Result<(StreamReader, StreamWriter)> {
        Ok(self.connect(address).await?.into_split())
    }

    /// Connects on the running loop and attaches a protocol. See
    /// [`EventLoop::create_connection`](crate::EventLoop::create_connection).
    ///
    /// Cancel safety: as [`ConnectOptions::connect`].
    ///
    /// ```
    /// use mainspring::net::{ConnectOptions, Protocol, TcpListener, Transport};
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
    /// # mainspring::run(async {
    /// let listener = TcpListener::bind("127.0.0.1:0").await?;
    /// let options = ConnectOptions::new().local_addr("127.0.0.1:0");
    /// let (transport, _) = options.create_connection(listener.local_addr(), || Hello).await?;
    /// let (stream, from) = listener.accept().await?;
    /// assert_eq!(transport.local_addr(), Some(from));
    /// assert_eq!(stream.read_to_end().await?, b"hello");
    /// # std::io::Result::Ok(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub async fn create_connection<P: Protocol>(
        &self,
        address: impl ToAddress,
        protocol_factory: impl FnOnce() -> P,
    ) -> io::Result<(Transport, Rc<P>)> {
        let core = current_core()?;
        let (socket, peer) = connect(&core, address, self).await?;
        attach_protocol(&core, socket, PeerAddress::Inet(peer), protocol_factory).await
    }
}
