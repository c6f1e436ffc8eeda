//! Socket addresses between the engine's words and Python's.
//!
//! Only what is an address without a doubt is translated towards the engine: numeric hosts, ports in range, paths that
//! fit. Everything else (names to look up, wrong types, numbers out of range) is left to the socket module, so that what
//! it does and raises is what Python does and raises.

use crate::python::object::Obj;
use mainspring_engine::poller::PeerAddress;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyInt, PyString, PyTuple};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

/// The longest path: `sun_path` without the zero at its end.
const LONGEST_PATH: usize = 107;
/// The longest flow information that the socket module takes.
const LARGEST_FLOWINFO: u32 = 0xfffff;

/// An address as Python's `socket.accept()` and `recvfrom()` tell it.
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
        // Paths are strings to Python, abstract names are bytes.
        PeerAddress::Unix(name) if name.first() == Some(&0) => Ok(PyBytes::new(py, name).into_any()),
        PeerAddress::Unix(path) => {
            let (start, length) = (path.as_ptr().cast(), path.len() as ffi::Py_ssize_t);
            // SAFETY: reads `length` bytes from the start of the path, and makes a new object.
            let text = unsafe { ffi::PyUnicode_DecodeFSDefaultAndSize(start, length) };
            // SAFETY: a new reference, or null and an exception.
            unsafe { Bound::from_owned_ptr_or_err(py, text) }
        }
        PeerAddress::Other => Ok(py.None().into_bound(py)),
    }
}

/// The text of an IPv6 address as the C library writes it: Rust has dropped the dotted form of the addresses that
/// are an IPv4 address behind zeros.
fn ipv6_text(address: &Ipv6Addr) -> String {
    match address.octets() {
        [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, a, b, c, d] if (a, b) != (0, 0) => {
            format!("::{}", Ipv4Addr::new(a, b, c, d))
        }
        _ => address.to_string(),
    }
}

/// What a user gave as an address for a socket of this family; `None` if it takes the socket module to tell.
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
            let flowinfo = optional(2).filter(|flowinfo| *flowinfo <= LARGEST_FLOWINFO)?;
            let address =
                SocketAddrV6::new(text(&host)?.parse().ok()?, number(&port)?, flowinfo, optional(3)?);
            Some(PeerAddress::Inet(address.into()))
        }
        libc::AF_UNIX => {
            let name = if let Ok(path) = address.cast_exact::<PyString>() {
                // SAFETY: a live string; a new reference, or null and an exception, which is taken back.
                let bytes = unsafe {
                    Bound::from_owned_ptr_or_err(address.py(), ffi::PyUnicode_EncodeFSDefault(path.as_ptr()))
                };
                bytes.ok()?.cast_into::<PyBytes>().ok()?
            } else {
                address.cast_exact::<PyBytes>().ok()?.clone()
            };
            let name = name.as_bytes();
            let is_path = !name.is_empty() && !name.contains(&0);
            let is_abstract = name.first() == Some(&0) && name.len() > 1;
            let fits = name.len() <= LONGEST_PATH;
            ((is_path || is_abstract) && fits).then(|| PeerAddress::Unix(name.to_vec()))
        }
        _ => None,
    }
}

/// The text of an exact string. (One with lone surrogates is no host.)
fn text<'a>(value: &'a Bound<'_, PyAny>) -> Option<&'a str> {
    value.cast_exact::<PyString>().ok()?.to_str().ok()
}

/// An exact number in range. What runs a user's `__index__` is for the socket module.
fn number<'py, T: TryFrom<u64>>(value: &Bound<'py, PyAny>) -> Option<T> {
    value.cast_exact::<PyInt>().ok()?.extract::<u64>().ok()?.try_into().ok()
}

/// Addresses of peers as Python objects, so that the next datagram of a peer costs none, and an answer to it is not
/// translated back. The objects are tuples of strings and numbers, or strings: they can be part of no cycle, and
/// dropping one runs no code of anybody's.
#[derive(Default)]
pub struct AddressBook {
    last: Option<Entry>,
    /// Made when there is a second peer.
    others: Vec<Option<Entry>>,
}

#[derive(Clone)]
struct Entry {
    address: PeerAddress,
    name: Obj,
}

/// How many peers are remembered.
const BOOK_SIZE: usize = 64;

impl AddressBook {
    /// The name of a peer, if it is known.
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

    /// Remembers a peer.
    pub fn remember(&mut self, address: PeerAddress, name: Obj) {
        let entry = Entry { address, name };
        if self.last.is_some()
            && let Some(place) = place(&entry.address)
        {
            if self.others.is_empty() {
                self.others.resize(BOOK_SIZE, None);
            }
            if let Some(place) = self.others.get_mut(place) {
                *place = Some(entry.clone());
            }
        }
        self.last = Some(entry);
    }

    /// The address behind the name of the last peer, if this is that object.
    pub fn address_of(&self, name: &Bound<'_, PyAny>) -> Option<&PeerAddress> {
        let last = self.last.as_ref()?;
        (last.name.as_ptr() == name.as_ptr()).then_some(&last.address)
    }
}

/// Where a peer stands among the others.
fn place(address: &PeerAddress) -> Option<usize> {
    let (host, port) = match address {
        PeerAddress::Inet(SocketAddr::V4(address)) => (u64::from(address.ip().to_bits()), address.port()),
        PeerAddress::Inet(SocketAddr::V6(address)) => (address.ip().to_bits() as u64, address.port()),
        PeerAddress::Unix(_) | PeerAddress::Other => return None,
    };
    // Fibonacci hashing: the upper bits of the product depend on all of the address.
    let mixed = (host << 16 ^ host >> 48 ^ u64::from(port)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    Some((mixed >> 32) as usize % BOOK_SIZE)
}
