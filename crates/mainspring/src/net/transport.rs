//! `Transport`: a connection, as a program holds it.

use super::protocol::{Above, Protocol};
use super::server::Connection;
use crate::engine::Readiness;
use crate::error::Error;
use crate::event_loop::{Core, ExceptionContext};
use crate::host::{Failure, RustHost, Source};
use crate::transport::{Cx, Notice, Stream, WaterMarks};
use socket2::SockRef;
use std::fmt;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::rc::{Rc, Weak};

/// A connection. A clone is the same one.
///
/// The loop keeps it as long as it has something to receive or to send; a connection that does neither (paused,
/// or half-closed) is closed when nobody keeps it any more. All methods do nothing once it is closed.
#[derive(Clone)]
pub struct Transport {
    inner: Rc<Inner>,
}

pub(super) struct Inner {
    core: Weak<Core>,
    stream: Stream<RustHost, Above>,
    local: Option<SocketAddr>,
    peer: Option<SocketAddr>,
}

impl Source for Inner {
    fn io_ready(self: Rc<Self>, core: &Core, readiness: Readiness) -> Result<(), Failure> {
        let this: Rc<dyn Source> = self.clone();
        self.stream.io_ready(Cx { engine: &core.engine, this: &this }, readiness)
    }

    fn notified(self: Rc<Self>, core: &Core, notice: Notice) -> Result<(), Failure> {
        let this: Rc<dyn Source> = self.clone();
        self.stream.notified(Cx { engine: &core.engine, this: &this }, notice)
    }
}

impl Transport {
    /// Puts `protocol` on a connected socket, non-blocking and TCP's. `connection_made` is called soon.
    pub(super) fn open(
        core: &Rc<Core>,
        socket: OwnedFd,
        peer: Option<SocketAddr>,
        protocol: Rc<dyn Protocol>,
        connection: Option<Connection>,
    ) -> Self {
        let reference = SockRef::from(&socket);
        // asyncio's choice; a connection that is gone already tells so soon enough.
        let _ = reference.set_tcp_nodelay(true);
        let local = reference.local_addr().ok().and_then(|address| address.as_socket());
        let inner = Rc::new_cyclic(|inner| Inner {
            core: Rc::downgrade(core),
            stream: Stream::new(socket, Above::new(inner.clone(), protocol, connection)),
            local,
            peer,
        });
        let transport = Transport { inner };
        transport.with(|stream, cx| stream.open(cx));
        transport
    }

    pub(super) fn of(inner: Rc<Inner>) -> Self {
        Transport { inner }
    }

    /// Works on the engine's transport; not at all if the loop is closed.
    fn with<R>(
        &self,
        work: impl FnOnce(&Stream<RustHost, Above>, Cx<'_, RustHost>) -> Result<R, Failure>,
    ) -> Option<R> {
        let core = self.inner.core.upgrade()?;
        core.check_open().ok()?;
        let this: Rc<dyn Source> = Rc::<Inner>::clone(&self.inner);
        match work(&self.inner.stream, Cx { engine: &core.engine, this: &this }) {
            Ok(result) => Some(result),
            Err(failure) => {
                core.call_exception_handler(&ExceptionContext::of_failure("A transport failed", failure));
                None
            }
        }
    }

    /// Sends `data`: at once as far as the kernel takes it, the rest is queued. Writing after
    /// [`write_eof`](Transport::write_eof) is a mistake that the exception handler is told; writing to a
    /// connection that is gone is not, at first.
    pub fn write(&self, data: &[u8]) {
        self.with(|stream, cx| match stream.check_write() {
            Ok(()) => stream.write(cx, data, || data.to_vec()),
            Err(_) => Err(after_eof()),
        });
    }

    /// Sends several pieces as one write.
    pub fn writelines(&self, pieces: &[&[u8]]) {
        let slices: Vec<_> = pieces.iter().map(|piece| IoSlice::new(piece)).collect();
        self.with(|stream, cx| match stream.check_write() {
            Ok(()) => {
                stream.write_vectored(cx, &slices, |index| pieces.get(index).map(|piece| piece.to_vec()))
            }
            Err(_) => Err(after_eof()),
        });
    }

    /// Sends no more after what is queued: the peer sees the end of the stream. Receiving goes on.
    pub fn write_eof(&self) {
        self.with(|stream, cx| stream.write_eof(cx));
    }

    /// Whether [`Transport::write_eof`] was called.
    pub(super) fn is_eof_written(&self) -> bool {
        self.inner.stream.check_write().is_err()
    }

    /// Receives no more, sends what is queued, then closes; `connection_lost` is called without an error.
    pub fn close(&self) {
        self.with(|stream, cx| stream.close(cx));
    }

    /// Closes at once and drops what is queued; `connection_lost` is called without an error.
    pub fn abort(&self) {
        self.with(|stream, cx| stream.abort(cx, None));
    }

    /// Whether the transport is closed, or about to be.
    pub fn is_closing(&self) -> bool {
        self.inner.stream.is_closing()
            || self.inner.core.upgrade().is_none_or(|core| core.check_open().is_err())
    }

    /// Whether `connection_lost` was called, or is about to be.
    pub(super) fn is_lost(&self) -> bool {
        self.inner.stream.is_lost()
    }

    /// Receives nothing until [`resume_reading`](Transport::resume_reading): the peer comes to wait.
    pub fn pause_reading(&self) {
        self.with(|stream, cx| stream.pause_reading(cx));
    }

    /// Receives again.
    pub fn resume_reading(&self) {
        self.with(|stream, cx| stream.resume_reading(cx));
    }

    /// Whether the transport receives.
    pub fn is_reading(&self) -> bool {
        self.inner.stream.is_reading()
    }

    /// Sets the marks of [`Protocol::pause_writing`] and [`Protocol::resume_writing`], in bytes. The one that
    /// is not given is derived from the other as in asyncio: low is a quarter of high.
    ///
    /// [`Error::InvalidLimits`] if low is above high.
    pub fn set_write_buffer_limits(&self, high: Option<usize>, low: Option<usize>) -> Result<(), Error> {
        let Some(marks) = WaterMarks::new(high, low) else {
            return Err(Error::InvalidLimits {
                high: high.unwrap_or_default(),
                low: low.unwrap_or_default(),
            });
        };
        self.with(|stream, cx| stream.set_water_marks(cx, marks));
        Ok(())
    }

    /// The marks in force: low and high.
    pub fn get_write_buffer_limits(&self) -> (usize, usize) {
        let marks = self.inner.stream.water_marks();
        (marks.low, marks.high)
    }

    /// Bytes that wait to be sent.
    pub fn get_write_buffer_size(&self) -> usize {
        self.inner.stream.write_buffer_size()
    }

    /// The peer's address. Also told after the connection is gone.
    pub fn peer_addr(&self) -> Option<SocketAddr> {
        self.inner.peer
    }

    /// The address of this end. Also told after the connection is gone.
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.inner.local
    }
}

fn after_eof() -> Failure {
    Failure::Io(io::Error::new(io::ErrorKind::BrokenPipe, "cannot write after write_eof()"))
}

impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transport")
            .field("fd", &self.inner.stream.fd())
            .field("peer", &self.inner.peer)
            .field("closing", &self.is_closing())
            .finish_non_exhaustive()
    }
}
