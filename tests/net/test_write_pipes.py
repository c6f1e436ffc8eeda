"""Writing pipes: ``connect_write_pipe()``."""

from __future__ import annotations

import asyncio
import logging
import os

import peers
import pytest
from pipe_ends import read_all, writing

LARGE = 1 << 20  # more than the capacity of any pipe


def test_large_writes_arrive_complete_with_flow_control_callbacks(run):
    async def main():
        protocol, read_end = await writing()
        transport = protocol.transport
        data = peers.pattern(LARGE)
        transport.write(data[:1000])
        transport.write(bytearray(data[1000:5000]))
        transport.write(memoryview(data)[5000:])
        assert transport.get_write_buffer_size() > 0
        assert protocol.count("pause_writing") == 1
        reader = asyncio.ensure_future(peers.in_thread(read_all, read_end))
        await protocol.until(lambda: protocol.count("resume_writing"))
        transport.write_eof()
        assert transport.is_closing() and transport.can_write_eof()
        assert await protocol.until_lost() is None
        assert await reader == data

    run(main())


def test_a_mutable_buffer_is_sent_as_it_was_when_written(run, loop_name):
    async def main():
        protocol, read_end = await writing()
        peers.fill(protocol.transport, bytes(1 << 16))
        waiting = protocol.transport.get_write_buffer_size()
        data = bytearray(b"abc")
        protocol.transport.write(data)
        assert protocol.transport.get_write_buffer_size() == waiting + 3
        data[:] = b"xyz"
        protocol.transport.close()
        received = await peers.in_thread(read_all, read_end)
        assert received.endswith(b"abc")
        await protocol.until_lost()

    run(main())


def test_writelines_writes_every_item(run):
    async def main():
        protocol, read_end = await writing()
        protocol.transport.writelines([b"a", bytearray(b"b"), memoryview(b"c")])
        protocol.transport.close()
        await protocol.until_lost()
        assert read_all(read_end) == b"abc"

    run(main())


def test_close_sends_queued_data_first(run):
    async def main():
        protocol, read_end = await writing()
        written = peers.fill(protocol.transport)
        protocol.transport.close()
        protocol.transport.close()
        assert protocol.transport.is_closing()
        received = await peers.in_thread(read_all, read_end)
        assert len(received) == written
        assert await protocol.until_lost() is None

    run(main())


def test_abort_drops_queued_data(run):
    async def main():
        protocol, read_end = await writing()
        written = peers.fill(protocol.transport)
        protocol.transport.abort()
        assert protocol.transport.get_write_buffer_size() == 0
        assert await protocol.until_lost() is None
        assert len(read_all(read_end)) < written

    run(main())


@pytest.mark.parametrize("loop_name", ["mainspring"])  # asyncio raises or reports AttributeError
@pytest.mark.parametrize("end", ["close", "write_eof", "abort", "the reader leaves"])
@pytest.mark.parametrize("is_lost_first", [False, True])
def test_aborting_a_finished_pipe_does_nothing(run, end, is_lost_first):
    async def main():
        protocol, read_end = await writing()
        if end != "the reader leaves":
            getattr(protocol.transport, end)()
        os.close(read_end)
        if is_lost_first:
            assert await protocol.until_lost() is None
        protocol.transport.abort()
        assert protocol.transport.is_closing()
        assert await protocol.until_lost() is None
        protocol.transport.abort()

    run(main())


@pytest.mark.parametrize("waiting", [False, True])
def test_closing_the_reader_ends_the_writer(run, waiting):
    async def main():
        protocol, read_end = await writing()
        if waiting:
            peers.fill(protocol.transport)
        os.close(read_end)
        error = await protocol.until_lost()
        assert isinstance(error, BrokenPipeError) if waiting else error is None

    run(main())


def test_repeated_writes_after_the_end_log_a_warning(run, caplog):
    async def main():
        protocol, read_end = await writing()
        os.close(read_end)
        for _ in range(5):
            protocol.transport.write(b"x")
        assert not caplog.records
        protocol.transport.write(b"x")
        assert isinstance(await protocol.until_lost(), BrokenPipeError | None)

    with caplog.at_level(logging.WARNING, "asyncio"):
        run(main())
    assert "pipe closed by peer" in caplog.text
