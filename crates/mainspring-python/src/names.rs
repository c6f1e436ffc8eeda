//! Objects that are looked up once: interned attribute names, and objects of asyncio.

use crate::python::args::Keyword;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyString, PyTuple};

macro_rules! names {
    ($($name:ident),* $(,)?) => {
        /// Interned strings, each in a field of the same name, and objects of asyncio.
        pub struct Names {
            $(pub $name: Py<PyString>,)*
            /// The keyword `context` of `call_soon()` and its relatives.
            pub context_keyword: Keyword,
            /// `("loop",)`: the keyword names of a call with `loop=`.
            pub loop_keyword: Py<PyTuple>,
            /// `("name", "loop")`.
            pub name_loop_keywords: Py<PyTuple>,
            /// `("context", "loop")`.
            pub context_loop_keywords: Py<PyTuple>,
            /// `("name", "context", "loop")`.
            pub name_context_loop_keywords: Py<PyTuple>,
            /// Whether `Task` takes a context: from Python 3.11 on.
            pub task_takes_context: bool,
            /// `vars(asyncio.tasks)`.
            pub tasks: Py<PyDict>,
            /// The C implementation of `asyncio.Task`, if there is one.
            pub native_task: Option<Py<PyAny>>,
            /// `asyncio.BaseEventLoop`.
            pub base_event_loop: Py<PyAny>,
            /// `asyncio.BaseEventLoop.create_task` at import.
            pub base_create_task: Py<PyAny>,
            /// `socket.socket`.
            pub socket_class: Py<PyAny>,
            /// `vars(asyncio.futures)`.
            pub futures: Py<PyDict>,
            /// `asyncio.BufferedProtocol`.
            pub buffered_protocol: Py<PyAny>,
            /// Whether `Server._attach` takes the transport: from Python 3.13 on.
            pub server_takes_transport: bool,
            /// `mainspring._reports`, which reports exceptions with asyncio's messages.
            pub reports: Py<PyModule>,
        }

        impl Names {
            fn load(py: Python<'_>) -> PyResult<Self> {
                let base_event_loop = py.import("asyncio.base_events")?.getattr("BaseEventLoop")?;
                let (name, context, event_loop) =
                    (intern!(py, "name"), intern!(py, "context"), intern!(py, "loop"));
                Ok(Names {
                    $($name: PyString::intern(py, stringify!($name)).unbind(),)*
                    context_keyword: Keyword::new(context.clone().unbind()),
                    loop_keyword: PyTuple::new(py, [event_loop])?.unbind(),
                    name_loop_keywords: PyTuple::new(py, [name, event_loop])?.unbind(),
                    context_loop_keywords: PyTuple::new(py, [context, event_loop])?.unbind(),
                    name_context_loop_keywords: PyTuple::new(py, [name, context, event_loop])?.unbind(),
                    task_takes_context: py.version_info() >= (3, 11),
                    tasks: py.import("asyncio.tasks")?.dict().unbind(),
                    native_task: py.import("_asyncio").and_then(|it| it.getattr("Task")).ok().map(Bound::unbind),
                    base_create_task: base_event_loop.getattr("create_task")?.unbind(),
                    base_event_loop: base_event_loop.unbind(),
                    socket_class: py.import("socket")?.getattr("socket")?.unbind(),
                    futures: py.import("asyncio.futures")?.dict().unbind(),
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
    _accept_secure, _attach, _check_callback, _check_thread, _current_handle, _detach, _loop,
    _add_reader, _call_connection_lost, _check_handshake_timeout, _check_shutdown_timeout, _close_lower, _do_read,
    _decref_socketios, _sock, _start_serving,
    buffer_updated, callback_failed, connection_lost, connection_made, context, data_received, datagram_received,
    eof_received, error_received, fatal_transport_error, get_buffer, pause_writing, recvfrom, resume_writing, sendto, slow_callback, slow_io,
    slow_callback_duration, source_traceback, transport_failed, warn_write_after_loss, accept_failed, accepted,
    log_event,
    closed_by_peer,
    _asyncio_future_blocking, _check_socket, _drained, create_future, done, fileno, recv, recv_into, result,
    set_exception, set_result, create_task, name, _task_factory,
    _ssl_protocol, _established, _handshake_ended, _tls_error, _log_tls_event, _force_close, do_handshake, unwrap, read,
    write, pending, close, abort, is_closing, pause_reading, resume_reading,
    _buffer, _connection_lost, _drain_helper, _eof, _exception, _limit, _maybe_resume_transport, _paused, _protocol,
    _reader, _stream_reader_wr, _transport, _wait_for_data, _waiter, _wakeup_waiter, cancelled, exception, feed_data,
    readexactly, readline, readuntil,
}

static NAMES: PyOnceLock<Names> = PyOnceLock::new();

/// The names, loaded on first use.
#[inline]
pub fn names(py: Python<'_>) -> PyResult<&'static Names> {
    NAMES.get_or_try_init(py, || Names::load(py))
}
