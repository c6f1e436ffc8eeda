"""Sending files with sendfile(2), over plain sockets and over transports.

asyncio's code checks the arguments, and calls a fallback if this is not possible.
"""

from __future__ import annotations

import asyncio
import errno
import io
import os
import sys
from asyncio import constants

from . import _internals, _mainspring

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Callable
    from typing import Any

    from ._transports import StreamTransport

__all__ = ("FileSender", "FileSending")

# The size of one read of the fallback: asyncio's size for sock_sendfile().
BLOCK_SIZE: int = constants.SENDFILE_FALLBACK_READBUFFER_SIZE


class FileSending(_internals.LoopParts):
    """The part of the loop for sendfile()."""

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
            # sendfile(2) would block the loop; the fallback does not.
            raise asyncio.SendfileNotAvailableError("the socket is blocking")
        if sock.fileno() < 0:
            # The fallback raises the exception of a closed socket.
            raise asyncio.SendfileNotAvailableError("the socket is closed")
        sending = self._send_file(sock, descriptor, offset, count)
        if started is not None:
            started(sending)
        try:
            sent: int = await sending
            return sent
        except OSError as error:
            if sending.sent == 0:
                # Probably a file that sendfile(2) does not support; the fallback finds out.
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
        empty_waiter = transp._make_empty_waiter()
        is_reading = transp.is_reading()
        transp.pause_reading()
        try:
            await empty_waiter
            sock = transp._sock
            if sock is None:
                raise ConnectionError("Connection is closed by peer")
            # With a duplicate fd: the transport may register the original for reading during the operation.
            with sock.dup() as duplicate:
                self._check_sendfile_params(duplicate, file, offset, count)
                return await self._sock_sendfile_native(duplicate, file, offset, count, transp._set_sending)
        finally:
            transp._reset_empty_waiter()
            if is_reading:
                transp.resume_reading()

    async def _sendfile_fallback(self, transp: Any, file: Any, offset: int, count: int | None) -> int:
        """asyncio's fallback with larger blocks.

        A thread reads each block.  With asyncio's 16 KiB, waking the thread costs more than the encryption.
        """
        if offset:
            file.seek(offset)
        sent = 0
        protocol = _internals.SendfileFallbackProtocol(transp)
        try:
            while count is None or sent < count:
                size = BLOCK_SIZE if count is None else min(count - sent, BLOCK_SIZE)
                # An immutable object, which the transport stores without a copy.
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
    """The file descriptor of a file to send; None if the file is empty."""
    try:
        descriptor: int = file.fileno()
        size = os.fstat(descriptor).st_size
    except (AttributeError, io.UnsupportedOperation, OSError):
        raise asyncio.SendfileNotAvailableError("not a regular file") from None
    return descriptor if count or size else None


class FileSender:
    """The part of a stream transport for sending a file, which bypasses its write buffer."""

    _empty_waiter: asyncio.Future[None] | None = None
    _sending: _mainspring.SocketWait | None = None

    def _make_empty_waiter(self: Any) -> asyncio.Future[None]:
        """Refuses writes from now on.  The future is done when the write buffer is empty."""
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
        """Called when the write buffer is empty, or the connection is lost."""
        is_lost = self._state()[0]
        waiter = self._empty_waiter
        if waiter is not None and not waiter.done():
            if is_lost:
                waiter.set_exception(ConnectionError("Connection is closed by peer"))
            else:
                waiter.set_result(None)
        if is_lost and self._sending is not None:
            self._sending.fail(ConnectionError("Connection is closed by peer"))
