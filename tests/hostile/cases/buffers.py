"""Buffers: views, buffers resized while exported, released views, and buffers from get_buffer()."""

from __future__ import annotations

import array
import asyncio
import ctypes
import gc
import mmap
import sys

from hostile import (
    Boom,
    attempt,
    case,
    connected,
    drained,
    finish,
    new_loop,
    reporting,
    run,
    settle,
    show,
    tcp_pair,
    unix_pair,
)


@case
async def every_kind_of_buffer_is_sent():
    transport, protocol, peer = await connected(pair=tcp_pair)
    mapped = mmap.mmap(-1, 10)
    for buffer in (b"bytes", bytearray(b"array"), memoryview(b"views")[1:3], memoryview(bytearray(b"x" * 5)),
                   (ctypes.c_char * 4)(*b"ctyp"), mapped, b"", memoryview(b"")):  # fmt: skip
        show(
            type(buffer).__name__,
            attempt(transport.write, buffer),
            attempt(transport.writelines, [buffer, buffer]),
        )
    show(attempt(transport.writelines, iter([b"a", b"b"])), attempt(transport.writelines, []))
    transport.close()
    await protocol.end()
    show((await drained(peer))[0])
    peer.close()


@case
async def a_bytearray_that_is_cleared_after_the_write():
    transport, protocol, peer = await connected()
    data = bytearray(b"x" * (1 << 20))
    transport.write(data)
    cleared = attempt(data.clear)
    show(cleared in ("fine", "BufferError"), transport.get_write_buffer_size() > 0)
    del data
    gc.collect()
    transport.close()
    count, end = await drained(peer)
    show(count == 1 << 20 or cleared == "fine", end, await protocol.end())
    peer.close()


@case
async def released_views_are_refused():
    transport, protocol, peer = await connected()
    view = memoryview(b"data")
    view.release()
    show(attempt(transport.write, view))
    transport.abort()
    await protocol.end()
    peer.close()


@case
async def lines_that_fail_in_the_middle():
    transport, protocol, peer = await connected(pair=tcp_pair)

    def lines():
        yield b"one"
        raise Boom

    show(attempt(transport.writelines, lines()), transport.is_closing())
    # No write after this: asyncio 3.15 would never send it.
    transport.abort()
    show(await protocol.end())
    peer.close()


@case
async def lines_that_close_the_transport():
    transport, protocol, peer = await connected(pair=tcp_pair)

    def lines():
        yield b"one"
        transport.abort()
        yield b"two"

    show(attempt(transport.writelines, lines()), transport.is_closing())
    show(await protocol.end())
    peer.close()


class Buffered(asyncio.BufferedProtocol):
    """Returns ``give()`` from get_buffer(), and records its callbacks."""

    def __init__(self, give):
        self.give = give
        self.events = []
        self.sizes = 0
        self.lost = asyncio.get_running_loop().create_future()

    def connection_made(self, transport):
        self.transport = transport

    def get_buffer(self, hint):
        if "get_buffer" not in self.events:
            self.events.append("get_buffer")
        return self.give(self)

    def buffer_updated(self, count):
        self.sizes += count

    def eof_received(self):
        self.events.append("eof")

    def connection_lost(self, error):
        self.events.append(type(error).__name__)
        self.lost.set_result(error)


def resized(protocol):
    protocol.kept = bytearray(100)
    view = memoryview(protocol.kept)
    view.release()
    return protocol.kept


def failing(error):
    def give(protocol):
        raise error

    return give


class WrongLength(bytearray):
    """A buffer with a wrong ``__len__``."""

    def __init__(self, length, size):
        super().__init__(size)
        self.length = length

    def __len__(self):
        return self.length


def given(give, pair=unix_pair, words=False):
    """A connection whose protocol provides that buffer; ``words`` also prints the messages of reports."""

    async def main():
        loop = asyncio.get_running_loop()
        reporting(loop, words)
        ours, theirs = pair()
        ours.setblocking(False)
        transport, protocol = await loop.create_connection(lambda: Buffered(give), sock=ours)
        theirs.sendall(b"0123456789")
        await settle()
        show(protocol.events, protocol.sizes, transport.is_closing())
        theirs.close()
        await settle()
        if not protocol.lost.done():
            transport.abort()
        await protocol.lost
        show(protocol.events)

    run(main())


@case
def buffers_that_a_protocol_may_hand_out():
    given(lambda protocol: bytearray(100))
    given(lambda protocol: bytearray(1))
    given(lambda protocol: memoryview(bytearray(100))[10:13])
    given(lambda protocol: array.array("B", bytes(4)))
    given(lambda protocol: mmap.mmap(-1, 100))
    given(resized)


@case
def buffers_that_a_protocol_may_not_hand_out():
    gaps = memoryview(bytearray(100))[::2]
    readable = (b"read only", memoryview(b"read only"), b"", memoryview(b""), bytearray(), gaps)
    for nonsense in (None, "text", "", 5, object(), *readable, WrongLength(0, 100), WrongLength(100, 0)):
        show(type(nonsense).__name__)
        given(lambda protocol, nonsense=nonsense: nonsense, words=True)


@case
def a_get_buffer_that_raises():
    for error in (Boom, asyncio.CancelledError, MemoryError):
        show(error.__name__)
        given(failing(error))


@case
def a_get_buffer_that_ends_the_run():
    for error in (KeyboardInterrupt, SystemExit):
        loop = new_loop()

        async def main(error=error):
            ours, theirs = unix_pair()
            ours.setblocking(False)
            await asyncio.get_running_loop().create_connection(lambda: Buffered(failing(error)), sock=ours)
            theirs.send(b"x")
            theirs.close()
            await settle()

        show(attempt(loop.run_until_complete, main()))
        gc.collect()
        loop.set_exception_handler(lambda loop, context: None)
        for _ in range(3):
            attempt(loop.run_until_complete, settle())
        finish(loop)


@case
def a_get_buffer_that_closes_its_transport():
    for method in ("close", "abort", "pause_reading"):
        show(method)

        def give(protocol, method=method):
            getattr(protocol.transport, method)()
            return bytearray(4)

        async def main(give=give):
            loop = asyncio.get_running_loop()
            reporting(loop)
            ours, theirs = unix_pair()
            ours.setblocking(False)
            transport, protocol = await loop.create_connection(lambda: Buffered(give), sock=ours)
            theirs.send(b"x")
            await settle()
            show(transport.is_closing())
            transport.abort() if not protocol.lost.done() else None
            await protocol.lost
            show(protocol.events)
            theirs.close()

        run(main())


@case
async def many_small_and_one_huge_write():
    transport, protocol, peer = await connected(pair=tcp_pair)
    transport.set_write_buffer_limits(1 << 30)
    for _ in range(20_000):
        transport.write(b"x")
    transport.write(b"y" * (1 << 23))
    transport.writelines([b"z"] * 10_000)
    transport.close()
    show(await drained(peer), await protocol.end())
    peer.close()


@case
async def sizes_that_overflow():
    transport, protocol, peer = await connected(pair=tcp_pair)
    for limit in (sys.maxsize, 2**63, 2**64, 10**30):
        show(
            attempt(transport.set_write_buffer_limits, limit),
            attempt(transport.set_write_buffer_limits, limit, limit),
        )
    transport.abort()
    await protocol.end()
    peer.close()


@case
async def views_of_received_data_stay_valid():
    kept = []

    class Keeps(asyncio.Protocol):
        def data_received(self, data):
            kept.append((data, memoryview(data)))

        def connection_lost(self, error):
            lost.set_result(error)

    loop = asyncio.get_running_loop()
    lost = loop.create_future()
    ours, theirs = unix_pair()
    ours.setblocking(False)
    await loop.create_connection(Keeps, sock=ours)
    for number in range(50):
        theirs.send(b"%03d" % number)
        while len(kept) <= number:
            await asyncio.sleep(0)
    theirs.close()
    await lost
    show(b"".join(data for data, _ in kept) == b"".join(b"%03d" % number for number in range(50)))
    show({type(data).__name__ for data, _ in kept}, all(bytes(view) == data for data, view in kept))
