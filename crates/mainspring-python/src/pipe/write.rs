//! The writing end: an `asyncio.WriteTransport` with asyncio's own mixin of flow control.

use super::{Pipe, WriteMachine, WritePipeData};
use crate::event_loop::host::PyHost;
use crate::python::method::{self, Args, enter};
use crate::python::native_class::NativeClass;
use crate::transport::channel::{Data, PyChannel, PyChunk};
use crate::transport::contexts::writing;
use crate::transport::method;
use crate::transport::methods::{self as common, boolean, none};
use crate::transport::protocol::PyUpper;
use mainspring_engine::transport::{Cx, PipeKind, WritePipe};
use pyo3::ffi;
use pyo3::sync::PyOnceLock;
use std::ffi::CStr;

static CLASS: PyOnceLock<NativeClass> = PyOnceLock::new();

impl Pipe for WriteMachine {
    const NAME: &'static CStr = c"mainspring._mainspring.WritePipeTransport";
    // Which is a WriteTransport, and as in asyncio happens to be a ReadTransport too.
    const BASE: &'static str = "_FlowControlMixin";
    const REFUSAL: &'static str = "Pipe transport is only for pipes, sockets and character devices";

    fn class_cell() -> &'static PyOnceLock<NativeClass> {
        &CLASS
    }

    fn methods() -> Vec<ffi::PyMethodDef> {
        let mut methods = common::writing_table::<WritePipeData>();
        methods.extend([
            method::method(c"write", write, c"Write some data bytes to the transport."),
            method::method_noargs(
                c"write_eof",
                common::close::<WritePipeData>,
                c"Close the pipe after flushing buffered data.",
            ),
            method::method_noargs(
                c"can_write_eof",
                can_write_eof,
                c"Return True: the transport supports write_eof().",
            ),
        ]);
        methods
    }

    fn new(channel: PyChannel, kind: PipeKind, upper: PyUpper) -> Self {
        WritePipe::new(channel, kind, upper)
    }

    fn upper(&self) -> &PyUpper {
        self.upper()
    }

    fn release(&self, cx: Cx<'_, PyHost>) -> Option<PyChannel> {
        self.release(cx)
    }

    fn for_each_chunk(&self, show: &mut dyn FnMut(&PyChunk)) {
        self.for_each_chunk(show);
    }
}

extern "C" fn write(
    this: *mut ffi::PyObject,
    args: *const *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
    kwnames: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    method::<WritePipeData>(this, |py, open, cx| {
        // SAFETY: called by the interpreter with these arguments, which are alive for the call.
        let data = unsafe {
            let args = Args::new("write", args, count, kwnames);
            Data::new(py, args.only("data")?)?
        };
        data.reserve()?;
        writing(py, open, || open.machine.write(cx, data.as_slice(), || data.to_chunk()))?;
        none(py)
    })
}

extern "C" fn can_write_eof(_: *mut ffi::PyObject, _: *mut ffi::PyObject) -> *mut ffi::PyObject {
    enter(|_| boolean(true))
}
