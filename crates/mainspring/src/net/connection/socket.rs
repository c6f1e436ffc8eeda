//! The [`TransportImpl`] of TCP and Unix stream sockets.

use super::protocol::{ProtocolRef, ProtocolSlot};
use super::transport_handle::Transport;
use super::transport_impl::{TransportImpl, WithFd, write_refused_error};
use crate::event_loop::Core;
use crate::host::{Failure, RustHost};
use crate::net::server::ConnectionGuard;
use mainspring_engine::Readiness;
use mainspring_engine::memory;
use mainspring_engine::poller::{PeerAddress, local_address};
use mainspring_engine::transport::Transport as _;
use mainspring_engine::transport::{Cx, DeferredCall, Stream, WaterMarks, WriteRefused};
use std::cell::Cell;
use std::io::{self, IoSlice};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::os::fd::{OwnedFd, RawFd};
use std::rc::{Rc, Weak};

/// See the module comment.
pub(in crate::net) struct SocketConnection {
    core: Weak<Core>,
    stream: Stream<RustHost, ProtocolSlot>,
    addresses: Cell<Addresses>,
}

/// The addresses of both sides. The local one is read on first use, or before the fd is closed.
enum Addresses {
    /// The common case needs no allocation.
    V4 {
        peer: SocketAddrV4,
        local: Option<SocketAddrV4>,
    },
    Other(Box<OtherAddresses>),
}

struct OtherAddresses {
    peer: PeerAddress,
    local: Option<PeerAddress>,
}

impl Addresses {
    /// Stands for addresses that are in use.
    const TAKEN: Self = Addresses::V4 { peer: SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0), local: None };

    fn new(peer: PeerAddress, local: Option<PeerAddress>) -> Self {
        match (peer, local) {
            (PeerAddress::Inet(SocketAddr::V4(peer)), None) => Addresses::V4 { peer, local: None },
            (PeerAddress::Inet(SocketAddr::V4(peer)), Some(PeerAddress::Inet(SocketAddr::V4(local)))) => {
                Addresses::V4 { peer, local: Some(local) }
            }
            (peer, local) => Addresses::Other(Box::new(OtherAddresses { peer, local })),
        }
    }

    fn peer(&self) -> PeerAddress {
        match self {
            Addresses::V4 { peer, .. } => PeerAddress::Inet(SocketAddr::V4(*peer)),
            Addresses::Other(addresses) => addresses.peer.clone(),
        }
    }

    fn local(&self) -> Option<PeerAddress> {
        match self {
            Addresses::V4 { local, .. } => local.map(|local| PeerAddress::Inet(SocketAddr::V4(local))),
            Addresses::Other(addresses) => addresses.local.clone(),
        }
    }
}

impl SocketConnection {
    /// Opens a transport on a connected, non-blocking stream socket. `connection_made` is scheduled.
    pub(in crate::net) fn open(
        core: &Rc<Core>,
        socket: OwnedFd,
        peer: PeerAddress,
        protocol: impl Into<ProtocolRef>,
        connection: Option<ConnectionGuard>,
    ) -> Transport {
        let connection = Rc::new(SocketConnection {
            core: Rc::downgrade(core),
            stream: Stream::new(socket, ProtocolSlot::new(protocol, connection)),
            addresses: Cell::new(Addresses::new(peer, None)),
        });
        let transport = Transport::new(Rc::<SocketConnection>::clone(&connection));
        transport.with(|_, cx| connection.stream.open(cx));
        transport
    }

    fn inspect_addresses<R>(&self, inspect: impl FnOnce(&Addresses) -> R) -> R {
        let addresses = self.addresses.replace(Addresses::TAKEN);
        let result = inspect(&addresses);
        self.addresses.set(addresses);
        result
    }
}

impl TransportImpl for SocketConnection {
    fn core(&self) -> &Weak<Core> {
        &self.core
    }

    fn protocol_slot(&self) -> &ProtocolSlot {
        self.stream.sink()
    }

    fn io_ready(&self, cx: Cx<'_, RustHost>, readiness: Readiness) -> Result<(), Failure> {
        self.stream.io_ready(cx, readiness)
    }

    fn scope_ended(&self, cx: Cx<'_, RustHost>) -> Result<(), Failure> {
        self.stream.scope_ended(cx);
        Ok(())
    }

    #[inline]
    fn wake_reader(&self, readiness: Readiness) -> bool {
        readiness == Readiness::INBOUND && self.stream.is_receiving() && self.stream.sink().wake_reader()
    }

    fn recv_into(&self, cx: Cx<'_, RustHost>, buffer: &mut [u8]) -> Result<Option<usize>, Failure> {
        self.stream.recv_into(cx, buffer)
    }

    fn run_deferred(&self, cx: Cx<'_, RustHost>, deferred: DeferredCall) -> Result<(), Failure> {
        self.stream.run_deferred(cx, deferred)
    }

    fn write(&self, cx: Cx<'_, RustHost>, data: &[u8]) -> Result<(), Failure> {
        self.stream.check_write().map_err(write_refused_error)?;
        self.stream.write(cx, data, || memory::copy(data).ok())
    }

    #[inline(always)]
    fn write_checked(&self, cx: Cx<'_, RustHost>, pieces: &[IoSlice<'_>]) -> Result<(), Failure> {
        self.stream.write_vectored(cx, pieces, |index| memory::copy(pieces.get(index)?).ok())
    }

    fn check_write(&self) -> Result<(), WriteRefused> {
        self.stream.check_write()
    }

    fn can_write_eof(&self) -> bool {
        true
    }

    fn write_eof(&self, cx: Cx<'_, RustHost>) -> Result<(), Failure> {
        self.stream.write_eof(cx)
    }

    fn close(&self, cx: Cx<'_, RustHost>) -> Result<(), Failure> {
        self.stream.close(cx)
    }

    fn abort(&self, cx: Cx<'_, RustHost>, failure: Option<Failure>) -> Result<(), Failure> {
        self.stream.abort(cx, failure)
    }

    fn is_closing(&self) -> bool {
        self.stream.is_closing()
    }

    fn is_lost(&self) -> bool {
        self.stream.is_lost()
    }

    fn pause_reading(&self, cx: Cx<'_, RustHost>) -> Result<bool, Failure> {
        self.stream.pause_reading(cx)
    }

    fn resume_reading(&self, cx: Cx<'_, RustHost>) -> Result<bool, Failure> {
        self.stream.resume_reading(cx)
    }

    fn is_reading(&self) -> bool {
        self.stream.is_reading()
    }

    fn is_writing_paused(&self) -> bool {
        self.stream.is_writing_paused()
    }

    fn write_buffer_size(&self, _: Cx<'_, RustHost>) -> Result<usize, Failure> {
        Ok(self.stream.write_buffer_size())
    }

    fn water_marks(&self) -> WaterMarks {
        self.stream.water_marks()
    }

    fn set_water_marks(&self, cx: Cx<'_, RustHost>, marks: WaterMarks) -> Result<(), Failure> {
        self.stream.set_water_marks(cx, marks)
    }

    fn local_address(&self) -> PeerAddress {
        self.inspect_addresses(Addresses::local).unwrap_or_else(|| {
            let local = self.stream.with_fd(|fd| Ok(local_address(fd))).unwrap_or(PeerAddress::Other);
            self.addresses.set(Addresses::new(self.peer_address(), Some(local.clone())));
            local
        })
    }

    fn peer_address(&self) -> PeerAddress {
        self.inspect_addresses(Addresses::peer)
    }

    fn before_close(&self) {
        self.local_address();
    }

    fn fd(&self) -> RawFd {
        self.stream.fd()
    }

    fn with_fd(&self, f: WithFd<'_>) -> io::Result<()> {
        self.stream.with_fd(f)
    }

    fn reserve_writing(&self) -> Option<bool> {
        Some(self.stream.reserve_writing())
    }

    fn release_writing(&self) {
        self.stream.release_writing();
    }

    fn detach_fd(&self, cx: Cx<'_, RustHost>) -> Option<OwnedFd> {
        self.before_close();
        self.stream.detach_fd(cx)
    }
}
