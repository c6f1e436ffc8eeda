"""The private names of asyncio that this package leans on: all of them, and no others.

asyncio's documentation offers ``BaseEventLoop`` as the base of other loops and says that what it calls on its heirs is
internal.  This is where that is written down, so that a new Python version is checked against one page.

The native code names three more by itself: ``transports._FlowControlMixin``, the slots of ``events.Handle`` and
``TimerHandle``, and from Python 3.14 on ``events._ThreadSafeHandle``.
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
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import contextvars
    import socket
    import ssl
    import traceback
    from collections.abc import Callable

    from typing_extensions import TypeVarTuple

    from ._mainspring import NativeLoop

    Ts = TypeVarTuple("Ts")

    class LoopParts(NativeLoop, asyncio.BaseEventLoop):
        """What every part of the loop may use of the others."""

        _debug: bool
        _signal_handlers: dict[int, asyncio.Handle]
        _thread_id: Any

        def _check_closed(self) -> None: ...
        def _check_running(self) -> None: ...
        def _set_coroutine_origin_tracking(self, enabled: bool) -> None: ...
        def _asyncgen_firstiter_hook(self, agen: Any) -> None: ...
        def _asyncgen_finalizer_hook(self, agen: Any) -> None: ...
        def _check_sendfile_params(self, sock: Any, file: Any, offset: int, count: int | None) -> None: ...
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
_format: Any = format_helpers
_events: Any = events

check_ssl_socket: Callable[[object], None] = _base._check_ssl_socket
format_handle: Callable[[asyncio.Handle], str] = _base._format_handle
format_callback_source: Callable[..., str] = _format._format_callback_source
extract_stack: Callable[[Any], traceback.StackSummary] = format_helpers.extract_stack
set_result_unless_cancelled: Callable[..., None] = futures._set_result_unless_cancelled  # type: ignore[attr-defined]
SendfileMode = constants._SendfileMode
# Stands in for a transport's protocol while a file is sent in blocks.
SendfileFallbackProtocol: Any = _base._SendfileFallbackProtocol
create_transport_context: Callable[[bool, str | None], ssl.SSLContext] = sslproto._create_transport_context
# New in Python 3.11.
SSL_SHUTDOWN_TIMEOUT: float = getattr(constants, "SSL_SHUTDOWN_TIMEOUT", 30.0)
# asyncio's own loop, by whatever name it has been imported since: two of its coroutines serve here too.
UnixLoop: Any = unix_events._UnixSelectorEventLoop

BaseSubprocessTransport = base_subprocess.BaseSubprocessTransport
ReadSubprocessPipeProto = base_subprocess.ReadSubprocessPipeProto
WriteSubprocessPipeProto = base_subprocess.WriteSubprocessPipeProto


def explicit_child_watcher() -> Any:
    """The child watcher that the program has set with ``asyncio.set_child_watcher()``, before Python 3.14.

    Those that only watch, and reap nobody else's children, are as good as none: the loop watches by itself.
    """
    watcher = getattr(_events._event_loop_policy, "_watcher", None)
    if watcher is None or type(watcher).__name__ in ("PidfdChildWatcher", "ThreadedChildWatcher"):
        return None
    return watcher


# Until Python 3.11 it is what the watcher's __enter__() gives that is asked.
ASKS_ENTERED_WATCHER = sys.version_info < (3, 12)

# Until Python 3.11 asyncio's default child watcher waits in a thread, and tells the log what it has waited for.
WATCHER_TELLS_RETURN_CODE = sys.version_info < (3, 12)

# From Python 3.13 on a callback's source is formatted with or without its arguments' values.
FORMAT_TAKES_DEBUG = "debug" in _format._format_callback_source.__code__.co_varnames
# From Python 3.13 on a datagram that waits to be sent counts as more than its bytes, and may be empty.
DATAGRAM_HEADER = 8 if sys.version_info >= (3, 13) else 0
# From Python 3.12 on a socket that has a transport is refused another one.
ONE_TRANSPORT_PER_SOCKET = sys.version_info >= (3, 12)
# From Python 3.13 on a server knows its transports.
SERVER_TAKES_TRANSPORT: bool = _base.Server._attach.__code__.co_argcount > 1


def stream_reader(protocol: asyncio.StreamReaderProtocol) -> Any:
    """The reader that a stream's protocol feeds, with its ``_buffer``; None if nobody holds it any more."""
    return getattr(protocol, "_stream_reader", None)
