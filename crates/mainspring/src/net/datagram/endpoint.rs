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

/// Converts between an address and the engine's representation. It is public in a private module, which seals
/// [`DatagramAddress`].
pub trait SealedAddress: Sized {
    /// Converts from the engine's representation.
    fn from_peer(peer: PeerAddress) -> io::Result<Self>;

    /// Converts to the engine's representation.
    fn to_peer(&self) -> PeerAddress;
}

impl SealedAddress for std::net::SocketAddr {
    fn from_peer(peer: PeerAddress) -> io::Result<Self> {
        match peer {
            PeerAddress::Inet(address) => Ok(address),
            other => Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("expected an IP address, got {other:?}"),
            )),
        }
    }

    fn to_peer(&self) -> PeerAddress {
        PeerAddress::Inet(*self)
    }
}

impl SealedAddress for UnixAddress {
    fn from_peer(peer: PeerAddress) -> io::Result<Self> {
        // The kernel accepts a path of 108 bytes without a final zero; std does not. Such a peer is shown as unnamed.
        match to_std(&peer) {
            Some(named) => Ok(named),
            None => UnixAddress::from_pathname(""),
        }
    }

    fn to_peer(&self) -> PeerAddress {
        let path = self.as_pathname().map(Path::as_os_str).map(|path| path.as_bytes().to_vec());
        let name = self.as_abstract_name().map(|name| [&[0], name].concat());
        PeerAddress::Unix(path.or(name).unwrap_or_default())
    }
}

/// The engine's datagram transport and its loop.
pub(in crate::net) struct Endpoint<U: DatagramSink<RustHost>> {
    core: Weak<Core>,
    machine: Datagram<RustHost, U>,
}

impl<U: DatagramSink<RustHost> + 'static> Source for Endpoint<U> {
    fn io_ready(self: Rc<Self>, core: &Core, readiness: Readiness) -> Result<(), Failure> {
        let this: Rc<dyn Source> = Rc::<Self>::clone(&self);
        self.machine.io_ready(Cx { engine: &core.engine, this: &this }, readiness)
    }

    fn run_deferred(self: Rc<Self>, core: &Core, notice: DeferredCall) -> Result<(), Failure> {
        let this: Rc<dyn Source> = Rc::<Self>::clone(&self);
        self.machine.run_deferred(Cx { engine: &core.engine, this: &this }, notice)
    }
}

impl<U: DatagramSink<RustHost> + 'static> Endpoint<U> {
    /// Wraps a non-blocking datagram socket. See [`Datagram::new`].
    pub(in crate::net) fn new(
        core: &Rc<Core>,
        socket: OwnedFd,
        header: usize,
        drops_when_lost: bool,
        sink: impl FnOnce(Weak<Self>) -> U,
    ) -> Rc<Self> {
        Rc::new_cyclic(|this| Endpoint {
            core: Rc::downgrade(core),
            machine: Datagram::new(socket, sink(Weak::clone(this)), header, drops_when_lost),
        })
    }

    pub(in crate::net) fn machine(&self) -> &Datagram<RustHost, U> {
        &self.machine
    }

    /// The loop, unless it is closed.
    pub(in crate::net) fn core(&self) -> Option<Rc<Core>> {
        self.core.upgrade().filter(|core| core.check_open().is_ok())
    }

    /// Runs `work` on the engine's transport, unless the loop is closed.
    pub(in crate::net) fn with<R>(
        self: &Rc<Self>,
        work: impl FnOnce(&Datagram<RustHost, U>, Cx<'_, RustHost>) -> R,
    ) -> Option<R> {
        let core = self.core()?;
        let this: Rc<dyn Source> = Rc::<Self>::clone(self);
        Some(work(&self.machine, Cx { engine: &core.engine, this: &this }))
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
        assert_eq!(path.to_peer(), PeerAddress::Unix(b"/a/path".to_vec()));
        assert_eq!(name.to_peer(), PeerAddress::Unix(b"\0a\0name".to_vec()));
        assert_eq!(none.to_peer(), PeerAddress::Unix(Vec::new()));
        for address in [path, name, none] {
            let again = UnixAddress::from_peer(address.to_peer()).unwrap();
            assert_eq!(
                (again.as_pathname(), again.as_abstract_name()),
                (address.as_pathname(), address.as_abstract_name())
            );
        }
    }

    #[test]
    fn an_address_that_std_cannot_represent_is_unnamed() {
        let full = PeerAddress::Unix(vec![b'x'; 108]);
        assert!(UnixAddress::from_peer(full).unwrap().is_unnamed());
        assert!(UnixAddress::from_peer(PeerAddress::Other).unwrap().is_unnamed());
        assert!(std::net::SocketAddr::from_peer(PeerAddress::Other).is_err());
    }
}
