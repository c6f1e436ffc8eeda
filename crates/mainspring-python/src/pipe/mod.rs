//! `ReadPipeTransport` and `WritePipeTransport`: the engine's pipes as asyncio transports.
//!
//! The native types hold the state and the methods that run per packet; `mainspring._pipes` adds rarely used parts. Both
//! are one generic class; `read.rs` and `write.rs` define the differences.

mod read;
mod write;

use crate::errors::os_error;
use crate::event_loop::host::PyHost;
use crate::python::descriptor;
use crate::python::guard::catch_unwind;
use crate::python::method::{Method, Native, Receiver};
use crate::python::native_class::{NativeClass, NativeData};
use crate::python::object::Obj;
use crate::transport::channel::{FileHold, PyChannel};
use crate::transport::protocol::PyProtocol;
use crate::transport::write_data::PyChunk;
use crate::transport::{self, EngineTransport, Open, TransportClass, opened};
use mainspring_engine::transport::{PipeKind, ProtocolSink, ReadPipe, WritePipe, prepare_pipe};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;
use std::cell::OnceCell;
use std::ffi::CStr;
use std::os::fd::RawFd;

type ReadMachine = ReadPipe<PyHost, PyProtocol>;
type WriteMachine = WritePipe<PyHost, PyProtocol>;

pub type ReadPipeData = PipeData<ReadMachine>;
pub type WritePipeData = PipeData<WriteMachine>;

/// The differences between the two directions.
pub trait Pipe: EngineTransport + Sized + 'static {
    /// Qualified name of the class.
    const NAME: &'static CStr;
    /// The base class, in `asyncio.transports`.
    const BASE: &'static str;
    /// asyncio's message for a file that is not a pipe.
    const NOT_A_PIPE: &'static str;

    fn class_cell() -> &'static PyOnceLock<NativeClass<PipeData<Self>>>;
    fn methods() -> Vec<Method<Native<PipeData<Self>>>>;
    fn new(channel: PyChannel, kind: PipeKind, sink: PyProtocol) -> Self;
    fn sink(&self) -> &PyProtocol;
    fn for_each_chunk(&self, visit: &mut dyn FnMut(&PyChunk));
}

/// The native data of a pipe transport.
pub struct PipeData<P> {
    opened: OnceCell<Open<P>>,
}

impl<P: Pipe> NativeData for PipeData<P> {
    const NAME: &'static CStr = P::NAME;

    fn class_cell() -> &'static PyOnceLock<NativeClass<Self>> {
        P::class_cell()
    }

    fn bases(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyType>>> {
        let base = py.import("asyncio.transports")?.getattr(P::BASE)?;
        Ok(vec![base.cast_into::<PyType>()?])
    }

    fn methods() -> Vec<Method<Native<Self>>> {
        let mut methods = transport::methods::common();
        methods.push(Method::noargs(
            c"_detach_pipe",
            detach_pipe::<P>,
            c"Release the file object without closing it.",
        ));
        methods.extend(P::methods());
        methods
    }

    fn empty() -> Self {
        PipeData { opened: OnceCell::new() }
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

impl<P: Pipe> TransportClass for PipeData<P> {
    type Machine = P;

    fn opened(&self) -> &OnceCell<Open<P>> {
        &self.opened
    }

    fn protocol(machine: &P) -> &PyProtocol {
        machine.sink()
    }

    fn traverse_machine(machine: &P, visit: &mut dyn FnMut(&Obj)) {
        machine.for_each_chunk(&mut |chunk| chunk.traverse(visit));
    }
}

fn detach_pipe<P: Pipe>(receiver: Receiver<'_, PipeData<P>>) -> PyResult<()> {
    let (open, cx) = opened(receiver)?;
    if let Some(PyChannel::File(file)) = open.machine.release(cx) {
        file.detach();
    }
    open.machine.sink().detach(cx)
}

/// Makes `transport`, a new instance, the transport of a file object, and schedules `connection_made()`. If this fails
/// because the file is not a pipe, the caller keeps the file.
fn open<P: Pipe>(
    transport: &Bound<'_, PyAny>,
    event_loop: &Bound<'_, PyAny>,
    file: &Bound<'_, PyAny>,
    protocol: &Bound<'_, PyAny>,
) -> PyResult<()> {
    let py = transport.py();
    let fd: RawFd = file.call_method0("fileno")?.extract()?;
    let kind =
        descriptor::borrow_open(file, fd).and_then(prepare_pipe).map_err(|error| os_error(py, error))?;
    let Some(kind) = kind else { return Err(PyValueError::new_err(P::NOT_A_PIPE)) };
    let sink = PyProtocol::new(py, None)?;
    sink.set_protocol(protocol)?;
    let machine =
        P::new(PyChannel::File(FileHold::new(file, fd).map_err(|error| os_error(py, error))?), kind, sink);
    crate::transport::open::<PipeData<P>>(transport, event_loop, machine, None, || Ok(()))
}

/// `open_read_pipe(transport, loop, file, protocol)`: opens a new transport that reads a file object.
#[pyfunction]
pub fn open_read_pipe(
    transport: &Bound<'_, PyAny>,
    event_loop: &Bound<'_, PyAny>,
    file: &Bound<'_, PyAny>,
    protocol: &Bound<'_, PyAny>,
) -> PyResult<()> {
    catch_unwind(|| open::<ReadMachine>(transport, event_loop, file, protocol))
}

/// `open_write_pipe(transport, loop, file, protocol)`: opens a new transport that writes a file object.
#[pyfunction]
pub fn open_write_pipe(
    transport: &Bound<'_, PyAny>,
    event_loop: &Bound<'_, PyAny>,
    file: &Bound<'_, PyAny>,
    protocol: &Bound<'_, PyAny>,
) -> PyResult<()> {
    catch_unwind(|| open::<WriteMachine>(transport, event_loop, file, protocol))
}
