//! Name lookup: turns hosts and ports into socket addresses without blocking the loop.
//!
//! Connecting and listening use this module. The system's resolver runs in the executor (`addrinfo.rs`), unless the
//! loop was [built](crate::Builder::resolver) with another [`Resolver`]. Numeric addresses need no lookup, and names of
//! the hosts file no thread.

mod address;
mod addrinfo;

pub use address::{Address, ToAddress};
pub use addrinfo::{AddrInfo, AddrInfoHints, NameInfoFlags};

use crate::event_loop::{Core, current_core};
use addrinfo::look_up;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::rc::Rc;

/// The family of an IP address.
///
/// ```
/// use mainspring::net::Family;
///
/// assert_eq!(Family::of(([127, 0, 0, 1], 80).into()), Family::V4);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Family {
    /// The family of an address.
    pub fn of(address: SocketAddr) -> Self {
        if address.is_ipv4() { Family::V4 } else { Family::V6 }
    }
}

/// The kind of socket that an address is for. Results may depend on it.
///
/// ```
/// use mainspring::net::{AddrInfoHints, SocketKind};
///
/// let hints = AddrInfoHints { kind: Some(SocketKind::Datagram), ..Default::default() };
/// assert_ne!(hints.kind, Some(SocketKind::Stream));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SocketKind {
    /// Stream sockets, such as TCP.
    Stream,
    /// Datagram sockets, such as UDP.
    Datagram,
}

/// The query that a [`Resolver`] receives.
///
/// ```
/// use mainspring::net::{Lookup, SocketKind, TcpListener};
/// use std::net::SocketAddr;
///
/// async fn local_only(lookup: Lookup) -> std::io::Result<Vec<SocketAddr>> {
///     assert_eq!((lookup.family, lookup.kind), (None, Some(SocketKind::Stream)));
///     match lookup.host.as_str() {
///         "here" => Ok(vec![([127, 0, 0, 1], lookup.port).into()]),
///         _ => Err(std::io::ErrorKind::NotFound.into()),
///     }
/// }
///
/// let event_loop = mainspring::Builder::new().resolver(local_only).build()?;
/// event_loop.run_until_complete(async {
///     assert!(TcpListener::bind("here:0").await.is_ok());
///     assert_eq!(TcpListener::bind("there:0").await.unwrap_err().kind(), std::io::ErrorKind::NotFound);
/// })?;
/// # Ok::<(), mainspring::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Lookup {
    /// The host name. Never a numeric address.
    pub host: String,
    /// The port for the results.
    pub port: u16,
    /// The wanted family, if any. Results of another family are dropped.
    pub family: Option<Family>,
    /// The kind of socket that the results are for.
    pub kind: Option<SocketKind>,
}

/// The future that a [`Resolver`] returns. It need not be `Send`.
///
/// ```
/// use mainspring::net::{Lookup, Resolver, Resolving, lookup_host};
/// use std::collections::HashMap;
/// use std::net::IpAddr;
///
/// struct Table(HashMap<String, IpAddr>);
///
/// impl Resolver for Table {
///     fn look_up(&self, lookup: Lookup) -> Resolving {
///         let found = self.0.get(&lookup.host).map(|ip| (*ip, lookup.port).into());
///         Box::pin(async move { Ok(found.into_iter().collect()) })
///     }
/// }
///
/// let table = Table([("db".to_owned(), IpAddr::from([127, 0, 0, 1]))].into());
/// let event_loop = mainspring::Builder::new().resolver(table).build()?;
/// let found = event_loop.run_until_complete(lookup_host("db:5432"))?;
/// assert_eq!(found?, ["127.0.0.1:5432".parse().unwrap()]);
/// # Ok::<(), mainspring::Error>(())
/// ```
pub type Resolving = Pin<Box<dyn Future<Output = io::Result<Vec<SocketAddr>>>>>;

/// Replaces the system's resolver. Set with [`Builder::resolver`](crate::Builder::resolver).
///
/// `look_up` is called on the loop's thread and must not block; the future may await anything. Dropping the future
/// cancels the lookup. An error or an empty result fails the operation that needed the name.
///
/// Every async function of a [`Lookup`] is a resolver:
///
/// ```
/// use mainspring::net::{Lookup, lookup_host};
/// use std::net::SocketAddr;
///
/// async fn resolve_to_localhost(lookup: Lookup) -> std::io::Result<Vec<SocketAddr>> {
///     Ok(vec![([127, 0, 0, 1], lookup.port).into()])
/// }
///
/// let event_loop = mainspring::Builder::new().resolver(resolve_to_localhost).build()?;
/// let found = event_loop.run_until_complete(lookup_host("example.invalid:80"))?;
/// assert_eq!(found.unwrap(), ["127.0.0.1:80".parse().unwrap()]);
/// # Ok::<(), mainspring::Error>(())
/// ```
pub trait Resolver {
    /// Starts a lookup.
    fn look_up(&self, lookup: Lookup) -> Resolving;
}

impl<R, F> Resolver for R
where
    R: Fn(Lookup) -> F,
    F: Future<Output = io::Result<Vec<SocketAddr>>> + 'static,
{
    fn look_up(&self, lookup: Lookup) -> Resolving {
        Box::pin(self(lookup))
    }
}

/// Looks up the socket addresses of a host and port, such as `"localhost:80"` or `("localhost", 80)`, in the order in
/// which to try them.
///
/// Uses the [`Resolver`] of the loop, or else the system's resolver: in the executor, or at once for a name in the hosts
/// file. Numeric addresses need no resolver. `InvalidInput` if the value is not an address.
///
/// Cancel safety: dropping the future cancels the lookup. A lookup that has started runs to its end in its thread;
/// the result is discarded.
///
/// ```
/// # mainspring::run(async {
/// use mainspring::net::lookup_host;
///
/// let found = lookup_host(("localhost", 80)).await?;
/// assert!(found.iter().all(|address| address.ip().is_loopback() && address.port() == 80));
/// assert_eq!(lookup_host("[::1]:80").await?, ["[::1]:80".parse().unwrap()]);
/// # Ok::<(), std::io::Error>(())
/// # })??;
/// # Ok::<(), mainspring::Error>(())
/// ```
pub async fn lookup_host(address: impl ToAddress) -> io::Result<Vec<SocketAddr>> {
    let core = current_core()?;
    resolve(&core, address.to_address()?).await
}

/// Restrictions on the results.
#[derive(Clone, Copy, Default)]
pub(in crate::net) struct Hints {
    pub(in crate::net) family: Option<Family>,
    pub(in crate::net) kind: Option<SocketKind>,
}

/// The socket addresses of `address` for stream sockets. Never empty.
pub(in crate::net) async fn resolve(core: &Core, address: Address) -> io::Result<Vec<SocketAddr>> {
    resolve_with(core, address, Hints { family: None, kind: Some(SocketKind::Stream) }).await
}

/// The socket addresses of `address` that match `hints`. Never empty.
pub(in crate::net) async fn resolve_with(
    core: &Core,
    address: Address,
    hints: Hints,
) -> io::Result<Vec<SocketAddr>> {
    let Hints { family, kind } = hints;
    let mut found = match address {
        Address::Sockets(known) => known,
        Address::Host(host, port) => match parse_ip(&host, port) {
            Some(address) => vec![address],
            None => resolve_host(core, Lookup { host, port, family, kind }).await?,
        },
    };
    if let Some(family) = family {
        found.retain(|address| Family::of(*address) == family);
    }
    if found.is_empty() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "no usable address: the list is empty, or has none of the requested family",
        ));
    }
    Ok(found)
}

async fn resolve_host(core: &Core, lookup: Lookup) -> io::Result<Vec<SocketAddr>> {
    core.check_open()?;
    let resolver = core.resolver.get().map(Rc::clone);
    if let Some(resolver) = resolver {
        return resolver.look_up(lookup).await;
    }
    if core.engine.host().refuses_real_io() {
        let host = &lookup.host;
        let text = format!("real I/O is refused, but the program looks up {host:?}: set Builder::resolver");
        return Err(io::Error::new(io::ErrorKind::Unsupported, text));
    }
    let hints = AddrInfoHints { family: lookup.family, kind: lookup.kind, ..AddrInfoHints::default() };
    let mut addresses = Vec::new();
    for info in look_up(core, Some(&lookup.host), None, hints).await? {
        let mut address = info.address;
        address.set_port(lookup.port);
        // Without a kind, the system returns each address once per kind.
        if !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    Ok(addresses)
}

/// Parses a numeric host, which needs no lookup.
fn parse_ip(host: &str, port: u16) -> Option<SocketAddr> {
    let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
    bare.parse::<IpAddr>().ok().map(|ip| SocketAddr::new(ip, port))
}
