"""Stream readers and writers: limits, EOF, cancelled tasks, handlers that raise."""

from __future__ import annotations

import asyncio
import socket

from hostile import (
    LIMIT,
    Boom,
    attempt,
    case,
    describe,
    iterations,
    outcome,
    quiet,
    reporting,
    settle,
    show,
    taken,
)


async def stream(limit=2**16):
    """A reader, a writer, and the plain socket at the other end."""
    ours, theirs = socket.socketpair()
    reader, writer = await asyncio.open_connection(sock=ours, limit=limit)
    theirs.settimeout(LIMIT)
    return reader, writer, theirs


async def result(awaitable):
    try:
        return await asyncio.wait_for(awaitable, LIMIT)
    except asyncio.IncompleteReadError as error:
        return f"incomplete {error.partial!r} of {error.expected}"
    except BaseException as error:
        return describe(error)


@case
async def lines_longer_than_the_limit():
    for limit in (1, 5, 10):
        reader, writer, peer = await stream(limit)
        peer.sendall(b"0123456789\nshort\n" * 3)
        peer.close()
        for _ in range(10):
            show(limit, await result(reader.readline()))
        writer.close()


@case
async def separators_that_are_strange():
    reader, writer, peer = await stream(50)
    peer.sendall(b"aXXbXYcXXXd" * 2)
    for separator in (b"XX", b"XY", b"XXX", b"", "text", None, 5):
        show(separator, await result(reader.readuntil(separator)))
    peer.close()
    show(await result(reader.readuntil(b"never")), await result(reader.read()))
    writer.close()


@case
async def invalid_counts():
    reader, writer, peer = await stream()
    peer.sendall(b"0123456789")
    for count in (0, 3, "x", None, 1.5):
        show(repr(count), await result(reader.read(count)) if count is not None else "to the end")
    for count in (-1, 0, 2, "x"):
        show(repr(count), await result(reader.readexactly(count)))
    peer.close()
    show(await result(reader.read(-1)), reader.at_eof(), await result(reader.readexactly(5)))
    writer.close()


@case
async def invalid_limits():
    for limit in (0, -1, "x", None):
        try:
            _, writer, peer = await stream(limit)
        except Exception as error:
            show(repr(limit), error)
        else:
            show(repr(limit), "made")
            writer.close()
            peer.close()
    await settle()


@case
async def two_readers_at_once():
    reader, writer, peer = await stream()
    first = asyncio.ensure_future(reader.read(1))
    await iterations()
    show(await result(reader.read(1)), await result(reader.readline()))
    peer.sendall(b"x")
    show(await first)
    writer.close()
    peer.close()


@case
async def a_cancelled_read_loses_nothing():
    reader, writer, peer = await stream()
    for number in range(6):
        task = asyncio.ensure_future(reader.readexactly(4))
        peer.send(b"%d" % number)
        await iterations(number)
        task.cancel()
        await outcome(task)
    await settle()
    peer.close()
    show(await reader.read())
    writer.close()


@case
async def far_more_than_the_limit_is_read():
    reader, writer, peer = await stream(16)
    task = asyncio.ensure_future(reader.readexactly(1 << 20))
    loop = asyncio.get_running_loop()
    await loop.run_in_executor(None, peer.sendall, b"x" * (1 << 20))
    show(len(await task))
    peer.close()
    show(await reader.read())
    writer.close()


@case
async def drain_while_the_peer_disconnects():
    reader, writer, peer = await stream()
    writer.transport.set_write_buffer_limits(10)
    writer.write(b"x" * (1 << 20))
    task = asyncio.ensure_future(writer.drain())
    await iterations()
    peer.close()
    show(
        await result(task)
        in ("ConnectionResetError", "BrokenPipeError(EPIPE)", "ConnectionResetError(ECONNRESET)")
    )
    show(await result(writer.drain()) != "None")
    writer.close()
    await result(writer.wait_closed())


@case
async def drains_of_many_tasks():
    reader, writer, peer = await stream()
    writer.transport.set_write_buffer_limits(10)
    writer.write(b"x" * (1 << 20))
    tasks = [asyncio.ensure_future(writer.drain()) for _ in range(5)]
    await iterations()
    tasks[0].cancel()
    await taken(peer, 1 << 20)
    show([await result(task) for task in tasks])
    writer.close()
    peer.close()


@case
async def writers_in_odd_states():
    reader, writer, peer = await stream()
    for data in ("text", None, 5):
        show(attempt(writer.write, data))
    writer.write_eof()
    show(attempt(writer.write, b"x"), writer.can_write_eof(), writer.is_closing())
    writer.close()
    show(writer.is_closing(), await result(writer.drain()), await result(writer.wait_closed()))
    show(attempt(writer.write, b"x"), attempt(writer.close), await result(writer.drain()))
    peer.close()


@case
async def readers_fed_by_hand():
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=5, loop=loop)
    show(attempt(reader.feed_data, b"data"), attempt(reader.feed_eof), attempt(reader.feed_data, b"late"))
    show(await result(reader.read()))
    reader = asyncio.StreamReader(loop=loop)
    reader.set_exception(Boom())
    show(await result(reader.read()), await result(reader.readline()), describe(reader.exception()))
    show(
        attempt(asyncio.StreamReader, limit=0, loop=loop), attempt(asyncio.StreamReader, limit=-1, loop=loop)
    )
    reader = asyncio.StreamReader(loop=loop)
    protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
    show(attempt(protocol.data_received, b"x"), attempt(protocol.eof_received), await result(reader.read()))


async def serve_with(handler):
    server = await asyncio.start_server(handler, "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    show(await result(reader.read()))
    writer.close()
    server.close()
    await settle()


@case
async def handlers_that_raise_or_are_cancelled():
    loop = asyncio.get_running_loop()
    quiet(loop)

    async def raises(reader, writer):
        writer.close()
        raise Boom

    async def cancelled(reader, writer):
        writer.close()
        raise asyncio.CancelledError

    def plain(reader, writer):
        writer.write(b"plain")
        writer.close()

    for handler in (raises, cancelled, plain):
        await serve_with(handler)


@case
async def handlers_that_cannot_be_called():
    loop = asyncio.get_running_loop()
    reporting(loop)
    for handler in (5, "x"):
        server = await asyncio.start_server(handler, "127.0.0.1", 0)
        sock = socket.create_connection(server.sockets[0].getsockname())
        await settle()
        sock.close()
        server.close()
        await settle()
    show("done")


@case
async def unreferenced_streams():
    import gc

    reader, writer, peer = await stream()
    del reader, writer
    gc.collect()
    await settle()
    gc.collect()
    show("collected")
    peer.close()
    await settle()


@case
async def an_echo_that_is_interrupted_at_every_size():
    for size in (1, 100, 65_536, 65_537, 300_000):
        reader, writer, peer = await stream(1 << 12)
        loop = asyncio.get_running_loop()
        sent = loop.run_in_executor(None, peer.sendall, b"x" * size)
        data = await reader.readexactly(size // 2)
        rest = asyncio.ensure_future(reader.read(1 << 20))
        await iterations(1)
        rest.cancel()
        got = len(data) + (len(rest.result()) if await outcome(rest) == "fine" else 0)
        while got < size:
            got += len(await reader.read(1 << 16))
        await sent
        show(size, got)
        writer.close()
        peer.close()
