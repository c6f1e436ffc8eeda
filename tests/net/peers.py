"""Helpers of the stream tests: protocols that record their callbacks, and pairs of connected transports."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import subprocess
import sys
import textwrap
from collections.abc import Callable
from typing import Any

import mainspring

LOOPS = {"asyncio": asyncio.SelectorEventLoop, "mainspring": mainspring.Loop}

# Timeout of every wait, in seconds. Passing tests need a fraction of it.
TIMEOUT = 30.0


class Recorder(asyncio.Protocol):
    """Records each callback, and lets a test wait for a condition."""

    transport: Any = None
    keep_open_at_eof = False

    def __init__(self) -> None:
        self.log: list[tuple[Any, ...]] = []
        self.received = bytearray()
        self._waiting: list[tuple[Callable[[], bool], asyncio.Future[None]]] = []

    def note(self, *entry: Any) -> None:
        self.log.append(entry)
        self.changed()

    def changed(self) -> None:
        for predicate, future in list(self._waiting):
            if not future.done() and predicate():
                future.set_result(None)

    async def until(self, predicate: Callable[[], bool]) -> None:
        """Waits until ``predicate()`` is true after one of the callbacks."""
        if predicate():
            return
        future = asyncio.get_running_loop().create_future()
        self._waiting.append((predicate, future))
        try:
            await asyncio.wait_for(future, TIMEOUT)
        finally:
            self._waiting.remove((predicate, future))

    async def until_lost(self) -> Any:
        """Waits for connection_lost() and returns its argument."""
        await self.until(lambda: self.count("connection_lost") > 0)
        return next(entry[1] for entry in self.log if entry[0] == "connection_lost")

    async def until_received(self, count: int) -> bytes:
        await self.until(lambda: len(self.received) >= count)
        return bytes(self.received)

    def count(self, name: str) -> int:
        return sum(entry[0] == name for entry in self.log)

    @property
    def names(self) -> list[str]:
        """The names of the callbacks, in order; consecutive data_received calls count as one."""
        names: list[str] = []
        for entry in self.log:
            if not (names and names[-1] == entry[0] == "data_received"):
                names.append(entry[0])
        return names

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.note("connection_made")

    def data_received(self, data: bytes) -> None:
        self.received += data
        self.note("data_received", len(data))

    def eof_received(self) -> bool:
        self.note("eof_received")
        return self.keep_open_at_eof

    def connection_lost(self, exc: BaseException | None) -> None:
        self.note("connection_lost", exc)

    def pause_writing(self) -> None:
        self.note("pause_writing")

    def resume_writing(self) -> None:
        self.note("resume_writing")


class BufferedRecorder(Recorder, asyncio.BufferedProtocol):
    """The same as a BufferedProtocol."""

    size = 1000

    def __init__(self) -> None:
        super().__init__()
        self.buffer = bytearray(self.size)
        self.hints: list[int] = []

    def get_buffer(self, sizehint: int) -> Any:
        self.hints.append(sizehint)
        return memoryview(self.buffer)

    def buffer_updated(self, nbytes: int) -> None:
        self.received += self.buffer[:nbytes]
        self.note("buffer_updated", nbytes)


class KeepsOpen(Recorder):
    keep_open_at_eof = True


class Echo(Recorder):
    """Sends received data back."""

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self.transport.write(data)


@contextlib.asynccontextmanager
async def connected(client_factory=Recorder, server_factory=Recorder, host="127.0.0.1"):
    """Two protocols, connected by TCP through a server of this loop: (client, server's end)."""
    loop = asyncio.get_running_loop()
    accepted = loop.create_future()

    def factory():
        protocol = server_factory()
        accepted.set_result(protocol)
        return protocol

    server = await loop.create_server(factory, host, 0)
    port = server.sockets[0].getsockname()[1]
    _, client = await loop.create_connection(client_factory, host, port)
    protocol = await asyncio.wait_for(accepted, TIMEOUT)
    await protocol.until(lambda: protocol.transport is not None)
    try:
        yield client, protocol
    finally:
        server.close()
        for end in (client, protocol):
            await end_of(end)


@contextlib.asynccontextmanager
async def connected_to_socket(factory=Recorder, *, family=socket.AF_INET):
    """A protocol and the plain, blocking socket at the other end: (protocol, socket)."""
    loop = asyncio.get_running_loop()
    host = "127.0.0.1" if family == socket.AF_INET else "::1"
    with socket.create_server((host, 0), family=family) as listening:
        _, protocol = await loop.create_connection(factory, host, listening.getsockname()[1])
        peer, _ = listening.accept()
    peer.settimeout(TIMEOUT)
    try:
        yield protocol, peer
    finally:
        peer.close()
        await end_of(protocol)


async def end_of(protocol: Recorder) -> None:
    """Ends a connection that may already have ended."""
    # asyncio's abort() fails on a transport that sent its last bytes after close().
    if not protocol.count("connection_lost"):
        protocol.transport.abort()
    await protocol.until_lost()


def reset(sock: socket.socket) -> None:
    """Closes the socket with a reset instead of an orderly end."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


def read_to_end(sock: socket.socket) -> bytes:
    """Reads until EOF."""
    parts = []
    while part := sock.recv(1 << 18):
        parts.append(part)
    return b"".join(parts)


def read_exactly(sock: socket.socket, count: int) -> bytes:
    data = bytearray()
    while len(data) < count:
        part = sock.recv(count - len(data))
        assert part, f"the stream ended after {len(data)} of {count} bytes"
        data += part
    return bytes(data)


async def in_thread(function: Callable[..., Any], *args: Any) -> Any:
    """Runs a blocking function in a thread."""
    return await asyncio.get_running_loop().run_in_executor(None, function, *args)


def fill(transport: Any, chunk: bytes = bytes(1 << 20)) -> int:
    """Writes until the kernel's buffer is full and the transport has queued more than its default high-water mark.
    Returns the number of bytes written."""
    written = 0
    while transport.get_write_buffer_size() <= 1 << 16:
        transport.write(chunk)
        written += len(chunk)
    return written


def pattern(size: int) -> bytes:
    """Bytes in which every four-byte word is its own index."""
    words = b"".join(number.to_bytes(4, "big") for number in range(min(size, 1 << 20) // 4 + 1))
    return (words * (size // len(words) + 1))[:size]


def run_script(code: str, loop_name: str, *args: str, timeout: float = 2 * TIMEOUT) -> str:
    """Runs a program in a new process, with ``new_loop`` defined, and returns its output."""
    head = "import asyncio, mainspring, sys\n" + (
        "new_loop = mainspring.Loop\n"
        if loop_name == "mainspring"
        else "new_loop = asyncio.SelectorEventLoop\n"
    )
    command = [sys.executable, "-X", "faulthandler", "-c", head + textwrap.dedent(code), *args]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout)
    assert done.returncode == 0, f"exit status {done.returncode}\n{done.stdout}\n{done.stderr}"
    assert not done.stderr, done.stderr
    return done.stdout
