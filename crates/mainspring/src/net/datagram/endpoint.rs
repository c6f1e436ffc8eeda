//! `Endpoint`: the engine's datagram transport with its loop. Both datagram styles use it.
//!
//! Addresses are types of std. The address type distinguishes UDP endpoints from Unix endpoints.

use crate::event_loop::Core;
use crate::host::{Failure, RustHost, Source};
use crate::net::unix::address::to_std;
use mainspring_engine::Readiness;
use mainspring_engine::poller::PeerAddress;
use mainspring_engine::transport::{Cx, Datagram, DatagramSink, DeferredCall};
use std::fmt::Debug;
use std::io;
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::SocketAddr as UnixAddress;
use std::path::Path;
use std::rc::{Rc, Weak};

/// The address of a datagram endpoint: [`std::net::SocketAddr`] or [`std::os::unix::net::SocketAddr`].
///
/// ```
/// use mainspring::net::DatagramAddress;
///
/// fn is_an_address<A: DatagramAddress>() {}
/// is_an_address::<std::net::SocketAddr>();
/// is_an_address::<std::os::unix::net::SocketAddr>();
/// ```
pub trait DatagramAddress: Clone + Debug + SealedAddress + 'static {}

impl<A: Clone + Debug + SealedAddress + 'static> DatagramAddress for A {}

/// An address in the engine's representation. It keeps the engine's type out of the public API.
#[derive(Debug)]
pub struct EngineAddress(pub(in crate::net) PeerAddress);

/// Converts between an address and the engine's representation. It is public in a private module, which seals
/// [`DatagramAddress`].
pub trait SealedAddress: Sized {
    /// Converts from the engine's representation.
    fn from_engine(address: EngineAddress) -> io::Result<Self>;

    /// Converts to the engine's representation.
    fn to_engine(&self) -> EngineAddress;
}

impl SealedAddress for std::net::SocketAddr {
    fn from_engine(address: EngineAddress) -> io::Result<Self> {
        match address.0 {
            PeerAddress::Inet(address) => Ok(address),
            other => Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("expected an IP address, got {other:?}"),
            )),
        }
    }

    fn to_engine(&self) -> EngineAddress {
        EngineAddress(PeerAddress::Inet(*self))
    }
}

impl SealedAddress for UnixAddress {
    fn from_engine(address: EngineAddress) -> io::Result<Self> {
        // The kernel accepts a path of 108 bytes without a final zero; std does not. Such a peer is shown as unnamed.
        match to_std(&address.0) {
            Some(given) => Ok(given),
            None => UnixAddress::from_pathname(""),
        }
    }

    fn to_engine(&self) -> EngineAddress {
        let path = self.as_pathname().map(Path::as_os_str).map(|path| path.as_bytes().to_vec());
        let name = self.as_abstract_name().map(|name| [&[0], name].concat());
        EngineAddress(PeerAddress::Unix(path.or(name).unwrap_or_default()))
    }
}

/// The engine's datagram transport and its loop.
pub(in crate::net) struct Endpoint<U: DatagramSink<RustHost>> {
    core: Weak<Core>,
    transport: Datagram<RustHost, U>,
}

impl<U: DatagramSink<RustHost> + 'static> Source for Endpoint<U> {
    fn io_ready(self: Rc<Self>, core: &Core, readiness: Readiness) -> Result<(), Failure> {
        let this: Rc<dyn Source> = Rc::<Self>::clone(&self);
        self.transport.io_ready(Cx { engine: &core.engine, this: &this }, readiness)
    }

    fn run_deferred(self: Rc<Self>, core: &Core, deferred: DeferredCall) -> Result<(), Failure> {
        let this: Rc<dyn Source> = Rc::<Self>::clone(&self);
        self.transport.run_deferred(Cx { engine: &core.engine, this: &this }, deferred)
    }
}

impl<U: DatagramSink<RustHost> + 'static> Endpoint<U> {
    /// Wraps a non-blocking datagram socket. See [`Datagram::new`].
    pub(in crate::net) fn new(
        core: &Rc<Core>,
        socket: OwnedFd,
        overhead_bytes: usize,
        drops_when_lost: bool,
        sink: impl FnOnce(Weak<Self>) -> U,
    ) -> Rc<Self> {
        Rc::new_cyclic(|this| Endpoint {
            core: Rc::downgrade(core),
            transport: Datagram::new(socket, sink(Weak::clone(this)), overhead_bytes, drops_when_lost),
        })
    }

    pub(in crate::net) fn transport(&self) -> &Datagram<RustHost, U> {
        &self.transport
    }

    /// The loop, unless it is closed.
    pub(in crate::net) fn core(&self) -> Option<Rc<Core>> {
        self.core.upgrade().filter(|core| core.check_open().is_ok())
    }

    /// Runs `f` on the engine's transport, unless the loop is closed.
    pub(in crate::net) fn with<R>(
        self: &Rc<Self>,
        f: impl FnOnce(&Datagram<RustHost, U>, Cx<'_, RustHost>) -> R,
    ) -> Option<R> {
        let core = self.core()?;
        let this: Rc<dyn Source> = Rc::<Self>::clone(self);
        Some(f(&self.transport, Cx { engine: &core.engine, this: &this }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unix_addresses_round_trip() {
        let path = UnixAddress::from_pathname("/a/path").unwrap();
        let name = UnixAddress::from_abstract_name(b"a\0name").unwrap();
        let none = UnixAddress::from_pathname("").unwrap();
        assert_eq!(path.to_engine().0, PeerAddress::Unix(b"/a/path".to_vec()));
        assert_eq!(name.to_engine().0, PeerAddress::Unix(b"\0a\0name".to_vec()));
        assert_eq!(none.to_engine().0, PeerAddress::Unix(Vec::new()));
        for address in [path, name, none] {
            let converted = UnixAddress::from_engine(address.to_engine()).unwrap();
            assert_eq!(
                (converted.as_pathname(), converted.as_abstract_name()),
                (address.as_pathname(), address.as_abstract_name())
            );
        }
    }

    #[test]
    fn an_address_that_std_cannot_represent_is_unnamed() {
        let full = PeerAddress::Unix(vec![b'x'; 108]);
        assert!(UnixAddress::from_engine(EngineAddress(full)).unwrap().is_unnamed());
        assert!(UnixAddress::from_engine(EngineAddress(PeerAddress::Other)).unwrap().is_unnamed());
        assert!(std::net::SocketAddr::from_engine(EngineAddress(PeerAddress::Other)).is_err());
    }
}
