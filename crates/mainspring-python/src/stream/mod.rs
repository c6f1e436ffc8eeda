//! `StreamTransport`: the engine's stream as a Python object that is an `asyncio.Transport`.
//!
//! The native type holds the state and the methods that run per packet. `mainspring._transports.StreamTransport` derives
//! from it and adds rarely used parts: `repr()`, the rest of `get_extra_info()`, the warning of an unclosed transport.

mod accept_task;
mod accepted_names;
pub mod listener;
mod methods;

use crate::event_loop::host::PyHost;
use crate::names::names;
use crate::python::guard::catch_unwind;
use crate::python::method::{Method, Native};
use crate::python::native_class::{NativeClass, NativeData, native_data};
use crate::python::object::Obj;
use crate::transport::channel::{PyChannel, SocketHold};
use crate::transport::protocol::PyProtocol;
use crate::transport::write_data::PyChunk;
use crate::transport::{self, Open, TransportClass, opened_in, write_in_context};
use accepted_names::AcceptedNames;
use mainspring_engine::transport::Stream;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyString, PyType};
use std::cell::OnceCell;
use std::ffi::CStr;
use std::io;

/// The native data of a stream transport.
pub struct StreamData {
    opened: OnceCell<Open<Stream<PyHost, PyProtocol>>>,
    /// Set for a connection that a listener accepted.
    accepted: OnceCell<AcceptedNames>,
}

static CLASS: PyOnceLock<NativeClass<StreamData>> = PyOnceLock::new();

impl NativeData for StreamData {
    const NAME: &'static CStr = c"mainspring._mainspring.StreamTransport";

    fn class_cell() -> &'static PyOnceLock<NativeClass<Self>> {
        &CLASS
    }

    fn bases(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyType>>> {
        // The mixin is an asyncio.Transport, and asyncio's fallback for sendfile() tests for the mixin.
        let base = py.import("asyncio.transports")?.getattr("_FlowControlMixin")?;
        Ok(vec![base.cast_into::<PyType>()?])
    }

    fn methods() -> Vec<Method<Native<Self>>> {
        let mut methods = transport::methods::common();
        methods.extend(transport::methods::reading());
        methods.extend(transport::methods::writing());
        methods.extend(methods::methods());
        methods
    }

    fn empty() -> Self {
        StreamData { opened: OnceCell::new(), accepted: OnceCell::new() }
    }

    fn traverse(&self, visit: &mut dyn FnMut(&Obj)) {
        transport::traverse(self, visit);
        if let Some(accepted) = self.accepted.get() {
            accepted.traverse(visit);
        }
    }

    fn clear(&self) {
        transport::clear(self);
    }

    fn finalize(&self, object: &Bound<'_, PyAny>) -> PyResult<()> {
        transport::finalize(self, object)
    }
}

impl TransportClass for StreamData {
    type Machine = Stream<PyHost, PyProtocol>;

    fn opened(&self) -> &OnceCell<Open<Self::Machine>> {
        &self.opened
    }

    fn protocol(machine: &Self::Machine) -> &PyProtocol {
        machine.sink()
    }

    fn traverse_machine(machine: &Self::Machine, visit: &mut dyn FnMut(&Obj)) {
        machine.for_each_chunk(&mut |chunk| chunk.traverse(visit));
    }
}

/// Stores the addresses of an accepted connection in `object`, a new transport.
fn set_accepted_names(object: &Bound<'_, PyAny>, names: AcceptedNames) -> PyResult<()> {
    let this = Obj::from(object);
    if let Some(data) = native_data::<StreamData>(object.py(), &this)? {
        // Never set before: the instance is new.
        let _ = data.accepted.set(names);
    }
    Ok(())
}

/// Makes `object`, a new instance, the transport of a connection, and schedules `connection_made()`.
fn open(
    object: &Bound<'_, PyAny>,
    event_loop: &Bound<'_, PyAny>,
    channel: PyChannel,
    protocol: &Bound<'_, PyAny>,
    server: Option<&Bound<'_, PyAny>>,
    context: Option<Obj>,
) -> PyResult<()> {
    let py = object.py();
    let sink = PyProtocol::new(py, server.map(Obj::from))?;
    sink.set_protocol(protocol)?;
    let attach = || match server {
        Some(server) => call_server(server, object, &names(py)?._attach),
        None => Ok(()),
    };
    transport::open::<StreamData>(object, event_loop, Stream::new(channel, sink), context, attach)
}

/// Writes a chunk to `transport`, a `StreamTransport`. TLS sends its ciphertext with this.
pub fn write_chunk(py: Python<'_>, transport: &Obj, chunk: &PyChunk) -> PyResult<()> {
    let Some(data) = native_data::<StreamData>(py, transport)? else {
        return Err(PyTypeError::new_err("not a StreamTransport"));
    };
    let (open, cx) = opened_in(py, transport, data)?;
    let pieces = [io::IoSlice::new(chunk.as_ref())];
    write_in_context(py, open, || open.machine.write_vectored(cx, &pieces, |_| chunk.share()))
}

/// Calls `Server._detach()`.
pub fn detach_from_server(py: Python<'_>, server: &Obj, transport: &Obj) -> PyResult<()> {
    call_server(&server.bind(py), &transport.bind(py), &names(py)?._detach)
}

fn call_server(
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

/// `open_stream(transport, loop, sock, protocol, server, context)`: opens a new transport for a connected socket.
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
    catch_unwind(|| {
        let channel = PyChannel::Socket(SocketHold::new(sock)?);
        open(transport, event_loop, channel, protocol, server, context.map(Obj::from))
    })
}
