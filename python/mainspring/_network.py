"""Connecting and serving: the methods by which asyncio's coroutines create native transports and listeners."""

from __future__ import annotations

import contextvars
import socket

from . import _internals, _mainspring
from ._transports import DatagramTransport, StreamTransport

TYPE_CHECKING = False
if TYPE_CHECKING:
    import asyncio
    import ssl
    from collections.abc import Callable
    from typing import Any

__all__ = ("Network",)


class Network(_internals.LoopParts):
    """The part of the loop for sockets and servers."""

    def _init_network(self) -> None:
        self._listeners: dict[int, _mainspring.Listener] = {}

    def _make_socket_transport(
        self,
        sock: socket.socket,
        protocol: asyncio.BaseProtocol,
        waiter: asyncio.Future[None] | None = None,
        *,
        extra: dict[str, Any] | None = None,
        server: Any = None,
        context: contextvars.Context | None = None,
    ) -> StreamTransport:
        if _internals.ONE_TRANSPORT_PER_SOCKET:
            self._ensure_fd_no_transport(sock)
        transport = StreamTransport(extra)
        _mainspring.open_stream(transport, self, sock, protocol, server, context)
        transport._load_extra()
        if waiter is not None:
            # After connection_made(), which open_stream() or open_datagram() has scheduled.
            self.call_soon(_internals.set_result_unless_cancelled, waiter, None, context=context)
        return transport

    def _make_datagram_transport(
        self,
        sock: socket.socket,
        protocol: asyncio.DatagramProtocol,
        address: Any = None,
        waiter: asyncio.Future[None] | None = None,
        extra: dict[str, Any] | None = None,
    ) -> DatagramTransport:
        if _internals.ONE_TRANSPORT_PER_SOCKET:
            self._ensure_fd_no_transport(sock)
        transport = DatagramTransport(sock, address, extra)
        peername = transport._extra["peername"]
        header = _internals.DATAGRAM_HEADER
        _mainspring.open_datagram(transport, self, sock, protocol, address, peername, header)
        if waiter is not None:
            # After connection_made(), which open_stream() or open_datagram() has scheduled.
            self.call_soon(_internals.set_result_unless_cancelled, waiter, None)
        return transport

    def _start_serving(
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        sock: socket.socket,
        sslcontext: ssl.SSLContext | None = None,
        server: Any = None,
        backlog: int = 100,
        *timeouts: float | None,
        context: contextvars.Context | None = None,
    ) -> None:
        accept_secure = None
        if sslcontext is not None:
            accept_secure = self._secure_acceptor(protocol_factory, sslcontext, server, timeouts, context)
        self._check_closed()
        listener = _mainspring.Listener(
            self, sock, protocol_factory, StreamTransport, server, backlog, accept_secure, context
        )
        listener.start()
        self._listeners[sock.fileno()] = listener

    def _stop_serving(self, sock: socket.socket) -> None:
        listener = self._listeners.pop(sock.fileno(), None)
        if listener is not None:
            listener.close()
        sock.close()
