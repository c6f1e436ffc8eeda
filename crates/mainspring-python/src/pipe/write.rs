//! The writing end: an `asyncio.WriteTransport` with asyncio's flow control mixin.

use super::{Pipe, WriteMachine, WritePipeData};
use crate::python::args::Args;
use crate::python::method::{Method, Native, Receiver};
use crate::python::native_class::NativeClass;
use crate::transport::channel::PyChannel;
use crate::transport::methods;
use crate::transport::protocol::PyProtocol;
use crate::transport::write_data::{PyChunk, WriteData};
use crate::transport::{opened, write_in_context};
use mainspring_engine::transport::{PipeKind, WritePipe};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use std::ffi::CStr;

static CLASS: PyOnceLock<NativeClass<WritePipeData>> = PyOnceLock::new();

impl Pipe for WriteMachine {
    const NAME: &'static CStr = c"mainspring._mainspring.WritePipeTransport";
    // A WriteTransport, and as in asyncio also a ReadTransport.
    const BASE: &'static str = "_FlowControlMixin";
    const NOT_A_PIPE: &'static str = "Pipe transport is only for pipes, sockets and character devices";

    fn class_cell() -> &'static PyOnceLock<NativeClass<WritePipeData>> {
        &CLASS
    }

    fn methods() -> Vec<Method<Native<WritePipeData>>> {
        let mut methods = methods::writing();
        methods.extend([
            Method::fastcall(c"write", write, c"Write some data bytes to the transport."),
            Method::noargs(
                c"write_eof",
                methods::close::<WritePipeData>,
                c"Close the pipe after flushing buffered data.",
            ),
            Method::noargs(
                c"can_write_eof",
                can_write_eof,
                c"Return True: the transport supports write_eof().",
            ),
        ]);
        methods
    }

    fn new(channel: PyChannel, kind: PipeKind, sink: PyProtocol) -> Self {
        WritePipe::new(channel, kind, sink)
    }

    fn sink(&self) -> &PyProtocol {
        self.sink()
    }

    fn for_each_chunk(&self, show: &mut dyn FnMut(&PyChunk)) {
        self.for_each_chunk(show);
    }
}

fn write(receiver: Receiver<'_, WritePipeData>, args: &Args<'_>) -> PyResult<()> {
    let (open, cx) = opened(receiver)?;
    let data = WriteData::new(receiver.py, args.only("write", "data")?)?;
    data.reserve()?;
    write_in_context(receiver.py, open, || open.machine.write(cx, data.as_slice(), || data.to_chunk()))
}

fn can_write_eof(_: Receiver<'_, WritePipeData>) -> PyResult<bool> {
    Ok(true)
}
