"""Reading pipes: ``connect_read_pipe()``."""

from __future__ import annotations

import asyncio
import os

import peers
import pytest
from pipe_ends import is_reading, reading


def test_a_reader_gets_data_then_eof_then_connection_lost(run):
    async def main():
        protocol, write_end = await reading()
        assert protocol.names == ["connection_made"]
        os.write(write_end, b"abc")
        assert await protocol.until_received(3) == b"abc"
        os.close(write_end)
        assert await protocol.until_lost() is None
        assert protocol.names == ["connection_made", "data_received", "eof_received", "connection_lost"]
        assert protocol.transport.is_closing()

    run(main())


def test_the_return_value_of_eof_received_does_not_keep_a_pipe_open(run):
    async def main():
        protocol, write_end = await reading(factory=peers.KeepsOpen)
        os.close(write_end)
        assert await protocol.until_lost() is None

    run(main())


def test_eof_received_and_connection_lost_are_separate_calls(run, loop):
    steps = []

    class Steps(peers.Recorder):
        def eof_received(self):
            loop.call_soon(steps.append, "after the end")

        def connection_lost(self, exc):
            steps.append("lost")
            super().connection_lost(exc)

    async def main():
        protocol, write_end = await reading(factory=Steps)
        os.close(write_end)
        await protocol.until_lost()

    run(main())
    # Calls scheduled by eof_received() run after connection_lost(), which was scheduled together with it.
    assert steps[0] == "lost"


def test_a_closed_reader_gets_no_eof_received(run):
    async def main():
        protocol, write_end = await reading()
        os.write(write_end, b"abc")
        protocol.transport.close()
        protocol.transport.close()
        assert not is_reading(protocol.transport, False)
        assert await protocol.until_lost() is None
        assert protocol.names == ["connection_made", "connection_lost"]
        with pytest.raises(BrokenPipeError):
            os.write(write_end, b"x")
        os.close(write_end)

    run(main())


def test_a_paused_reader_leaves_the_data_in_the_pipe(run):
    async def main():
        protocol, write_end = await reading()
        transport = protocol.transport
        transport.pause_reading()
        transport.pause_reading()
        assert not is_reading(transport, False)
        os.write(write_end, b"abc")
        for _ in range(5):
            await asyncio.sleep(0)
        assert not protocol.received
        transport.resume_reading()
        transport.resume_reading()
        assert is_reading(transport, True)
        assert await protocol.until_received(3) == b"abc"
        os.close(write_end)
        await protocol.until_lost()

    run(main())


def test_a_failing_data_received_is_reported_and_reading_continues(run, loop):
    class Fails(peers.Recorder):
        def data_received(self, data):
            super().data_received(data)
            if len(self.received) < 4:
                raise ZeroDivisionError

    async def main():
        protocol, write_end = await reading(factory=Fails)
        os.write(write_end, b"abc")
        await protocol.until_received(3)
        os.write(write_end, b"def")
        await protocol.until_received(6)
        os.close(write_end)
        assert await protocol.until_lost() is None

    run(main())
    (report,) = loop.reports
    assert isinstance(report["exception"], ZeroDivisionError)
    loop.reports.clear()
