//! `Machine`: the engine's transports, as the methods that all kinds of transport objects have see them; `Reading` and
//! `Writing`, what those that read and those that write have beside it.

use crate::datagram::DatagramMachine;
use crate::event_loop::host::PyHost;
use crate::transport::channel::PyChannel;
use crate::transport::protocol::PyUpper;
use mainspring_engine::Readiness;
use mainspring_engine::poller::Interest;
use mainspring_engine::transport::{Cx, Notice, ReadPipe, Stream, WaterMarks, WritePipe};
use pyo3::prelude::*;
use std::os::fd::RawFd;

/// Declares a trait, and implements it for types that have methods of these names by themselves.
macro_rules! machines {
    ($trait:ident $types:tt $methods:tt) => {
        machines!(@declare $trait $methods);
        machines!(@each $trait $types $methods);
    };
    (@declare $trait:ident { $(fn $name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)?;)* }) => {
        /// See the module's text.
        pub trait $trait {
            $(fn $name(&self, $($argument: $type),*) $(-> $result)?;)*
        }
    };
    (@each $trait:ident [$($machine:ty),*] $methods:tt) => {
        $(machines!(@implement $trait $machine, $methods);)*
    };
    (@implement $trait:ident $machine:ty, { $(fn $name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)?;)* }) => {
        impl $trait for $machine {
            $(fn $name(&self, $($argument: $type),*) $(-> $result)? {
                self.$name($($argument),*)
            })*
        }
    };
}

type ReadingPipe = ReadPipe<PyHost, PyUpper>;
type WritingPipe = WritePipe<PyHost, PyUpper>;

machines! {
    Machine
    [Stream<PyHost, PyUpper>, DatagramMachine, ReadingPipe, WritingPipe]
    {
        fn open(cx: Cx<'_, PyHost>) -> PyResult<()>;
        fn io_ready(cx: Cx<'_, PyHost>, readiness: Readiness) -> PyResult<()>;
        fn notified(cx: Cx<'_, PyHost>, notice: Notice) -> PyResult<()>;
        fn close(cx: Cx<'_, PyHost>) -> PyResult<()>;
        fn abort(cx: Cx<'_, PyHost>, error: Option<PyErr>) -> PyResult<()>;
        fn is_closing() -> bool;
        fn is_finished() -> bool;
        fn is_writing_paused() -> bool;
        fn interest() -> Interest;
        fn fd() -> RawFd;
        fn take_channel() -> Option<PyChannel>;
        fn show_channel(show: &mut dyn FnMut(&PyChannel)) -> ();
        fn show_failure(show: &mut dyn FnMut(&PyErr)) -> ();
    }
}

machines! {
    Reading
    [Stream<PyHost, PyUpper>, DatagramMachine, ReadingPipe]
    {
        fn pause_reading(cx: Cx<'_, PyHost>) -> PyResult<bool>;
        fn resume_reading(cx: Cx<'_, PyHost>) -> PyResult<bool>;
        fn is_reading() -> bool;
    }
}

machines! {
    Writing
    [Stream<PyHost, PyUpper>, DatagramMachine, WritingPipe]
    {
        fn set_water_marks(cx: Cx<'_, PyHost>, marks: WaterMarks) -> PyResult<()>;
        fn water_marks() -> WaterMarks;
        fn write_buffer_size() -> usize;
    }
}
