"""Unix stream sockets.

Connecting and serving are asyncio's own coroutines, in the running Python version: they check their arguments, bind and
connect, and then call the loop.  Only the end of a server is implemented here.
"""

from __future__ import annotations

from asyncio.log import logger

from . import _internals
from ._mainspring import remove_socket_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from typing import Any

__all__ = ("UnixSockets",)


class UnixSockets(_internals.LoopParts):
    """The part of the loop for Unix stream sockets."""

    create_unix_connection: Any = _internals.UnixLoop.create_unix_connection
    create_unix_server: Any = _internals.UnixLoop.create_unix_server

    def _init_unix(self) -> None:
        # From Python 3.13 on: sockets whose files are removed with their servers, and the inode numbers of the files.
        self._unix_server_sockets: dict[socket.socket, int] = {}

    def _stop_serving(self, sock: socket.socket) -> None:
        inode = self._unix_server_sockets.pop(sock, None)
        if inode is None:
            super()._stop_serving(sock)
            return
        path = sock.getsockname()
        super()._stop_serving(sock)
        try:
            remove_socket_file(path, inode)
        except OSError as error:
            logger.error("Unable to clean up listening UNIX socket %r: %r", path, error)
