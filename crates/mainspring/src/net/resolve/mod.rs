//! Name lookup: from hosts and ports to socket addresses, never on the loop's thread.
//!
//! Everything that connects or listens looks names up here. The system's resolver is asked in the executor
//! (`addrinfo.rs`), unless the loop was [built](crate::Builder::resolver) with a [`Resolver`] of the program's own; what is an
//! address already is not looked up at all.

mod address;
mod addrinfo;

pub use address::{Address, ToAddress};
pub use addrinfo::{AddrInfo, AddrInfoHints, NameInfoFlags};

use crate::current_core::current_core;
use crate::event_loop::{Core, run_in_executor};
use addrinfo::getaddrinfo_blocking;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::rc::Rc;

/// A family of Internet addresses.
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

/// What an address is to be used for. A resolver may have different answers.
///
/// ```
/// use mainspring::net::{AddrInfoHints, SocketKind};
///
/// let hints = AddrInfoHints { kind: Some(SocketKind::Datagram), ..Default::default() };
/// assert_ne!(hints.kind, Some(SocketKind::Stream));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SocketKind {
    /// For connections, as TCP's.
    Stream,
    /// For datagrams, as UDP's.
    Datagram,
}

/// A name to be looked up, as a [`Resolver`] is asked. See there.
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
    /// The host's name; never an address.
    pub host: String,
    /// The port that the addresses are to have.
    pub port: u16,
    /// Only addresses of this family are of use, if there is one. Others are left out of the answer.
    pub family: Option<Family>,
    /// What the addresses are for.
    pub kind: Option<SocketKind>,
}

/// What a [`Resolver`] gives: a future that stays on the loop (it need not be `Send`).
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

/// Looks names up in place of the system. Given to the loop by [`Builder::resolver`](crate::Builder::resolver).
///
/// It is called on the loop's thread and must not block there; its future may await anything of the loop. Dropping the future
/// gives the lookup up. An error, or no address, fails what needed the name.
///
/// An asynchronous function of a [`Lookup`] is one:
///
/// ```
/// use mainspring::net::{Lookup, lookup_host};
/// use std::net::SocketAddr;
///
/// async fn everything_is_here(lookup: Lookup) -> std::io::Result<Vec<SocketAddr>> {
///     Ok(vec![([127, 0, 0, 1], lookup.port).into()])
/// }
///
/// let event_loop = mainspring::Builder::new().resolver(everything_is_here).build()?;
/// let found = event_loop.run_until_complete(lookup_host("example.invalid:80"))?;
/// assert_eq!(found.unwrap(), ["127.0.0.1:80".parse().unwrap()]);
/// # Ok::<(), mainspring::Error>(())
/// ```
pub trait Resolver {
    /// Begins to look up `lookup`.
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

/// The socket addresses of a host and port, in the order to be tried: `"localhost:80"`, `("localhost", 80)`.
///
/// Looked up with the loop's [`Resolver`], else by the system in a thread of the executor. What is an address already comes
/// back at once. `InvalidInput` for what names no host.
///
/// Cancel safety: dropping this future gives the lookup up. A thread that has begun one finishes it, for nobody.
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

/// What kind of addresses are of use.
#[derive(Clone, Copy, Default)]
pub(in crate::net) struct Hints {
    pub(in crate::net) family: Option<Family>,
    pub(in crate::net) kind: Option<SocketKind>,
}

/// The socket addresses of `address`, at least one, for connections.
pub(in crate::net) async fn resolve(core: &Core, address: Address) -> io::Result<Vec<SocketAddr>> {
    resolve_with(core, address, Hints { family: None, kind: Some(SocketKind::Stream) }).await
}

/// The socket addresses of `address`, at least one, as `hints` say.
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
            None => look_up_host(core, Lookup { host, port, family, kind }).await?,
        },
    };
    if let Some(family) = family {
        found.retain(|address| Family::of(*address) == family);
    }
    if found.is_empty() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "no address to use"));
    }
    Ok(found)
}

async fn look_up_host(core: &Core, lookup: Lookup) -> io::Result<Vec<SocketAddr>> {
    core.check_open()?;
    let resolver = core.resolver.get().map(Rc::clone);
    if let Some(resolver) = resolver {
        return resolver.look_up(lookup).await;
    }
    let lookup = run_in_executor(core, move || {
        let hints = AddrInfoHints { family: lookup.family, kind: lookup.kind, ..AddrInfoHints::default() };
        let mut addresses = Vec::new();
        for info in getaddrinfo_blocking(Some(&lookup.host), None, hints)? {
            let mut address = info.address;
            address.set_port(lookup.port);
            // Without a kind each address comes once per kind.
            if !addresses.contains(&address) {
                addresses.push(address);
            }
        }
        Ok(addresses)
    })?;
    lookup.await.map_err(io::Error::other)?
}

/// What needs no lookup.
fn parse_ip(host: &str, port: u16) -> Option<SocketAddr> {
    let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
    bare.parse::<IpAddr>().ok().map(|ip| SocketAddr::new(ip, port))
}
