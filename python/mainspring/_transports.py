"""The Python halves of ``StreamTransport`` and ``DatagramTransport``: rarely used parts."""

from __future__ import annotations

import collections
import socket
import warnings
from asyncio import trsock

from . import _mainspring
from ._internals import SendfileMode
from ._sendfile import FileSender

TYPE_CHECKING = False
if TYPE_CHECKING:
    import asyncio
    from typing import Any

    Native = _mainspring.SocketTransport
else:
    Native = object

__all__ = ("DatagramTransport", "StreamTransport", "buffered_bytes")


class SocketTransport(Native):
    """The common part of all socket transports."""

    _extra: dict[str, Any]
    _loop: asyncio.AbstractEventLoop

    @property
    def _sock(self) -> socket.socket | None:
        """The socket, or None after the connection was lost.  Many libraries read this."""
        return self._take_socket()

    @property
    def _protocol_paused(self) -> bool:
        """Whether pause_writing() was called.  asyncio's helpers read this."""
        return self._state()[4]

    # Private attributes of asyncio's transports that libraries read.

    @property
    def _protocol(self) -> asyncio.BaseProtocol | None:
        return self.get_protocol()

    @property
    def _sock_fd(self) -> int:
        return self._state()[1]

    @property
    def _closing(self) -> bool:
        return self.is_closing()

    @property
    def _paused(self) -> bool:
        return not self.is_closing() and not self.is_reading()

    @property
    def _high_water(self) -> int:
        return self.get_write_buffer_limits()[1]

    @property
    def _low_water(self) -> int:
        return self.get_write_buffer_limits()[0]

    def _read_ready(self: Any) -> None:
        """Receive the available data."""
        self._loop._handle_io(self, False)

    def _write_ready(self: Any) -> None:
        """Flush the write buffer as far as the kernel accepts it."""
        self._loop._handle_io(self, True)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        if name in ("socket", "sockname", "peername") and name not in self._extra:
            self._load_extra()
        return self._extra.get(name, default)

    def _load_extra(self) -> None:
        sock = self._take_socket()
        if sock is not None:
            _load_extra(self._extra, sock)

    def __repr__(self) -> str:
        try:
            finished, fd, reads, writes, _ = self._state()
        except RuntimeError:
            return f"<{type(self).__name__} not opened>"
        info = [type(self).__name__]
        if finished:
            info.append("closed")
        elif self.is_closing():
            info.append("closing")
        info.append(f"fd={fd}")
        if not finished and not self._loop.is_closed():
            info.append(f"read={'polling' if reads else 'idle'}")
            state = "polling" if writes else "idle"
            info.append(f"write=<{state}, bufsize={self.get_write_buffer_size()}>")
        return f"<{' '.join(info)}>"

    def _warn_unclosed(self) -> None:
        """Called by the finalizer of a transport that was not closed."""
        warnings.warn(f"unclosed transport {self!r}", ResourceWarning, stacklevel=2, source=self)
        self._release()


class StreamTransport(SocketTransport, FileSender, _mainspring.StreamTransport):
    """The transport of a TCP or Unix stream connection."""

    # asyncio's code reads these before it starts TLS or sends a file.
    _start_tls_compatible = True
    _sendfile_compatible = SendfileMode.TRY_NATIVE

    def __init__(self, extra: dict[str, Any] | None = None) -> None:
        self._extra = {} if extra is None else extra

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        # The addresses and the socket object of an accepted connection are created on demand.
        if name not in self._extra and (names := self._accepted_names()) is not None:
            self._extra["sockname"], self._extra["peername"] = names
            if name == "socket" and self._take_socket() is None:
                self._extra[name] = trsock.TransportSocket(_closed_socket(self._extra["sockname"]))
        return super().get_extra_info(name, default)


class DatagramTransport(SocketTransport, _mainspring.DatagramTransport):
    """The transport of a UDP or Unix datagram endpoint."""

    def __init__(self, sock: socket.socket, address: Any = None, extra: dict[str, Any] | None = None) -> None:
        self._extra = {} if extra is None else extra
        self._address = address
        _load_extra(self._extra, sock)

    @property
    def _buffer(self) -> collections.deque[tuple[bytes, Any]]:
        """A copy of the queued datagrams, each with its address."""
        return collections.deque(self._queued())


def _closed_socket(name: Any) -> socket.socket:
    """A closed socket of the family of an address, for a connection that was lost."""
    if isinstance(name, tuple):
        family, protocol = (socket.AF_INET if len(name) == 2 else socket.AF_INET6), socket.IPPROTO_TCP
    else:
        family, protocol = socket.AF_UNIX, 0
    sock = socket.socket(family, socket.SOCK_STREAM, protocol)
    sock.close()
    return sock


def _load_extra(extra: dict[str, Any], sock: socket.socket) -> None:
    extra["socket"] = trsock.TransportSocket(sock)
    for name, getter in (("sockname", sock.getsockname), ("peername", sock.getpeername)):
        if name not in extra:
            try:
                extra[name] = getter()
            except OSError:
                extra[name] = None


def buffered_bytes(transport: Any) -> int:
    """The size of a transport's write buffer; 0 if it has none."""
    get_size = getattr(transport, "get_write_buffer_size", None)
    return 0 if get_size is None else int(get_size())
