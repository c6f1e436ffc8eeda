"""asyncio's streams on top of the transports."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import socket
import sys
import warnings

import pytest
from peers import TIMEOUT, fill, in_thread, pattern, read_exactly, read_to_end, reset

MIB = 1 << 20


@contextlib.asynccontextmanager
async def stream_server(handler, **options):
    server = await asyncio.start_server(handler, "127.0.0.1", 0, **options)
    try:
        yield server.sockets[0].getsockname()
    finally:
        server.close()
        await asyncio.wait_for(server.wait_closed(), TIMEOUT)


@contextlib.asynccontextmanager
async def stream_to_socket(**options):
    """A reader and a writer, and the plain socket at the other end."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        reader, writer = await asyncio.open_connection(*listening.getsockname(), **options)
        peer, _ = listening.accept()
    peer.settimeout(TIMEOUT)
    try:
        yield reader, writer, peer
    finally:
        peer.close()
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def finish(writer):
    writer.close()
    await asyncio.wait_for(writer.wait_closed(), TIMEOUT)


def test_lines_are_echoed(run):
    async def echo_lines(reader, writer):
        async for line in reader:
            writer.write(line.upper())
            await writer.drain()
        await finish(writer)

    async def main():
        async with stream_server(echo_lines) as address:
            reader, writer = await asyncio.open_connection(*address)
            for number in range(100):
                writer.write(b"line %d\n" % number)
                assert await reader.readline() == b"LINE %d\n" % number
            writer.write_eof()
            assert await reader.read() == b""
            assert reader.at_eof()
            await finish(writer)

    run(main())


def test_each_read_method_returns_its_part_of_the_stream(run):
    async def main():
        async with stream_to_socket() as (reader, _, peer):
            peer.sendall(b"first line\nexactly" + b"until;" + b"rest of it")
            peer.shutdown(socket.SHUT_WR)
            assert await reader.readline() == b"first line\n"
            assert await reader.readexactly(7) == b"exactly"
            assert await reader.readuntil(b";") == b"until;"
            assert await reader.read(4) == b"rest"
            assert await reader.read() == b" of it"
            assert await reader.read(10) == b""
            assert await reader.readline() == b""

    run(main())


def test_an_early_eof_raises_incomplete_read_error(run):
    async def main():
        async with stream_to_socket() as (reader, _, peer):
            peer.sendall(b"too little")
            peer.shutdown(socket.SHUT_WR)
            with pytest.raises(asyncio.IncompleteReadError) as caught:
                await reader.readexactly(100)
            assert (caught.value.partial, caught.value.expected) == (b"too little", 100)

    run(main())


def test_an_unterminated_line_is_returned_at_eof(run):
    async def main():
        async with stream_to_socket() as (reader, _, peer):
            peer.sendall(b"no newline")
            peer.shutdown(socket.SHUT_WR)
            assert await reader.readline() == b"no newline"

    run(main())


def test_a_line_past_the_limit_raises_value_error_or_limit_overrun_error(run):
    async def main():
        async with stream_to_socket(limit=64) as (reader, _, peer):
            peer.sendall(b"x" * 200 + b"\nnext\n")
            with pytest.raises(
                ValueError, match="Separator is found, but chunk is longer than limit|not found"
            ):
                await reader.readline()
        async with stream_to_socket(limit=64) as (reader, _, peer):
            peer.sendall(b"x" * 200 + b"\nnext\n")
            with pytest.raises(asyncio.LimitOverrunError) as caught:
                await reader.readuntil(b"\n")
            assert caught.value.consumed >= 64
            assert await reader.readexactly(201) == b"x" * 200 + b"\n"
            assert await reader.readline() == b"next\n"

    run(main())


@pytest.mark.parametrize("size", [1, 65_536, 200_000, 5 * MIB])
def test_reads_larger_than_the_limit_are_complete(run, size):
    async def main():
        data = pattern(size)
        async with stream_to_socket(limit=1000) as (reader, _, peer):
            sending = asyncio.ensure_future(in_thread(peer.sendall, data))
            assert await reader.readexactly(size) == data
            await sending

    run(main())


def test_a_full_reader_applies_back_pressure(run):
    async def main():
        async with stream_to_socket(limit=1000) as (reader, writer, peer):
            peer.setblocking(False)
            sent = 0
            # The reader stops at its limit, so the kernel's buffers on both sides fill up.
            for _ in range(1000):
                try:
                    sent += peer.send(bytes(100_000))
                except BlockingIOError:
                    break
                await asyncio.sleep(0)
            else:
                pytest.fail("the reader took 100 MB with a limit of 1000 bytes")
            peer.settimeout(TIMEOUT)
            peer.shutdown(socket.SHUT_WR)
            assert len(await reader.read()) == sent

    run(main())


def test_drain_waits_for_a_slow_reader(run):
    async def main():
        async with stream_to_socket() as (_, writer, peer):
            written = fill(writer.transport)
            draining = asyncio.ensure_future(writer.drain())
            await asyncio.sleep(0)
            assert not draining.done()
            assert len(await in_thread(read_exactly, peer, written)) == written
            await asyncio.wait_for(draining, TIMEOUT)
            # Returns at once if nothing is queued.
            await writer.drain()

    run(main())


def test_drain_raises_when_the_connection_is_lost(run):
    async def main():
        async with stream_to_socket() as (_, writer, peer):
            fill(writer.transport)
            draining = asyncio.ensure_future(writer.drain())
            await asyncio.sleep(0)
            reset(peer)
            with pytest.raises(ConnectionResetError):
                await asyncio.wait_for(draining, TIMEOUT)

    run(main())


def test_several_tasks_can_drain_at_once(run):
    async def main():
        async with stream_to_socket() as (_, writer, peer):
            written = fill(writer.transport)
            if sys.version_info < (3, 10, 3):
                pytest.skip("this Python allows only one drain() at a time")
            draining = [asyncio.ensure_future(writer.drain()) for _ in range(5)]
            await in_thread(read_exactly, peer, written)
            await asyncio.wait_for(asyncio.gather(*draining), TIMEOUT)

    run(main())


def test_a_reset_during_a_read_raises(run):
    async def main():
        async with stream_to_socket() as (reader, _, peer):
            peer.sendall(b"some")
            reading = asyncio.ensure_future(reader.readexactly(100))
            await asyncio.sleep(0)
            reset(peer)
            with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
                await asyncio.wait_for(reading, TIMEOUT)

    run(main())


def test_wait_closed_raises_the_connections_error(run):
    async def main():
        async with stream_to_socket() as (reader, writer, peer):
            reset(peer)
            with pytest.raises(ConnectionResetError):
                await reader.read()
            with pytest.raises(ConnectionResetError):
                await asyncio.wait_for(writer.wait_closed(), TIMEOUT)

    run(main())


def test_wait_closed_waits_for_queued_data(run):
    async def main():
        async with stream_to_socket() as (_, writer, peer):
            written = fill(writer.transport)
            writer.close()
            assert writer.is_closing()
            waiting = asyncio.ensure_future(writer.wait_closed())
            await asyncio.sleep(0)
            assert not waiting.done()
            assert len(await in_thread(read_to_end, peer)) == written
            await asyncio.wait_for(waiting, TIMEOUT)

    run(main())


def test_a_handler_may_close_its_writer_and_return(run):
    async def greet(reader, writer):
        writer.writelines([b"hello ", b"and ", b"goodbye"])
        writer.close()

    async def main():
        async with stream_server(greet) as address:
            for _ in range(20):
                reader, writer = await asyncio.open_connection(*address)
                assert await reader.read() == b"hello and goodbye"
                await finish(writer)

    run(main())


def test_a_plain_function_can_be_the_handler(run):
    def handler(reader, writer):
        writer.write(b"from a function")
        writer.close()

    async def main():
        async with stream_server(handler) as address:
            reader, writer = await asyncio.open_connection(*address)
            assert await reader.read() == b"from a function"
            await finish(writer)

    run(main())


def test_an_exception_in_a_handler_is_reported(run, loop):
    ended = []

    async def fail(reader, writer):
        try:
            raise ValueError("in the handler")
        finally:
            # Before 3.12 asyncio does not close the connection of a failing handler.
            writer.close()
            ended.append(True)

    async def main():
        async with stream_server(fail) as address:
            reader, writer = await asyncio.open_connection(*address)
            assert await reader.read() == b""
            await finish(writer)
        while not loop.reports:
            gc.collect()
            await asyncio.sleep(0)

    run(main())
    assert ended
    report = loop.reports.pop()
    assert repr(report["exception"]) == "ValueError('in the handler')"
    assert report["message"] in (
        "Unhandled exception in client_connected_cb",
        "Task exception was never retrieved",
    )


def test_the_writer_exposes_addresses(run):
    seen = []

    async def handler(reader, writer):
        seen.append((writer.get_extra_info("peername"), writer.get_extra_info("sockname")))
        await finish(writer)

    async def main():
        async with stream_server(handler) as address:
            reader, writer = await asyncio.open_connection(*address)
            await reader.read()
            assert writer.get_extra_info("peername") == address
            assert seen == [(writer.get_extra_info("sockname"), address)]
            await finish(writer)

    run(main())


def test_streams_of_many_clients_do_not_mix(run):
    async def echo(reader, writer):
        while data := await reader.read(10_000):
            writer.write(data)
            await writer.drain()
        await finish(writer)

    async def client(address, number):
        reader, writer = await asyncio.open_connection(*address)
        data = bytes([number]) * 300_000

        async def send():
            writer.write(data)
            await writer.drain()
            writer.write_eof()

        sending = asyncio.ensure_future(send())
        assert await reader.read() == data
        await sending
        await finish(writer)

    async def main():
        async with stream_server(echo) as address:
            await asyncio.gather(*(client(address, number) for number in range(30)))

    run(main())


def test_an_unclosed_dropped_writer_leaks_no_fd(run, loop):
    async def main():
        with socket.create_server(("127.0.0.1", 0)) as listening:
            streams = await asyncio.open_connection(*listening.getsockname())
            peer, _ = listening.accept()
        peer.settimeout(TIMEOUT)
        del streams
        gc.collect()
        peer.close()
        for _ in range(5):
            await asyncio.sleep(0)
        # The loop holds the transport while it can receive; the peer ends it.
        gc.collect()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        run(main())
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()
        gc.collect()


def test_a_timeout_while_reading_leaves_the_stream_usable(run):
    async def main():
        async with stream_to_socket() as (reader, _, peer):
            for _ in range(3):
                with pytest.raises(asyncio.TimeoutError):
                    await asyncio.wait_for(reader.readline(), 0.001)
            peer.sendall(b"after all\n")
            assert await reader.readline() == b"after all\n"

    run(main())
