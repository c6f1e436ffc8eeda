//! Socket addresses: the engine's type and Python's tuples and strings.
//!
//! Only plain addresses are converted for the engine: numeric hosts, ports in range, paths that fit. Everything else
//! (host names, wrong types, numbers out of range) is left to the socket module, which then resolves it or raises its own
//! exception.

use crate::python::bytes::{decode_file_name, encode_file_name};
use crate::python::object::{Obj, is_same};
use mainspring_engine::poller::PeerAddress;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyInt, PyString, PyTuple};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

/// The length of `sun_path` without the terminating zero.
const MAX_PATH: usize = 107;
/// The largest flow information that the socket module accepts.
const MAX_FLOWINFO: u32 = 0xfffff;

/// An address as Python's `socket.accept()` and `recvfrom()` return it.
pub fn peer_name<'py>(py: Python<'py>, peer: &PeerAddress) -> PyResult<Bound<'py, PyAny>> {
    match peer {
        PeerAddress::Inet(SocketAddr::V4(address)) => {
            Ok((address.ip().to_string(), address.port()).into_pyobject(py)?.into_any())
        }
        PeerAddress::Inet(SocketAddr::V6(address)) => {
            let host = ipv6_text(address.ip());
            let name = (host, address.port(), address.flowinfo(), address.scope_id());
            Ok(name.into_pyobject(py)?.into_any())
        }
        // In Python, paths are strings and abstract names are bytes.
        PeerAddress::Unix(name) if name.first() == Some(&0) => Ok(PyBytes::new(py, name).into_any()),
        PeerAddress::Unix(path) => decode_file_name(py, path),
        PeerAddress::Other => Ok(py.None().into_bound(py)),
    }
}

/// The text of an IPv6 address as the C library writes it. Rust does not use the dotted form for IPv4-compatible
/// addresses.
fn ipv6_text(address: &Ipv6Addr) -> String {
    match address.octets() {
        [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, a, b, c, d] if (a, b) != (0, 0) => {
            format!("::{}", Ipv4Addr::new(a, b, c, d))
        }
        _ => address.to_string(),
    }
}

/// The address for a socket of this family; `None` if only the socket module can convert it.
pub fn parse(family: i32, address: &Bound<'_, PyAny>) -> Option<PeerAddress> {
    match family {
        libc::AF_INET => {
            let items = address.cast_exact::<PyTuple>().ok().filter(|items| items.len() == 2)?;
            let (host, port) = (items.get_borrowed_item(0).ok()?, items.get_borrowed_item(1).ok()?);
            let address = SocketAddrV4::new(text(&host)?.parse().ok()?, number(&port)?);
            Some(PeerAddress::Inet(address.into()))
        }
        libc::AF_INET6 => {
            let items = address.cast_exact::<PyTuple>().ok()?;
            let optional = |index| match items.get_borrowed_item(index) {
                Ok(item) => number::<u32>(&item),
                Err(_) => Some(0),
            };
            if !(2..=4).contains(&items.len()) {
                return None;
            }
            let (host, port) = (items.get_borrowed_item(0).ok()?, items.get_borrowed_item(1).ok()?);
            let flowinfo = optional(2).filter(|flowinfo| *flowinfo <= MAX_FLOWINFO)?;
            let address =
                SocketAddrV6::new(text(&host)?.parse().ok()?, number(&port)?, flowinfo, optional(3)?);
            Some(PeerAddress::Inet(address.into()))
        }
        libc::AF_UNIX => {
            let name = if let Ok(path) = address.cast_exact::<PyString>() {
                encode_file_name(path).ok()?
            } else {
                address.cast_exact::<PyBytes>().ok()?.clone()
            };
            let name = name.as_bytes();
            let is_path = !name.is_empty() && !name.contains(&0);
            let is_abstract = name.first() == Some(&0) && name.len() > 1;
            let fits = name.len() <= MAX_PATH;
            ((is_path || is_abstract) && fits).then(|| PeerAddress::Unix(name.to_vec()))
        }
        _ => None,
    }
}

/// The text of an exact string. A string with lone surrogates is not a host.
fn text<'a>(value: &'a Bound<'_, PyAny>) -> Option<&'a str> {
    value.cast_exact::<PyString>().ok()?.to_str().ok()
}

/// An exact `int` in range. The socket module handles objects with `__index__()`.
fn number<'py, T: TryFrom<u64>>(value: &Bound<'py, PyAny>) -> Option<T> {
    value.cast_exact::<PyInt>().ok()?.extract::<u64>().ok()?.try_into().ok()
}

/// A cache of peer addresses as Python objects: the next datagram of a peer needs no new object, and the address of a
/// reply is not converted back. The objects are tuples of strings and numbers, or strings. They cannot be part of a cycle,
/// and dropping one runs no Python code.
#[derive(Default)]
pub struct AddressCache {
    last: Option<Entry>,
    /// Allocated for the second peer.
    others: Vec<Option<Entry>>,
}

#[derive(Clone)]
struct Entry {
    address: PeerAddress,
    name: Obj,
}

/// The number of cached peers.
const CACHE_SIZE: usize = 64;

impl AddressCache {
    /// The Python object for an address, if it is cached.
    pub fn find(&mut self, address: &PeerAddress) -> Option<Obj> {
        if let Some(last) = &self.last
            && last.address == *address
        {
            return Some(last.name.clone());
        }
        let known = self.others.get(place(address)?)?.clone()?;
        if known.address != *address {
            return None;
        }
        let name = known.name.clone();
        self.last = Some(known);
        Some(name)
    }

    /// Adds a peer.
    pub fn insert(&mut self, address: PeerAddress, name: Obj) {
        let entry = Entry { address, name };
        if self.last.is_some()
            && let Some(place) = place(&entry.address)
        {
            if self.others.is_empty() {
                self.others.resize(CACHE_SIZE, None);
            }
            if let Some(place) = self.others.get_mut(place) {
                *place = Some(entry.clone());
            }
        }
        self.last = Some(entry);
    }

    /// The address of the last peer, if `name` is its object.
    pub fn address_of(&self, name: &Bound<'_, PyAny>) -> Option<&PeerAddress> {
        let last = self.last.as_ref()?;
        is_same(&last.name, name).then_some(&last.address)
    }
}

/// The index of a peer in the cache.
fn place(address: &PeerAddress) -> Option<usize> {
    let (host, port) = match address {
        PeerAddress::Inet(SocketAddr::V4(address)) => (u64::from(address.ip().to_bits()), address.port()),
        PeerAddress::Inet(SocketAddr::V6(address)) => (address.ip().to_bits() as u64, address.port()),
        PeerAddress::Unix(_) | PeerAddress::Other => return None,
    };
    // Fibonacci hashing: the upper bits of the product depend on all of the address.
    let mixed = (host << 16 ^ host >> 48 ^ u64::from(port)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    Some((mixed >> 32) as usize % CACHE_SIZE)
}
