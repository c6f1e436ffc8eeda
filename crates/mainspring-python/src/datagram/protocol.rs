//! A Python protocol object, as the engine's datagram transport sees it, and the addresses it speaks of.

use crate::event_loop::host::PyHost;
use crate::names::{Names, names};
use crate::python::object::Obj;
use crate::transport::address::{self, AddressBook};
use crate::transport::channel::bytes_object;
use crate::transport::protocol::PyUpper;
use mainspring_engine::poller::PeerAddress;
use mainspring_engine::transport::{Cx, DatagramUpper, Destination, MAX_DATAGRAM, Received, Refusal, Upper};
use pyo3::exceptions::{PyBlockingIOError, PyInterruptedError, PyOSError, PyRuntimeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};
use std::cell::RefCell;

/// A protocol, and what belongs to its endpoint.
pub struct PyDatagramUpper {
    names: &'static Names,
    protocol: PyUpper,
    /// Asked for what only it can do; gone with the endpoint.
    socket: RefCell<Option<Obj>>,
    family: i32,
    addresses: RefCell<AddressBook>,
    /// asyncio's `_address`: the only address that may be sent to.
    remote: Option<Remote>,
    /// Whether every datagram goes to the peer of the socket, whatever address is given: asyncio's rule for sockets
    /// that have a peer with a name.
    has_named_peer: bool,
    /// Whether the socket has a peer at all, with a name or not.
    has_peer: bool,
    sends_empty: bool,
}

struct Remote {
    name: Obj,
    destination: Destination<Obj>,
}

fn attached<'py>() -> Python<'py> {
    // SAFETY: the engine runs only on threads that are attached.
    unsafe { Python::assume_attached() }
}

impl PyDatagramUpper {
    /// `address` is asyncio's `_address`, `peername` the name of the socket's peer; both may be `None`.
    pub fn new(
        socket: &Bound<'_, PyAny>,
        protocol: &Bound<'_, PyAny>,
        address: &Bound<'_, PyAny>,
        peername: &Bound<'_, PyAny>,
        sends_empty: bool,
    ) -> PyResult<Self> {
        let py = socket.py();
        let upper = PyUpper::new(py, None)?;
        upper.set_protocol(protocol)?;
        let family: i32 = socket.getattr("family")?.extract()?;
        let has_named_peer = peername.is_truthy()?;
        let remote = address.is_truthy()?.then(|| Remote {
            name: address.clone().into(),
            destination: match address::parse(family, address) {
                _ if has_named_peer => Destination::Connected,
                Some(parsed) => Destination::Address(parsed),
                None => Destination::Foreign(address.clone().into()),
            },
        });
        Ok(PyDatagramUpper {
            names: names(py)?,
            protocol: upper,
            socket: RefCell::new(Some(socket.clone().into())),
            family,
            addresses: RefCell::default(),
            remote,
            has_named_peer,
            has_peer: !peername.is_none(),
            sends_empty,
        })
    }

    pub fn protocol(&self) -> &PyUpper {
        &self.protocol
    }

    pub fn socket(&self) -> Option<Obj> {
        self.socket.borrow().clone()
    }

    /// Whether an empty datagram is one.
    pub fn sends_empty(&self) -> bool {
        self.sends_empty
    }

    /// Shows what is held to the garbage collector.
    pub fn for_each_own(&self, show: &mut dyn FnMut(*mut ffi::PyObject)) {
        if let Ok(socket) = self.socket.try_borrow()
            && let Some(socket) = &*socket
        {
            show(socket.as_ptr());
        }
        if let Some(Remote { name, destination }) = &self.remote {
            show(name.as_ptr());
            if let Destination::Foreign(address) = destination {
                show(address.as_ptr());
            }
        }
    }

    /// Whether there is but one address to send to.
    pub fn has_remote(&self) -> bool {
        self.remote.is_some()
    }

    /// Where a datagram goes that a user gives this address; asyncio's `ValueError` for the wrong one.
    pub fn destination(
        &self,
        py: Python<'_>,
        address: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Destination<Obj>> {
        let address = address.filter(|address| !address.is_none());
        if let Some(remote) = &self.remote {
            if let Some(address) = address
                && address.as_ptr() != remote.name.as_ptr()
                && !address.eq(remote.name.bind(py))?
            {
                let name = remote.name.bind(py);
                return Err(PyValueError::new_err(format!("Invalid address: must be None or {name}")));
            }
            return Ok(remote.destination.clone());
        }
        let Some(address) = address.filter(|_| !self.has_named_peer) else {
            return Ok(if self.has_peer {
                Destination::Connected
            } else {
                Destination::Foreign(py.None().into_bound(py).into())
            });
        };
        if let Some(known) = self.addresses.borrow().address_of(&address) {
            return Ok(Destination::Address(known.clone()));
        }
        Ok(match address::parse(self.family, &address) {
            Some(parsed) => Destination::Address(parsed),
            None => Destination::Foreign(address.into()),
        })
    }

    /// A queued datagram's address, as a user would give it.
    pub fn name_of<'py>(
        &self,
        py: Python<'py>,
        destination: &Destination<Obj>,
    ) -> PyResult<Bound<'py, PyAny>> {
        match destination {
            Destination::Connected => Ok(self
                .remote
                .as_ref()
                .map_or_else(|| py.None().into_bound(py), |remote| remote.name.bind(py))),
            Destination::Address(address) => address::peer_name(py, address),
            Destination::Foreign(address) => Ok(address.bind(py)),
        }
    }

    /// The name of a peer that sent something.
    fn peer(&self, py: Python<'_>, from: PeerAddress) -> PyResult<Obj> {
        if let Some(known) = self.addresses.borrow_mut().find(&from) {
            return Ok(known);
        }
        let name: Obj = address::peer_name(py, &from)?.into();
        self.addresses.borrow_mut().remember(from, name.clone());
        Ok(name)
    }

    /// Calls a method of the socket's own.
    fn ask_socket<const N: usize>(
        &self,
        py: Python<'_>,
        method: &Py<PyString>,
        arguments: [Bound<'_, PyAny>; N],
    ) -> Result<Obj, Refusal<PyErr>> {
        let Some(socket) = self.socket() else {
            return Err(Refusal::Fatal(PyRuntimeError::new_err("the transport is closed")));
        };
        let mut all = vec![socket.as_ptr()];
        all.extend(arguments.iter().map(Bound::as_ptr));
        // SAFETY: live objects for the length of the call, the receiver first.
        let result = unsafe { Obj::from_method_call(py, method, &all) };
        result.map_err(|error| {
            if error.is_instance_of::<PyBlockingIOError>(py) || error.is_instance_of::<PyInterruptedError>(py)
            {
                Refusal::WouldBlock
            } else if error.is_instance_of::<PyOSError>(py) {
                Refusal::System(error)
            } else {
                Refusal::Fatal(error)
            }
        })
    }
}

impl DatagramUpper<PyHost> for PyDatagramUpper {
    type Foreign = Obj;

    fn connection_made(&self, cx: Cx<'_, PyHost>) -> PyResult<()> {
        self.protocol.connection_made(cx)
    }

    fn datagram_received(&self, _: Cx<'_, PyHost>, data: &[u8], from: PeerAddress) -> PyResult<()> {
        let py = attached();
        let bytes = bytes_object(py, data)?;
        let peer = self.peer(py, from)?;
        self.protocol.call(&self.names.datagram_received, [bytes.as_ptr(), peer.as_ptr()]).map(drop)
    }

    fn error_received(&self, _: Cx<'_, PyHost>, error: PyErr) -> PyResult<()> {
        let error = error.into_value(attached());
        self.protocol.call(&self.names.error_received, [error.as_ptr()]).map(drop)
    }

    fn receive_foreign(&self, _: Cx<'_, PyHost>) -> Option<Received<PyErr>> {
        if matches!(self.family, libc::AF_INET | libc::AF_INET6 | libc::AF_UNIX) {
            return None;
        }
        let py = attached();
        let deliver = |received: Obj| -> PyResult<()> {
            let (data, from): (Bound<'_, PyAny>, Bound<'_, PyAny>) =
                received.bind(py).cast_into::<PyTuple>()?.extract()?;
            self.protocol.call(&self.names.datagram_received, [data.as_ptr(), from.as_ptr()]).map(drop)
        };
        let size = match MAX_DATAGRAM.into_pyobject(py) {
            Ok(size) => size.into_any(),
            Err(never) => match never {},
        };
        Some(self.ask_socket(py, &self.names.recvfrom, [size]).map(deliver))
    }

    fn send_foreign(&self, _: Cx<'_, PyHost>, data: &[u8], to: &Obj) -> Result<(), Refusal<PyErr>> {
        let py = attached();
        let data = bytes_object(py, data).map_err(Refusal::Fatal)?.bind(py);
        self.ask_socket(py, &self.names.sendto, [data, to.bind(py)]).map(drop)
    }

    fn connection_lost(&self, cx: Cx<'_, PyHost>, error: Option<PyErr>) -> PyResult<()> {
        self.protocol.connection_lost(cx, error)
    }

    fn pause_writing(&self, cx: Cx<'_, PyHost>) -> PyResult<()> {
        self.protocol.pause_writing(cx)
    }

    fn resume_writing(&self, cx: Cx<'_, PyHost>) -> PyResult<()> {
        self.protocol.resume_writing(cx)
    }

    fn detach(&self, cx: Cx<'_, PyHost>) -> PyResult<()> {
        let socket = self.socket.borrow_mut().take();
        drop(socket);
        self.addresses.take();
        self.protocol.detach(cx)
    }
}
