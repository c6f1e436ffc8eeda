//! The engine's transports as the shared methods see them: [`EngineTransport`] for all, [`ReadableTransport`] and
//! [`WritableTransport`] for those that read and those that write.

use super::protocol::PyProtocol;
use crate::datagram::DatagramMachine;
use crate::event_loop::host::PyHost;
use mainspring_engine::Readiness;
use mainspring_engine::transport::{Cx, DeferredCall, ReadPipe, Stream, Transport, WaterMarks, WritePipe};
use pyo3::prelude::*;

/// Declares a trait, and implements it for types that have inherent methods of the same names.
macro_rules! transport_trait {
    ($trait:ident $types:tt $methods:tt) => {
        transport_trait!(@declare $trait $methods);
        transport_trait!(@each $trait $types $methods);
    };
    (@declare $trait:ident { $(fn $name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)?;)* }) => {
        /// See the module comment.
        pub trait $trait: Transport<PyHost> {
            $(fn $name(&self, $($argument: $type),*) $(-> $result)?;)*
        }
    };
    (@each $trait:ident [$($machine:ty),*] $methods:tt) => {
        $(transport_trait!(@implement $trait $machine, $methods);)*
    };
    (@implement $trait:ident $machine:ty, { $(fn $name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)?;)* }) => {
        impl $trait for $machine {
            $(fn $name(&self, $($argument: $type),*) $(-> $result)? {
                self.$name($($argument),*)
            })*
        }
    };
}

type ReadPipeMachine = ReadPipe<PyHost, PyProtocol>;
type WritePipeMachine = WritePipe<PyHost, PyProtocol>;

transport_trait! {
    EngineTransport
    [Stream<PyHost, PyProtocol>, DatagramMachine, ReadPipeMachine, WritePipeMachine]
    {
        fn open(cx: Cx<'_, PyHost>) -> PyResult<()>;
        fn io_ready(cx: Cx<'_, PyHost>, readiness: Readiness) -> PyResult<()>;
        fn run_deferred(cx: Cx<'_, PyHost>, deferred: DeferredCall) -> PyResult<()>;
        fn close(cx: Cx<'_, PyHost>) -> PyResult<()>;
        fn abort(cx: Cx<'_, PyHost>, error: Option<PyErr>) -> PyResult<()>;
        fn is_writing_paused() -> bool;
    }
}

transport_trait! {
    ReadableTransport
    [Stream<PyHost, PyProtocol>, DatagramMachine, ReadPipeMachine]
    {
        fn pause_reading(cx: Cx<'_, PyHost>) -> PyResult<bool>;
        fn resume_reading(cx: Cx<'_, PyHost>) -> PyResult<bool>;
        fn is_reading() -> bool;
    }
}

transport_trait! {
    WritableTransport
    [Stream<PyHost, PyProtocol>, DatagramMachine, WritePipeMachine]
    {
        fn set_water_marks(cx: Cx<'_, PyHost>, marks: WaterMarks) -> PyResult<()>;
        fn water_marks() -> WaterMarks;
        fn write_buffer_size() -> usize;
    }
}
