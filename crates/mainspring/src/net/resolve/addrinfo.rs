//! `getaddrinfo` and `getnameinfo`, run in the executor unless they cannot block.

use super::{Family, SocketKind};
use crate::event_loop::{Core, EventLoop, run_in_executor};
use mainspring_engine::name_lookup::Query;
use std::io;
use std::net::SocketAddr;

/// Hints for [`EventLoop::getaddrinfo`]. The default has no restriction.
///
/// ```
/// use mainspring::net::{AddrInfoHints, Family};
///
/// let hints = AddrInfoHints { family: Some(Family::V4), passive: true, ..AddrInfoHints::default() };
/// assert_eq!(hints.kind, None);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AddrInfoHints {
    /// Only addresses of this family.
    pub family: Option<Family>,
    /// Only addresses for this kind of socket.
    pub kind: Option<SocketKind>,
    /// Only this protocol number; 0 for any.
    pub protocol: i32,
    /// Without a host, return the address to listen on instead of the loopback address (`AI_PASSIVE`).
    pub passive: bool,
    /// Return the canonical name of the host with the first address (`AI_CANONNAME`).
    pub canonical_name: bool,
    /// The host is a numeric address; no lookup (`AI_NUMERICHOST`).
    pub numeric_host: bool,
    /// The service is a port number (`AI_NUMERICSERV`).
    pub numeric_service: bool,
    /// Only families for which this machine has an address (`AI_ADDRCONFIG`).
    pub address_configured: bool,
}

/// One result of [`EventLoop::getaddrinfo`].
///
/// ```
/// use mainspring::EventLoop;
/// use mainspring::net::{AddrInfo, AddrInfoHints, SocketKind};
///
/// # mainspring::run(async {
/// let hints = AddrInfoHints {
///     kind: Some(SocketKind::Stream),
///     numeric_host: true,
///     canonical_name: true,
///     ..AddrInfoHints::default()
/// };
/// let found = EventLoop::current().getaddrinfo(Some("127.0.0.1"), Some("80"), hints).await?;
/// let AddrInfo { address, protocol, canonical_name, .. } = &found[0];
/// assert_eq!((address.port(), *protocol, canonical_name.as_deref()), (80, 6, Some("127.0.0.1")));
/// # std::io::Result::Ok(())
/// # })??;
/// # Ok::<(), mainspring::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AddrInfo {
    /// The address, with the port of the service.
    pub address: SocketAddr,
    /// The kind of socket. `None` for a kind that this crate does not support.
    pub kind: Option<SocketKind>,
    /// The protocol number.
    pub protocol: i32,
    /// The canonical name of the host, if it was requested.
    pub canonical_name: Option<String>,
}

/// Flags of [`EventLoop::getnameinfo`].
///
/// ```
/// use mainspring::net::NameInfoFlags;
///
/// assert!(!NameInfoFlags::default().numeric_host);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NameInfoFlags {
    /// Return the host as a numeric address (`NI_NUMERICHOST`).
    pub numeric_host: bool,
    /// Return the service as a port number (`NI_NUMERICSERV`).
    pub numeric_service: bool,
    /// Fail if the address has no name (`NI_NAMEREQD`).
    pub name_required: bool,
    /// Look up the service for datagrams (`NI_DGRAM`).
    pub datagram: bool,
    /// Return only the host part of names in the local domain (`NI_NOFQDN`).
    pub no_domain: bool,
}

impl EventLoop {
    /// The system's `getaddrinfo`: the addresses of a host, a service, or both. Runs in the executor, unless it cannot
    /// block: for a numeric address, and for a name in the hosts file. It always uses the system's resolver;
    /// [`lookup_host`](crate::net::lookup_host) uses the [`Resolver`](crate::net::Resolver) of the loop.
    ///
    /// Cancel safety: dropping the future cancels the lookup. A lookup that has started runs to its end in its
    /// thread; the result is discarded.
    ///
    /// ```
    /// # mainspring::run(async {
    /// use mainspring::EventLoop;
    /// use mainspring::net::{AddrInfoHints, Family, SocketKind};
    ///
    /// let hints = AddrInfoHints {
    ///     family: Some(Family::V4),
    ///     kind: Some(SocketKind::Datagram),
    ///     ..AddrInfoHints::default()
    /// };
    /// let found = EventLoop::current().getaddrinfo(Some("127.0.0.1"), Some("53"), hints).await?;
    /// assert_eq!(found[0].address, "127.0.0.1:53".parse().unwrap());
    /// assert_eq!(found[0].kind, Some(SocketKind::Datagram));
    /// # Ok::<(), std::io::Error>(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub async fn getaddrinfo(
        &self,
        host: Option<&str>,
        service: Option<&str>,
        hints: AddrInfoHints,
    ) -> io::Result<Vec<AddrInfo>> {
        self.core().check_open()?;
        look_up(self.core(), host, service, hints).await
    }

    /// The system's `getnameinfo`, run in the executor: the names of a host and a service.
    ///
    /// Cancel safety: as [`EventLoop::getaddrinfo`].
    ///
    /// ```
    /// # mainspring::run(async {
    /// use mainspring::EventLoop;
    /// use mainspring::net::NameInfoFlags;
    ///
    /// let numbers = NameInfoFlags { numeric_host: true, numeric_service: true, ..NameInfoFlags::default() };
    /// let address = "127.0.0.1:80".parse().unwrap();
    /// let (host, service) = EventLoop::current().getnameinfo(address, numbers).await?;
    /// assert_eq!((host.as_str(), service.as_str()), ("127.0.0.1", "80"));
    /// # Ok::<(), std::io::Error>(())
    /// # })??;
    /// # Ok::<(), mainspring::Error>(())
    /// ```
    pub async fn getnameinfo(
        &self,
        address: SocketAddr,
        flags: NameInfoFlags,
    ) -> io::Result<(String, String)> {
        let flags = flag_bits(&[
            (flags.numeric_host, libc::NI_NUMERICHOST),
            (flags.numeric_service, libc::NI_NUMERICSERV),
            (flags.name_required, libc::NI_NAMEREQD),
            (flags.datagram, libc::NI_DGRAM),
            (flags.no_domain, libc::NI_NOFQDN),
        ]);
        let lookup = run_in_executor(self.core(), move || dns_lookup::getnameinfo(&address, flags))?;
        Ok(lookup.await.map_err(io::Error::other)??)
    }
}

impl AddrInfoHints {
    fn to_system(self) -> dns_lookup::AddrInfoHints {
        dns_lookup::AddrInfoHints {
            flags: flag_bits(&[
                (self.passive, libc::AI_PASSIVE),
                (self.canonical_name, libc::AI_CANONNAME),
                (self.numeric_host, libc::AI_NUMERICHOST),
                (self.numeric_service, libc::AI_NUMERICSERV),
                (self.address_configured, libc::AI_ADDRCONFIG),
            ]),
            address: match self.family {
                None => libc::AF_UNSPEC,
                Some(Family::V4) => libc::AF_INET,
                Some(Family::V6) => libc::AF_INET6,
            },
            socktype: match self.kind {
                None => 0,
                Some(SocketKind::Stream) => libc::SOCK_STREAM,
                Some(SocketKind::Datagram) => libc::SOCK_DGRAM,
            },
            protocol: self.protocol,
        }
    }
}

/// Calls the system's `getaddrinfo`: on this thread if it cannot block, else in the executor.
pub(in crate::net) async fn look_up(
    core: &Core,
    host: Option<&str>,
    service: Option<&str>,
    hints: AddrInfoHints,
) -> io::Result<Vec<AddrInfo>> {
    let hints = hints.to_system();
    let query = Query {
        host: host.map(str::as_bytes),
        service: service.map(str::as_bytes),
        family: hints.address,
        flags: hints.flags,
    };
    if !core.lookup_rules.borrow_mut().can_block(&query) {
        return getaddrinfo(host, service, hints);
    }
    let (host, service) = (host.map(str::to_owned), service.map(str::to_owned));
    let lookup = run_in_executor(core, move || getaddrinfo(host.as_deref(), service.as_deref(), hints))?;
    lookup.await.map_err(io::Error::other)?
}

/// Calls the system. Results that are neither IPv4 nor IPv6 are skipped.
fn getaddrinfo(
    host: Option<&str>,
    service: Option<&str>,
    hints: dns_lookup::AddrInfoHints,
) -> io::Result<Vec<AddrInfo>> {
    let found = dns_lookup::getaddrinfo(host, service, Some(hints))?;
    let known = found.filter_map(Result::ok).map(|info| AddrInfo {
        address: info.sockaddr,
        kind: match info.socktype {
            libc::SOCK_STREAM => Some(SocketKind::Stream),
            libc::SOCK_DGRAM => Some(SocketKind::Datagram),
            _ => None,
        },
        protocol: info.protocol,
        canonical_name: info.canonname,
    });
    Ok(known.collect())
}

fn flag_bits(flags: &[(bool, i32)]) -> i32 {
    flags.iter().filter(|(is_set, _)| *is_set).fold(0, |bits, (_, bit)| bits | bit)
}
