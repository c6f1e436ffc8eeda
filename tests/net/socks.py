"""Helpers of the ``sock_*`` tests."""

from __future__ import annotations

import asyncio
import contextlib
import socket

import pytest
from peers import TIMEOUT


@contextlib.contextmanager
def pair(kind=socket.SOCK_STREAM):
    """Two connected sockets: ours, non-blocking, and theirs."""
    ours, theirs = socket.socketpair(type=kind)
    with ours, theirs:
        ours.setblocking(False)
        theirs.settimeout(TIMEOUT)
        yield ours, theirs


def registered_fds(loop):
    """The number of fds that are registered with the loop for users."""
    counts = getattr(loop, "_counts", None)
    return counts()[2] if counts else len(loop._selector.get_map()) - 1


def finish(coroutine):
    """The result of a coroutine that does not have to wait."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        return done.value
    coroutine.close()
    pytest.fail("the coroutine had to wait")


async def waiting(coroutine):
    """Starts a task and returns it when it waits for its socket."""
    task = asyncio.ensure_future(coroutine)
    for _ in range(3):
        await asyncio.sleep(0)
    assert not task.done()
    return task
