"""What went wrong, in asyncio's own words: called by the native code, which only knows that it did."""

from __future__ import annotations

import asyncio
import sys
from asyncio import trsock
from asyncio.log import logger
from typing import TYPE_CHECKING, Any

from . import _internals
from ._mainspring import Listener, WritePipeTransport

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


def transport_failed(loop: Loop, source: Any, exception: BaseException, message: str) -> None:
    context: dict[str, Any] = {"message": message, "exception": exception}
    if isinstance(source, asyncio.BaseTransport):
        context["transport"] = source
        context["protocol"] = source.get_protocol()
    elif isinstance(source, Listener):
        context["socket"] = trsock.TransportSocket(source._sock)
    loop.call_exception_handler(context)


def fatal_transport_error(loop: Loop, source: Any, exception: BaseException, message: str) -> None:
    is_everyday = getattr(source, "_is_everyday", None)
    if not isinstance(exception, OSError) or (is_everyday is not None and not is_everyday(exception)):
        transport_failed(loop, source, exception, message)
    elif loop.get_debug():
        # A peer that goes away is everyday life, of interest to those who debug.
        logger.debug("%r: %s", source, message, exc_info=exception)


def accept_failed(loop: Loop, exception: BaseException) -> None:
    # asyncio is silent about this outside of debug mode, and the connection just closes; an exception of the
    # protocol factory belongs before somebody's eyes.
    loop.call_exception_handler(
        {"message": "Error on transport creation for incoming connection", "exception": exception}
    )


def warn_write_after_loss(source: Any) -> None:
    if isinstance(source, WritePipeTransport):
        logger.warning("pipe closed by peer or os.write(pipe, data) raised exception.")
    else:
        logger.warning("socket.send() raised exception.")
