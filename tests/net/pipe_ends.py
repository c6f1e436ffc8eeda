"""Helpers of the pipe tests: protocols on one end of a pipe."""

from __future__ import annotations

import asyncio
import os
import sys

import peers


async def reading(file=None, factory=peers.Recorder):
    """A protocol that reads a new pipe (or ``file``), and the fd to write to."""
    write_end = None
    if file is None:
        read_end, write_end = os.pipe()
        file = os.fdopen(read_end, "rb", 0)
    _, protocol = await asyncio.get_running_loop().connect_read_pipe(factory, file)
    return protocol, write_end


async def writing(file=None, factory=peers.Recorder):
    """A protocol that writes to a new pipe (or ``file``), and the fd to read from."""
    read_end = None
    if file is None:
        read_end, write_end = os.pipe()
        file = os.fdopen(write_end, "wb", 0)
    _, protocol = await asyncio.get_running_loop().connect_write_pipe(factory, file)
    return protocol, read_end


def is_reading(transport, expected):
    """Checks ``is_reading()``; asyncio's own pipes lack it before Python 3.11."""
    try:
        return transport.is_reading()
    except NotImplementedError:
        assert sys.version_info < (3, 11) and type(transport).__module__.startswith("asyncio")
        return expected


def read_all(fd):
    with os.fdopen(fd, "rb") as file:
        return file.read()
