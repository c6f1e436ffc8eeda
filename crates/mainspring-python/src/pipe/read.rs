//! The reading end: an `asyncio.ReadTransport`.

use super::{Pipe, ReadMachine, ReadPipeData};
use crate::event_loop::host::PyHost;
use crate::python::native_class::NativeClass;
use crate::transport::channel::{PyChannel, PyChunk};
use crate::transport::methods as common;
use crate::transport::protocol::PyUpper;
use mainspring_engine::transport::{Cx, PipeKind, ReadPipe};
use pyo3::ffi;
use pyo3::sync::PyOnceLock;
use std::ffi::CStr;

static CLASS: PyOnceLock<NativeClass> = PyOnceLock::new();

impl Pipe for ReadMachine {
    const NAME: &'static CStr = c"mainspring._mainspring.ReadPipeTransport";
    const BASE: &'static str = "ReadTransport";
    const REFUSAL: &'static str = "Pipe transport is for pipes/sockets only.";

    fn class_cell() -> &'static PyOnceLock<NativeClass> {
        &CLASS
    }

    fn methods() -> Vec<ffi::PyMethodDef> {
        common::reading_table::<ReadPipeData>()
    }

    fn new(channel: PyChannel, _: PipeKind, upper: PyUpper) -> Self {
        ReadPipe::new(channel, upper)
    }

    fn upper(&self) -> &PyUpper {
        self.upper()
    }

    fn release(&self, cx: Cx<'_, PyHost>) -> Option<PyChannel> {
        self.release(cx)
    }

    fn for_each_chunk(&self, _: &mut dyn FnMut(&PyChunk)) {}
}
