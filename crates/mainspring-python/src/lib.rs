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
//! | `socket_ops/` | the `sock_*` coroutines |
//! | `child_watch.rs` | child processes |
//! | `errors.rs`, `names.rs` | combining exceptions; interned names and asyncio's objects |
//! | `allocator.rs` | a setting of the C library's allocator |
//! | `python/` | CPython's C API behind safe interfaces |

mod allocator;
mod child_watch;
mod datagram;
mod errors;
mod event_loop;
mod handle;
mod names;
mod pipe;
mod python;
mod socket_ops;
mod stream;
mod tls;
mod transport;

use child_watch::PyChildWatch;
use datagram::DatagramData;
use event_loop::{NativeLoop, create_task, scheduling};
use pipe::{ReadPipeData, WritePipeData};
use pyo3::exceptions::PyImportError;
use pyo3::ffi;
use pyo3::prelude::*;
use python::native_class::NativeClass;
use socket_ops::SocketWait;
use stream::TransportData;
use stream::listener::{self, PyListener};
use tls::{TlsData, TlsTransportData};

/// `gil_used`: the face relies on the interpreter lock (`loop_object.rs`); a free-threaded interpreter turns it on again.
#[pymodule(gil_used = true)]
fn _mainspring(module: &Bound<'_, PyModule>) -> PyResult<()> {
    check_interpreter()?;
    let py = module.py();
    allocator::keep_large_blocks();
    module.add_class::<NativeLoop>()?;
    module.add_class::<PyListener>()?;
    module.add_class::<PyChildWatch>()?;
    module.add_class::<SocketWait>()?;
    module.add_function(wrap_pyfunction!(stream::open_stream, module)?)?;
    module.add_function(wrap_pyfunction!(datagram::open_datagram, module)?)?;
    module.add_function(wrap_pyfunction!(pipe::open_read_pipe, module)?)?;
    module.add_function(wrap_pyfunction!(pipe::open_write_pipe, module)?)?;
    module.add_function(wrap_pyfunction!(listener::remove_socket_file, module)?)?;
    scheduling::add_methods(&py.get_type::<NativeLoop>())?;
    create_task::add_methods(&py.get_type::<NativeLoop>())?;
    socket_ops::add_methods(&py.get_type::<NativeLoop>())?;
    module.add("StreamTransport", NativeClass::of::<TransportData>(py)?.class())?;
    module.add("DatagramTransport", NativeClass::of::<DatagramData>(py)?.class())?;
    module.add("ReadPipeTransport", NativeClass::of::<ReadPipeData>(py)?.class())?;
    module.add("WritePipeTransport", NativeClass::of::<WritePipeData>(py)?.class())?;
    module.add("SSLProtocol", NativeClass::of::<TlsData>(py)?.class())?;
    module.add("SSLTransport", NativeClass::of::<TlsTransportData>(py)?.class())?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    event_loop::register(module)
}

/// Refuses subinterpreters before anything is made: the types and names of this module are made once per process, for
/// the interpreter that made them.
fn check_interpreter() -> PyResult<()> {
    // SAFETY: the interpreter is importing this module, so it runs, and this thread is attached to it.
    let is_main = unsafe { ffi::PyInterpreterState_Get() == ffi::PyInterpreterState_Main() };
    if is_main {
        return Ok(());
    }
    Err(PyImportError::new_err(
        "mainspring does not support subinterpreters; import it in the main interpreter",
    ))
}
