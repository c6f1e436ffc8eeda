"""Reports of the native code to the exception handler and the log, with asyncio's messages."""

from __future__ import annotations

import asyncio
import socket
import sys
from asyncio import trsock
from asyncio.log import logger

from . import _internals
from ._mainspring import Listener, SSLTransport, WritePipeTransport

TYPE_CHECKING = False
if TYPE_CHECKING:
    import traceback
    from typing import Any

    from ._loop import Loop


def source_traceback() -> traceback.StackSummary:
    """The stack of the caller of a native method, which has no frame itself."""
    return _internals.extract_stack(sys._getframe(1))


def callback_failed(loop: Loop, handle: Any, exception: BaseException) -> None:
    debug = {"debug": loop.get_debug()} if _internals.FORMAT_TAKES_DEBUG else {}
    source = _internals.format_callback_source(handle._callback, handle._args, **debug)
    context: dict[str, Any] = {
        "message": f"Exception in callback {source}",
        "exception": exception,
        "handle": handle,
    }
    if handle._source_traceback:
        context["source_traceback"] = handle._source_traceback
    loop.call_exception_handler(context)


def hook_failed(loop: Loop, name: str, exception: BaseException) -> None:
    loop.call_exception_handler({"message": f"Exception in {name}()", "exception": exception})


def call_soon(loop: Loop, handle: Any) -> None:
    """Schedules a callback of a native transport on a loop whose ``call_soon()`` was replaced."""
    loop.call_soon(handle._callback, *handle._args, context=handle._context)


def slow_callback(handle: asyncio.Handle, seconds: float) -> None:
    logger.warning("Executing %s took %.3f seconds", _internals.format_handle(handle), seconds)


def slow_io(source: Any, method: str, seconds: float) -> None:
    """asyncio's message for its reader and writer handles.  Native transports have none."""
    logger.warning("Executing <Handle %s.%s()> took %.3f seconds", type(source).__qualname__, method, seconds)


def log_event(source: Any, event: str) -> None:
    """Logs an event of a transport; called in debug mode."""
    if not isinstance(source, SSLTransport):
        # TLS logs its own messages.
        logger.debug("%r %s", source, event)


def closed_by_peer(pipe: Any) -> None:
    """Logs that the other end of a pipe was closed; called in debug mode."""
    logger.info("%r was closed by peer", pipe)


def accepted(server: Any, peer: Any, fd: int) -> None:
    # asyncio logs the socket object. There is none yet, so a temporary one is created that does not close fd.
    temporary = socket.socket(fileno=fd)
    try:
        connection = repr(temporary)
    finally:
        temporary.detach()
    logger.debug("%r got a new connection from %r: %s", server, peer, connection)


def transport_failed(loop: Loop, source: Any, exception: BaseException, message: str) -> None:
    context: dict[str, Any] = {"message": message, "exception": exception}
    if isinstance(source, SSLTransport):
        context["transport"] = source
        context["protocol"] = source._lower_protocol()
    elif isinstance(source, asyncio.BaseTransport):
        context["transport"] = source
        context["protocol"] = source.get_protocol()
    elif isinstance(source, Listener):
        context["socket"] = trsock.TransportSocket(source._sock)
    loop.call_exception_handler(context)


def fatal_transport_error(loop: Loop, source: Any, exception: BaseException, message: str) -> None:
    if isinstance(source, SSLTransport):
        tls_failed(loop, source._lower_protocol(), exception, message)
        return
    is_expected_error = getattr(source, "_is_expected_error", None)
    if not isinstance(exception, OSError) or (
        is_expected_error is not None and not is_expected_error(exception)
    ):
        transport_failed(loop, source, exception, message)
    elif loop.get_debug():
        # The peer closed the connection: logged only in debug mode.
        logger.debug("%r: %s", source, message, exc_info=exception)


def tls_failed(loop: Loop, protocol: Any, exception: BaseException, message: str) -> None:
    """As in asyncio: the failed protocol is the SSLProtocol, and the transport is the underlying one."""
    if isinstance(exception, OSError):
        if loop.get_debug():
            logger.debug("%r: %s", protocol, message, exc_info=exception)
    else:
        loop.call_exception_handler(
            {
                "message": message,
                "exception": exception,
                "transport": protocol._transport,
                "protocol": protocol,
            }
        )


def accept_failed(loop: Loop, exception: BaseException) -> None:
    # asyncio reports this only in debug mode, and otherwise just closes the connection. An exception of the protocol
    # factory should not be hidden.
    loop.call_exception_handler(
        {"message": "Error on transport creation for incoming connection", "exception": exception}
    )


def warn_write_after_loss(source: Any) -> None:
    if isinstance(source, WritePipeTransport):
        logger.warning("pipe closed by peer or os.write(pipe, data) raised exception.")
    elif isinstance(source, SSLTransport):
        logger.warning("SSL connection is closed")
    else:
        logger.warning("socket.send() raised exception.")
