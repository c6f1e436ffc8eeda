"""Pipes of both directions: accepted files, extra info, ownership of the file, contexts, streams."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import io
import os
import pty
import socket
import tempfile
import tty
import weakref

import peers
import pytest
from pipe_ends import reading, writing


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
def test_a_file_is_closed_once_and_the_next_owner_of_its_fd_is_not_affected(run, connect):
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
