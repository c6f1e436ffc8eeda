//! `ReadPipeTransport` and `WritePipeTransport`: the engine's pipes as Python objects that are asyncio's transports.
//!
//! As in `transport/`, the native types hold the state and the methods that run per packet, and `mainspring._pipes` adds
//! what is rarely asked. The two are one generic kind; `read.rs` and `write.rs` say in what they differ.

mod read;
mod write;

use crate::event_loop::host::{PyHost, os_error};
use crate::python::method;
use crate::python::method::guarded;
use crate::python::native_class::{NativeClass, NativeData};
use crate::transport::channel::{FileHold, PyChannel, PyChunk};
use crate::transport::engine_transport::Machine;
use crate::transport::methods::{self as common, none};
use crate::transport::protocol::PyUpper;
use crate::transport::{self as kind, Kind, Open, method};
use mainspring_engine::transport::{Cx, PipeKind, ReadPipe, Upper, WritePipe, prepare_pipe};
use pyo3::exceptions::PyValueError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;
use std::cell::OnceCell;
use std::ffi::CStr;
use std::os::fd::RawFd;

type ReadMachine = ReadPipe<PyHost, PyUpper>;
type WriteMachine = WritePipe<PyHost, PyUpper>;

pub type ReadPipeData = PipeData<ReadMachine>;
pub type WritePipeData = PipeData<WriteMachine>;

/// In what the two directions differ.
pub trait Pipe: Machine + Sized + 'static {
    /// Qualified name of the class.
    const NAME: &'static CStr;
    /// The class in `asyncio.transports` that it is.
    const BASE: &'static str;
    /// What asyncio says of a file that is no pipe.
    const REFUSAL: &'static str;

    fn class_cell() -> &'static PyOnceLock<NativeClass>;
    /// The methods beside those of every kind.
    fn methods() -> Vec<ffi::PyMethodDef>;
    fn new(channel: PyChannel, kind: PipeKind, upper: PyUpper) -> Self;
    fn upper(&self) -> &PyUpper;
    fn release(&self, cx: Cx<'_, PyHost>) -> Option<PyChannel>;
    fn for_each_chunk(&self, show: &mut dyn FnMut(&PyChunk));
}

/// Our data in a pipe's transport object.
pub struct PipeData<P> {
    opened: OnceCell<Open<P>>,
}

impl<P: Pipe> NativeData for PipeData<P> {
    const NAME: &'static CStr = P::NAME;

    fn class_cell() -> &'static PyOnceLock<NativeClass> {
        P::class_cell()
    }

    fn bases(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyType>>> {
        let base = py.import("asyncio.transports")?.getattr(P::BASE)?;
        Ok(vec![base.cast_into::<PyType>()?])
    }

    fn methods() -> Vec<ffi::PyMethodDef> {
        let mut methods = common::table::<Self>();
        methods.push(method::method_noargs(
            c"_detach_pipe",
            detach_pipe::<P>,
            c"Let go of the file object without closing it.",
        ));
        methods.extend(P::methods());
        methods
    }

    fn empty() -> Self {
        PipeData { opened: OnceCell::new() }
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

impl<P: Pipe> Kind for PipeData<P> {
    type Machine = P;

    fn opened(&self) -> &OnceCell<Open<P>> {
        &self.opened
    }

    fn protocol(machine: &P) -> &PyUpper {
        machine.upper()
    }

    fn for_each_own(machine: &P, show: &mut dyn FnMut(*mut ffi::PyObject)) {
        machine.for_each_chunk(&mut |chunk| {
            if let PyChunk::Bytes(bytes) = chunk {
                show(bytes.as_ptr());
            }
        });
    }
}

extern "C" fn detach_pipe<P: Pipe>(this: *mut ffi::PyObject, _: *mut ffi::PyObject) -> *mut ffi::PyObject {
    method::<PipeData<P>>(this, |py, open, cx| {
        if let Some(PyChannel::File(file)) = open.machine.release(cx) {
            file.detach();
        }
        open.machine.upper().detach(cx)?;
        none(py)
    })
}

/// Makes `transport`, a new instance, the transport of a file object, and schedules `connection_made`. A file that is
/// refused stays the caller's.
fn open<P: Pipe>(
    transport: &Bound<'_, PyAny>,
    event_loop: &Bound<'_, PyAny>,
    file: &Bound<'_, PyAny>,
    protocol: &Bound<'_, PyAny>,
) -> PyResult<()> {
    let py = transport.py();
    let fd: RawFd = file.call_method0("fileno")?.extract()?;
    let kind = FileHold::borrow(fd).and_then(prepare_pipe).map_err(|error| os_error(py, error))?;
    let Some(kind) = kind else { return Err(PyValueError::new_err(P::REFUSAL)) };
    let upper = PyUpper::new(py, None)?;
    upper.set_protocol(protocol)?;
    let machine = P::new(PyChannel::File(FileHold::new(file, fd)), kind, upper);
    kind::open::<PipeData<P>>(transport, event_loop, machine, None, || Ok(()))
}

/// `open_read_pipe(transport, loop, file, protocol)`: ties a new transport object to a file object that is read.
#[pyfunction]
pub fn open_read_pipe(
    transport: &Bound<'_, PyAny>,
    event_loop: &Bound<'_, PyAny>,
    file: &Bound<'_, PyAny>,
    protocol: &Bound<'_, PyAny>,
) -> PyResult<()> {
    guarded(|| open::<ReadMachine>(transport, event_loop, file, protocol))
}

/// `open_write_pipe(transport, loop, file, protocol)`: ties a new transport object to a file object that is written.
#[pyfunction]
pub fn open_write_pipe(
    transport: &Bound<'_, PyAny>,
    event_loop: &Bound<'_, PyAny>,
    file: &Bound<'_, PyAny>,
    protocol: &Bound<'_, PyAny>,
) -> PyResult<()> {
    guarded(|| open::<WriteMachine>(transport, event_loop, file, protocol))
}
