//! The names of an accepted connection. The kernel tells the peer's when it hands the connection over, and the
//! connection's own is its listener's, unless that listens everywhere; Python's tuples are made of them when asked for,
//! also after the end.

use crate::python::object::Obj;
use crate::transport::address::peer_name;
use mainspring_engine::poller::{PeerAddress, local_address};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::os::fd::AsFd;

/// Both ends of an accepted connection.
pub struct Accepted {
    peer: PeerAddress,
    own: OwnName,
}

enum OwnName {
    Listener(Obj),
    Told(PeerAddress),
}

impl Accepted {
    /// `listener` is the listener's name where that is the connection's too ([`name_of_connections`]).
    pub fn new(connection: &impl AsFd, peer: PeerAddress, listener: Option<&Obj>) -> Self {
        let own = match listener {
            Some(name) => OwnName::Listener(name.clone()),
            None => OwnName::Told(local_address(connection.as_fd())),
        };
        Accepted { peer, own }
    }

    /// Shows what is held to the garbage collector.
    pub fn for_each_held(&self, show: &mut dyn FnMut(*mut ffi::PyObject)) {
        if let OwnName::Listener(name) = &self.own {
            show(name.as_ptr());
        }
    }

    /// `(sockname, peername)`.
    pub fn names<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let own = match &self.own {
            OwnName::Listener(name) => name.bind(py),
            OwnName::Told(address) => peer_name(py, address)?,
        };
        PyTuple::new(py, [own, peer_name(py, &self.peer)?])
    }
}

/// The name that every connection a listener accepts will have; `None` if it depends on the connection: on a listener
/// for all addresses of the machine, and for those that belong to one link.
pub fn name_of_connections(listener: &Bound<'_, PyAny>) -> PyResult<Option<Obj>> {
    let name = listener.call_method0("getsockname")?;
    if let Ok(parts) = name.cast::<PyTuple>() {
        let Ok(host) = parts.get_item(0).and_then(|host| host.extract::<String>()) else { return Ok(None) };
        if host == "0.0.0.0" || host.starts_with("::") || host.starts_with("fe80") {
            return Ok(None);
        }
    }
    Ok(Some(name.into()))
}
