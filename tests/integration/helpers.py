"""Helpers of several integration tests."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

import pytest


def needed(name: str) -> Any:
    """Imports a library, or skips the tests with a message that names it."""
    return pytest.importorskip(name, reason=f"{name} is not installed for this Python", exc_type=ImportError)


async def until(condition: Callable[[], Awaitable[Any]]) -> None:
    """Polls another program until the condition is true. The caller sets a timeout."""
    while not await condition():
        pass


@contextlib.asynccontextmanager
async def echo_server():
    """A plain TCP echo server; yields its port."""

    async def serve(reader, writer):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await server.wait_closed()
