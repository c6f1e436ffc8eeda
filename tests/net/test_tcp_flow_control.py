"""Stream transports over TCP: flow control."""

from __future__ import annotations

import asyncio

import pytest
from peers import (
    Recorder,
    connected,
    connected_to_socket,
    fill,
    in_thread,
    read_exactly,
    read_to_end,
)


def test_a_missing_water_mark_is_derived_from_the_other(run):
    async def main():
        async with connected() as (client, _):
            transport = client.transport
            assert transport.get_write_buffer_limits() == (16 * 1024, 64 * 1024)
            transport.set_write_buffer_limits(high=100)
            assert transport.get_write_buffer_limits() == (25, 100)
            transport.set_write_buffer_limits(low=100)
            assert transport.get_write_buffer_limits() == (100, 400)
            transport.set_write_buffer_limits(7, 3)
            assert transport.get_write_buffer_limits() == (3, 7)
            transport.set_write_buffer_limits(high=0)
            assert transport.get_write_buffer_limits() == (0, 0)
            transport.set_write_buffer_limits()
            assert transport.get_write_buffer_limits() == (16 * 1024, 64 * 1024)
            transport.set_write_buffer_limits(high=None, low=None)
            assert transport.get_write_buffer_limits() == (16 * 1024, 64 * 1024)

    run(main())


@pytest.mark.parametrize(
    "limits",
    [{"high": 1, "low": 2}, {"high": -1}, {"low": -1}, {"high": 5, "low": -1}, {"high": -5, "low": -5}],
)
def test_invalid_water_marks_raise_value_error(run, limits):
    async def main():
        async with connected() as (client, _):
            with pytest.raises(ValueError, match=r"high \(.*\) must be >= low \(.*\) must be >= 0"):
                client.transport.set_write_buffer_limits(**limits)
            assert client.transport.get_write_buffer_limits() == (16 * 1024, 64 * 1024)

    run(main())


def test_unknown_water_mark_arguments_raise_type_error(run):
    async def main():
        async with connected() as (client, _):
            with pytest.raises(TypeError):
                client.transport.set_write_buffer_limits(middle=1)
            with pytest.raises(TypeError):
                client.transport.set_write_buffer_limits(1, 2, 3)
            with pytest.raises(TypeError):
                client.transport.set_write_buffer_limits(high="much")

    run(main())


def test_a_protocol_is_paused_above_the_high_water_mark_and_resumed_at_the_low_one(run):
    class Measures(Recorder):
        def pause_writing(self):
            self.at_pause = self.transport.get_write_buffer_size()
            super().pause_writing()

        def resume_writing(self):
            self.at_resume = self.transport.get_write_buffer_size()
            super().resume_writing()

    async def main():
        async with connected_to_socket(Measures) as (protocol, peer):
            transport = protocol.transport
            transport.set_write_buffer_limits(high=300_000, low=100_000)
            fill(transport, bytes(10_000))
            while not protocol.count("pause_writing"):
                transport.write(bytes(10_000))
            assert 300_000 < protocol.at_pause <= 310_000
            transport.write(bytes(500_000))
            assert protocol.count("pause_writing") == 1
            reading = asyncio.ensure_future(in_thread(read_to_end, peer))
            await protocol.until(lambda: protocol.count("resume_writing") == 1)
            assert protocol.at_resume <= 100_000
            transport.write_eof()
            await reading
        assert protocol.names[:3] == ["connection_made", "pause_writing", "resume_writing"]
        assert protocol.count("pause_writing") == protocol.count("resume_writing") == 1

    run(main())


def test_with_a_high_water_mark_of_zero_any_queued_byte_pauses(run):
    async def main():
        async with connected_to_socket() as (protocol, peer):
            transport = protocol.transport
            transport.set_write_buffer_limits(high=0)
            written = fill(transport)
            assert protocol.count("pause_writing") == 1
            assert len(await in_thread(read_exactly, peer, written)) == written
            await protocol.until(lambda: protocol.count("resume_writing") == 1)
            assert transport.get_write_buffer_size() == 0

    run(main())


def test_lowering_the_water_marks_below_the_queued_size_pauses(run):
    async def main():
        async with connected_to_socket() as (protocol, _):
            transport = protocol.transport
            transport.set_write_buffer_limits(high=1 << 30)
            fill(transport)
            assert not protocol.count("pause_writing")
            transport.set_write_buffer_limits(high=10)
            assert protocol.count("pause_writing") == 1

    run(main())


@pytest.mark.parametrize("method", ["pause_writing", "resume_writing"])
def test_an_exception_in_flow_control_is_reported_and_the_connection_survives(run, loop, method):
    error = ValueError("the protocol's own")

    def fail(self):
        self.note(method)
        raise error

    failing = type("Failing", (Recorder,), {method: fail})

    async def main():
        async with connected_to_socket(failing) as (protocol, peer):
            written = fill(protocol.transport)
            await in_thread(read_exactly, peer, written)
            await protocol.until(lambda: protocol.count("resume_writing") == 1)
            (report,) = loop.reports
            assert report["message"] == f"protocol.{method}() failed"
            assert report["exception"] is error
            assert report["transport"] is protocol.transport
            assert report["protocol"] is protocol
            loop.reports.clear()
            assert not protocol.transport.is_closing()
            protocol.transport.write(b"alive")
            assert await in_thread(read_exactly, peer, 5) == b"alive"

    run(main())
