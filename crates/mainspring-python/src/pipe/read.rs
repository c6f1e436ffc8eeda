//! The reading end: an `asyncio.ReadTransport`.

use super::{Pipe, ReadMachine, ReadPipeData};
use crate::python::method::{Method, Native};
use crate::python::native_class::NativeClass;
use crate::transport::channel::PyChannel;
use crate::transport::methods;
use crate::transport::protocol::PyProtocol;
use crate::transport::write_data::PyChunk;
use mainspring_engine::transport::{PipeKind, ReadPipe};
use pyo3::sync::PyOnceLock;
use std::ffi::CStr;

static CLASS: PyOnceLock<NativeClass<ReadPipeData>> = PyOnceLock::new();

impl Pipe for ReadMachine {
    const NAME: &'static CStr = c"mainspring._mainspring.ReadPipeTransport";
    const BASE: &'static str = "ReadTransport";
    const NOT_A_PIPE: &'static str = "Pipe transport is for pipes/sockets only.";

    fn class_cell() -> &'static PyOnceLock<NativeClass<ReadPipeData>> {
        &CLASS
    }

    fn methods() -> Vec<Method<Native<ReadPipeData>>> {
        methods::reading()
    }

    fn new(channel: PyChannel, _: PipeKind, sink: PyProtocol) -> Self {
        ReadPipe::new(channel, sink)
    }

    fn sink(&self) -> &PyProtocol {
        self.sink()
    }

    fn for_each_chunk(&self, _: &mut dyn FnMut(&PyChunk)) {}
}
