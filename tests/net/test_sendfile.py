"""Sending files: over plain sockets and over transports."""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import socket
import sys

import peers
import pytest
from peers import TIMEOUT, Recorder, end_of, fill, in_thread, pattern, read_exactly, read_to_end
from socks import pair, registered_fds, waiting
from tls import Authority, secured, uses_tls

CONTENT = pattern(2_000_000)


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(CONTENT)
    with open(path, "rb") as file:
        yield file


@contextlib.asynccontextmanager
async def connected():
    """A protocol and the socket at the other end. The kernel's buffers hold a small part of the file."""
    loop = asyncio.get_running_loop()
    ours, theirs = socket.socketpair()
    theirs.settimeout(TIMEOUT)
    with theirs:
        _, protocol = await loop.create_connection(Recorder, sock=ours)
        yield protocol, theirs
    await end_of(protocol)


@contextlib.asynccontextmanager
async def sink():
    """A protocol, and a future with everything that its peer received."""
    loop = asyncio.get_running_loop()
    async with connected() as (protocol, peer):
        reading = loop.run_in_executor(None, read_to_end, peer)
        yield protocol, reading
        await reading


PARTS = [
    (0, None, 0, len(CONTENT)),
    (5, None, 5, len(CONTENT)),
    (0, 10, 0, 10),
    (100_000, 1_000_000, 100_000, 1_100_000),
    (len(CONTENT) - 3, 100, len(CONTENT) - 3, len(CONTENT)),
]


@pytest.mark.parametrize("offset, count, begin, end", PARTS)
def test_a_part_of_a_file_over_a_socket(run, loop, file, offset, count, begin, end):
    async def main():
        with pair() as (ours, theirs):
            reading = loop.run_in_executor(None, read_to_end, theirs)
            assert await loop.sock_sendfile(ours, file, offset, count) == end - begin
            ours.shutdown(socket.SHUT_WR)
            assert await reading == CONTENT[begin:end]
            assert file.tell() == end
            assert registered_fds(loop) == 0

    run(main())


def test_a_file_over_an_accepted_connection_is_sent_by_the_kernel_and_the_connection_stays_usable(
    run, loop, file
):
    async def main():
        async with peers.connected() as (client, server):
            # The kernel reads from the offset, whatever the file position; the fallback would find nothing here.
            file.seek(0, os.SEEK_END)
            assert await loop.sendfile(server.transport, file, fallback=False) == len(CONTENT)
            assert await client.until_received(len(CONTENT)) == CONTENT
            assert not os.get_blocking(server.transport.get_extra_info("socket").fileno())

    run(main())


def test_the_socket_of_an_accepted_connection_is_non_blocking(run):
    async def main():
        async with peers.connected() as (_, server):
            sock = server.transport._sock
            assert sock.gettimeout() == 0
            with sock.dup() as another:
                assert not os.get_blocking(another.fileno())

    run(main())


@pytest.mark.parametrize("offset, count, begin, end", PARTS)
def test_a_part_of_a_file_over_a_transport(run, loop, file, offset, count, begin, end):
    async def main():
        async with sink() as (protocol, reading):
            assert await loop.sendfile(protocol.transport, file, offset, count) == end - begin
            assert file.tell() == end
            protocol.transport.close()
            assert await reading == CONTENT[begin:end]

    run(main())


def test_the_kernel_reads_the_file_itself(run, loop, file):
    """No fallback: the file is not read into this process."""

    async def main():
        async with sink() as (protocol, reading):
            sent = await loop.sendfile(protocol.transport, file, fallback=False)
            assert sent == len(CONTENT)
            protocol.transport.close()
            assert await reading == CONTENT
        with pair() as (ours, theirs):
            reading = loop.run_in_executor(None, read_exactly, theirs, len(CONTENT))
            assert await loop.sock_sendfile(ours, file, fallback=False) == len(CONTENT)
            assert await reading == CONTENT

    run(main())


def test_nothing_is_sent_of_an_empty_file(run, loop, tmp_path):
    (tmp_path / "empty").touch()

    async def main():
        with open(tmp_path / "empty", "rb") as file, pair() as (ours, _):
            assert await loop.sock_sendfile(ours, file, fallback=False) == 0
            async with sink() as (protocol, reading):
                assert await loop.sendfile(protocol.transport, file) == 0
                protocol.transport.close()
                assert await reading == b""

    run(main())


def test_file_objects_without_an_fd_are_read_and_sent(run, loop, loop_name):
    # asyncio queues unsent data as a view of the buffer into which it reads the next block.
    is_overwritten = loop_name == "asyncio" and sys.version_info >= (3, 12)

    async def main():
        with pair() as (ours, theirs):
            reading = loop.run_in_executor(None, read_exactly, theirs, len(CONTENT))
            assert await loop.sock_sendfile(ours, io.BytesIO(CONTENT)) == len(CONTENT)
            assert await reading == CONTENT
            with pytest.raises(asyncio.SendfileNotAvailableError, match="not a regular file"):
                await loop.sock_sendfile(ours, io.BytesIO(CONTENT), fallback=False)
        async with sink() as (protocol, reading):
            source = io.BytesIO(CONTENT)
            assert await loop.sendfile(protocol.transport, source, 10, 1_000_000) == 1_000_000
            with pytest.raises(asyncio.SendfileNotAvailableError):
                await loop.sendfile(protocol.transport, source, fallback=False)
            protocol.transport.close()
            received = await reading
            assert len(received) == 1_000_000
            assert is_overwritten or received == CONTENT[10:1_000_010]

    run(main())


def test_a_pipe_cannot_be_sent_by_the_kernel(run, loop):
    # From 3.14 on the file position is set anyway, and a pipe has none.
    refusal = OSError if sys.version_info >= (3, 14) else asyncio.SendfileNotAvailableError

    async def main():
        reader, writer = os.pipe()
        os.write(writer, b"through a pipe")
        os.close(writer)
        with open(reader, "rb", buffering=0) as file, pair() as (ours, theirs):
            with pytest.raises(refusal, match="os.sendfile call failed|Illegal seek"):
                await loop.sock_sendfile(ours, file, 0, 100, fallback=False)
            assert theirs.send(b"still there") == 11
            assert ours.recv(100) == b"still there"
        assert registered_fds(loop) == 0

    run(main())


def test_invalid_arguments_are_refused(run, loop, file, tmp_path):
    async def main():
        with pair() as (ours, _), pair(socket.SOCK_DGRAM) as (datagram, _):
            with open(file.name) as text:
                with pytest.raises(ValueError, match="binary"):
                    await loop.sock_sendfile(ours, text)
            with pytest.raises(ValueError, match="SOCK_STREAM"):
                await loop.sock_sendfile(datagram, file)
            for count in (0, -1, "1", 1.5):
                with pytest.raises((ValueError, TypeError), match="count"):
                    await loop.sock_sendfile(ours, file, 0, count)
            for offset in (-1, "1", 1.5):
                with pytest.raises((ValueError, TypeError), match="offset"):
                    await loop.sock_sendfile(ours, file, offset)
        async with sink() as (protocol, _):
            with open(file.name) as text:
                with pytest.raises(ValueError, match="binary"):
                    await loop.sendfile(protocol.transport, text)
            # It accepts writes again.
            protocol.transport.write(b"text")
            protocol.transport.close()
            with pytest.raises(RuntimeError, match="Transport is closing"):
                await loop.sendfile(protocol.transport, file)

    run(main())


def test_writes_before_and_after_the_file_keep_their_order(run, loop, file):
    async def main():
        async with connected() as (protocol, peer):
            written = fill(protocol.transport)
            sending = await waiting(loop.sendfile(protocol.transport, file))
            with pytest.raises(RuntimeError, match="unable to write; sendfile is in progress"):
                protocol.transport.write(b"in between")
            writelines = "writelines" if sys.version_info >= (3, 12) else "write"
            with pytest.raises(RuntimeError, match=f"unable to {writelines}; sendfile is in progress"):
                protocol.transport.writelines([b"in", b"between"])
            reading = loop.run_in_executor(None, read_to_end, peer)
            assert await sending == len(CONTENT)
            protocol.transport.write(b"after")
            protocol.transport.close()
            assert await reading == bytes(written) + CONTENT + b"after"

    run(main())


def test_one_file_at_a_time(run, loop, loop_name, file):
    if loop_name == "asyncio":
        pytest.skip("asyncio raises a KeyError")

    async def main():
        async with connected() as (protocol, peer):
            sending = await waiting(loop.sendfile(protocol.transport, file))
            with pytest.raises(RuntimeError, match="Empty waiter is already set"):
                await loop.sendfile(protocol.transport, file)
            assert await in_thread(read_exactly, peer, len(CONTENT)) == CONTENT
            assert await sending == len(CONTENT)
            protocol.transport.write(b"after")
            assert peer.recv(100) == b"after"

    run(main())


def test_reading_is_paused_while_a_file_is_sent(run, loop, file):
    async def main():
        async with connected() as (protocol, peer):
            sending = await waiting(loop.sendfile(protocol.transport, file))
            peer.sendall(b"question")
            for _ in range(5):
                await asyncio.sleep(0)
            assert not protocol.received
            assert await in_thread(read_exactly, peer, len(CONTENT)) == CONTENT
            assert await sending == len(CONTENT)
            assert await protocol.until_received(8) == b"question"

    run(main())


def test_a_protocol_may_resume_reading_while_a_file_is_sent(run, loop, file):
    async def main():
        async with connected() as (protocol, peer):
            sending = await waiting(loop.sendfile(protocol.transport, file))
            protocol.transport.resume_reading()
            peer.sendall(b"question")
            assert await protocol.until_received(8) == b"question"
            assert not sending.done()
            assert await in_thread(read_exactly, peer, len(CONTENT)) == CONTENT
            assert await sending == len(CONTENT)

    run(main())


def test_reading_that_was_paused_stays_paused(run, loop, file):
    async def main():
        async with connected() as (protocol, peer):
            protocol.transport.pause_reading()
            sending = await waiting(loop.sendfile(protocol.transport, file))
            await in_thread(read_exactly, peer, len(CONTENT))
            await sending
            assert not protocol.transport.is_reading()

    run(main())


def test_after_a_cancellation_the_file_position_shows_the_progress(run, loop, loop_name, file):
    if loop_name == "asyncio":
        pytest.skip("asyncio leaves the file position unchanged")

    async def main():
        with pair() as (ours, theirs):
            sending = await waiting(loop.sock_sendfile(ours, file))
            sending.cancel()
            with pytest.raises(asyncio.CancelledError):
                await sending
            assert 0 < file.tell() < len(CONTENT)
            assert registered_fds(loop) == 0
            ours.shutdown(socket.SHUT_WR)
            assert await in_thread(read_to_end, theirs) == CONTENT[: file.tell()]

    run(main())


def test_a_transport_works_after_a_cancelled_sendfile(run, loop, file):
    async def main():
        async with connected() as (protocol, peer):
            sending = await waiting(loop.sendfile(protocol.transport, file))
            sending.cancel()
            with pytest.raises(asyncio.CancelledError):
                await sending
            await asyncio.sleep(0)
            protocol.transport.write(b"the rest")
            peer.sendall(b"question")
            assert await protocol.until_received(8) == b"question"
            protocol.transport.close()
            received = await in_thread(read_to_end, peer)
            assert received.endswith(b"the rest")
            assert CONTENT.startswith(received[:-8])

    run(main())


def test_a_sendfile_cancelled_while_it_waits_for_the_queue_releases_the_transport(run, loop, loop_name, file):
    if loop_name == "asyncio":
        pytest.skip("asyncio's transport refuses later writes")

    async def main():
        async with connected() as (protocol, peer):
            written = fill(protocol.transport)
            sending = await waiting(loop.sendfile(protocol.transport, file))
            sending.cancel()
            with pytest.raises(asyncio.CancelledError):
                await sending
            protocol.transport.write(b"after")
            protocol.transport.close()
            assert await in_thread(read_to_end, peer) == bytes(written) + b"after"

    run(main())


@pytest.mark.parametrize("way", ["close", "abort"])
@pytest.mark.parametrize("queued", [False, True])
def test_closing_the_transport_ends_the_sendfile(run, loop, loop_name, file, way, queued):
    if loop_name == "asyncio":
        pytest.skip("asyncio's sendfile() never ends")

    async def main():
        async with connected() as (protocol, peer):
            if queued:
                fill(protocol.transport)
            sending = await waiting(loop.sendfile(protocol.transport, file))
            getattr(protocol.transport, way)()
            with contextlib.suppress(ConnectionError):
                await in_thread(read_to_end, peer)
            with pytest.raises(ConnectionError):
                await sending
            assert await protocol.until_lost() is None
            assert registered_fds(loop) == 0

    run(main())


def test_a_peer_that_disconnects_during_sendfile(run, loop, file):
    async def main():
        async with connected() as (protocol, peer):
            sending = await waiting(loop.sendfile(protocol.transport, file))
            await in_thread(read_exactly, peer, 1000)
            peer.close()
            with pytest.raises(ConnectionError):
                await sending
            await protocol.until_lost()
        with pair() as (ours, theirs):
            sending = await waiting(loop.sock_sendfile(ours, file))
            theirs.close()
            with pytest.raises(ConnectionError):
                await sending
            assert registered_fds(loop) == 0

    run(main())


def test_a_file_that_is_closed_during_sendfile_is_sent_to_its_end(run, loop, loop_name, file, tmp_path):
    if loop_name == "asyncio":
        pytest.skip("asyncio continues with the next file that gets the fd number")

    async def main():
        with pair() as (ours, theirs):
            sending = await waiting(loop.sock_sendfile(ours, file))
            number = file.fileno()
            file.close()
            with open(tmp_path / "other", "wb+") as other:
                assert other.fileno() == number
                other.write(b"secret" * 1_000_000)
                other.flush()
                reading = loop.run_in_executor(None, read_exactly, theirs, len(CONTENT))
                assert await sending == len(CONTENT)
                assert await reading == CONTENT

    run(main())


def test_a_blocking_socket_does_not_block_the_loop(run, loop, loop_name, file):
    if loop_name == "asyncio":
        pytest.skip("asyncio's loop blocks until the peer reads")

    async def main():
        ours, theirs = socket.socketpair()
        with ours, theirs:
            sending = await waiting(loop.sock_sendfile(ours, file))
            assert await in_thread(read_exactly, theirs, len(CONTENT)) == CONTENT
            assert await sending == len(CONTENT)

    run(main())


@uses_tls
def test_over_tls(run, loop, file, authority):
    async def main():
        received = bytearray()
        over = loop.create_future()

        class Collects(asyncio.Protocol):
            def data_received(self, data):
                received.extend(data)

            def connection_lost(self, exc):
                over.set_result(exc)

        server = await loop.create_server(Collects, "127.0.0.1", 0, ssl=authority.server_context())
        transport, _ = await loop.create_connection(
            asyncio.Protocol,
            *server.sockets[0].getsockname(),
            ssl=authority.client_context(),
            server_hostname="localhost",
        )
        with pytest.raises(RuntimeError, match="fallback is disabled"):
            await loop.sendfile(transport, file, fallback=False)
        assert await loop.sendfile(transport, file, 10) == len(CONTENT) - 10
        transport.close()
        await over
        assert received == CONTENT[10:]
        server.close()
        await server.wait_closed()

    run(main())


@pytest.mark.skipif(sys.version_info < (3, 14), reason="from 3.14 on")
def test_the_position_is_set_even_if_nothing_was_sent(run, loop, file):
    async def main():
        with pair() as (ours, _):
            assert await loop.sock_sendfile(ours, file, len(CONTENT), 10) == 0
            assert file.tell() == len(CONTENT)

    run(main())


class CountsReads(io.BytesIO):
    def __init__(self, content):
        super().__init__(content)
        self.sizes = []

    def read(self, size=-1):
        self.sizes.append(size)
        return super().read(size)


@uses_tls
@pytest.mark.parametrize("loop_name", ["mainspring"])
@pytest.mark.parametrize("count", [None, 1000, 600_000])
def test_over_tls_few_large_blocks_are_read(run, loop, authority, count):
    async def main():
        file = CountsReads(bytes(1 << 20))
        expected = count or 1 << 20
        async with secured(authority) as (client, server):
            assert await loop.sendfile(client.transport, file, 0, count) == expected
            assert file.tell() == expected
            assert len(await server.until_received(expected)) == expected
        block = 256 * 1024
        # One more read finds EOF if the size is not known.
        assert len(file.sizes) == -(-expected // block) + (count is None)
        assert max(file.sizes) == min(expected, block)

    run(main())
