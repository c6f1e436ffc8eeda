"""asyncio's streams with native code for the methods that run once per message.

asyncio creates ``StreamReader`` and ``StreamReaderProtocol`` objects.  When a native transport gets such a protocol, it
gives the protocol and its reader the classes of this module (``crates/mainspring-python/src/asyncio_streams/``).  All
state stays in asyncio's attributes.

Each coroutine here asks native code for the data, and then for a future to wait for.  If it gets neither, the case is
not a common one, or a method was replaced: then asyncio's method runs.
"""

from __future__ import annotations

import asyncio
import sys
from types import FunctionType

from ._mainspring import is_drained, start_waiting, take_exactly, take_line, take_some, take_until

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ("StreamReader", "StreamReaderProtocol", "StreamWriter", "is_unchanged")

# The classes themselves, also if another library replaces the names in asyncio.  Methods are looked up at each call.
_Reader: Any = asyncio.StreamReader
_Protocol: Any = asyncio.StreamReaderProtocol
_Writer = asyncio.StreamWriter


class StreamReader(asyncio.StreamReader):
    """A reader whose buffer is filled and consumed by native code."""

    async def readline(self: Any) -> bytes:
        """Read up to the next newline; see ``asyncio.StreamReader.readline()``."""
        line = take_line(self, self._buffer, self._limit, self._exception, self._paused)
        while line is None:
            if (waiter := start_waiting(self, 1)) is None:
                result: bytes = await _Reader.readline(self)
                return result
            searched = len(self._buffer)
            try:
                await waiter
            finally:
                self._waiter = None
            line = take_until(self, b"\n", searched)
        return line

    async def readuntil(self: Any, separator: Any = b"\n") -> bytes:
        """Read up to the next separator; see ``asyncio.StreamReader.readuntil()``."""
        data = take_until(self, separator, None)
        while data is None:
            if type(separator) is not bytes or not separator:
                waiter = None
            else:
                waiter = start_waiting(self, len(separator))
            if waiter is None:
                result: bytes = await _Reader.readuntil(self, separator)
                return result
            searched = len(self._buffer)
            try:
                await waiter
            finally:
                self._waiter = None
            data = take_until(self, separator, searched)
        return data

    async def read(self: Any, n: int = -1) -> bytes:
        """Read up to n bytes, or all up to the end; see ``asyncio.StreamReader.read()``."""
        data = take_some(self, n, False)
        while data is None:
            if type(n) is not int or n <= 0 or (waiter := start_waiting(self, 0)) is None:
                result: bytes = await _Reader.read(self, n)
                return result
            try:
                await waiter
            finally:
                self._waiter = None
            data = take_some(self, n, True)
        return data

    async def readexactly(self: Any, n: int) -> bytes:
        """Read n bytes; see ``asyncio.StreamReader.readexactly()``."""
        data = take_exactly(self, n, False)
        while data is None:
            if type(n) is not int or n <= 0 or (waiter := start_waiting(self, 0)) is None:
                result: bytes = await _Reader.readexactly(self, n)
                return result
            try:
                await waiter
            finally:
                self._waiter = None
            data = take_exactly(self, n, True)
        return data


class StreamWriter(asyncio.StreamWriter):
    """A writer of a native stream."""

    async def drain(self) -> None:
        """Wait until the write buffer is small enough; see ``asyncio.StreamWriter.drain()``."""
        if not is_drained(self):
            await super().drain()


class StreamReaderProtocol(asyncio.StreamReaderProtocol):
    """A protocol that native transports pass received bytes through without a call."""

    def connection_made(self: Any, transport: asyncio.BaseTransport) -> None:
        """Create the writer of a server's connection, and call the callback of ``start_server()``."""
        callback = self._client_connected_cb
        if callback is None:
            _Protocol.connection_made(self, transport)
            return

        def call_with_native_writer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Any:
            self._client_connected_cb = callback
            if type(writer) is _Writer:
                writer.__class__ = StreamWriter
                # As set_class() in asyncio_streams/classes.rs: a dictionary with keys of its own is faster.
                writer.__dict__ = {**vars(writer)}
            return callback(reader, writer)

        self._client_connected_cb = call_with_native_writer
        try:
            _Protocol.connection_made(self, transport)
        finally:
            self._client_connected_cb = callback


def _attributes(cls: type) -> dict[str, Any]:
    # From Python 3.14 on, reading the annotations of a class stores them in it.
    return {name: value for name, value in vars(cls).items() if name != "__annotations_cache__"}


def _is_defined_by_asyncio(cls: type) -> bool:
    """Whether a class and its functions are those of asyncio's source, and not replaced by another library."""
    functions = (getattr(item, "fget", item) for item in vars(cls).values())
    return cls.__module__ in ("asyncio.streams", "asyncio.protocols") and all(
        function.__globals__ is vars(sys.modules[cls.__module__])
        for function in functions
        if isinstance(function, FunctionType)
    )


# Each class of this module and its bases, with their attributes at import.
_AT_IMPORT: dict[type, list[tuple[type, dict[str, Any]]]] = {
    cls: [(base, _attributes(base)) for base in cls.__mro__ if base is not object]
    for cls in (StreamReader, StreamReaderProtocol, StreamWriter)
}
_IS_ASYNCIOS_OWN = all(
    _is_defined_by_asyncio(base)
    for bases in _AT_IMPORT.values()
    for base, _ in bases
    if base not in _AT_IMPORT
)


def is_unchanged(cls: type) -> bool:
    """Whether a class of this module and its bases are as asyncio defines them, and have not changed since import."""
    return _IS_ASYNCIOS_OWN and all(_attributes(base) == before for base, before in _AT_IMPORT[cls])
