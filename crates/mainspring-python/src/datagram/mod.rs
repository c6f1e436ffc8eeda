//! `DatagramTransport`: the engine's datagram transport as a Python object that is an `asyncio.DatagramTransport`.
//!
//! The native type holds the state and the methods that run per packet; `mainspring._transports.DatagramTransport` adds
//! rarely used parts.

mod methods;
mod protocol;

use crate::event_loop::host::PyHost;
use crate::python::guard::catch_unwind;
use crate::python::method::{Method, Native};
use crate::python::native_class::{NativeClass, NativeData};
use crate::python::object::Obj;
use crate::transport::channel::{PyChannel, SocketHold};
use crate::transport::protocol::PyProtocol;
use crate::transport::{self, Open, TransportClass};
use mainspring_engine::transport::{Datagram, Destination};
use protocol::PyDatagramProtocol;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;
use std::cell::OnceCell;
use std::ffi::CStr;

pub type DatagramMachine = Datagram<PyHost, PyDatagramProtocol>;

/// The native data of a datagram transport.
pub struct DatagramData {
    opened: OnceCell<Open<DatagramMachine>>,
}

static CLASS: PyOnceLock<NativeClass<DatagramData>> = PyOnceLock::new();

impl NativeData for DatagramData {
    const NAME: &'static CStr = c"mainspring._mainspring.DatagramTransport";

    fn class_cell() -> &'static PyOnceLock<NativeClass<Self>> {
        &CLASS
    }

    fn bases(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyType>>> {
        // As asyncio's own datagram transport, which through the mixin is also an asyncio.Transport.
        let transports = py.import("asyncio.transports")?;
        ["_FlowControlMixin", "DatagramTransport"]
            .into_iter()
            .map(|name| Ok(transports.getattr(name)?.cast_into::<PyType>()?))
            .collect()
    }

    fn methods() -> Vec<Method<Native<Self>>> {
        let mut methods = transport::methods::common();
        methods.extend(transport::methods::reading());
        methods.extend(transport::methods::writing());
        methods.extend(methods::methods());
        methods
    }

    fn empty() -> Self {
        DatagramData { opened: OnceCell::new() }
    }

    fn traverse(&self, visit: &mut dyn FnMut(&Obj)) {
        transport::traverse(self, visit);
    }

    fn clear(&self) {
        transport::clear(self);
    }

    fn finalize(&self, object: &Bound<'_, PyAny>) -> PyResult<()> {
        transport::finalize(self, object)
    }
}

impl TransportClass for DatagramData {
    type Machine = DatagramMachine;

    fn opened(&self) -> &OnceCell<Open<Self::Machine>> {
        &self.opened
    }

    fn protocol(machine: &Self::Machine) -> &PyProtocol {
        machine.sink().protocol()
    }

    fn traverse_machine(machine: &Self::Machine, visit: &mut dyn FnMut(&Obj)) {
        machine.sink().traverse(visit);
        machine.for_each_queued(&mut |datagram| {
            datagram.chunk.traverse(visit);
            if let Destination::Foreign(address) = &datagram.destination {
                visit(address);
            }
        });
    }
}

/// `open_datagram(transport, loop, sock, protocol, address, peername, header)`: opens a new transport for a
/// datagram socket. `header` is the size that each queued datagram counts beside its bytes. It is 0 before Python 3.13,
/// where empty datagrams are not sent.
#[pyfunction]
pub fn open_datagram(
    transport: &Bound<'_, PyAny>,
    event_loop: &Bound<'_, PyAny>,
    sock: &Bound<'_, PyAny>,
    protocol: &Bound<'_, PyAny>,
    address: &Bound<'_, PyAny>,
    peername: &Bound<'_, PyAny>,
    header: usize,
) -> PyResult<()> {
    catch_unwind(|| {
        let sink = PyDatagramProtocol::new(sock, protocol, address, peername, header > 0)?;
        let drops_when_lost = sink.has_remote();
        let channel = PyChannel::Socket(SocketHold::new(sock)?);
        let machine = Datagram::new(channel, sink, header, drops_when_lost);
        crate::transport::open::<DatagramData>(transport, event_loop, machine, None, || Ok(()))
    })
}
