//! `DatagramTransport`: the public handle on a datagram endpoint.

use super::endpoint::{DatagramAddress, Endpoint};
use super::protocol::{DatagramProtocol, ProtocolAdapter};
use crate::error::Error;
use crate::event_loop::{Core, ExceptionContext};
use crate::host::{Failure, RustHost};
use mainspring_engine::memory;
use mainspring_engine::transport::Transport as _;
use mainspring_engine::transport::{Cx, Datagram, Destination, WaterMarks};
use std::fmt;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::rc::Rc;

/// Added to the size of each queued datagram when water marks are checked (asyncio's number).
const DATAGRAM_OVERHEAD_BYTES: usize = 8;

/// A datagram endpoint with a [`DatagramProtocol`]. Clones refer to the same endpoint.
///
/// Created by [`EventLoop::create_datagram_endpoint`](crate::EventLoop::create_datagram_endpoint). The loop keeps the
/// endpoint alive while it reads or has datagrams to send. All methods are no-ops once it is closed. It is not
/// `Send`.
///
/// ```
/// use mainspring::net::{DatagramOptions, DatagramProtocol, DatagramTransport};
///
/// struct Quiet;
/// impl DatagramProtocol for Quiet {}
///
/// mainspring::run(async {
///     let options = DatagramOptions::new().local_addr("127.0.0.1:0");
///     let event_loop = mainspring::EventLoop::current();
///     let (transport, _) = event_loop.create_datagram_endpoint(options, || Quiet).await?;
///     let own_addr = transport.local_addr().unwrap();
///     transport.send_to(b"hello", own_addr);
///     assert_eq!((transport.get_write_buffer_size(), transport.peer_addr()), (0, None));
///
///     transport.set_write_buffer_limits(Some(1000), None).unwrap();
///     assert_eq!(transport.get_write_buffer_limits(), (250, 1000));
///
///     transport.pause_reading();
///     assert!(!transport.is_reading());
///     transport.resume_reading();
///     transport.close();
///     assert!(transport.is_closing());
///     Ok::<(), std::io::Error>(())
/// })??;
/// # Ok::<(), mainspring::Error>(())
/// ```
pub struct DatagramTransport<A: DatagramAddress = SocketAddr> {
    endpoint: Rc<Endpoint<ProtocolAdapter<A>>>,
}

impl<A: DatagramAddress> Clone for DatagramTransport<A> {
    fn clone(&self) -> Self {
        DatagramTransport { endpoint: Rc::clone(&self.endpoint) }
    }
}

impl<A: DatagramAddress> DatagramTransport<A> {
    /// Attaches `protocol` to a non-blocking datagram socket. `connection_made` is scheduled.
    pub(in crate::net) fn open(
        core: &Rc<Core>,
        socket: OwnedFd,
        protocol: Rc<dyn DatagramProtocol<A>>,
        local: Option<A>,
        remote: Option<A>,
        is_connected: bool,
    ) -> Self {
        let drops_when_lost = remote.is_some();
        let endpoint = Endpoint::new(core, socket, DATAGRAM_OVERHEAD_BYTES, drops_when_lost, |endpoint| {
            ProtocolAdapter::new(endpoint, protocol, local, remote, is_connected)
        });
        let transport = DatagramTransport { endpoint };
        transport.with(|transport, cx| transport.open(cx));
        transport
    }

    pub(in crate::net) fn from_endpoint(endpoint: Rc<Endpoint<ProtocolAdapter<A>>>) -> Self {
        DatagramTransport { endpoint }
    }

    /// Runs `f` on the engine's transport and reports a failure to the exception handler.
    fn with<R>(
        &self,
        f: impl FnOnce(&Datagram<RustHost, ProtocolAdapter<A>>, Cx<'_, RustHost>) -> Result<R, Failure>,
    ) -> Option<R> {
        match self.endpoint.with(f)? {
            Ok(result) => Some(result),
            Err(failure) => {
                let context = ExceptionContext::from_failure("A datagram transport failed", failure);
                self.endpoint.core().inspect(|core| core.call_exception_handler(&context));
                None
            }
        }
    }

    fn sink(&self) -> &ProtocolAdapter<A> {
        self.endpoint.transport().sink()
    }

    /// Sends a datagram to `to`. If the kernel does not accept it at once, it is queued in order. A datagram that
    /// cannot be sent is reported to [`DatagramProtocol::error_received`] and dropped; the endpoint stays open.
    pub fn send_to(&self, data: &[u8], to: A) {
        self.send_with(data, Destination::Address(to.to_engine().0));
    }

    /// Sends a datagram to the remote address of the endpoint. Otherwise as [`DatagramTransport::send_to`]. Without a
    /// remote address, [`DatagramProtocol::error_received`] is called.
    ///
    /// ```
    /// use mainspring::net::{DatagramOptions, DatagramProtocol, UdpSocket};
    ///
    /// struct Quiet;
    /// impl DatagramProtocol for Quiet {}
    ///
    /// # mainspring::run(async {
    /// let server = UdpSocket::bind("127.0.0.1:0").await?;
    /// let options = DatagramOptions::new().remote_addr(server.local_addr()?);
    /// let event_loop = mainspring::EventLoop::current();
    /// let (transport, _) = event_loop.create_datagram_endpoint(options, || Quiet).await?;
    /// transport.send(b"hello");
    /// let (length, from) = server.recv_from(&mut [0; 16]).await?;
    /// assert_eq!((length, Some(from)), (5, transport.local_addr()));
    /// # std::io::Result::Ok(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn send(&self, data: &[u8]) {
        let sink = self.sink();
        let destination = match &sink.remote {
            Some(remote) if !sink.is_connected => Destination::Address(remote.to_engine().0),
            _ => Destination::Connected,
        };
        self.send_with(data, destination);
    }

    fn send_with(&self, data: &[u8], destination: Destination<std::convert::Infallible>) {
        self.with(|transport, cx| transport.send_to(cx, data, destination, || memory::copy(data).ok()));
    }

    /// Stops reading, sends the queue, then closes. `connection_lost` is called without an error.
    pub fn close(&self) {
        self.with(|transport, cx| transport.close(cx));
    }

    /// Closes at once and drops the queue. `connection_lost` is called without an error.
    ///
    /// ```
    /// use mainspring::net::{DatagramOptions, DatagramProtocol, DatagramTransport};
    /// use mainspring::{EventLoop, Future};
    ///
    /// struct Waiter(Future<bool>);
    /// impl DatagramProtocol for Waiter {
    ///     fn connection_lost(&self, _: &DatagramTransport, error: Option<std::io::Error>) {
    ///         self.0.set_result(error.is_none()).unwrap();
    ///     }
    /// }
    ///
    /// # mainspring::run(async {
    /// let event_loop = EventLoop::current();
    /// let is_in_order = event_loop.create_future();
    /// let make = || Waiter(is_in_order.clone());
    /// let options = DatagramOptions::new().local_addr("127.0.0.1:0");
    /// let (transport, _) = event_loop.create_datagram_endpoint(options, make).await?;
    /// transport.abort();
    /// assert!(is_in_order.await.unwrap());
    /// # std::io::Result::Ok(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub fn abort(&self) {
        self.with(|transport, cx| transport.abort(cx, None));
    }

    /// Whether the endpoint is closing or closed.
    pub fn is_closing(&self) -> bool {
        self.endpoint.transport().is_closing() || self.endpoint.core().is_none()
    }

    /// Stops reading until [`resume_reading`](DatagramTransport::resume_reading). Datagrams wait in the kernel's
    /// buffer, which drops them when it is full.
    pub fn pause_reading(&self) {
        self.with(|transport, cx| transport.pause_reading(cx));
    }

    /// Starts reading again.
    pub fn resume_reading(&self) {
        self.with(|transport, cx| transport.resume_reading(cx));
    }

    /// Whether the endpoint is reading.
    pub fn is_reading(&self) -> bool {
        self.endpoint.transport().is_reading()
    }

    /// Sets the water marks of [`DatagramProtocol::pause_writing`] and [`DatagramProtocol::resume_writing`], in
    /// bytes. Each queued datagram counts eight bytes more than its length. A mark that is `None` is derived from the
    /// other as in asyncio: low is a quarter of high.
    ///
    /// Returns [`Error::InvalidLimits`] if low is above high.
    pub fn set_write_buffer_limits(&self, high: Option<usize>, low: Option<usize>) -> Result<(), Error> {
        let Some(marks) = WaterMarks::new(high, low) else {
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
        let marks = self.endpoint.transport().water_marks();
        (marks.low, marks.high)
    }

    /// The size of the queue in bytes, including eight bytes per datagram.
    pub fn get_write_buffer_size(&self) -> usize {
        self.endpoint.transport().write_buffer_size()
    }

    /// The remote address, if the endpoint was created with one. Stays available after close.
    pub fn peer_addr(&self) -> Option<A> {
        self.sink().remote.clone()
    }

    /// The local address. Stays available after close.
    pub fn local_addr(&self) -> Option<A> {
        self.sink().local.clone()
    }
}

impl<A: DatagramAddress> fmt::Debug for DatagramTransport<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DatagramTransport")
            .field("fd", &self.endpoint.transport().fd())
            .field("local", &self.sink().local)
            .field("remote", &self.sink().remote)
            .field("closing", &self.is_closing())
            .finish_non_exhaustive()
    }
}
