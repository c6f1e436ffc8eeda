//! `PyDatagramProtocol`: a Python protocol object as the engine's datagram transport calls it, and its addresses.

use crate::event_loop::host::PyHost;
use crate::names::{Names, names};
use crate::python::bytes::Bytes;
use crate::python::interpreter::attached;
use crate::python::object::{Obj, is_same};
use crate::transport::address::{self, AddressCache};
use crate::transport::protocol::PyProtocol;
use mainspring_engine::poller::PeerAddress;
use mainspring_engine::transport::{
    Cx, DatagramSink, Destination, MAX_DATAGRAM, ProtocolSink, Received, Refusal,
};
use pyo3::exceptions::{PyBlockingIOError, PyInterruptedError, PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};
use std::cell::RefCell;

/// See the module comment.
pub struct PyDatagramProtocol {
    names: &'static Names,
    protocol: PyProtocol,
    /// For address families that the engine does not know. `None` after the end of the transport.
    socket: RefCell<Option<Obj>>,
    family: i32,
    addresses: RefCell<AddressCache>,
    /// asyncio's `_address`: the only destination.
    remote: Option<Remote>,
    /// Whether every datagram goes to the peer of the socket, whatever address is given: asyncio's rule for sockets
    /// whose peer has a name.
    has_named_peer: bool,
    /// Whether the socket has a peer at all, with a name or not.
    has_peer: bool,
    sends_empty: bool,
}

struct Remote {
    name: Obj,
    destination: Destination<Obj>,
}

impl PyDatagramProtocol {
    /// `address` is asyncio's `_address`, `peername` the name of the socket's peer; both may be `None`.
    pub fn new(
        socket: &Bound<'_, PyAny>,
        protocol: &Bound<'_, PyAny>,
        address: &Bound<'_, PyAny>,
        peername: &Bound<'_, PyAny>,
        sends_empty: bool,
    ) -> PyResult<Self> {
        let py = socket.py();
        let sink = PyProtocol::new(py, None)?;
        sink.set_protocol(protocol)?;
        let family: i32 = socket.getattr("family")?.extract()?;
        let has_named_peer = peername.is_truthy()?;
        let remote = address.is_truthy()?.then(|| Remote {
            name: address.into(),
            destination: match address::parse(family, address) {
                _ if has_named_peer => Destination::Connected,
                Some(parsed) => Destination::Address(parsed),
                None => Destination::Foreign(address.into()),
            },
        });
        Ok(PyDatagramProtocol {
            names: names(py)?,
            protocol: sink,
            socket: RefCell::new(Some(socket.into())),
            family,
            addresses: RefCell::default(),
            remote,
            has_named_peer,
            has_peer: !peername.is_none(),
            sends_empty,
        })
    }

    pub fn protocol(&self) -> &PyProtocol {
        &self.protocol
    }

    pub fn socket(&self) -> Option<Obj> {
        self.socket.borrow().clone()
    }

    /// Whether empty datagrams are sent.
    pub fn sends_empty(&self) -> bool {
        self.sends_empty
    }

    pub fn traverse(&self, visit: &mut dyn FnMut(&Obj)) {
        if let Ok(socket) = self.socket.try_borrow() {
            socket.iter().for_each(&mut *visit);
        }
        if let Some(Remote { name, destination }) = &self.remote {
            visit(name);
            if let Destination::Foreign(address) = destination {
                visit(address);
            }
        }
    }

    /// Whether there is only one destination.
    pub fn has_remote(&self) -> bool {
        self.remote.is_some()
    }

    /// The destination for the `addr` argument of `sendto()`; asyncio's `ValueError` for a wrong address.
    pub fn destination(
        &self,
        py: Python<'_>,
        address: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Destination<Obj>> {
        let address = address.filter(|address| !address.is_none());
        if let Some(remote) = &self.remote {
            if let Some(address) = address
                && !is_same(&remote.name, &address)
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
                Destination::Foreign(Obj::none())
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

    /// The address of a queued datagram, as Python shows it.
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

    /// The Python object for the address of a sender.
    fn peer(&self, py: Python<'_>, from: PeerAddress) -> PyResult<Obj> {
        if let Some(known) = self.addresses.borrow_mut().find(&from) {
            return Ok(known);
        }
        let name: Obj = address::peer_name(py, &from)?.into();
        self.addresses.borrow_mut().insert(from, name.clone());
        Ok(name)
    }

    /// Calls a method of the socket.
    fn call_socket<const N: usize>(
        &self,
        py: Python<'_>,
        method: &Py<PyString>,
        args: [&Obj; N],
    ) -> Result<Obj, Refusal<PyErr>> {
        let Some(socket) = self.socket() else {
            return Err(Refusal::Fatal(PyRuntimeError::new_err("the transport is closed")));
        };
        let result = socket.call_method(py, method, args);
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

impl DatagramSink<PyHost> for PyDatagramProtocol {
    type Foreign = Obj;

    fn connection_made(&self, cx: Cx<'_, PyHost>) -> PyResult<()> {
        self.protocol.connection_made(cx)
    }

    fn datagram_received(&self, _: Cx<'_, PyHost>, data: &[u8], from: PeerAddress) -> PyResult<()> {
        let py = attached();
        let bytes = Bytes::new(py, data)?;
        let peer = self.peer(py, from)?;
        self.protocol.call(&self.names.datagram_received, [bytes.as_obj(), &peer]).map(drop)
    }

    fn error_received(&self, _: Cx<'_, PyHost>, error: PyErr) -> PyResult<()> {
        let py = attached();
        let error = Obj::from(error.into_value(py).into_bound(py));
        self.protocol.call(&self.names.error_received, [&error]).map(drop)
    }

    fn receive_foreign(&self, _: Cx<'_, PyHost>) -> Option<Received<PyErr>> {
        if matches!(self.family, libc::AF_INET | libc::AF_INET6 | libc::AF_UNIX) {
            return None;
        }
        let py = attached();
        let deliver = |received: Obj| -> PyResult<()> {
            let (data, from): (Bound<'_, PyAny>, Bound<'_, PyAny>) =
                received.bind(py).cast_into::<PyTuple>()?.extract()?;
            self.protocol.call(&self.names.datagram_received, [&data.into(), &from.into()]).map(drop)
        };
        let received = Obj::int(py, MAX_DATAGRAM)
            .map_err(Refusal::Fatal)
            .and_then(|size| self.call_socket(py, &self.names.recvfrom, [&size]));
        Some(received.map(deliver))
    }

    fn send_foreign(&self, _: Cx<'_, PyHost>, data: &[u8], to: &Obj) -> Result<(), Refusal<PyErr>> {
        let py = attached();
        let data = Bytes::new(py, data).map_err(Refusal::Fatal)?;
        self.call_socket(py, &self.names.sendto, [data.as_obj(), to]).map(drop)
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
