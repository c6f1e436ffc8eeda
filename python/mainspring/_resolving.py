"""Name lookup: asyncio's, in a thread, except for lookups that cannot block.

These are lookups of numeric addresses and of names in the hosts file (``name_lookup/`` of the engine).  The C library
answers them too, so the results are the same.
"""

from __future__ import annotations

import socket

from . import _internals

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ("Resolving",)

_NUMERIC_NAME = socket.NI_NUMERICHOST | socket.NI_NUMERICSERV


class Resolving(_internals.LoopParts):
    """The part of the loop that looks up names."""

    async def getaddrinfo(
        self,
        host: Any,
        port: Any,
        *,
        family: int = 0,
        type: int = 0,
        proto: int = 0,
        flags: int = 0,
    ) -> Any:
        """The addresses of a host and port, as socket.getaddrinfo() returns them."""
        if not (self._debug or _is_replaced() or self._lookup_can_block(host, port, family, flags)):
            self._check_closed()
            return socket.getaddrinfo(host, port, family, type, proto, flags)
        return await super().getaddrinfo(host, port, family=family, type=type, proto=proto, flags=flags)

    async def getnameinfo(self, sockaddr: Any, flags: int = 0) -> Any:
        """The host and port of an address, as socket.getnameinfo() returns them."""
        if isinstance(flags, int) and flags & _NUMERIC_NAME == _NUMERIC_NAME:
            self._check_closed()
            return socket.getnameinfo(sockaddr, flags)
        return await super().getnameinfo(sockaddr, flags)


def _is_replaced() -> bool:
    """Whether a program has replaced socket.getaddrinfo().  Its function may block, whatever the name."""
    return getattr(socket.getaddrinfo, "__globals__", None) is not vars(socket)
