//! The Python extension module `mainspring._mainspring`: an adapter over the engine (`crates/mainspring-engine`).
//!
//! The engine decides: loop iterations, timers, transport states. This crate defines the objects that Python sees and
//! translates calls, errors and buffers between the two.
//!
//! | module | subject |
//! | --- | --- |
//! | `event_loop/` | `NativeLoop`, scheduling, `create_task`, the engine's host |
//! | `handle/` | `Handle`, `TimerHandle`, thread-safe handles |
//! | `transport/` | what all transport objects share: methods, protocol, file descriptor, data to send |
//! | `stream/` | `StreamTransport`, listeners, accepted connections |
//! | `datagram/`, `pipe/`, `tls/` | the other transports |
//! | `asyncio_streams/` | what `mainspring._streams` does natively for asyncio's readers and writers |
//! | `socket_ops/` | the `sock_*` coroutines |
//! | `child_watch.rs`, `signal_watch.rs` | child processes; a signal that wakes a thread |
//! | `coroutine.rs` | the methods of native objects that a task awaits |
//! | `errors.rs`, `names.rs` | combining exceptions; interned names and asyncio's objects |
//! | `allocator.rs` | a setting of the C library's allocator |
//! | `python/` | CPython's C API behind safe interfaces |

#![deny(unsafe_code)]

mod allocator;
mod asyncio_streams;
mod child_watch;
mod coroutine;
mod datagram;
mod errors;
mod event_loop;
mod handle;
mod names;
mod pipe;
mod python;
mod signal_watch;
mod socket_ops;
mod stream;
mod tls;
mod transport;

use child_watch::PyChildWatch;
use datagram::DatagramData;
use event_loop::lanes::{self, LaneSetting};
use event_loop::monitoring::PyStallWatch;
use event_loop::{NativeLoop, create_task, scheduling};
use pipe::{ReadPipeData, WritePipeData};
use pyo3::exceptions::PyImportError;
use pyo3::prelude::*;
use python::interpreter;
use python::method::{add_functions, add_methods};
use python::native_class::NativeClass;
use signal_watch::PySignalWatch;
use socket_ops::SocketWait;
use stream::StreamData;
use stream::listener::{self, PyListener};
use tls::{TlsProtocolData, TlsTransportData};

/// `gil_used`: the module relies on the interpreter lock (`python/dealloc.rs`); a free-threaded interpreter enables it.
#[pymodule(gil_used = true)]
fn _mainspring(module: &Bound<'_, PyModule>) -> PyResult<()> {
    check_interpreter()?;
    let py = module.py();
    allocator::keep_large_blocks();
    module.add_class::<NativeLoop>()?;
    module.add_class::<PyListener>()?;
    module.add_class::<PyChildWatch>()?;
    module.add_class::<SocketWait>()?;
    module.add_class::<LaneSetting>()?;
    module.add_class::<PyStallWatch>()?;
    module.add_class::<PySignalWatch>()?;
    module.add_function(wrap_pyfunction!(stream::open_stream, module)?)?;
    module.add_function(wrap_pyfunction!(datagram::open_datagram, module)?)?;
    module.add_function(wrap_pyfunction!(pipe::open_read_pipe, module)?)?;
    module.add_function(wrap_pyfunction!(pipe::open_write_pipe, module)?)?;
    module.add_function(wrap_pyfunction!(listener::remove_socket_file, module)?)?;
    module.add_function(wrap_pyfunction!(socket_ops::connect_backoff, module)?)?;
    module.add_function(wrap_pyfunction!(lanes::lane_variable, module)?)?;
    add_methods(py, scheduling::methods())?;
    add_methods(py, create_task::methods())?;
    add_methods(py, socket_ops::methods())?;
    add_functions(module, asyncio_streams::functions())?;
    module.add("StreamTransport", NativeClass::<StreamData>::get(py)?.class())?;
    module.add("DatagramTransport", NativeClass::<DatagramData>::get(py)?.class())?;
    module.add("ReadPipeTransport", NativeClass::<ReadPipeData>::get(py)?.class())?;
    module.add("WritePipeTransport", NativeClass::<WritePipeData>::get(py)?.class())?;
    module.add("SSLProtocol", NativeClass::<TlsProtocolData>::get(py)?.class())?;
    module.add("SSLTransport", NativeClass::<TlsTransportData>::get(py)?.class())?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    event_loop::add_handle_types(module)
}

/// Refuses subinterpreters: the types and names of this module exist once per process, in the main interpreter.
fn check_interpreter() -> PyResult<()> {
    if interpreter::is_main() {
        return Ok(());
    }
    Err(PyImportError::new_err(
        "mainspring does not support subinterpreters; import it in the main interpreter",
    ))
}
