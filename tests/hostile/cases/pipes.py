"""Pipes: ends closed in every order, and objects that are not pipes."""

from __future__ import annotations

import asyncio
import gc
import os
import tempfile

from hostile import (
    Boom,
    Recorder,
    attempt,
    case,
    describe,
    iterations,
    outcome,
    quiet,
    reporting,
    run,
    settle,
    show,
)


async def reading(script=None):
    """A transport that reads a pipe, its protocol, and the fd to write to."""
    reader, writer = os.pipe()
    transport, protocol = await asyncio.get_running_loop().connect_read_pipe(
        lambda: Recorder(script), open(reader, "rb", 0)
    )
    return transport, protocol, writer


async def writing(script=None):
    reader, writer = os.pipe()
    transport, protocol = await asyncio.get_running_loop().connect_write_pipe(
        lambda: Recorder(script), open(writer, "wb", 0)
    )
    return transport, protocol, reader


@case
async def invalid_pipes():
    loop = asyncio.get_running_loop()
    with tempfile.TemporaryFile() as file:
        for thing in (None, 5, "x", object(), file):
            show(type(thing).__name__)
            show(await outcome(loop.connect_read_pipe(Recorder, thing)))
            show(await outcome(loop.connect_write_pipe(Recorder, thing)))


@case
async def the_reader_disconnects():
    transport, protocol, reader = await writing()
    os.close(reader)
    show(await protocol.end() in ("BrokenPipeError", "BrokenPipeError(EPIPE)", "NoneType"), protocol.events)
    show(attempt(transport.write, b"late"), attempt(transport.close), transport.is_closing())


@case
async def the_reader_disconnects_while_data_is_queued():
    transport, protocol, reader = await writing()
    transport.write(b"x" * (1 << 20))
    show(transport.get_write_buffer_size() > 0)
    os.close(reader)
    show((await protocol.end()).partition("(")[0], transport.get_write_buffer_size())


@case(since=(3, 11))
async def every_method_of_a_read_pipe():
    transport, protocol, writer = await reading()
    show(transport.is_reading(), attempt(transport.resume_reading), attempt(transport.pause_reading))
    os.write(writer, b"data")
    await settle()
    show(bytes(protocol.received), attempt(transport.pause_reading), transport.is_reading())
    transport.resume_reading()
    show(await protocol.has(4), attempt(repr, transport))
    os.close(writer)
    show(await protocol.end(), protocol.events, attempt(transport.close), attempt(transport.pause_reading))


@case
async def every_method_of_a_write_pipe():
    transport, protocol, reader = await writing()
    show(transport.can_write_eof(), attempt(transport.write, b""), transport.get_write_buffer_size())
    show(attempt(transport.set_write_buffer_limits, -1), attempt(transport.writelines, [b"a", b"b"]))
    transport.write_eof()
    show(attempt(transport.write_eof), transport.is_closing(), await protocol.end())
    show(os.read(reader, 10), os.read(reader, 10))
    show(attempt(transport.close), attempt(repr, transport))
    os.close(reader)


def raising_in(callback, connect):
    async def main():
        reporting(asyncio.get_running_loop(), words=False)

        def fail(protocol):
            raise Boom

        transport, protocol, other = await connect({callback: fail})
        if connect is reading:
            os.write(other, b"x")
            await settle()
        os.close(other)
        await settle()
        show(callback, protocol.events, transport.is_closing())
        if not protocol.lost.done():
            getattr(transport, "abort", transport.close)()
        await protocol.end()

    run(main())


@case
def protocols_of_pipes_that_raise():
    for callback in ("connection_made", "data_received", "eof_received", "connection_lost"):
        raising_in(callback, reading)
    for callback in ("connection_made", "connection_lost"):
        raising_in(callback, writing)


@case
async def a_file_object_that_opens_another_when_it_closes():
    loop = asyncio.get_running_loop()
    opened = []

    class Reopens:
        def __init__(self, fd):
            self.fd = fd

        def fileno(self):
            return self.fd

        def close(self):
            if self.fd is not None:
                os.close(self.fd)
                self.fd = None
                opened.extend(os.pipe())

    reader, writer = os.pipe()
    transport, protocol = await loop.connect_read_pipe(Recorder, Reopens(reader))
    transport.close()
    await protocol.end()
    await settle()
    gc.collect()
    os.write(opened[1], b"alive")
    show(os.read(opened[0], 10))
    for fd in (*opened, writer):
        os.close(fd)


@case
async def connecting_a_pipe_is_cancelled():
    loop = asyncio.get_running_loop()
    quiet(loop)
    for moment in range(4):
        reader, writer = os.pipe()
        pipe = open(reader, "rb", 0)
        task = loop.create_task(loop.connect_read_pipe(Recorder, pipe))
        await iterations(moment)
        task.cancel()
        if await outcome(task) == "fine":
            task.result()[0].close()
        await settle()
        pipe.close()
        os.close(writer)
    show("cancelled")


@case
async def both_ends_on_one_loop():
    loop = asyncio.get_running_loop()
    reader, writer = os.pipe()
    _, received = await loop.connect_read_pipe(Recorder, open(reader, "rb", 0))
    transport, sent = await loop.connect_write_pipe(Recorder, open(writer, "wb", 0))
    transport.write(b"x" * (1 << 20))
    transport.close()
    show(await received.end(), await sent.end(), len(received.received))


@case
async def an_fd_that_is_closed_under_its_transport():
    quiet(asyncio.get_running_loop())
    transport, protocol, writer = await reading()
    os.close(writer)
    await protocol.end()
    try:
        os.fstat(transport.get_extra_info("pipe").fileno())
    except (OSError, ValueError) as error:
        show(describe(error))
