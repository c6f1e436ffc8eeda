"""Name lookup: asyncio's, in a thread, except for numeric addresses, which the C library parses without blocking."""

from __future__ import annotations

import socket
from typing import Any

from . import _internals

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
        if not self._debug and _is_numeric_port(port) and _is_numeric_host(host):
            self._check_closed()
            return socket.getaddrinfo(host, port, family, type, proto, flags)
        return await super().getaddrinfo(host, port, family=family, type=type, proto=proto, flags=flags)

    async def getnameinfo(self, sockaddr: Any, flags: int = 0) -> Any:
        """The host and port of an address, as socket.getnameinfo() returns them."""
        if isinstance(flags, int) and flags & _NUMERIC_NAME == _NUMERIC_NAME:
            self._check_closed()
            return socket.getnameinfo(sockaddr, flags)
        return await super().getnameinfo(sockaddr, flags)


def _is_numeric_port(port: object) -> bool:
    """Whether the port is not the name of a service, whose lookup can block."""
    return port is None or isinstance(port, int) or (isinstance(port, (str, bytes)) and port.isdigit())


def _is_numeric_host(host: object) -> bool:
    """Whether the host is a numeric address.  Abbreviated forms, which the C library accepts too, are not recognised."""
    if isinstance(host, bytes):
        try:
            host = host.decode("ascii")
        except UnicodeDecodeError:
            return False
    if not isinstance(host, str):
        return False
    if ":" in host:
        # The name of an interface can follow, which the C library checks.
        return _is_address(socket.AF_INET6, host.partition("%")[0])
    return _is_address(socket.AF_INET, host)


def _is_address(family: int, text: str) -> bool:
    try:
        socket.inet_pton(family, text)
    except (OSError, ValueError):
        return False
    return True
