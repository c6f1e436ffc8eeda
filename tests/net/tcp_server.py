"""Helpers of the server tests: a TCP server that records its protocols, and plain clients."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket

from peers import TIMEOUT, Echo, end_of, read_exactly


class Serving:
    """A server and the protocols of its connections."""

    def __init__(self, loop, factory=Echo):
        self.loop = loop
        self.factory = factory
        self.accepted = []
        self._arrived = asyncio.Event()

    def make(self):
        protocol = self.factory()
        self.accepted.append(protocol)
        self._arrived.set()
        return protocol

    async def until_accepted(self, count):
        while len(self.accepted) < count:
            self._arrived.clear()
            await asyncio.wait_for(self._arrived.wait(), TIMEOUT)
        for protocol in self.accepted[:count]:
            await protocol.until(lambda protocol=protocol: protocol.transport is not None)

    async def end(self):
        for protocol in self.accepted:
            await end_of(protocol)


@contextlib.asynccontextmanager
async def serving(factory=Echo, host="127.0.0.1", **options):
    loop = asyncio.get_running_loop()
    serving = Serving(loop, factory)
    serving.server = server = await loop.create_server(serving.make, host, 0, **options)
    serving.address = server.sockets[0].getsockname()[:2]
    try:
        yield serving
    finally:
        server.close()
        await serving.end()
        await asyncio.wait_for(server.wait_closed(), TIMEOUT)


def ask(address, question=b"anybody there?"):
    """One request to an echo server, from a plain socket."""
    with socket.create_connection(address, timeout=TIMEOUT) as sock:
        sock.sendall(question)
        assert read_exactly(sock, len(question)) == question


def refuses(address):
    with socket.socket() as sock:
        sock.settimeout(TIMEOUT)
        return sock.connect_ex(address) == errno.ECONNREFUSED
