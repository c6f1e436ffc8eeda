"""Helpers of the datagram tests: a protocol that records its callbacks, and endpoints of each kind."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import Any

from peers import Recorder


class Datagrams(Recorder, asyncio.DatagramProtocol):
    """Records each datagram and each error."""

    def __init__(self) -> None:
        super().__init__()
        self.datagrams: list[tuple[bytes, Any]] = []
        self.errors: list[Exception] = []

    def datagram_received(self, data: bytes, addr: Any) -> None:
        self.datagrams.append((data, addr))
        self.note("datagram_received", data)

    def error_received(self, exc: Exception) -> None:
        self.errors.append(exc)
        self.note("error_received", exc)

    @property
    def data(self) -> list[bytes]:
        return [data for data, _ in self.datagrams]

    @property
    def address(self) -> Any:
        return self.transport.get_extra_info("sockname")

    async def until_datagrams(self, count: int) -> list[bytes]:
        await self.until(lambda: len(self.datagrams) >= count)
        return self.data


class EchoDatagrams(Datagrams):
    def datagram_received(self, data: bytes, addr: Any) -> None:
        super().datagram_received(data, addr)
        self.transport.sendto(data, addr)


@contextlib.asynccontextmanager
async def endpoint(factory=Datagrams, **options):
    """Opens an endpoint, yields its protocol, and closes it."""
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.create_datagram_endpoint(factory, **options)
    try:
        yield protocol
    finally:
        # asyncio's own transport fails if abort() is called after its end.
        if not protocol.count("connection_lost"):
            transport.abort()
            await protocol.until_lost()


def local(factory=Datagrams, host="127.0.0.1", **options):
    """An unconnected endpoint on its own port."""
    return endpoint(factory, local_addr=(host, 0), **options)


@contextlib.contextmanager
def unix_socket(path=None, connect_to=None):
    """A bare Unix datagram socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.setblocking(False)
        if path is not None:
            sock.bind(str(path))
        if connect_to is not None:
            sock.connect(str(connect_to))
        yield sock


@contextlib.asynccontextmanager
async def blocked(tmp_path, factory=Datagrams, *, connected=True):
    """An endpoint that queues datagrams because its peer's queue is full: (protocol, peer, the peer's path)."""
    path = tmp_path / "peer"
    with unix_socket(path) as peer, unix_socket(connect_to=path if connected else None) as sock:
        async with endpoint(factory, sock=sock) as protocol:
            while not protocol.transport.get_write_buffer_size():
                protocol.transport.sendto(b"fill", None if connected else str(path))
            yield protocol, peer, str(path)


def drain(peer: socket.socket) -> list[bytes]:
    """Receives everything that is queued at a bare socket."""
    received = []
    with contextlib.suppress(BlockingIOError):
        while True:
            received.append(peer.recv(1 << 20))
    return received
