//! `TlsConnection`: the kind of [`TransportImpl`] that runs over another transport.
//!
//! # Ownership
//!
//! The lower transport owns its protocol, the [`TlsProtocol`](super::TlsProtocol), which owns this connection, which
//! owns the user's protocol. References to lower layers are weak, so there is no cycle: keeping the lowest transport
//! alive keeps the TLS connection alive. A [`Transport`] handle therefore also holds the lowest transport
//! ([`TransportImpl::lowest_transport`]).

use super::session::RustlsSession;
use crate::event_loop::Core;
use crate::host::{Failure, RustHost, Source};
use crate::net::Transport;
use crate::net::connection::{Protocol, ProtocolSlot, TransportImpl, WithFd, write_refused_error};
use mainspring_engine::memory;
use mainspring_engine::poller::PeerAddress;
use mainspring_engine::tls::{LowerTransport, Tls, TlsOptions};
use mainspring_engine::transport::{Cx, DeferredCall, WaterMarks, WriteRefused};
use std::any::Any;
use std::io::{self, IoSlice};
use std::os::fd::RawFd;
use std::rc::{Rc, Weak};

type TlsMachine = Tls<RustHost, RustlsSession, LowerTransportRef, ProtocolSlot>;

/// See the module documentation.
pub(super) struct TlsConnection {
    core: Weak<Core>,
    machine: TlsMachine,
    lower_ref: LowerTransportRef,
    local: PeerAddress,
    peer: PeerAddress,
    fd: RawFd,
}

impl TlsConnection {
    /// A connection over `lower` for `protocol`. [`TlsConnection::start_handshake`] starts the handshake.
    pub(super) fn new(
        session: RustlsSession,
        protocol: Rc<dyn Protocol>,
        lower: &Transport,
        options: TlsOptions,
    ) -> Option<Rc<Self>> {
        let lower_ref = LowerTransportRef(Rc::downgrade(lower.source()));
        lower.inspect(|lower| {
            Rc::new(TlsConnection {
                core: Weak::clone(lower.core()),
                machine: Tls::new(session, ProtocolSlot::new(protocol, None), options),
                lower_ref,
                local: lower.local_address(),
                peer: lower.peer_address(),
                fd: lower.fd(),
            })
        })
    }

    pub(super) fn session(&self) -> &RustlsSession {
        self.machine.session()
    }

    /// Whether this connection runs over `lower`.
    pub(super) fn runs_over(&self, lower: &Transport) -> bool {
        Weak::ptr_eq(&self.lower_ref.0, &Rc::downgrade(lower.source()))
    }

    /// A handle on this connection.
    pub(super) fn transport(self: &Rc<Self>) -> Transport {
        Transport::new(Rc::<Self>::clone(self))
    }

    /// Runs `f` on the state machine, unless the loop is closed. A failure is reported to the exception handler.
    pub(super) fn with<R>(
        self: &Rc<Self>,
        f: impl FnOnce(&TlsMachine, Cx<'_, RustHost>) -> Result<R, Failure>,
    ) -> Option<R> {
        self.transport().with(|_, cx| f(&self.machine, cx))
    }

    /// Starts the handshake.
    pub(super) fn start_handshake(self: &Rc<Self>) {
        self.with(|machine, cx| machine.connection_made(cx, self.lower_ref.clone()));
    }
}

impl TransportImpl for TlsConnection {
    fn core(&self) -> &Weak<Core> {
        &self.core
    }

    fn protocol_slot(&self) -> &ProtocolSlot {
        self.machine.sink()
    }

    fn run_deferred(&self, cx: Cx<'_, RustHost>, deferred: DeferredCall) -> Result<(), Failure> {
        self.machine.run_deferred(cx, deferred)
    }

    fn lowest_transport(&self) -> Option<Rc<dyn Source>> {
        let lower = self.lower_ref.0.upgrade()?;
        let lowest = lower.transport_impl().and_then(TransportImpl::lowest_transport);
        Some(lowest.unwrap_or(lower))
    }

    fn write(&self, cx: Cx<'_, RustHost>, data: &[u8]) -> Result<(), Failure> {
        self.check_write().map_err(write_refused_error)?;
        if data.is_empty() {
            return Ok(());
        }
        self.machine.write(cx, [memory::copy(data).map_err(Failure::Io)?])
    }

    fn write_checked(&self, cx: Cx<'_, RustHost>, pieces: &[IoSlice<'_>]) -> Result<(), Failure> {
        // One chunk, so that small pieces share a TLS record.
        let mut chunk = Vec::new();
        let length = pieces.iter().map(|piece| piece.len()).sum();
        chunk.try_reserve_exact(length).map_err(|error| Failure::Io(error.into()))?;
        pieces.iter().for_each(|piece| chunk.extend_from_slice(piece));
        if chunk.is_empty() { Ok(()) } else { self.machine.write(cx, [chunk]) }
    }

    fn check_write(&self) -> Result<(), WriteRefused> {
        self.machine.check_write()
    }

    fn can_write_eof(&self) -> bool {
        true
    }

    fn write_eof(&self, cx: Cx<'_, RustHost>) -> Result<(), Failure> {
        self.machine.write_eof(cx)
    }

    fn close(&self, cx: Cx<'_, RustHost>) -> Result<(), Failure> {
        if self.machine.is_closed() { Ok(()) } else { self.machine.close(cx) }
    }

    fn abort(&self, cx: Cx<'_, RustHost>, failure: Option<Failure>) -> Result<(), Failure> {
        self.machine.abort(cx, failure)
    }

    fn is_closing(&self) -> bool {
        self.machine.is_closed() || self.lower_ref.inspect(|lower| lower.is_closing()).unwrap_or(true)
    }

    fn is_lost(&self) -> bool {
        self.lower_ref.inspect(|lower| lower.is_lost()).unwrap_or(true)
    }

    fn pause_reading(&self, _: Cx<'_, RustHost>) -> Result<bool, Failure> {
        let is_change = self.machine.is_reading();
        self.machine.pause_reading();
        Ok(is_change)
    }

    fn resume_reading(&self, cx: Cx<'_, RustHost>) -> Result<bool, Failure> {
        let is_change = !self.machine.is_reading();
        self.machine.resume_reading(cx)?;
        Ok(is_change)
    }

    fn is_reading(&self) -> bool {
        self.machine.is_reading() && !self.is_closing()
    }

    fn is_writing_paused(&self) -> bool {
        self.machine.is_writing_paused()
    }

    fn write_buffer_size(&self, cx: Cx<'_, RustHost>) -> Result<usize, Failure> {
        self.machine.write_buffer_size(cx)
    }

    fn water_marks(&self) -> WaterMarks {
        self.machine.write_marks()
    }

    fn default_high_water(&self) -> usize {
        TlsMachine::WRITE_HIGH_WATER
    }

    fn set_water_marks(&self, cx: Cx<'_, RustHost>, marks: WaterMarks) -> Result<(), Failure> {
        self.machine.set_write_marks(cx, marks)
    }

    fn local_address(&self) -> PeerAddress {
        self.local.clone()
    }

    fn peer_address(&self) -> PeerAddress {
        self.peer.clone()
    }

    fn fd(&self) -> RawFd {
        self.fd
    }

    fn with_fd(&self, f: WithFd<'_>) -> io::Result<()> {
        self.lower_ref
            .inspect(|lower| lower.with_fd(f))
            .unwrap_or_else(|| Err(io::ErrorKind::NotConnected.into()))
    }

    fn extra(&self) -> Option<&dyn Any> {
        Some(self)
    }
}

/// A reference to the lower transport, for the state machine.
#[derive(Clone)]
pub(super) struct LowerTransportRef(Weak<dyn Source>);

impl LowerTransportRef {
    /// Reads state of the lower transport, if it still exists.
    fn inspect<R>(&self, inspect: impl FnOnce(&dyn TransportImpl) -> R) -> Option<R> {
        let source = self.0.upgrade()?;
        source.transport_impl().map(inspect)
    }

    /// Runs `f` on the lower transport. A no-op if it no longer exists.
    fn with<R: Default>(
        &self,
        cx: Cx<'_, RustHost>,
        f: impl FnOnce(&dyn TransportImpl, Cx<'_, RustHost>) -> Result<R, Failure>,
    ) -> Result<R, Failure> {
        let Some(source) = self.0.upgrade() else { return Ok(R::default()) };
        match source.transport_impl() {
            Some(lower) => f(lower, Cx { engine: cx.engine, this: &source }),
            None => Ok(R::default()),
        }
    }
}

impl LowerTransport<RustHost> for LowerTransportRef {
    fn write(&self, cx: Cx<'_, RustHost>, chunk: Vec<u8>) -> Result<(), Failure> {
        self.with(cx, |lower, cx| lower.write(cx, &chunk))
    }

    fn pause_reading(&self, cx: Cx<'_, RustHost>) -> Result<(), Failure> {
        self.with(cx, |lower, cx| lower.pause_reading(cx).map(drop))
    }

    fn resume_reading(&self, cx: Cx<'_, RustHost>) -> Result<(), Failure> {
        self.with(cx, |lower, cx| lower.resume_reading(cx).map(drop))
    }

    fn close(&self, cx: Cx<'_, RustHost>) -> Result<(), Failure> {
        self.with(cx, |lower, cx| lower.close(cx))
    }

    fn force_close(&self, cx: Cx<'_, RustHost>, failure: Option<Failure>) -> Result<(), Failure> {
        self.with(cx, |lower, cx| lower.abort(cx, failure))
    }

    fn is_closing(&self, _: Cx<'_, RustHost>) -> Result<bool, Failure> {
        Ok(self.inspect(|lower| lower.is_closing()).unwrap_or(true))
    }
}
