"""What went wrong, in asyncio's own words: called by the native code, which only knows that it did."""

from __future__ import annotations

import asyncio
import socket
import sys
from asyncio import trsock
from asyncio.log import logger
from typing import TYPE_CHECKING, Any

from . import _internals
from ._mainspring import Listener, SSLTransport, WritePipeTransport

if TYPE_CHECKING:
    import traceback

    from ._loop import Loop


def source_traceback() -> traceback.StackSummary:
    """Where the caller of the native method stands; the native method itself has no frame."""
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


def slow_callback(handle: asyncio.Handle, seconds: float) -> None:
    logger.warning("Executing %s took %.3f seconds", _internals.format_handle(handle), seconds)


def slow_io(source: Any, step: str, seconds: float) -> None:
    """As asyncio speaks of its readers and writers, of which there are none here."""
    logger.warning("Executing <Handle %s.%s()> took %.3f seconds", type(source).__qualname__, step, seconds)


def note(source: Any, what: str) -> None:
    """What a transport does or has met with, in debug mode."""
    if not isinstance(source, SSLTransport):
        # TLS has words of its own for the end.
        logger.debug("%r %s", source, what)


def closed_by_peer(pipe: Any) -> None:
    """The other end of a pipe is gone; in debug mode."""
    logger.info("%r was closed by peer", pipe)


def accepted(server: Any, peer: Any, fd: int) -> None:
    # asyncio shows the socket. There is none yet; this one is made for its looks, and closes nothing.
    looks = socket.socket(fileno=fd)
    try:
        connection = repr(looks)
    finally:
        looks.detach()
    logger.debug("%r got a new connection from %r: %s", server, peer, connection)


def transport_failed(loop: Loop, source: Any, exception: BaseException, message: str) -> None:
    context: dict[str, Any] = {"message": message, "exception": exception}
    if isinstance(source, SSLTransport):
        context["transport"] = source
        context["protocol"] = source._protocol_below()
    elif isinstance(source, asyncio.BaseTransport):
        context["transport"] = source
        context["protocol"] = source.get_protocol()
    elif isinstance(source, Listener):
        context["socket"] = trsock.TransportSocket(source._sock)
    loop.call_exception_handler(context)


def fatal_transport_error(loop: Loop, source: Any, exception: BaseException, message: str) -> None:
    if isinstance(source, SSLTransport):
        tls_failed(loop, source._protocol_below(), exception, message)
        return
    is_everyday = getattr(source, "_is_everyday", None)
    if not isinstance(exception, OSError) or (is_everyday is not None and not is_everyday(exception)):
        transport_failed(loop, source, exception, message)
    elif loop.get_debug():
        # A peer that goes away is everyday life, of interest to those who debug.
        logger.debug("%r: %s", source, message, exc_info=exception)


def tls_failed(loop: Loop, protocol: Any, exception: BaseException, message: str) -> None:
    """As asyncio has it: TLS is a protocol that failed on the transport below."""
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
    # asyncio is silent about this outside of debug mode, and the connection just closes; an exception of the
    # protocol factory belongs before somebody's eyes.
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
