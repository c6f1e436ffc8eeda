"""Sending files with sendfile(2), over plain sockets and over transports.

asyncio's own code checks the arguments and knows what to do where this is not possible.
"""

from __future__ import annotations

import asyncio
import errno
import io
import os
import sys
from asyncio import constants
from typing import TYPE_CHECKING, Any

from . import _internals, _mainspring

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from ._transports import StreamTransport

__all__ = ("FileSender", "FileSending")

# What is read at once where the kernel cannot send a file by itself: asyncio's size for sock_sendfile().
BLOCK_SIZE: int = constants.SENDFILE_FALLBACK_READBUFFER_SIZE


class FileSending(_internals.LoopParts):
    """The part of the loop that sends files."""

    async def _sock_sendfile_native(
        self,
        sock: socket.socket,
        file: Any,
        offset: int,
        count: int | None,
        started: Callable[[_mainspring.SocketWait], None] | None = None,
    ) -> int:
        descriptor = _regular_file(file, count)
        if descriptor is None:
            return 0
        if sock.gettimeout() is None:
            # sendfile(2) would hold up the whole loop; the fallback does not.
            raise asyncio.SendfileNotAvailableError("the socket is blocking")
        if sock.fileno() < 0:
            # The fallback fails as any use of a closed socket does.
            raise asyncio.SendfileNotAvailableError("the socket is closed")
        sending = self._send_file(sock, descriptor, offset, count)
        if started is not None:
            started(sending)
        try:
            sent: int = await sending
            return sent
        except OSError as error:
            if sending.sent == 0:
                # Not a file that the kernel can read by itself, most likely; the fallback tells.
                raise asyncio.SendfileNotAvailableError("os.sendfile call failed") from error
            if error.errno == errno.ENOTCONN and type(error) is not ConnectionError:
                raise ConnectionError("socket is not connected", errno.ENOTCONN) from error
            raise
        finally:
            if sending.sent or sys.version_info >= (3, 14):
                sending.update_position()

    async def _sendfile_native(
        self, transp: StreamTransport, file: Any, offset: int, count: int | None
    ) -> int:
        emptied = transp._make_empty_waiter()
        is_reading = transp.is_reading()
        transp.pause_reading()
        try:
            await emptied
            sock = transp._sock
            if sock is None:
                raise ConnectionError("Connection is closed by peer")
            # Under a number of its own: the transport may want to read from its own meanwhile.
            with sock.dup() as own:
                self._check_sendfile_params(own, file, offset, count)
                return await self._sock_sendfile_native(own, file, offset, count, transp._set_sending)
        finally:
            transp._reset_empty_waiter()
            if is_reading:
                transp.resume_reading()

    async def _sendfile_fallback(self, transp: Any, file: Any, offset: int, count: int | None) -> int:
        """asyncio's, with larger blocks.

        Every block is read by another thread. asyncio's of 16 KiB cost more in waking threads than in encrypting.
        """
        if offset:
            file.seek(offset)
        sent = 0
        protocol = _internals.SendfileFallbackProtocol(transp)
        try:
            while count is None or sent < count:
                size = BLOCK_SIZE if count is None else min(count - sent, BLOCK_SIZE)
                # Bytes that nobody changes: the transport keeps them without a copy.
                block = await self.run_in_executor(None, file.read, size)
                if not block:
                    break
                await protocol.drain()
                transp.write(block)
                sent += len(block)
            return sent
        finally:
            if sent > 0 and hasattr(file, "seek"):
                file.seek(offset + sent)
            await protocol.restore()


def _regular_file(file: Any, count: int | None) -> int | None:
    """The descriptor of a file to be sent; None if there is nothing in it."""
    try:
        descriptor: int = file.fileno()
        size = os.fstat(descriptor).st_size
    except (AttributeError, io.UnsupportedOperation, OSError):
        raise asyncio.SendfileNotAvailableError("not a regular file") from None
    return descriptor if count or size else None


class FileSender:
    """What a stream transport knows of a file that is sent over it past its queue."""

    _empty_waiter: asyncio.Future[None] | None = None
    _sending: _mainspring.SocketWait | None = None

    def _make_empty_waiter(self: Any) -> asyncio.Future[None]:
        """Refuses writes from here on; done when nothing is queued any more."""
        if self._empty_waiter is not None:
            raise RuntimeError("Empty waiter is already set")
        waiter: asyncio.Future[None] = self._loop.create_future()
        self._empty_waiter = waiter
        if self._reserve_writing():
            waiter.set_result(None)
        return waiter

    def _reset_empty_waiter(self: Any) -> None:
        self._empty_waiter = self._sending = None
        self._release_writing()

    def _set_sending(self, sending: _mainspring.SocketWait) -> None:
        self._sending = sending

    def _drained(self: Any) -> None:
        """Nothing is queued any more, or the connection is gone."""
        is_gone = self._state()[0]
        waiter = self._empty_waiter
        if waiter is not None and not waiter.done():
            if is_gone:
                waiter.set_exception(ConnectionError("Connection is closed by peer"))
            else:
                waiter.set_result(None)
        if is_gone and self._sending is not None:
            self._sending.fail(ConnectionError("Connection is closed by peer"))
