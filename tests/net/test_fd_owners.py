"""A transport owns its fd: other registrations of the fd are refused or removed."""

from __future__ import annotations

import asyncio
import gc
import os
import socket
import sys
import warnings

import pytest
from peers import Recorder, end_of, fill


def calls(loop, fd):
    """Calls about an fd, and the results of asyncio if no transport owns the fd."""
    return [
        (lambda: loop.add_reader(fd, print), None),
        (lambda: loop.add_writer(fd, print), None),
        (lambda: loop.remove_reader(fd), True),
        (lambda: loop.remove_writer(fd), True),
    ]


def assert_owned(loop, fd):
    for call, _ in calls(loop, fd):
        with pytest.raises(RuntimeError, match=f"File descriptor {fd} is used by"):
            call()


def assert_free(loop, fd):
    for call, answer in calls(loop, fd):
        assert call() is answer
    assert loop.remove_reader(fd) is False
    assert loop.remove_writer(fd) is False


def pair_with(number):
    """Two connected sockets, one of which has this fd number."""
    pairs = []
    try:
        for _ in range(16):
            pairs.append(socket.socketpair())
            if number in (pairs[-1][0].fileno(), pairs[-1][1].fileno()):
                return pairs.pop()
    finally:
        for pair in pairs:
            pair[0].close(), pair[1].close()
    raise AssertionError(f"no socket got the fd number {number}")


async def after_a_poll(loop):
    """Returns after a poll that reported all earlier events, and after their callbacks."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        brought = asyncio.Event()
        loop.add_reader(ours, brought.set)
        theirs.sendall(b"!")
        await brought.wait()
        loop.remove_reader(ours)


async def endpoint(loop, kind):
    """A transport and the objects at its other end."""
    if kind == "datagram":
        ours, theirs = socket.socketpair(type=socket.SOCK_DGRAM)
        return (await loop.create_datagram_endpoint(asyncio.DatagramProtocol, sock=ours))[0], theirs
    ours, theirs = socket.socketpair()
    return (await loop.connect_accepted_socket(Recorder, ours))[0], theirs


@pytest.mark.parametrize("kind", ["stream", "datagram"])
def test_a_transport_owns_its_fd_until_it_is_closing(run, loop, kind):
    async def main():
        for _ in range(2):  # the second transport has the same fd number
            transport, theirs = await endpoint(loop, kind)
            with theirs:
                fd = transport.get_extra_info("socket").fileno()
                assert_owned(loop, fd)
                await asyncio.sleep(0)
                assert_owned(loop, fd)
                if kind == "stream":
                    transport.pause_reading()
                    assert_owned(loop, fd)
                transport.close()
                assert_free(loop, fd)
                await asyncio.sleep(0)
                await asyncio.sleep(0)
            ours, theirs = pair_with(fd)
            with ours, theirs:
                assert_free(loop, fd)

    run(main())


def test_the_fd_of_a_dropped_transport_is_free(run, loop):
    async def main():
        ours, theirs = socket.socketpair()
        fd = ours.fileno()
        with theirs:
            transport, _ = await loop.connect_accepted_socket(asyncio.Protocol, ours)
            transport.pause_reading()
            assert_owned(loop, fd)
            del ours
            with pytest.warns(ResourceWarning, match="unclosed transport"), warnings.catch_warnings():
                # With asyncio's transport the socket warns as well.
                warnings.filterwarnings("ignore", message="unclosed <socket")
                warnings.filterwarnings("always", message="unclosed transport")
                del transport
                gc.collect()
            ours, others = pair_with(fd)
            with ours, others:
                assert_free(loop, fd)

    run(main())


def test_the_socket_object_of_an_accepted_connection_changes_nothing(run, loop):
    async def main():
        accepted = loop.create_future()

        class Accepted(Recorder):
            def connection_made(self, transport):
                super().connection_made(transport)
                transport.pause_reading()
                accepted.set_result(self)

        server = await loop.create_server(Accepted, "127.0.0.1", 0)
        with socket.create_connection(server.sockets[0].getsockname()):
            protocol = await accepted
            fd = protocol.transport.get_extra_info("socket").fileno()
            assert_owned(loop, fd)
            await end_of(protocol)
        server.close()
        await server.wait_closed()
        ours, theirs = pair_with(fd)
        with ours, theirs:
            assert_free(loop, fd)

    run(main())


@pytest.mark.parametrize("paused", [False, True])
def test_a_reader_is_removed_when_a_transport_takes_its_fd(run, loop, loop_name, paused):
    if paused and loop_name == "asyncio" and sys.version_info < (3, 11):
        pytest.skip(
            "asyncio starts to read after connection_made() even if that paused reading; fixed in 3.11"
        )

    class Protocol(Recorder):
        def connection_made(self, transport):
            super().connection_made(transport)
            if paused:
                transport.pause_reading()

    async def main():
        ours, theirs = socket.socketpair()
        called = []
        loop.add_reader(ours, called.append, "called")
        with theirs:
            transport, protocol = await loop.connect_accepted_socket(Protocol, ours)
            await asyncio.sleep(0)
            theirs.sendall(b"for the transport")
            if paused:
                await after_a_poll(loop)
                assert not protocol.received
                transport.resume_reading()
            assert await protocol.until_received(17) == b"for the transport"
            assert_owned(loop, ours.fileno())
            transport.close()
            await protocol.until_lost()
        assert not called

    run(main())


def test_a_writer_is_removed_when_a_transport_takes_its_fd(run, loop, loop_name):
    if loop_name == "asyncio":
        pytest.skip("asyncio keeps calling it in every iteration, and refuses to remove it")

    async def main():
        ours, theirs = socket.socketpair()
        called = []
        loop.add_writer(ours, called.append, "called")
        with theirs:
            transport, protocol = await loop.connect_accepted_socket(Recorder, ours)
            called.clear()
            await after_a_poll(loop)
            assert not called
            transport.close()
            await protocol.until_lost()

    run(main())


def test_cancelling_a_wait_on_a_socket_that_became_a_transport_does_not_affect_the_transport(run, loop):
    async def main():
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        with theirs:
            waiting = asyncio.ensure_future(loop.sock_recv(ours, 100))
            await asyncio.sleep(0)
            transport, protocol = await loop.connect_accepted_socket(Recorder, ours)
            await asyncio.sleep(0)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            theirs.sendall(b"for the transport")
            assert await protocol.until_received(17) == b"for the transport"
            transport.close()
            await protocol.until_lost()

    run(main())


def test_pipes_and_servers_own_their_fds(run, loop, loop_name):
    if loop_name == "asyncio":
        pytest.skip("asyncio accepts the reader, and the transport receives no more data")

    async def main():
        reader, writer = os.pipe()
        reading, lost = await loop.connect_read_pipe(Recorder, os.fdopen(reader, "rb"))
        reading.pause_reading()
        writing, _ = await loop.connect_write_pipe(Recorder, os.fdopen(writer, "wb"))
        for fd in (reader, writer):
            assert_owned(loop, fd)
        writing.close()
        reading.close()
        await lost.until_lost()
        server = await loop.create_server(Recorder, "127.0.0.1", 0)
        listening = server.sockets[0].dup()
        assert_owned(loop, server.sockets[0].fileno())
        with listening:
            server.close()
            await server.wait_closed()
            assert_free(loop, listening.fileno())

    run(main())


def test_queued_data_of_a_closing_transport_is_still_sent(run, loop, loop_name):
    if loop_name == "asyncio":
        pytest.skip("asyncio accepts the writer, and the queued data is never sent")

    async def main():
        ours, theirs = socket.socketpair()
        with theirs:
            transport, protocol = await loop.connect_accepted_socket(Recorder, ours)
            written = fill(transport)
            transport.close()
            assert_owned(loop, ours.fileno())
            received = 0
            while received < written:
                received += len(await loop.run_in_executor(None, theirs.recv, 1 << 18))
            await protocol.until_lost()

    run(main())


def test_each_loop_knows_only_its_own_fds(run, loop):
    async def main():
        transport, theirs = await endpoint(loop, "stream")
        with theirs:
            fd = transport.get_extra_info("socket").fileno()
            other = type(loop)()
            try:
                assert_free(other, fd)
            finally:
                other.close()
            assert_owned(loop, fd)
            transport.abort()
            await asyncio.sleep(0)
            await asyncio.sleep(0)

    run(main())


@pytest.mark.skipif(sys.version_info < (3, 12), reason="asyncio does not check before Python 3.12")
@pytest.mark.parametrize("kind", ["stream", "tls", "datagram"])
def test_a_socket_with_a_transport_cannot_get_a_second_one(run, loop, kind):
    async def open_again(sock):
        if kind == "datagram":
            await loop.create_datagram_endpoint(asyncio.DatagramProtocol, sock=sock)
        elif kind == "tls":
            await loop.create_connection(Recorder, sock=sock, ssl=True, server_hostname="localhost")
        else:
            await loop.create_connection(Recorder, sock=sock)

    async def main():
        transport, theirs = await endpoint(loop, kind)
        with theirs:
            with pytest.raises(RuntimeError, match=r"File descriptor <socket.* is used by transport"):
                await open_again(transport._sock)
            transport.close()
            await asyncio.sleep(0)
            await asyncio.sleep(0)

    run(main())
