"""Pipes: ``connect_read_pipe()`` and ``connect_write_pipe()``."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import io
import logging
import os
import pty
import socket
import sys
import tempfile
import tty
import weakref

import peers
import pytest

MUCH = 1 << 20  # more than the capacity of any pipe


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


def test_large_writes_arrive_complete_with_flow_control_callbacks(run):
    async def main():
        protocol, read_end = await writing()
        transport = protocol.transport
        data = peers.pattern(MUCH)
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


def test_a_socket_works_as_either_end(run):
    async def main():
        ours, theirs = socket.socketpair()
        protocol, _ = await reading(ours)
        theirs.send(b"abc")
        await protocol.until_received(3)
        theirs.close()
        await protocol.until_lost()
        assert ours.fileno() == -1

        ours, theirs = socket.socketpair()
        protocol, _ = await writing(ours)
        protocol.transport.write(b"abc")
        assert theirs.recv(10) == b"abc"
        theirs.close()
        assert await protocol.until_lost() is None

    run(main())


def test_a_terminal_works_as_either_end(run):
    async def main():
        master, slave = pty.openpty()
        tty.setraw(slave)
        reader, _ = await reading(os.fdopen(slave, "rb", 0))
        writer, _ = await writing(os.fdopen(master, "wb", 0))
        writer.transport.write(b"abc")
        await reader.until_received(3)
        writer.transport.close()
        await writer.until_lost()
        # A terminal whose other end was closed fails with EIO.
        await reader.until_lost()

    run(main())


@pytest.mark.parametrize("connect", [reading, writing])
def test_a_regular_file_is_refused_and_stays_open(run, connect):
    async def main():
        with tempfile.TemporaryFile() as file:
            with pytest.raises(ValueError, match="pipes"):
                await connect(file)
            assert not file.closed

    run(main())


@pytest.mark.parametrize("connect", [reading, writing])
def test_other_objects_than_files_are_refused(run, loop_name, connect):
    if loop_name == "asyncio":
        pytest.skip("asyncio's half-initialised transports warn when they are collected")

    async def main():
        with pytest.raises(AttributeError):
            await connect(object())
        closed = os.fdopen(os.dup(0), "rb", 0)
        closed.close()
        with pytest.raises(ValueError):
            await connect(closed)

    run(main())


def test_data_of_other_types_than_bytes_is_refused(run):
    async def main():
        protocol, read_end = await writing()
        with pytest.raises((TypeError, AssertionError)):
            protocol.transport.write("text")
        protocol.transport.close()
        os.close(read_end)
        await protocol.until_lost()

    run(main())


def test_the_transports_are_asyncios_and_have_extra_info(run, loop):
    async def main():
        read_end, write_end = os.pipe()
        read_file, write_file = os.fdopen(read_end, "rb", 0), os.fdopen(write_end, "wb", 0)
        reader, _ = await reading(read_file)
        writer, _ = await writing(write_file)
        assert isinstance(reader.transport, asyncio.ReadTransport)
        assert isinstance(writer.transport, asyncio.WriteTransport)
        for protocol, file in ((reader, read_file), (writer, write_file)):
            transport = protocol.transport
            assert transport.get_extra_info("pipe") is file
            assert transport.get_extra_info("nothing", 5) == 5
            assert transport._pipe is file
            assert transport._fileno == file.fileno()
            assert transport._loop is loop
            assert transport.get_protocol() is protocol
            assert f"fd={file.fileno()}" in repr(transport)
        assert writer.transport.get_write_buffer_limits() == (16384, 65536)
        writer.transport.set_write_buffer_limits(high=100)
        assert writer.transport.get_write_buffer_limits() == (25, 100)
        with pytest.raises(ValueError):
            writer.transport.set_write_buffer_limits(high=1, low=2)
        writer.transport.close()
        await writer.until_lost()
        await reader.until_lost()
        for protocol, file in ((reader, read_file), (writer, write_file)):
            assert protocol.transport._pipe is None
            assert file.closed
            assert "closed" in repr(protocol.transport)

    run(main())


def test_set_protocol_replaces_the_protocol(run):
    async def main():
        first, write_end = await reading()
        second = peers.Recorder()
        first.transport.set_protocol(second)
        assert first.transport.get_protocol() is second
        os.write(write_end, b"abc")
        await second.until_received(3)
        os.close(write_end)
        await second.until_lost()
        assert first.names == ["connection_made"]

    run(main())


class ReplacesItself(io.FileIO):
    """A file whose ``close()`` opens a new pipe, which gets the fd number that was just freed."""

    fresh = None

    def close(self):
        if not self.closed:
            super().close()
            self.fresh = os.pipe()


@pytest.mark.parametrize("connect", [reading, writing])
def test_a_file_is_closed_once_and_the_next_owner_of_its_fd_is_left_alone(run, connect):
    async def main():
        ours, theirs = os.pipe() if connect is reading else reversed(os.pipe())
        file = ReplacesItself(ours, "rb" if connect is reading else "wb")
        protocol, _ = await connect(file)
        protocol.transport.close()
        await protocol.until_lost()
        assert ours in file.fresh
        gc.collect()
        await asyncio.sleep(0)
        os.write(file.fresh[1], b"abc")
        assert os.read(file.fresh[0], 3) == b"abc"
        for fd in (*file.fresh, theirs):
            os.close(fd)

    run(main())


def test_an_unclosed_transport_warns_and_closes(run):
    async def main():
        protocol, write_end = await reading()
        transport = protocol.transport
        transport.pause_reading()
        file = transport.get_extra_info("pipe")
        gone = weakref.ref(transport)
        protocol.transport = None
        # Unreferenced: the loop does not hold a paused reader.
        with pytest.warns(ResourceWarning, match="unclosed transport"):
            del transport
            gc.collect()
        assert gone() is None and file.closed
        os.close(write_end)

    run(main())


def test_callbacks_run_in_the_context_the_pipe_was_connected_in(run):
    variable = contextvars.ContextVar("variable", default="none")
    seen = []

    class Looks(peers.Recorder):
        def note(self, *entry):
            seen.append((entry[0], variable.get()))
            super().note(*entry)

    async def main():
        variable.set("mine")
        protocol, write_end = await reading(factory=Looks)
        variable.set("later")
        os.write(write_end, b"abc")
        await protocol.until_received(3)
        os.close(write_end)
        await protocol.until_lost()

    run(main())
    assert {value for _, value in seen} == {"mine"}


def test_cancelling_while_connecting_closes_the_pipe(run):
    async def main():
        for connect in (reading, writing):
            ours, theirs = os.pipe() if connect is reading else reversed(os.pipe())
            file = os.fdopen(ours, "rb" if connect is reading else "wb", 0)
            task = asyncio.ensure_future(connect(file))
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            for _ in range(3):
                await asyncio.sleep(0)
            assert file.closed
            os.close(theirs)

    run(main())


def test_streams_work_over_pipes(run, loop):
    async def main():
        read_end, write_end = os.pipe()
        reader = asyncio.StreamReader()
        read_transport, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(read_end, "rb", 0)
        )
        transport, protocol = await loop.connect_write_pipe(
            lambda: asyncio.streams.FlowControlMixin(), os.fdopen(write_end, "wb", 0)
        )
        writer = asyncio.StreamWriter(transport, protocol, None, loop)

        async def write():
            for number in range(2000):
                writer.write(b"%d\n" % number * 20)
                await writer.drain()
            writer.close()

        task = asyncio.ensure_future(write())
        lines = [line async for line in reader]
        await task
        assert len(lines) == 2000 * 20 and lines[-1] == b"1999\n"
        read_transport.close()
        await asyncio.sleep(0)

    run(main())
