"""The ``sock_*`` coroutines: asyncio's operations on sockets that the program owns.

Each tries the operation first.  If it would block, the native part registers the socket as ``add_reader()`` and
``add_writer()`` do, and unregisters it however the coroutine ends.

Data and connections are received in the coroutine and never in the loop's callback: the task can be cancelled between
the two, and the data or the connection would be lost.
"""

from __future__ import annotations

import asyncio
import errno
import itertools
import socket
import sys

from . import _internals
from ._mainspring import connect_backoff

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from _typeshed import ReadableBuffer, WriteableBuffer

__all__ = ("SocketOperations",)


class SocketOperations(_internals.LoopParts):
    """The part of the loop for sockets of the program."""

    def _check_socket(self, sock: socket.socket) -> None:
        _internals.check_ssl_socket(sock)
        if self._debug and sock.gettimeout() != 0:
            raise ValueError("the socket must be non-blocking")

    async def _retry_until_ready(self, sock: socket.socket, to_write: bool, method: str, *args: Any) -> Any:
        """Calls a method of the socket until it does not raise BlockingIOError."""
        while True:
            try:
                return getattr(sock, method)(*args)
            except (BlockingIOError, InterruptedError):
                pass
            await self._until_ready(sock, to_write)

    async def sock_recv(self, sock: socket.socket, n: int) -> bytes:
        """Receive up to *n* bytes from a socket."""
        while (data := self._try_recv(sock, n)) is None:
            await self._until_ready(sock, False)
        return data

    async def sock_recv_into(self, sock: socket.socket, buf: WriteableBuffer) -> int:
        """Receive from a socket into a buffer.  Returns the number of bytes."""
        while (count := self._try_recv_into(sock, buf)) is None:
            await self._until_ready(sock, False)
        return count

    if sys.version_info >= (3, 11):

        async def sock_recvfrom(self, sock: socket.socket, bufsize: int) -> tuple[bytes, Any]:
            """Receive a datagram of up to *bufsize* bytes.  Returns it and the address of its sender."""
            self._check_socket(sock)
            data, address = await self._retry_until_ready(sock, False, "recvfrom", bufsize)
            return data, address

        async def sock_recvfrom_into(
            self, sock: socket.socket, buf: WriteableBuffer, nbytes: int = 0
        ) -> tuple[int, Any]:
            """Receive a datagram into a buffer.  Returns the number of bytes and the address of the sender."""
            self._check_socket(sock)
            if not nbytes:
                nbytes = len(buf)  # type: ignore[arg-type]
            count, address = await self._retry_until_ready(sock, False, "recvfrom_into", buf, nbytes)
            return count, address

        async def sock_sendto(self, sock: socket.socket, data: ReadableBuffer, address: Any) -> int:
            """Send a datagram to an address.  Returns the number of bytes sent."""
            self._check_socket(sock)
            sent: int = await self._retry_until_ready(sock, True, "sendto", data, address)
            return sent

    async def sock_sendall(self, sock: socket.socket, data: ReadableBuffer) -> None:
        """Send all of *data* to a socket."""
        if type(sock) is socket.socket and sock.fileno() >= 0:
            rest = self._try_sendall(sock, data)
            if rest is not None:
                await rest
            return
        self._check_socket(sock)
        # First send(), then memoryview(): the exception for a wrong socket or wrong data is that of send().
        try:
            sent = sock.send(data)
        except (BlockingIOError, InterruptedError):
            sent = 0
        with memoryview(data) as view, view.cast("B") as octets:
            while sent < len(octets):
                with octets[sent:] as unsent:
                    sent += await self._retry_until_ready(sock, True, "send", unsent)

    async def sock_accept(self, sock: socket.socket) -> tuple[socket.socket, Any]:
        """Accept a connection.  Returns its socket, which is non-blocking, and the address of the peer."""
        self._check_socket(sock)
        sock.fileno()  # asyncio calls it first: the exception for an object that is no socket is that of fileno()
        conn, address = await self._retry_until_ready(sock, False, "accept")
        conn.setblocking(False)
        return conn, address

    async def sock_connect(self, sock: socket.socket, address: Any) -> None:
        """Connect a socket to an address."""
        self._check_socket(sock)
        if sock.family in (socket.AF_INET, socket.AF_INET6):
            resolved = await self._ensure_resolved(
                address, family=sock.family, type=sock.type, proto=sock.proto, loop=self
            )
            address = resolved[0][4]
        for attempt in itertools.count():
            try:
                sock.connect(address)
                return
            except (BlockingIOError, InterruptedError) as error:
                if error.errno != errno.EAGAIN:
                    break  # in progress
                if sock.family != socket.AF_UNIX:
                    raise
            # The listen queue is full.  The kernel does not report when it has room again.
            await asyncio.sleep(connect_backoff(attempt))
        await self._until_ready(sock, True)
        failure = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if failure:
            raise OSError(failure, f"Connect call failed {address}")
