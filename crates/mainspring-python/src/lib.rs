//! The Python face of mainspring: an adapter over the engine in `crates/mainspring-engine`.
//!
//! It translates and decides nothing: what a pass of the loop is, when a timer is due, what a transport does with what
//! it cannot send, is the engine's. Here are the objects Python sees, and the words it uses.
//!
//! | file | what |
//! | --- | --- |
//! | `obj.rs`, `fastcall.rs`, `native_type.rs`, `native_object.rs` | references, entry points, heap types and their instances: the ground, and most of the `unsafe` |
//! | `source.rs` | which native object an event of the engine is for |
//! | `free_list.rs` | memory of handles that goes round |
//! | `allocator.rs` | what the C library does with large blocks |
//! | `dealloc.rs` | the end of objects that hold each other in long chains |
//! | `thread_exit.rs` | what happens to a thread that is inside this module when the interpreter ends |
//! | `errors.rs` | exceptions on their way, and two at once |
//! | `names.rs` | interned strings, asyncio's objects |
//! | `host.rs` | the engine's view of Python: running a handle, reporting a failure, giving up the interpreter lock |
//! | `handle.rs`, `scheduling.rs`, `loop_object.rs` | `Handle`, `TimerHandle`, `call_soon` and its kin, `NativeLoop` |
//! | `creating.rs` | `create_task`, `create_future` |
//! | `request.rs` | what the entry points of both begin with |
//! | `socket_ops/` | the `sock_*` coroutines |
//! | `channel.rs`, `protocol.rs`, `transport/`, `listener.rs` | streams and servers, and what all transport objects share |
//! | `accepting.rs` | the task of a connection that its protocol has not been told of |
//! | `pipe/`, `child.rs` | pipes, and the end of child processes |
//! | `datagram/`, `address.rs` | datagram endpoints, and addresses in Python's words |
//! | `tls/` | TLS, over a user's own `ssl.SSLContext` |

mod accepting;
mod address;
mod allocator;
mod channel;
mod child;
mod clock;
mod context;
mod creating;
mod datagram;
mod dealloc;
mod errors;
mod fastcall;
mod fd_owners;
mod free_list;
mod handle;
mod host;
mod listener;
mod loop_object;
mod names;
mod native_object;
mod native_type;
mod obj;
mod overrides;
mod pipe;
mod protocol;
mod request;
mod scheduling;
mod socket_ops;
mod source;
mod thread_exit;
mod tls;
mod transport;

use child::PyChildWatch;
use datagram::DatagramData;
use listener::PyListener;
use loop_object::NativeLoop;
use native_object::NativeClass;
use pipe::{ReadPipeData, WritePipeData};
use pyo3::exceptions::PyImportError;
use pyo3::ffi;
use pyo3::prelude::*;
use socket_ops::SocketWait;
use tls::{TlsData, TlsTransportData};
use transport::TransportData;

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
    module.add_function(wrap_pyfunction!(transport::open_stream, module)?)?;
    module.add_function(wrap_pyfunction!(datagram::open_datagram, module)?)?;
    module.add_function(wrap_pyfunction!(pipe::open_read_pipe, module)?)?;
    module.add_function(wrap_pyfunction!(pipe::open_write_pipe, module)?)?;
    module.add_function(wrap_pyfunction!(listener::remove_socket_file, module)?)?;
    scheduling::add_methods(&py.get_type::<NativeLoop>())?;
    creating::add_methods(&py.get_type::<NativeLoop>())?;
    socket_ops::add_methods(&py.get_type::<NativeLoop>())?;
    module.add("StreamTransport", NativeClass::of::<TransportData>(py)?.class())?;
    module.add("DatagramTransport", NativeClass::of::<DatagramData>(py)?.class())?;
    module.add("ReadPipeTransport", NativeClass::of::<ReadPipeData>(py)?.class())?;
    module.add("WritePipeTransport", NativeClass::of::<WritePipeData>(py)?.class())?;
    module.add("SSLProtocol", NativeClass::of::<TlsData>(py)?.class())?;
    module.add("SSLTransport", NativeClass::of::<TlsTransportData>(py)?.class())?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    loop_object::register(module)
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
