"""Pipes: the transports of ``connect_read_pipe()`` and ``connect_write_pipe()``."""

from __future__ import annotations

import errno
import warnings

from . import _internals, _mainspring

TYPE_CHECKING = False
if TYPE_CHECKING:
    import asyncio
    from typing import Any

__all__ = ("Pipes", "ReadPipeTransport", "WritePipeTransport")


class _PipeTransport:
    """The Python half of both pipe transports."""

    _extra: dict[str, Any]
    _loop: asyncio.AbstractEventLoop

    if TYPE_CHECKING:

        def _state(self) -> tuple[bool, int, bool, bool, bool]: ...
        def _release(self) -> None: ...
        def _detach_pipe(self) -> None: ...
        def is_closing(self) -> bool: ...
        def get_protocol(self) -> asyncio.BaseProtocol: ...

    def __init__(self, pipe: Any, extra: dict[str, Any] | None = None) -> None:
        self._extra = {} if extra is None else extra
        self._extra["pipe"] = pipe

    @property
    def _pipe(self) -> Any:
        """The file object, or None after it was closed.  Libraries read this."""
        return None if self._state()[0] else self._extra["pipe"]

    @_pipe.setter
    def _pipe(self, pipe: None) -> None:
        """None releases the file object without closing it."""
        if pipe is not None:
            raise AttributeError("a transport's pipe cannot be replaced")
        self._detach_pipe()

    @property
    def _fileno(self) -> int:
        return self._state()[1]

    @property
    def _protocol(self) -> asyncio.BaseProtocol | None:
        return self.get_protocol()

    def _describe(self) -> str:
        raise NotImplementedError

    def __repr__(self) -> str:
        try:
            finished, fd, *_ = self._state()
        except RuntimeError:
            return f"<{type(self).__name__} not opened>"
        info = [type(self).__name__]
        if finished:
            info.append("closed")
        elif self.is_closing():
            info.append("closing")
        info.append(f"fd={fd}")
        if finished:
            info.append("closed")
        else:
            info.append("open" if self._loop.is_closed() else self._describe())
        return f"<{' '.join(info)}>"

    def _warn_unclosed(self) -> None:
        """Called by the finalizer of a transport that was not closed."""
        warnings.warn(f"unclosed transport {self!r}", ResourceWarning, stacklevel=2, source=self)
        self._release()


class ReadPipeTransport(_PipeTransport, _mainspring.ReadPipeTransport):
    """The transport of a pipe that is read."""

    def _describe(self) -> str:
        return "polling" if self._state()[2] else "idle"

    def _is_expected_error(self, error: OSError) -> bool:
        """Whether an error is logged only in debug mode: a terminal whose other end was closed fails with EIO."""
        return error.errno == errno.EIO


class WritePipeTransport(_PipeTransport, _mainspring.WritePipeTransport):
    """The transport of a pipe that is written."""

    @property
    def _protocol_paused(self) -> bool:
        """Whether pause_writing() was called.  asyncio's helpers read this."""
        return self._state()[4]

    def _describe(self) -> str:
        return f"{'polling' if self._state()[3] else 'idle'} bufsize={self.get_write_buffer_size()}"


class Pipes(_internals.LoopParts):
    """The part of the loop for pipes."""

    def _make_read_pipe_transport(
        self,
        pipe: Any,
        protocol: asyncio.BaseProtocol,
        waiter: asyncio.Future[None] | None = None,
        extra: dict[str, Any] | None = None,
    ) -> ReadPipeTransport:
        transport = ReadPipeTransport(pipe, extra)
        _mainspring.open_read_pipe(transport, self, pipe, protocol)
        self._wake_when_connected(waiter)
        return transport

    def _make_write_pipe_transport(
        self,
        pipe: Any,
        protocol: asyncio.BaseProtocol,
        waiter: asyncio.Future[None] | None = None,
        extra: dict[str, Any] | None = None,
    ) -> WritePipeTransport:
        transport = WritePipeTransport(pipe, extra)
        _mainspring.open_write_pipe(transport, self, pipe, protocol)
        self._wake_when_connected(waiter)
        return transport

    def _wake_when_connected(self, waiter: asyncio.Future[None] | None) -> None:
        if waiter is not None:
            # After connection_made(), which is scheduled already.
            self.call_soon(_internals.set_result_unless_cancelled, waiter, None)
