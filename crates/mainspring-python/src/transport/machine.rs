//! `Machine`: the engine's transports, as the methods that all kinds of transport objects have see them.

use crate::channel::PyChannel;
use crate::datagram::DatagramMachine;
use crate::host::PyHost;
use crate::protocol::PyUpper;
use mainspring::engine::Readiness;
use mainspring::poller::Interest;
use mainspring::transport::{Cx, Notice, Stream, WaterMarks};
use pyo3::prelude::*;
use std::os::fd::RawFd;

/// Declares the trait, and implements it for types that have methods of these names by themselves.
macro_rules! machines {
    ($types:tt $methods:tt) => {
        machines!(@declare $methods);
        machines!(@each $types $methods);
    };
    (@declare { $(fn $name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)?;)* }) => {
        /// See the module's text.
        pub trait Machine {
            $(fn $name(&self, $($argument: $type),*) $(-> $result)?;)*
        }
    };
    (@each [$($machine:ty),*] $methods:tt) => {
        $(machines!(@implement $machine, $methods);)*
    };
    (@implement $machine:ty, { $(fn $name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)?;)* }) => {
        impl Machine for $machine {
            $(fn $name(&self, $($argument: $type),*) $(-> $result)? {
                self.$name($($argument),*)
            })*
        }
    };
}

machines! {
    [Stream<PyHost, PyUpper>, DatagramMachine]
    {
        fn open(cx: Cx<'_, PyHost>) -> PyResult<()>;
        fn io_ready(cx: Cx<'_, PyHost>, readiness: Readiness) -> PyResult<()>;
        fn notified(cx: Cx<'_, PyHost>, notice: Notice) -> PyResult<()>;
        fn close(cx: Cx<'_, PyHost>) -> PyResult<()>;
        fn abort(cx: Cx<'_, PyHost>, error: Option<PyErr>) -> PyResult<()>;
        fn pause_reading(cx: Cx<'_, PyHost>) -> PyResult<bool>;
        fn resume_reading(cx: Cx<'_, PyHost>) -> PyResult<bool>;
        fn set_water_marks(cx: Cx<'_, PyHost>, marks: WaterMarks) -> PyResult<()>;
        fn water_marks() -> WaterMarks;
        fn write_buffer_size() -> usize;
        fn is_closing() -> bool;
        fn is_reading() -> bool;
        fn is_finished() -> bool;
        fn is_writing_paused() -> bool;
        fn interest() -> Interest;
        fn fd() -> RawFd;
        fn take_channel() -> Option<PyChannel>;
    }
}
