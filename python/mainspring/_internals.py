"""All private names of asyncio that this package uses, in Python and in the native code.

asyncio's documentation offers ``BaseEventLoop`` as the base of other loops, but the methods that it calls on derived
classes are internal.  A new Python version is checked against these lists.  ``tests/test_internals.py`` compares them
with the sources.
"""

from __future__ import annotations

import asyncio
import sys
from asyncio import (
    base_events,
    base_subprocess,
    constants,
    events,
    format_helpers,
    futures,
    sslproto,
    unix_events,
)

# Names that this package uses, by module or class.
USES: dict[str, tuple[str, ...]] = {
    "asyncio": ("_get_running_loop", "_set_running_loop"),
    "asyncio.base_events": ("_SendfileFallbackProtocol", "_check_ssl_socket", "_format_handle"),
    "asyncio.constants": ("_SendfileMode",),
    # Before Python 3.16; from Python 3.14 on.
    "asyncio.events": ("_event_loop_policy", "_ThreadSafeHandle"),
    "asyncio.format_helpers": ("_format_callback_source",),
    "asyncio.futures": ("_set_result_unless_cancelled",),
    "asyncio.sslproto": ("_create_transport_context",),
    "asyncio.tasks": ("_PyTask", "_asyncio", "_enter_task", "_leave_task", "_release_waiter"),
    "asyncio.transports": ("_FlowControlMixin",),
    "asyncio.unix_events": ("_UnixSelectorEventLoop",),
    "BaseEventLoop": (
        "_asyncgen_finalizer_hook",
        "_asyncgen_firstiter_hook",
        "_check_callback",
        "_check_closed",
        "_check_running",
        "_check_sendfile_params",
        "_check_thread",
        "_current_handle",
        "_debug",
        "_default_executor",
        "_ensure_resolved",
        "_run_forever_cleanup",  # from Python 3.13 on
        "_run_forever_setup",  # from Python 3.13 on
        "_set_coroutine_origin_tracking",
        "_task_factory",
        "_thread_id",
    ),
    "Handle": (
        "_args",
        "_callback",
        "_cancelled",
        "_context",
        "_loop",
        "_repr",
        "_repr_info",
        "_run",
        "_source_traceback",
    ),
    "TimerHandle": ("_scheduled", "_when"),
    "_ThreadSafeHandle": ("_lock",),
    "Future": ("_asyncio_future_blocking", "_log_traceback"),
    "_GatheringFuture": ("_children",),
    "Task": ("_fut_waiter", "_log_destroy_pending", "_must_cancel"),
    "Timeout": ("_on_timeout",),  # from Python 3.11 on
    "Server": ("_attach", "_detach"),
    "FlowControlMixin": ("_connection_lost", "_drain_helper"),
    "StreamReaderProtocol": ("_client_connected_cb", "_stream_reader", "_stream_reader_wr"),
    "StreamReader": (
        "_buffer",
        "_eof",
        "_exception",
        "_limit",
        "_maybe_resume_transport",
        "_wait_for_data",
        "_wakeup_waiter",
    ),
    "StreamWriter": ("_reader",),
    "BaseSubprocessTransport": (
        "_check_proc",
        "_closed",
        "_connect_pipes",
        "_pending_calls",
        "_pipes",
        "_proc",
        "_process_exited",
        "_protocol",
        "_returncode",
        "_start",
        "_wait",
    ),
    "BaseDefaultEventLoopPolicy": ("_loop_factory", "_watcher"),
}

# Names that asyncio's code uses on our loop and transports.
SERVES: dict[str, tuple[str, ...]] = {
    "the loop": (
        "_add_reader",
        "_add_writer",
        "_call_soon",
        "_child_watcher_callback",
        "_ensure_fd_no_transport",
        "_make_datagram_transport",
        "_make_read_pipe_transport",
        "_make_socket_transport",
        "_make_ssl_transport",
        "_make_subprocess_transport",
        "_make_write_pipe_transport",
        "_ready",
        "_remove_reader",
        "_remove_writer",
        "_run_once",
        "_sendfile_fallback",
        "_sendfile_native",
        "_sock_sendfile_native",
        "_start_serving",
        "_stop_serving",
        "_stopping",
        "_unix_server_sockets",  # from Python 3.13 on
    ),
    "a transport": (
        "_empty_waiter",
        "_extra",
        "_force_close",
        "_make_empty_waiter",
        "_protocol_paused",
        "_reset_empty_waiter",
        "_sendfile_compatible",
        "_sock",
        "_start_tls_compatible",
    ),
    "a concurrent future": ("_get_snapshot",),  # from Python 3.14 on
}

# Names that we share with asyncio so that messages look the same and libraries find them (docs/private-names.md).
NAMED_AS_IN_ASYNCIO: tuple[str, ...] = (
    "_accept_connection",
    "_address",
    "_app_protocol",
    "_app_reading_paused",
    "_app_transport",
    "_call_connection_lost",
    "_check_handshake_timeout",
    "_check_shutdown_timeout",
    "_closing",
    "_do_read",
    "_fileno",
    "_get_extra_info",
    "_high_water",
    "_low_water",
    "_paused",
    "_pipe",
    "_read_ready",
    "_run_until_complete_cb",
    "_selector",
    "_signal_handlers",
    "_sock_fd",
    "_ssl_protocol",
    "_sslcontext",
    "_sslobj",
    "_transport",
    "_waiter",
    "_write_ready",
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    import contextlib
    import contextvars
    import socket
    import ssl
    import traceback
    from collections.abc import Callable
    from typing import Any

    from typing_extensions import TypeVarTuple

    from ._mainspring import NativeLoop

    Ts = TypeVarTuple("Ts")

    class LoopParts(NativeLoop, asyncio.BaseEventLoop):
        """The methods that the parts of the loop use of each other."""

        _debug: bool
        _signal_handlers: dict[int, asyncio.Handle]
        _thread_id: Any

        def _check_closed(self) -> None: ...
        def _check_running(self) -> None: ...
        def _set_coroutine_origin_tracking(self, enabled: bool) -> None: ...
        def _asyncgen_firstiter_hook(self, agen: Any) -> None: ...
        def _asyncgen_finalizer_hook(self, agen: Any) -> None: ...
        def _check_sendfile_params(self, sock: Any, file: Any, offset: int, count: int | None) -> None: ...
        def _wakeup_fd_installed(self) -> contextlib.AbstractContextManager[None]: ...
        def _stop_serving(self, sock: Any) -> None: ...
        def _make_socket_transport(
            self, sock: socket.socket, protocol: asyncio.BaseProtocol, *args: Any, **options: Any
        ) -> Any: ...
        def _secure_acceptor(
            self,
            protocol_factory: Callable[[], asyncio.BaseProtocol],
            sslcontext: ssl.SSLContext,
            server: Any,
            timeouts: tuple[float | None, ...],
            context: contextvars.Context | None,
        ) -> Callable[[socket.socket, Any], None]: ...
        async def _ensure_resolved(self, address: Any, **options: Any) -> list[Any]: ...

else:
    LoopParts = object

_base: Any = base_events
_helpers: Any = format_helpers

check_ssl_socket: Callable[[object], None] = _base._check_ssl_socket
format_handle: Callable[[asyncio.Handle], str] = _base._format_handle
format_callback_source: Callable[..., str] = _helpers._format_callback_source
extract_stack: Callable[[Any], traceback.StackSummary] = format_helpers.extract_stack
set_result_unless_cancelled: Callable[..., None] = futures._set_result_unless_cancelled  # type: ignore[attr-defined]
# asyncio's documentation of custom task types describes these two.
enter_task: Callable[..., None] = asyncio.tasks._enter_task
leave_task: Callable[..., None] = asyncio.tasks._leave_task
SendfileMode = constants._SendfileMode
# Replaces a transport's protocol while a file is sent in blocks.
SendfileFallbackProtocol: Any = _base._SendfileFallbackProtocol
create_transport_context: Callable[[bool, str | None], ssl.SSLContext] = sslproto._create_transport_context
# New in Python 3.11.
SSL_SHUTDOWN_TIMEOUT: float = getattr(constants, "SSL_SHUTDOWN_TIMEOUT", 30.0)
# asyncio's own loop, whatever name it is imported by: two of its coroutines are used here.
UnixLoop: Any = unix_events._UnixSelectorEventLoop

BaseSubprocessTransport = base_subprocess.BaseSubprocessTransport
ReadSubprocessPipeProto = base_subprocess.ReadSubprocessPipeProto
WriteSubprocessPipeProto = base_subprocess.WriteSubprocessPipeProto


# Python 3.16 has no event loop policies.
HAS_POLICIES = hasattr(events, "set_event_loop_policy")
# Python 3.14 has no child watchers.
HAS_CHILD_WATCHERS = hasattr(events, "set_child_watcher")


def explicit_child_watcher() -> Any:
    """The child watcher that the program has set with ``asyncio.set_child_watcher()``; None from Python 3.14 on.

    Watchers that wait only for the children that they watch count as none: the loop does the same by itself.
    """
    if not HAS_CHILD_WATCHERS:
        return None
    # Not asyncio.get_child_watcher(): it creates a watcher if none was set.
    policy = getattr(events, "_event_loop_policy", None)
    watcher = getattr(policy, "_watcher", None)
    if watcher is None or type(watcher).__name__ in ("PidfdChildWatcher", "ThreadedChildWatcher"):
        return None
    return watcher


# Before Python 3.12 asyncio uses the result of the watcher's __enter__().
USES_ENTERED_WATCHER = sys.version_info < (3, 12)

# Before Python 3.12 asyncio's default child watcher waits in a thread, and logs the return code.
WATCHER_LOGS_RETURN_CODE = sys.version_info < (3, 12)

# From Python 3.13 on the values of a callback's arguments are formatted only in debug mode.
FORMAT_TAKES_DEBUG = "debug" in _helpers._format_callback_source.__code__.co_varnames
# From Python 3.13 on a queued datagram counts a header beside its bytes, and can be empty.
DATAGRAM_HEADER = 8 if sys.version_info >= (3, 13) else 0
# From Python 3.12 on a socket can have only one transport.
ONE_TRANSPORT_PER_SOCKET = sys.version_info >= (3, 12)
# From Python 3.13 on a server stores its transports.
SERVER_TAKES_TRANSPORT: bool = _base.Server._attach.__code__.co_argcount > 1


def stream_reader(protocol: asyncio.StreamReaderProtocol) -> Any:
    """The reader of a stream's protocol, which has a ``_buffer``; None if it was garbage collected."""
    return getattr(protocol, "_stream_reader", None)
