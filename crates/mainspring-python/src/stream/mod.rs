//! `StreamTransport`: the engine's stream as a Python object that is an `asyncio.Transport`.
//!
//! The native type holds the state and the methods that run per packet; `mainspring._transports.StreamTransport`
//! derives from it and adds what is rarely asked (`repr`, the rest of `get_extra_info`, the warning when it is lost).

pub mod accept_task;
pub mod accepted_names;
pub mod listener;
pub mod methods;

use crate::event_loop::host::PyHost;
use crate::names::names;
use crate::python::method::guarded;
use crate::python::native_class::{NativeClass, NativeData, native_data};
use crate::python::object::Obj;
use crate::transport::channel::{PyChannel, PyChunk, SocketHold};
use crate::transport::methods as common;
use crate::transport::protocol::PyUpper;
use crate::transport::{self as kind, Kind, Open, contexts};
use accepted_names::Accepted;
use mainspring_engine::transport::{Cx, Stream};
use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyString, PyType};
use std::cell::OnceCell;
use std::ffi::CStr;
use std::io;

/// Our data in a stream's transport object.
pub struct TransportData {
    opened: OnceCell<Open<Stream<PyHost, PyUpper>>>,
    /// Set for a connection that a listener accepted.
    accepted: OnceCell<Accepted>,
}

static CLASS: PyOnceLock<NativeClass> = PyOnceLock::new();

impl NativeData for TransportData {
    const NAME: &'static CStr = c"mainspring._mainspring.StreamTransport";

    fn class_cell() -> &'static PyOnceLock<NativeClass> {
        &CLASS
    }

    fn bases(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyType>>> {
        // The mixin is an asyncio.Transport, and asyncio's own fallback for sendfile asks for it by name.
        let base = py.import("asyncio.transports")?.getattr("_FlowControlMixin")?;
        Ok(vec![base.cast_into::<PyType>()?])
    }

    fn methods() -> Vec<ffi::PyMethodDef> {
        let mut methods = common::table::<Self>();
        methods.extend(common::reading_table::<Self>());
        methods.extend(common::writing_table::<Self>());
        methods.extend(methods::table());
        methods
    }

    fn empty() -> Self {
        TransportData { opened: OnceCell::new(), accepted: OnceCell::new() }
    }

    fn for_each_held(&self, show: &mut dyn FnMut(*mut ffi::PyObject)) {
        kind::for_each_held(self, show);
        if let Some(accepted) = self.accepted.get() {
            accepted.for_each_held(show);
        }
    }

    fn clear(&self) {
        kind::clear(self);
    }

    fn finalize(&self, object: &Bound<'_, PyAny>) -> PyResult<()> {
        kind::finalize(self, object)
    }
}

impl Kind for TransportData {
    type Machine = Stream<PyHost, PyUpper>;

    fn opened(&self) -> &OnceCell<Open<Self::Machine>> {
        &self.opened
    }

    fn protocol(machine: &Self::Machine) -> &PyUpper {
        machine.upper()
    }

    fn for_each_own(machine: &Self::Machine, show: &mut dyn FnMut(*mut ffi::PyObject)) {
        machine.for_each_chunk(&mut |chunk| {
            if let PyChunk::Bytes(bytes) = chunk {
                show(bytes.as_ptr());
            }
        });
    }
}

/// Remembers the names of the connection that `object`, a new instance, will be the transport of.
pub fn set_accepted(object: &Bound<'_, PyAny>, names: Accepted) -> PyResult<()> {
    let this: Obj = object.clone().into();
    if let Some(data) = native_data::<TransportData>(object.py(), &this)? {
        // A second time cannot be: the instance is new.
        let _ = data.accepted.set(names);
    }
    Ok(())
}

/// Makes `object`, a new instance, the transport of a connection, and schedules `connection_made`.
pub fn open(
    object: &Bound<'_, PyAny>,
    event_loop: &Bound<'_, PyAny>,
    channel: PyChannel,
    protocol: &Bound<'_, PyAny>,
    server: Option<&Bound<'_, PyAny>>,
    context: Option<Obj>,
) -> PyResult<()> {
    let py = object.py();
    let upper = PyUpper::new(py, server.map(|server| server.clone().into()))?;
    upper.set_protocol(protocol)?;
    kind::open::<TransportData>(object, event_loop, Stream::new(channel, upper), context, || match server {
        Some(server) => join_server(py, server, object),
        None => Ok(()),
    })
}

/// Sends a chunk through `transport`, which is a `StreamTransport`: what TLS does with its ciphertext.
pub fn write_chunk(py: Python<'_>, transport: &Obj, chunk: PyChunk) -> PyResult<()> {
    let Some(data) = native_data::<TransportData>(py, transport)? else {
        return Err(PyTypeError::new_err("not a StreamTransport"));
    };
    kind::with_open(py, data, |open, native| {
        let cx = Cx { engine: native.engine(), this: transport };
        let pieces = [io::IoSlice::new(chunk.as_ref())];
        contexts::writing(py, open, || open.machine.write_vectored(cx, &pieces, |_| chunk.share()))
    })
}

fn join_server(py: Python<'_>, server: &Bound<'_, PyAny>, transport: &Bound<'_, PyAny>) -> PyResult<()> {
    tell_server(server, transport, &names(py)?._attach)
}

/// The transport is at its end.
pub fn leave_server(py: Python<'_>, server: &Obj, transport: &Obj) -> PyResult<()> {
    tell_server(&server.bind(py), &transport.bind(py), &names(py)?._detach)
}

fn tell_server(
    server: &Bound<'_, PyAny>,
    transport: &Bound<'_, PyAny>,
    method: &Py<PyString>,
) -> PyResult<()> {
    if names(server.py())?.server_takes_transport {
        server.call_method1(method, (transport,)).map(drop)
    } else {
        server.call_method0(method).map(drop)
    }
}

/// `open_stream(transport, loop, sock, protocol, server, context)`: ties a new transport object to a connected socket.
#[pyfunction]
#[pyo3(signature = (transport, event_loop, sock, protocol, server=None, context=None))]
pub fn open_stream(
    transport: &Bound<'_, PyAny>,
    event_loop: &Bound<'_, PyAny>,
    sock: &Bound<'_, PyAny>,
    protocol: &Bound<'_, PyAny>,
    server: Option<&Bound<'_, PyAny>>,
    context: Option<&Bound<'_, PyAny>>,
) -> PyResult<()> {
    guarded(|| {
        let channel = PyChannel::Socket(SocketHold::new(sock)?);
        open(transport, event_loop, channel, protocol, server, context.map(|context| context.clone().into()))
    })
}
