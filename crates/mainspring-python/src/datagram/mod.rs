//! `DatagramTransport`: the engine's datagram transport as a Python object that is an `asyncio.DatagramTransport`.
//!
//! As in `transport/`, the native type holds the state and the methods that run per packet, and
//! `mainspring._transports.DatagramTransport` adds what is rarely asked.

mod methods;
mod protocol;

use crate::event_loop::host::PyHost;
use crate::python::method::guarded;
use crate::python::native_class::{NativeClass, NativeData};
use crate::transport::channel::{PyChannel, PyChunk, SocketHold};
use crate::transport::methods as common;
use crate::transport::protocol::PyUpper;
use crate::transport::{self as kind, Kind, Open};
use mainspring_engine::transport::{Datagram, Destination};
use protocol::PyDatagramUpper;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;
use std::cell::OnceCell;
use std::ffi::CStr;

pub type DatagramMachine = Datagram<PyHost, PyDatagramUpper>;

/// Our data in a datagram endpoint's transport object.
pub struct DatagramData {
    opened: OnceCell<Open<DatagramMachine>>,
}

static CLASS: PyOnceLock<NativeClass> = PyOnceLock::new();

impl NativeData for DatagramData {
    const NAME: &'static CStr = c"mainspring._mainspring.DatagramTransport";

    fn class_cell() -> &'static PyOnceLock<NativeClass> {
        &CLASS
    }

    fn bases(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyType>>> {
        // asyncio's own datagram transport is both: the mixin, and with it an asyncio.Transport.
        let transports = py.import("asyncio.transports")?;
        ["_FlowControlMixin", "DatagramTransport"]
            .into_iter()
            .map(|name| Ok(transports.getattr(name)?.cast_into::<PyType>()?))
            .collect()
    }

    fn methods() -> Vec<ffi::PyMethodDef> {
        let mut methods = common::table::<Self>();
        methods.extend(common::reading_table::<Self>());
        methods.extend(common::writing_table::<Self>());
        methods.extend(methods::table());
        methods
    }

    fn empty() -> Self {
        DatagramData { opened: OnceCell::new() }
    }

    fn for_each_held(&self, show: &mut dyn FnMut(*mut ffi::PyObject)) {
        kind::for_each_held(self, show);
    }

    fn clear(&self) {
        kind::clear(self);
    }

    fn finalize(&self, object: &Bound<'_, PyAny>) -> PyResult<()> {
        kind::finalize(self, object)
    }
}

impl Kind for DatagramData {
    type Machine = DatagramMachine;

    fn opened(&self) -> &OnceCell<Open<Self::Machine>> {
        &self.opened
    }

    fn protocol(machine: &Self::Machine) -> &PyUpper {
        machine.upper().protocol()
    }

    fn for_each_own(machine: &Self::Machine, show: &mut dyn FnMut(*mut ffi::PyObject)) {
        machine.upper().for_each_own(show);
        machine.for_each_queued(&mut |datagram| {
            if let PyChunk::Bytes(bytes) = &datagram.chunk {
                show(bytes.as_ptr());
            }
            if let Destination::Foreign(address) = &datagram.destination {
                show(address.as_ptr());
            }
        });
    }
}

/// `open_datagram(transport, loop, sock, protocol, address, peername, header)`: ties a new transport object to a
/// datagram socket. `header` is what each datagram that waits weighs beside its bytes; where it is nothing (before Python
/// 3.13) empty datagrams are not sent.
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
    guarded(|| {
        let upper = PyDatagramUpper::new(sock, protocol, address, peername, header > 0)?;
        let drops_when_lost = upper.has_remote();
        let channel = PyChannel::Socket(SocketHold::new(sock)?);
        let machine = Datagram::new(channel, upper, header, drops_when_lost);
        kind::open::<DatagramData>(transport, event_loop, machine, None, || Ok(()))
    })
}
