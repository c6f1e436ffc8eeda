//! `Transport`: the public handle on a connection.

use super::protocol::Protocol;
use super::transport_impl::{TransportImpl, WriteOutcome, write_refused_error};
use crate::error::Error;
use crate::event_loop::Core;
use crate::host::{Failure, RustHost, Source};
use crate::net::server::socket_address;
use crate::net::unix::address as unix_address;
use crate::sync::wait_list::WaitList;
use mainspring_engine::transport::{Cx, TransportHost, WaterMarks};
use std::fmt;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::unix::net::SocketAddr as UnixAddress;
use std::rc::{Rc, Weak};

/// A connection. Clones refer to the same connection.
///
/// The loop keeps the connection alive while it reads or has data to write. A connection that does neither (paused or
/// half-closed) is closed when the last handle is dropped. All methods are no-ops once it is closed. It is not
/// `Send`.
///
/// ```
/// use mainspring::net::UnixStream;
/// use mainspring::{EventLoop, Protocol, Transport};
/// use std::io::IoSlice;
///
/// struct Talker;
///
/// impl Protocol for Talker {
///     fn connection_made(&self, transport: &Transport) {
///         transport.set_write_buffer_limits(Some(4096), None).unwrap();
///         assert_eq!(transport.get_write_buffer_limits(), (1024, 4096));
///         transport.write(b"one ");
///         transport.writelines(&[b"two ", b"three "]);
///         transport.write_vectored(&[IoSlice::new(b"four")]);
///         assert_eq!(transport.get_write_buffer_size(), 0);
///         assert!(transport.can_write_eof() && transport.is_reading());
///         transport.write_eof();
///     }
/// }
///
/// mainspring::run(async {
///     let (stream, peer) = std::os::unix::net::UnixStream::pair()?;
///     let (transport, _) = EventLoop::current().connect_accepted_socket(stream, || Talker).await?;
///     assert!(transport.peer_addr().is_none() && transport.unix_peer_addr().is_some());
///     assert!(transport.get_protocol().is_some());
///     transport.pause_reading();
///     assert!(!transport.is_reading());
///     transport.resume_reading();
///     assert_eq!(UnixStream::from_std(peer)?.read_to_end().await?, b"one two three four");
///     transport.close();
///     assert!(transport.is_closing());
///     Ok::<(), std::io::Error>(())
/// })??;
/// # Ok::<(), mainspring::Error>(())
/// ```
#[derive(Clone)]
pub struct Transport {
    /// Its [`Source::transport_impl`] is always `Some`.
    source: Rc<dyn Source>,
    /// The lowest underlying transport (of a TLS connection), kept alive with this one.
    _lowest: Option<Rc<dyn Source>>,
}

/// A weak reference to a connection.
pub(crate) struct WeakTransport(Weak<dyn Source>);

impl WeakTransport {
    pub(crate) fn upgrade(&self) -> Option<Transport> {
        self.0.upgrade().map(Transport::new)
    }
}

impl Transport {
    pub(crate) fn downgrade(&self) -> WeakTransport {
        WeakTransport(Rc::downgrade(&self.source))
    }

    /// A handle on any kind of connection: a source that has a [`TransportImpl`].
    pub(crate) fn new(source: Rc<dyn Source>) -> Self {
        let lowest = source.transport_impl().and_then(TransportImpl::lowest_transport);
        Transport { source, _lowest: lowest }
    }

    /// Runs `f` on the connection, unless the loop is closed. A failure is reported to the exception handler.
    pub(crate) fn with<R>(
        &self,
        f: impl FnOnce(&dyn TransportImpl, Cx<'_, RustHost>) -> Result<R, Failure>,
    ) -> Option<R> {
        let (core, transport) = self.source.on_open_loop()?;
        match f(transport, Cx { engine: &core.engine, this: &self.source }) {
            Ok(result) => Some(result),
            Err(failure) => {
                core.transport_failed(failure);
                None
            }
        }
    }

    /// Sends `pieces` as one write and returns the outcome.
    #[inline]
    pub(in crate::net) fn try_write_vectored(&self, pieces: &[IoSlice<'_>]) -> WriteOutcome {
        self.source.try_write_vectored(&self.source, pieces)
    }

    /// See [`Source::is_closing_locally`].
    #[inline]
    pub(in crate::net) fn is_closing_locally(&self) -> Option<bool> {
        self.source.is_closing_locally()
    }

    /// The connection as a source.
    #[cfg(feature = "rustls")]
    pub(in crate::net) fn source(&self) -> &Rc<dyn Source> {
        &self.source
    }

    /// The loop of the connection, unless it is closed.
    pub(in crate::net) fn core(&self) -> Option<Rc<Core>> {
        self.source.on_open_loop().map(|(core, _)| core)
    }

    /// Waiters for an empty write buffer, after the write side was reserved.
    pub(in crate::net) fn drained(&self) -> Option<&WaitList> {
        Some(self.source.transport_impl()?.protocol_slot().drained())
    }

    /// Reads state of the connection.
    pub(crate) fn inspect<R>(&self, inspect: impl FnOnce(&dyn TransportImpl) -> R) -> Option<R> {
        self.source.transport_impl().map(inspect)
    }

    /// Reads state of the connection, unless the loop is closed.
    pub(in crate::net) fn inspect_open<R>(&self, inspect: impl FnOnce(&dyn TransportImpl) -> R) -> Option<R> {
        let (_core, transport) = self.source.on_open_loop()?;
        Some(inspect(transport))
    }

    /// Sends `data`: as much as the kernel accepts at once, the rest from the write buffer. A write after
    /// [`write_eof`](Transport::write_eof) is reported to the exception handler. A write to a lost connection is
    /// dropped, as in asyncio.
    pub fn write(&self, data: &[u8]) {
        self.with(|transport, cx| transport.write(cx, data));
    }

    /// Sends several pieces as one write.
    pub fn writelines(&self, pieces: &[&[u8]]) {
        let slices: Vec<_> = pieces.iter().map(|piece| IoSlice::new(piece)).collect();
        self.write_vectored(&slices);
    }

    /// As [`writelines`](Transport::writelines), with slices of std.
    pub fn write_vectored(&self, pieces: &[IoSlice<'_>]) {
        self.with(|transport, cx| transport.write_vectored(cx, pieces));
    }

    /// Half-closes the connection after the write buffer is sent: the peer reads the end of the stream. Receiving
    /// continues.
    pub fn write_eof(&self) {
        self.with(|transport, cx| transport.write_eof(cx));
    }

    /// Whether the connection supports half-close.
    pub fn can_write_eof(&self) -> bool {
        self.inspect(|transport| transport.can_write_eof()).unwrap_or(false)
    }

    /// Fails if a write would fail: [`Transport::write_eof`] was called, or a file is being sent.
    pub(crate) fn check_write(&self) -> io::Result<()> {
        self.inspect(|transport| {
            transport.check_write().map_err(|refusal| write_refused_error(refusal).into())
        })
        .unwrap_or(Ok(()))
    }

    /// Stops reading, sends the write buffer, then closes. `connection_lost` is called without an error.
    pub fn close(&self) {
        self.with(|transport, cx| transport.close(cx));
    }

    /// Closes at once and drops the write buffer. `connection_lost` is called without an error.
    ///
    /// ```
    /// use mainspring::net::{Protocol, UnixStream};
    ///
    /// struct Quiet;
    /// impl Protocol for Quiet {}
    ///
    /// # mainspring::run(async {
    /// let (stream, peer) = std::os::unix::net::UnixStream::pair()?;
    /// let event_loop = mainspring::EventLoop::current();
    /// let (transport, _) = event_loop.connect_accepted_socket(stream, || Quiet).await?;
    /// // More than the kernel accepts: the rest is never sent.
    /// transport.write(&[0; 10_000_000]);
    /// transport.abort();
    /// assert!(transport.is_closing());
    /// assert!(UnixStream::from_std(peer)?.read_to_end().await?.len() < 10_000_000);
    /// # std::io::Result::Ok(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn abort(&self) {
        self.with(|transport, cx| transport.abort(cx, None));
    }

    /// Whether the transport is closing or closed. True if its loop is closed.
    pub fn is_closing(&self) -> bool {
        self.is_loop_closed() || self.inspect(|transport| transport.is_closing()).unwrap_or(true)
    }

    /// Whether the loop is closed.
    pub(crate) fn is_loop_closed(&self) -> bool {
        self.core().is_none()
    }

    /// Whether `connection_lost` has run or is scheduled.
    pub(crate) fn is_lost(&self) -> bool {
        self.inspect(|transport| transport.is_lost()).unwrap_or(true)
    }

    /// Stops reading until [`resume_reading`](Transport::resume_reading). Flow control then stops the peer.
    ///
    /// ```
    /// use mainspring::net::{Protocol, Transport, UnixStream};
    /// use mainspring::{EventLoop, Future};
    ///
    /// /// Pauses after the first data.
    /// struct OneAtATime(Future<Vec<u8>>);
    ///
    /// impl Protocol for OneAtATime {
    ///     fn data_received(&self, transport: &Transport, data: &[u8]) {
    ///         transport.pause_reading();
    ///         self.0.set_result(data.to_vec()).unwrap();
    ///     }
    /// }
    ///
    /// # mainspring::run(async {
    /// let event_loop = EventLoop::current();
    /// let received = event_loop.create_future();
    /// let (stream, peer) = std::os::unix::net::UnixStream::pair()?;
    /// let make = || OneAtATime(received.clone());
    /// let (transport, _) = event_loop.connect_accepted_socket(stream, make).await?;
    /// UnixStream::from_std(peer)?.write_all(b"hello").await?;
    /// assert_eq!(received.await.unwrap(), b"hello");
    /// assert!(!transport.is_reading());
    /// transport.resume_reading();
    /// assert!(transport.is_reading());
    /// # std::io::Result::Ok(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn pause_reading(&self) {
        self.with(|transport, cx| transport.pause_reading(cx));
    }

    /// Starts reading again.
    pub fn resume_reading(&self) {
        self.with(|transport, cx| transport.resume_reading(cx));
    }

    /// Whether the transport is reading.
    pub fn is_reading(&self) -> bool {
        self.inspect(|transport| transport.is_reading()).unwrap_or(false)
    }

    /// Sets the water marks of [`Protocol::pause_writing`] and [`Protocol::resume_writing`], in bytes. A mark that is
    /// `None` is derived from the other as in asyncio: low is a quarter of high.
    ///
    /// Returns [`Error::InvalidLimits`] if low is above high.
    pub fn set_write_buffer_limits(&self, high: Option<usize>, low: Option<usize>) -> Result<(), Error> {
        let default = self.inspect(|transport| transport.default_high_water()).unwrap_or_default();
        let Some(marks) = WaterMarks::derive(default, high, low) else {
            return Err(Error::InvalidLimits {
                high: high.unwrap_or_default(),
                low: low.unwrap_or_default(),
            });
        };
        self.with(|transport, cx| transport.set_water_marks(cx, marks));
        Ok(())
    }

    /// The current water marks, low and high.
    pub fn get_write_buffer_limits(&self) -> (usize, usize) {
        let marks = self.inspect(|transport| transport.water_marks()).unwrap_or_default();
        (marks.low, marks.high)
    }

    /// The number of bytes in the write buffer.
    pub fn get_write_buffer_size(&self) -> usize {
        self.with(|transport, cx| transport.write_buffer_size(cx)).unwrap_or(0)
    }

    /// The protocol. `None` once the connection is lost.
    pub fn get_protocol(&self) -> Option<Rc<dyn Protocol>> {
        self.inspect(|transport| transport.protocol_slot().protocol()).flatten()
    }

    /// Replaces the protocol. Earlier callbacks are not repeated for the new one.
    ///
    /// ```
    /// use mainspring::{EventLoop, Protocol, Transport};
    /// use std::rc::Rc;
    ///
    /// struct Before;
    /// struct After;
    ///
    /// impl Protocol for Before {
    ///     fn data_received(&self, transport: &Transport, _greeting: &[u8]) {
    ///         transport.set_protocol(Rc::new(After));
    ///     }
    /// }
    /// impl Protocol for After {}
    ///
    /// mainspring::run(async {
    ///     let (stream, _peer) = std::os::unix::net::UnixStream::pair()?;
    ///     let (transport, _) = EventLoop::current().connect_accepted_socket(stream, || Before).await?;
    ///     transport.set_protocol(Rc::new(After));
    ///     assert!(transport.get_protocol().is_some());
    ///     Ok::<(), std::io::Error>(())
    /// })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn set_protocol(&self, protocol: Rc<dyn Protocol>) {
        let former = self.inspect(|transport| transport.protocol_slot().replace(protocol));
        drop(former);
    }

    /// Aborts the connection because its protocol layer failed. A panic is reported to the exception handler.
    #[allow(dead_code, reason = "used by TLS, which is an optional feature")]
    pub(crate) fn fail(&self, failure: Failure, message: &str) {
        self.with(|transport, cx| {
            let failure = cx.host().report_fatal(cx.this, failure, message)?;
            transport.abort(cx, Some(failure))
        });
    }

    /// The peer's address, if this is a TCP connection. Stays available after the connection is lost.
    pub fn peer_addr(&self) -> Option<SocketAddr> {
        self.inspect(|transport| socket_address(&transport.peer_address())).flatten()
    }

    /// The local address, if this is a TCP connection. Stays available after the connection is lost.
    ///
    /// ```
    /// use mainspring::net::{Protocol, TcpListener};
    ///
    /// struct Quiet;
    /// impl Protocol for Quiet {}
    ///
    /// # mainspring::run(async {
    /// let listener = TcpListener::bind("127.0.0.1:0").await?;
    /// let event_loop = mainspring::EventLoop::current();
    /// let (transport, _) = event_loop.create_connection(listener.local_addr(), || Quiet).await?;
    /// assert_eq!(transport.peer_addr(), Some(listener.local_addr()));
    /// assert_eq!(transport.local_addr(), Some(listener.accept().await?.1));
    /// # std::io::Result::Ok(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.inspect(|transport| socket_address(&transport.local_address())).flatten()
    }

    /// The peer's address, if this is a Unix connection. Stays available after the connection is lost.
    pub fn unix_peer_addr(&self) -> Option<UnixAddress> {
        self.inspect(|transport| unix_address::to_std(&transport.peer_address())).flatten()
    }

    /// The local address, if this is a Unix connection. Stays available after the connection is lost.
    ///
    /// ```
    /// use std::os::linux::net::SocketAddrExt;
    ///
    /// # mainspring::run(async {
    /// let name = format!("mainspring-doc-local-{}", std::process::id());
    /// let listener = mainspring::net::UnixListener::bind(format!("\0{name}"))?;
    /// let _client = mainspring::net::UnixStream::connect(format!("\0{name}")).await?;
    /// let stream = listener.accept().await?;
    /// let local = stream.transport().unix_local_addr().unwrap();
    /// assert_eq!(local.as_abstract_name(), Some(name.as_bytes()));
    /// # std::io::Result::Ok(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn unix_local_addr(&self) -> Option<UnixAddress> {
        self.inspect(|transport| unix_address::to_std(&transport.local_address())).flatten()
    }
}

impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transport")
            .field("fd", &self.inspect(|transport| transport.fd()))
            .field("peer", &self.inspect(|transport| transport.peer_address()))
            .field("closing", &self.is_closing())
            .finish_non_exhaustive()
    }
}
