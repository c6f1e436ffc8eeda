"""Stream transports over TCP: the order of callbacks, and delivery of data."""

from __future__ import annotations

import array
import asyncio
import socket
import sys

import pytest
from peers import (
    BufferedRecorder,
    Echo,
    Recorder,
    connected,
    connected_to_socket,
    fill,
    in_thread,
    pattern,
    read_to_end,
)

MIB = 1 << 20


# The order of callbacks


def test_callbacks_come_in_the_order_made_data_lost(run):
    async def main():
        async with connected() as (client, server):
            client.transport.write(b"hello")
            await server.until_received(5)
            client.transport.close()
            assert await client.until_lost() is None
            assert await server.until_lost() is None
        assert client.log == [("connection_made",), ("connection_lost", None)]
        assert server.log == [
            ("connection_made",),
            ("data_received", 5),
            ("eof_received",),
            ("connection_lost", None),
        ]

    run(main())


def test_a_buffered_protocol_is_asked_for_a_buffer_before_each_read(run):
    async def main():
        async with connected(server_factory=BufferedRecorder) as (client, server):
            data = pattern(2500)
            client.transport.write(data)
            assert await server.until_received(2500) == data
            client.transport.write_eof()
            await server.until_lost()
        updates = [entry for entry in server.log if entry[0] == "buffer_updated"]
        assert sum(count for _, count in updates) == 2500
        assert all(0 < count <= server.size for _, count in updates)
        # And once more for EOF.
        assert server.hints == [-1] * (len(updates) + 1)
        assert server.names[-2:] == ["eof_received", "connection_lost"]

    run(main())


def test_data_is_not_delivered_before_connection_made_has_run(run):
    async def main():
        loop = asyncio.get_running_loop()
        ours, theirs = socket.socketpair()
        theirs.sendall(b"early")
        theirs.close()
        _, protocol = await loop.create_connection(Recorder, sock=ours)
        await protocol.until_lost()
        assert protocol.names == ["connection_made", "data_received", "eof_received", "connection_lost"]

    run(main())


def test_create_connection_returns_after_connection_made(run):
    async def main():
        async with connected_to_socket() as (protocol, _):
            assert protocol.log == [("connection_made",)]

    run(main())


# Delivery of data


@pytest.mark.parametrize("size", [1, 2, 100, 65_535, 65_536, 65_537, 262_144, MIB, 8 * MIB])
def test_data_arrives_complete_in_both_directions(run, size):
    async def main():
        data = pattern(size)
        async with connected(server_factory=Echo) as (client, server):
            client.transport.write(data)
            assert await client.until_received(size) == data
            assert bytes(server.received) == data

    run(main())


@pytest.mark.parametrize("size", [1, 65_537, 3 * MIB])
def test_data_arrives_complete_in_the_buffers_of_a_buffered_protocol(run, size):
    class BufferedEcho(BufferedRecorder):
        size = 50_000

        def buffer_updated(self, nbytes):
            super().buffer_updated(nbytes)
            self.transport.write(self.buffer[:nbytes])

    async def main():
        data = pattern(size)
        async with connected(BufferedRecorder, BufferedEcho) as (client, _):
            client.transport.write(data)
            assert await client.until_received(size) == data

    run(main())


def test_many_small_writes_arrive_in_order(run):
    async def main():
        data = pattern(20_000)
        async with connected() as (client, server):
            for place in range(0, len(data), 7):
                client.transport.write(data[place : place + 7])
            assert await server.until_received(len(data)) == data

    run(main())


def test_small_writes_behind_a_full_socket_arrive_in_order(run):
    async def main():
        async with connected_to_socket() as (protocol, peer):
            written = fill(protocol.transport, pattern(MIB))
            tail = pattern(10_000)
            for place in range(0, len(tail), 9):
                protocol.transport.write(tail[place : place + 9])
            protocol.transport.write_eof()
            received = await in_thread(read_to_end, peer)
            assert len(received) == written + len(tail)
            assert received[written:] == tail

    run(main())


class BytesSubclass(bytes):
    pass


@pytest.mark.parametrize(
    "make",
    [
        bytes,
        bytearray,
        memoryview,
        BytesSubclass,
        lambda data: memoryview(bytearray(data)),
        lambda data: memoryview(data)[:],
    ],
    ids=["bytes", "bytearray", "memoryview", "subclass", "view-of-bytearray", "slice"],
)
@pytest.mark.parametrize("method", ["write", "writelines"])
def test_every_bytes_like_type_can_be_written(run, make, method):
    async def main():
        async with connected() as (client, server):
            data = make(b"some bytes")
            getattr(client.transport, method)(data if method == "write" else [data])
            assert await server.until_received(10) == b"some bytes"

    run(main())


@pytest.mark.parametrize("thing", ["text", 1, None, [b"x"], array.array("b", [1])], ids=repr)
def test_writing_other_types_raises_type_error(run, thing):
    async def main():
        async with connected() as (client, server):
            name = type(thing).__name__
            # Python 3.15 names the accepted types.
            with pytest.raises(TypeError, match=f"data argument must be a bytes.* object, not '{name}'"):
                client.transport.write(thing)
            client.transport.write(b"unharmed")
            assert await server.until_received(8) == b"unharmed"
            assert not client.transport.is_closing()

    run(main())


@pytest.mark.parametrize("things", [["text"], [b"a", 1], 5], ids=repr)
def test_writelines_of_other_types_raises_type_error_and_sends_nothing(run, loop_name, things):
    if loop_name == "asyncio" and sys.version_info >= (3, 15):
        pytest.skip("asyncio queues the items before the invalid one, and sends them later")

    async def main():
        async with connected() as (client, server):
            with pytest.raises(TypeError):
                client.transport.writelines(things)
            client.transport.write(b"unharmed")
            assert await server.until_received(8) == b"unharmed"

    run(main())


def test_writelines_sends_its_parts_in_order(run):
    async def main():
        parts = [pattern(size) for size in range(0, 3000, 3)] + [b"", bytearray(b"end")]
        expected = b"".join(parts)
        async with connected() as (client, server):
            client.transport.writelines(parts)
            assert await server.until_received(len(expected)) == expected

    run(main())


def test_writelines_handles_more_than_one_system_call_and_the_socket_buffer_can_take(run):
    async def main():
        parts = [pattern(1500)] * 5000
        async with connected_to_socket() as (protocol, peer):
            protocol.transport.writelines(parts)
            protocol.transport.write(b"after")
            protocol.transport.write_eof()
            assert await in_thread(read_to_end, peer) == b"".join(parts) + b"after"

    run(main())


def test_a_connection_survives_a_writelines_iterator_that_raises(run, loop_name):
    if loop_name == "asyncio" and sys.version_info >= (3, 15):
        pytest.skip("asyncio does not send data that is written afterwards")

    def lines():
        yield b"one"
        raise ZeroDivisionError

    async def main():
        async with connected() as (client, server):
            with pytest.raises(ZeroDivisionError):
                client.transport.writelines(lines())
            client.transport.write(b"two")
            assert await server.until_received(3) == b"two"

    run(main())


def test_writelines_accepts_an_empty_list(run):
    async def main():
        async with connected() as (client, server):
            client.transport.writelines([])
            client.transport.writelines([b""])
            client.transport.write(b"")
            client.transport.write(b"x")
            assert await server.until_received(1) == b"x"

    run(main())


@pytest.mark.parametrize("method", ["write", "writelines"])
def test_a_buffer_changed_after_the_write_does_not_change_the_sent_data(run, loop_name, method):
    if loop_name == "asyncio":
        # From 3.12 on it keeps a view of the caller's buffer (3.10 and 3.11 copy).
        pytest.skip("asyncio sends the buffer's content at the time of sending")

    async def main():
        async with connected_to_socket() as (protocol, peer):
            buffer = bytearray(b"a" * 8 * MIB)
            getattr(protocol.transport, method)(buffer if method == "write" else [buffer])
            assert protocol.transport.get_write_buffer_size() > 0
            buffer[:] = b"b" * len(buffer)
            protocol.transport.write_eof()
            assert (await in_thread(read_to_end, peer)).count(b"a") == 8 * MIB
            # The buffer can be resized.
            buffer.clear()

    run(main())


def test_a_buffer_can_be_resized_after_a_write_that_was_sent_at_once(run):
    async def main():
        async with connected() as (client, server):
            buffer = bytearray(b"abc")
            client.transport.write(buffer)
            buffer.clear()
            assert await server.until_received(3) == b"abc"

    run(main())
