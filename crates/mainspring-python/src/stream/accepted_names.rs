//! The addresses of an accepted connection, for `get_extra_info()`.
//!
//! The kernel returns the peer's address with the connection. The connection's own address is the listener's, unless that
//! listens on a wildcard address. Python objects are created when they are asked for, which may be after the end of the
//! connection.

use crate::python::object::Obj;
use crate::transport::address::peer_name;
use mainspring_engine::poller::{PeerAddress, local_address};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::os::fd::AsFd;

/// See the module comment.
pub struct AcceptedNames {
    peer: PeerAddress,
    own: OwnName,
}

enum OwnName {
    /// The address of the listener.
    Listener(Obj),
    /// The address that the kernel returned for the connection.
    Connection(PeerAddress),
}

impl AcceptedNames {
    /// `listener` is the result of [`common_name`].
    pub fn new(connection: &impl AsFd, peer: PeerAddress, listener: Option<&Obj>) -> Self {
        let own = match listener {
            Some(name) => OwnName::Listener(name.clone()),
            None => OwnName::Connection(local_address(connection.as_fd())),
        };
        AcceptedNames { peer, own }
    }

    pub fn traverse(&self, visit: &mut dyn FnMut(&Obj)) {
        if let OwnName::Listener(name) = &self.own {
            visit(name);
        }
    }

    /// `(sockname, peername)`.
    pub fn names<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let own = match &self.own {
            OwnName::Listener(name) => name.bind(py),
            OwnName::Connection(address) => peer_name(py, address)?,
        };
        PyTuple::new(py, [own, peer_name(py, &self.peer)?])
    }
}

/// The own address of every connection that a listener accepts; `None` if the connections differ, because the listener
/// has a wildcard or link-local address.
pub fn common_name(listener: &Bound<'_, PyAny>) -> PyResult<Option<Obj>> {
    let name = listener.call_method0("getsockname")?;
    if let Ok(parts) = name.cast::<PyTuple>() {
        let Ok(host) = parts.get_item(0).and_then(|host| host.extract::<String>()) else { return Ok(None) };
        if host == "0.0.0.0" || host.starts_with("::") || host.starts_with("fe80") {
            return Ok(None);
        }
    }
    Ok(Some(name.into()))
}
