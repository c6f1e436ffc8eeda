"""Native streams: the classes of ``mainspring._streams`` next to asyncio's own."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import inspect
import select
import socket
import ssl
import sys
import unittest.mock
import warnings
import weakref

import pytest
import tls
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from peers import TIMEOUT, in_thread
from stream_models import STEPS, compare

import mainspring
from mainspring import _streams

pytestmark = pytest.mark.filterwarnings("error")


@contextlib.asynccontextmanager
async def connected(**options):
    """A reader and a writer of a native connection, and the socket at the other end."""
    own, peer = socket.socketpair()
    reader, writer = await asyncio.open_connection(sock=own, **options)
    peer.settimeout(TIMEOUT)
    try:
        yield reader, writer, peer
    finally:
        peer.close()
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


@contextlib.asynccontextmanager
async def served(handler, **options):
    """The socket of a client of a server."""
    server = await asyncio.start_server(handler, "127.0.0.1", 0, **options)
    try:
        client = await in_thread(socket.create_connection, server.sockets[0].getsockname())
        client.settimeout(TIMEOUT)
        with client:
            yield client
    finally:
        server.close()
        await server.wait_closed()


async def received(reader, data):
    """Waits until a reader has buffered the data."""
    while bytes(reader._buffer) != data:
        await asyncio.sleep(0)


def run(main):
    return mainspring.run(asyncio.wait_for(main, TIMEOUT))


@settings(deadline=None, max_examples=300, suppress_health_check=[HealthCheck.too_slow])
@given(STEPS, st.sampled_from([1, 3, 8, 1 << 16]), st.booleans())
@example([("feed", b"aa"), ("start", ("readuntil", b"aab")), ("feed", b"b")], 8, True)
@example([("start", ("readline",)), ("start", ("read", 3)), ("feed", b"\n")], 8, True)
@example([("feed", b"a" * 9), ("feed", b"a" * 9), ("start", ("readline",)), ("start", ("read", 1))], 8, True)
def test_native_reader_behaves_as_asyncios(steps, limit, can_pause):
    mainspring.run(compare(steps, limit, can_pause))


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(
        st.lists(st.sampled_from([b"a", b"ab\n", b"\n", b"a" * 30]), max_size=5).map(b"".join), max_size=8
    ),
    st.lists(st.sampled_from(["readline", "read", "readexactly", "pause"]), max_size=12),
)
def test_received_bytes_arrive_as_with_asyncio(chunks, reads):
    async def main():
        log = []
        async with connected(limit=8) as (reader, _, peer):
            tasks = []
            for index in range(max(len(chunks), len(reads))):
                if index < len(chunks):
                    peer.sendall(chunks[index])
                is_free = all(task.done() for task in tasks)
                if is_free and index < len(reads) and reads[index] != "pause":
                    arguments = () if reads[index] == "readline" else (4,)
                    tasks.append(asyncio.ensure_future(getattr(reader, reads[index])(*arguments)))
                for _ in range(6):
                    await asyncio.sleep(0)
                state = (bytes(reader._buffer), reader._paused, reader._waiter is None)
                log.append((*state, reader._transport.is_reading(), [task.done() for task in tasks]))
            peer.close()
            log.append(await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), TIMEOUT))
        return [str(entry) for entry in log]

    assert run(main()) == asyncio.run(main())


def test_streams_of_a_loop_have_native_classes():
    async def main():
        writers = asyncio.Queue()
        async with served(lambda reader, writer: writers.put_nowait((reader, writer))) as client:
            reader, writer = await writers.get()
            assert isinstance(reader, asyncio.StreamReader)
            assert isinstance(writer, asyncio.StreamWriter)
            assert type(reader) is _streams.StreamReader
            assert type(writer) is _streams.StreamWriter
            assert type(writer._protocol) is _streams.StreamReaderProtocol
            assert type(writer._protocol._client_connected_cb).__name__ == "function"
            client.close()
            assert await reader.read() == b""
            writer.close()
            await writer.wait_closed()
        async with connected() as (reader, writer, _):
            assert type(reader) is _streams.StreamReader
            assert type(writer) is asyncio.StreamWriter

    run(main())


def test_names_and_representations_are_asyncios():
    async def main():
        async with connected(limit=100) as (reader, _, peer):
            peer.sendall(b"some data")
            await received(reader, b"some data")
            assert repr(reader).startswith("<StreamReader 9 bytes limit=100 transport=<StreamTransport")
            for name in ("read", "readline", "readuntil", "readexactly"):
                method = getattr(reader, name)
                assert inspect.iscoroutinefunction(method)
                assert asyncio.iscoroutinefunction(method)
                original = inspect.signature(getattr(asyncio.StreamReader, name))
                parameters = list(inspect.signature(method).parameters.values())
                assert [(it.name, it.default) for it in parameters] == [
                    (it.name, it.default) for it in list(original.parameters.values())[1:]
                ]
                assert method.__qualname__ == f"StreamReader.{name}"
        async with served(lambda reader, writer: repr_of.append((repr(writer), writer.close()))):
            while not repr_of:
                await asyncio.sleep(0)
        assert repr_of[0][0].startswith("<StreamWriter transport=<StreamTransport")

    repr_of = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        run(main())


def test_a_coroutine_that_is_never_awaited_warns_and_takes_nothing():
    async def main():
        async with connected() as (reader, _, peer):
            peer.sendall(b"line\n")
            await received(reader, b"line\n")
            with pytest.warns(RuntimeWarning, match=r"coroutine 'StreamReader.readline' was never awaited"):
                reader.readline()
                gc.collect()
            task = asyncio.ensure_future(reader.readline())
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await reader.readline() == b"line\n"

    run(main())


@pytest.mark.parametrize("method", ["readline", "readuntil", "read", "readexactly", "__anext__"])
def test_a_cancelled_read_loses_no_data(method):
    async def main():
        arguments = (5,) if method in ("read", "readexactly") else ()
        async with connected() as (reader, _, _):
            waiting = asyncio.ensure_future(getattr(reader, method)(*arguments))
            await asyncio.sleep(0)
            assert reader._waiter is not None
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            assert reader._waiter is None
            # Cancelled after the data has arrived, before the task runs.
            waiting = asyncio.ensure_future(getattr(reader, method)(*arguments))
            await asyncio.sleep(0)
            reader.feed_data(b"data\n")
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            assert reader._buffer == b"data\n"
            assert await getattr(reader, method)(*arguments) == b"data\n"

    run(main())


@pytest.mark.parametrize("method", ["readline", "readuntil", "readexactly"])
def test_an_exception_that_follows_too_little_data_ends_the_wait(method):
    """asyncio's readers wait forever: see docs/differences.md."""

    async def main():
        arguments = (5,) if method == "readexactly" else ()
        async with connected() as (reader, _, _):
            waiting = asyncio.ensure_future(getattr(reader, method)(*arguments))
            await asyncio.sleep(0)
            reader.feed_data(b"part")
            reader.set_exception(ConnectionResetError("test"))
            with pytest.raises(ConnectionResetError, match="test"):
                await waiting

    run(main())


def test_data_that_is_enough_is_returned_before_an_exception():
    async def main():
        async with connected() as (reader, _, _):
            waiting = asyncio.ensure_future(reader.readline())
            await asyncio.sleep(0)
            reader.feed_data(b"line\n")
            reader.set_exception(ConnectionResetError("test"))
            assert await waiting == b"line\n"
            with pytest.raises(ConnectionResetError, match="test"):
                await reader.readline()

    run(main())


def test_a_method_that_is_replaced_in_the_class_is_called():
    async def main():
        async with connected() as (reader, _, peer):
            peer.sendall(b"one\ntwo\nthree\n")
            await received(reader, b"one\ntwo\nthree\n")
            assert await reader.readline() == b"one\n"
            with unittest.mock.patch.object(
                asyncio.StreamReader, "readuntil", return_value=b"replaced"
            ) as mock:
                assert await reader.readline() == b"replaced"
                assert await anext(reader) == b"replaced"
                assert await reader.readuntil(b"x") == b"replaced"
                assert mock.await_count == 3
            with unittest.mock.patch.object(asyncio.StreamReader, "feed_data") as mock:
                peer.sendall(b"four\n")
                while not mock.call_count:
                    await asyncio.sleep(0)
                mock.assert_called_once_with(b"four\n")
            assert await reader.readline() == b"two\n"
            with unittest.mock.patch.object(asyncio.StreamReaderProtocol, "data_received") as mock:
                peer.sendall(b"five\n")
                while not mock.call_count:
                    await asyncio.sleep(0)
                mock.assert_called_once_with(b"five\n")
            peer.sendall(b"six\n")
            assert await reader.readexactly(10) == b"three\nsix\n"

    run(main())


def test_a_method_that_is_replaced_on_the_instance_is_called():
    async def main():
        async with connected() as (reader, writer, peer):
            peer.sendall(b"one\n")
            await received(reader, b"one\n")
            reader.readuntil = unittest.mock.AsyncMock(return_value=b"replaced")
            assert await reader.readline() == b"replaced"
            del reader.readuntil
            reader.unrelated = 1
            assert await reader.readline() == b"one\n"
            reader.feed_data = unittest.mock.Mock()
            peer.sendall(b"two\n")
            while not reader.feed_data.call_count:
                await asyncio.sleep(0)
            del reader.feed_data
            protocol = writer.transport.get_protocol()
            protocol.data_received = unittest.mock.Mock()
            peer.sendall(b"three\n")
            while not protocol.data_received.call_count:
                await asyncio.sleep(0)
            protocol.data_received.assert_called_once_with(b"three\n")
            assert not reader._buffer

    run(main())


def test_drain_that_is_replaced_in_a_part_is_called():
    async def main():
        async def handle(reader, writer):
            await writer.drain()
            helper = unittest.mock.AsyncMock()
            with unittest.mock.patch.object(asyncio.streams.FlowControlMixin, "_drain_helper", helper):
                await writer.drain()
            assert helper.await_count == 1
            writer._protocol._drain_helper = unittest.mock.AsyncMock()
            await writer.drain()
            assert writer._protocol._drain_helper.await_count == 1
            reader.set_exception(ZeroDivisionError())
            with pytest.raises(ZeroDivisionError):
                await writer.drain()
            writer.close()
            done.set_result(None)

        done = asyncio.get_running_loop().create_future()
        async with served(handle):
            await done

    run(main())


def test_drain_waits_and_fails_as_in_asyncio():
    async def main():
        async def handle(reader, writer):
            writer.transport.set_write_buffer_limits(high=1)
            writer.write(bytes(1 << 24))
            draining = asyncio.ensure_future(writer.drain())
            await asyncio.sleep(0)
            assert not draining.done()
            waiting.set()
            await draining
            writer.close()
            with pytest.raises(ConnectionResetError, match="Connection lost"):
                for _ in range(10):
                    await writer.drain()
            done.set()

        waiting, done = asyncio.Event(), asyncio.Event()
        async with served(handle) as client:
            await waiting.wait()
            while len(await in_thread(client.recv, 1 << 20)):
                pass
            await done.wait()

    run(main())


def test_subclasses_and_replaced_names_are_left_alone():
    class Reader(asyncio.StreamReader):
        fed = b""

        def feed_data(self, data):
            self.fed += data

    class Writer(asyncio.StreamWriter):
        pass

    async def main():
        loop = asyncio.get_running_loop()
        own, peer = socket.socketpair()
        with peer:
            reader = Reader()
            protocol = asyncio.StreamReaderProtocol(reader)
            transport, _ = await loop.create_connection(lambda: protocol, sock=own)
            peer.sendall(b"data")
            while reader.fed != b"data":
                await asyncio.sleep(0)
            assert type(reader) is Reader
            assert type(protocol) is asyncio.StreamReaderProtocol
            transport.close()
        with unittest.mock.patch.object(asyncio.streams, "StreamWriter", Writer):
            writers = asyncio.Queue()
            async with served(lambda _, writer: writers.put_nowait(writer)):
                writer = await writers.get()
                assert type(writer) is Writer
                writer.close()

    run(main())


def test_patched_classes_are_not_adopted():
    async def main():
        with unittest.mock.patch.object(asyncio.StreamReader, "readline", autospec=True) as mock:
            mock.return_value = b"replaced"
            async with connected() as (reader, _, _):
                assert type(reader) is asyncio.StreamReader
                assert await reader.readline() == b"replaced"
        async with connected() as (reader, _, _):
            assert type(reader) is _streams.StreamReader

    run(main())


def test_a_view_of_the_buffer_is_an_error_as_in_asyncio():
    async def main():
        async with connected() as (reader, _, peer):
            peer.sendall(b"one\ntwo\n")
            await received(reader, b"one\ntwo\n")
            view = memoryview(reader._buffer)
            for read in (reader.readline, lambda: reader.readexactly(2), lambda: reader.read(2)):
                with pytest.raises(BufferError):
                    await read()
            assert bytes(view) == b"one\ntwo\n"
            view.release()
            assert await reader.readline() == b"one\n"

    run(main())


def test_attributes_that_python_code_sets_are_used():
    async def main():
        async with connected() as (reader, _, peer):
            reader._buffer.extend(b"from outside\n")
            assert await reader.readline() == b"from outside\n"
            reader._buffer = bytearray(b"another\n")
            assert await reader.readline() == b"another\n"
            reader._limit = 2
            reader.feed_data(b"too long\nok\n")
            with pytest.raises(ValueError, match="chunk is longer than limit"):
                await reader.readline()
            reader._limit = 2.5
            assert await reader.readline() == b"ok\n"
            reader.__dict__ = dict(reader.__dict__)
            peer.sendall(b"x\n")
            assert await reader.readline() == b"x\n"
            del reader._limit
            with pytest.raises(AttributeError):
                await reader.readline()
            reader._limit = 10

    run(main())


def test_reading_is_paused_above_twice_the_limit_and_resumed():
    async def main():
        async with connected(limit=4) as (reader, writer, peer):
            peer.sendall(b"0123456789")
            await received(reader, b"0123456789")
            assert reader._paused
            assert not writer.transport.is_reading()
            assert await reader.readexactly(5) == b"01234"
            assert reader._paused
            assert await reader.read(1) == b"5"
            assert not reader._paused
            assert writer.transport.is_reading()
            peer.sendall(b"abcdefghij")
            assert await reader.readexactly(14) == b"6789abcdefghij"

    run(main())


def test_a_reader_that_was_dropped_receives_nothing():
    async def main():
        own, peer = socket.socketpair()
        reader, writer = await asyncio.open_connection(sock=own)
        with peer:
            reference = weakref.ref(reader)
            writer._reader = reader = None
            gc.collect()
            assert reference() is None
            peer.sendall(b"data")
            for _ in range(5):
                await asyncio.sleep(0)
            assert select.select([own], [], [], 0) == ([], [], [])
        writer.close()
        await writer.wait_closed()

    run(main())


@tls.uses_tls
def test_lines_over_tls(authority):
    async def main():
        async def echo(reader, writer):
            assert type(reader) is _streams.StreamReader
            async for line in reader:
                writer.write(line)
                await writer.drain()
            writer.close()

        server = await asyncio.start_server(echo, "127.0.0.1", 0, ssl=authority.server_context())
        host, port = server.sockets[0].getsockname()
        options = {"ssl": authority.client_context(), "server_hostname": "localhost"}
        reader, writer = await asyncio.open_connection(host, port, **options)
        assert type(reader) is _streams.StreamReader
        for number in range(50):
            line = b"%d\n" % number
            writer.write(line)
            assert await reader.readline() == line
        writer.close()
        with contextlib.suppress(ssl.SSLError, ConnectionError):
            await writer.wait_closed()
        server.close()
        await server.wait_closed()

    run(main())


def test_streams_work_in_debug_mode():
    async def main():
        async with connected() as (reader, _, peer):
            assert reader._source_traceback is not None
            peer.sendall(b"one\n")
            assert await reader.readline() == b"one\n"
            peer.sendall(b"two\n")
            assert await anext(reader) == b"two\n"

    loop = mainspring.new_event_loop()
    loop.set_debug(True)
    try:
        loop.run_until_complete(asyncio.wait_for(main(), TIMEOUT))
    finally:
        loop.close()


@pytest.mark.skipif(sys.version_info < (3, 11), reason="needs asyncio.timeout()")
def test_a_timeout_of_zero_does_not_lose_a_line():
    async def main():
        async with connected() as (reader, _, peer):
            peer.sendall(b"line\n")
            await received(reader, b"line\n")
            with contextlib.suppress(TimeoutError):
                line = await asyncio.wait_for(reader.readline(), 0)
                assert line == b"line\n"
                return
            assert await reader.readline() == b"line\n"

    run(main())
