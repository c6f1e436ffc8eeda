//! What the face looks up once: interned attribute names, and asyncio's own objects.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyString, PyTuple};

macro_rules! names {
    ($($name:ident),* $(,)?) => {
        /// Interned strings, named as they read.
        pub struct Names {
            $(pub $name: Py<PyString>,)*
            /// `("loop",)`: the keyword names of a call with `loop=`.
            pub loop_keyword: Py<PyTuple>,
            /// `socket.socket`.
            pub socket_class: Py<PyAny>,
            /// `asyncio.Future`.
            pub future_class: Py<PyAny>,
            /// `asyncio.BufferedProtocol`.
            pub buffered_protocol: Py<PyAny>,
            /// Whether `Server._attach` takes the transport: from Python 3.13 on.
            pub server_takes_transport: bool,
            /// `mainspring._reports`: where failures are put into asyncio's words.
            pub reports: Py<PyModule>,
        }

        impl Names {
            fn load(py: Python<'_>) -> PyResult<Self> {
                Ok(Names {
                    $($name: PyString::intern(py, stringify!($name)).unbind(),)*
                    loop_keyword: PyTuple::new(py, [intern!(py, "loop")])?.unbind(),
                    socket_class: py.import("socket")?.getattr("socket")?.unbind(),
                    future_class: py.import("asyncio.futures")?.getattr("Future")?.unbind(),
                    buffered_protocol: py.import("asyncio.protocols")?.getattr("BufferedProtocol")?.unbind(),
                    server_takes_transport: py
                        .import("mainspring._internals")?
                        .getattr("SERVER_TAKES_TRANSPORT")?
                        .is_truthy()?,
                    reports: py.import("mainspring._reports")?.unbind(),
                })
            }
        }
    };
}

names! {
    _accept_secure, _attach, _check_callback, _check_thread, _current_handle, _detach, _loop, _notified,
    _sock,
    buffer_updated, callback_failed, connection_lost, connection_made, context, data_received, datagram_received,
    eof_received, error_received, fatal_transport_error, get_buffer, pause_writing, recvfrom, resume_writing, sendto, slow_callback,
    slow_callback_duration, source_traceback, transport_failed, warn_write_after_loss, accept_failed,
    _asyncio_future_blocking, _check_socket, _drained, create_future, done, fileno, recv, recv_into, result,
    set_exception, set_result,
    _ssl_protocol, _established, _handshake_ended, _trouble, _note, _force_close, do_handshake, unwrap, read,
    write, pending, close, abort, is_closing, pause_reading, resume_reading,
}

static NAMES: PyOnceLock<Names> = PyOnceLock::new();

/// The names; loaded on first use, which is when the first loop is made.
pub fn names(py: Python<'_>) -> PyResult<&'static Names> {
    NAMES.get_or_try_init(py, || Names::load(py))
}
