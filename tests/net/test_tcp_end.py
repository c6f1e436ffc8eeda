"""Stream transports over TCP: half-closed connections, and how a connection ends."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import socket

import pytest
from peers import (
    BufferedRecorder,
    KeepsOpen,
    Recorder,
    connected,
    connected_to_socket,
    fill,
    in_thread,
    read_to_end,
    reset,
)

# Half-closed connections


def test_write_eof_closes_one_direction_only(run):
    async def main():
        async with connected(server_factory=KeepsOpen) as (client, server):
            assert client.transport.can_write_eof()
            client.transport.write(b"question")
            client.transport.write_eof()
            await server.until(lambda: server.count("eof_received") == 1)
            assert bytes(server.received) == b"question"
            assert not server.transport.is_closing()
            server.transport.write(b"answer")
            assert await client.until_received(6) == b"answer"
            server.transport.close()
            assert await client.until_lost() is None
        assert server.count("eof_received") == 1
        assert client.names == ["connection_made", "data_received", "eof_received", "connection_lost"]

    run(main())


def test_write_eof_waits_for_queued_data(run):
    async def main():
        async with connected_to_socket() as (protocol, peer):
            written = fill(protocol.transport)
            protocol.transport.write_eof()
            assert protocol.transport.get_write_buffer_size() > 0
            assert len(await in_thread(read_to_end, peer)) == written
            assert not protocol.transport.is_closing()

    run(main())


def test_a_second_write_eof_changes_nothing(run):
    async def main():
        async with connected(server_factory=KeepsOpen) as (client, server):
            client.transport.write_eof()
            client.transport.write_eof()
            await server.until(lambda: server.count("eof_received") == 1)
            client.transport.close()
            client.transport.write_eof()
            await client.until_lost()

    run(main())


@pytest.mark.parametrize("data", [b"data", b""])
def test_write_after_write_eof_raises(run, data):
    async def main():
        async with connected(server_factory=KeepsOpen) as (client, _):
            client.transport.write_eof()
            with pytest.raises(RuntimeError, match=r"Cannot call write\(\) after write_eof\(\)"):
                client.transport.write(data)

    run(main())


def test_writelines_after_write_eof_raises(run):
    message = "Cannot call write(lines)?"

    async def main():
        async with connected(server_factory=KeepsOpen) as (client, _):
            client.transport.write_eof()
            with pytest.raises(RuntimeError, match=message):
                client.transport.writelines([b"data"])

    run(main())


# The end of a connection


def test_close_flushes_queued_data_first(run):
    async def main():
        async with connected_to_socket() as (protocol, peer):
            written = fill(protocol.transport)
            protocol.transport.close()
            assert protocol.transport.is_closing()
            assert protocol.count("connection_lost") == 0
            assert len(await in_thread(read_to_end, peer)) == written
            assert await protocol.until_lost() is None

    run(main())


def test_nothing_is_received_after_close(run):
    async def main():
        async with connected_to_socket() as (protocol, peer):
            peer.sendall(b"too late")
            protocol.transport.close()
            await protocol.until_lost()
            assert protocol.names == ["connection_made", "connection_lost"]

    run(main())


def test_abort_discards_queued_data(run):
    async def main():
        async with connected_to_socket() as (protocol, peer):
            written = fill(protocol.transport)
            protocol.transport.abort()
            assert protocol.transport.get_write_buffer_size() == 0
            assert protocol.transport.is_closing()
            assert await protocol.until_lost() is None
            try:
                received = await in_thread(read_to_end, peer)
            except ConnectionResetError:
                received = b""
            assert len(received) < written

    run(main())


def test_connection_lost_is_not_called_from_inside_close_or_abort(run):
    async def main():
        for how in ("close", "abort"):
            async with connected() as (client, _):
                getattr(client.transport, how)()
                assert client.count("connection_lost") == 0
                await client.until_lost()

    run(main())


def test_repeated_closing_calls_connection_lost_once(run):
    async def main():
        async with connected() as (client, _):
            for how in ("close", "close", "abort", "close", "abort"):
                getattr(client.transport, how)()
            await client.until_lost()
            for how in ("close", "abort"):
                getattr(client.transport, how)()
            await asyncio.sleep(0)
        assert client.count("connection_lost") == 1

    run(main())


@pytest.mark.parametrize("how", ["close", "abort"])
def test_writes_to_a_closed_transport_are_dropped_and_log_a_warning_from_the_fifth_on(run, caplog, how):
    async def main():
        async with connected() as (client, server):
            getattr(client.transport, how)()
            with caplog.at_level(logging.WARNING, logger="asyncio"):
                for _ in range(4):
                    client.transport.write(b"lost")
                assert not caplog.records
                for _ in range(3):
                    client.transport.write(b"lost")
            assert [record.getMessage() for record in caplog.records] == [
                "socket.send() raised exception."
            ] * 3
            await server.until_lost()
            assert not server.received

    run(main())


def test_writes_after_connection_lost_are_dropped(run):
    async def main():
        async with connected() as (client, _):
            client.transport.close()
            await client.until_lost()
            client.transport.write(b"lost")
            assert client.transport.is_closing()

    run(main())


def test_a_reset_by_the_peer_reaches_connection_lost(run):
    async def main():
        async with connected_to_socket() as (protocol, peer):
            reset(peer)
            error = await protocol.until_lost()
            assert type(error) is ConnectionResetError
            assert error.errno == errno.ECONNRESET
            assert error.strerror == os.strerror(errno.ECONNRESET)
            assert protocol.names == ["connection_made", "connection_lost"]

    run(main())


def test_a_write_to_a_disconnected_peer_reaches_connection_lost(run):
    async def main():
        async with connected_to_socket(KeepsOpen) as (protocol, peer):
            peer.close()
            await protocol.until(lambda: protocol.count("eof_received") == 1)
            while not protocol.transport.is_closing():
                protocol.transport.write(b"anybody there?")
                await asyncio.sleep(0)
            error = await protocol.until_lost()
            assert isinstance(error, (BrokenPipeError, ConnectionResetError))
            assert error.errno in (errno.EPIPE, errno.ECONNRESET)

    run(main())


def test_a_peer_that_disconnects_before_eof_is_sent_does_not_stop_the_loop(run, loop, loop_name):
    async def main():
        async with connected_to_socket(KeepsOpen) as (protocol, peer):
            fill(protocol.transport, bytes(10_000))
            protocol.transport.write_eof()
            # The peer reads the kernel's buffer and closes. The transport's last bytes then cause a reset, between the
            # send and the shutdown that follows it.
            peer.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                while peer.recv(1 << 20):
                    pass
            peer.close()
            if loop_name == "asyncio":
                # The failed shutdown is reported, and the connection stays unchanged.
                await protocol.until(lambda: protocol.count("eof_received") == 1)
                while protocol.transport.get_write_buffer_size():
                    await asyncio.sleep(0)
                loop.reports.clear()
            else:
                assert isinstance(await protocol.until_lost(), OSError)

    run(main())


def test_a_refused_connection_raises_connection_refused_error(run):
    async def main():
        loop = asyncio.get_running_loop()
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            address = unused.getsockname()
            with pytest.raises(ConnectionRefusedError) as caught:
                await loop.create_connection(Recorder, *address)
        assert caught.value.errno == errno.ECONNREFUSED
        assert "Connect call failed" in str(caught.value)
        del caught

    run(main())


@pytest.mark.parametrize("method", ["data_received", "eof_received"])
def test_an_exception_in_a_protocol_is_reported_and_ends_the_connection(run, loop, method):
    error = ValueError("the protocol's own")

    def fail(self, *args):
        raise error

    failing = type("Failing", (Recorder,), {method: fail})

    async def main():
        async with connected_to_socket(failing) as (protocol, peer):
            peer.sendall(b"x") if method == "data_received" else peer.shutdown(socket.SHUT_WR)
            assert await protocol.until_lost() is error
            (report,) = loop.reports
            assert report["message"] == f"Fatal error: protocol.{method}() call failed."
            assert report["exception"] is error
            assert report["transport"] is protocol.transport
            assert report["protocol"] is protocol
            loop.reports.clear()

    run(main())


GET_BUFFER_FAILED = "Fatal error: protocol.get_buffer() call failed."
READ_FAILED = "Fatal read error on socket transport"
NOT_WRITABLE = "recv_into() argument 1 must be read-write bytes-like object, not "


@pytest.mark.parametrize(
    ("answer", "expected", "words", "message"),
    [
        (bytearray(), RuntimeError, "get_buffer() returned an empty buffer", GET_BUFFER_FAILED),
        (b"", RuntimeError, "get_buffer() returned an empty buffer", GET_BUFFER_FAILED),
        (b"read-only", TypeError, NOT_WRITABLE + "bytes", READ_FAILED),
        (memoryview(bytearray(8))[::2], TypeError, NOT_WRITABLE + "memoryview", READ_FAILED),
        ("text", TypeError, NOT_WRITABLE + "str", READ_FAILED),
        (None, TypeError, "object of type 'NoneType' has no len()", GET_BUFFER_FAILED),
    ],
    ids=["empty", "empty and read-only", "read-only", "gaps", "text", "none"],
)
def test_an_unusable_buffer_is_reported_and_ends_the_connection(run, loop, answer, expected, words, message):
    class Useless(BufferedRecorder):
        def get_buffer(self, sizehint):
            return answer

    async def main():
        async with connected_to_socket(Useless) as (protocol, peer):
            peer.sendall(b"x")
            error = await protocol.until_lost()
            assert (type(error), str(error)) == (expected, words)
            (report,) = loop.reports
            assert report["exception"] is error
            assert report["message"] == message
            loop.reports.clear()

    run(main())


def test_an_exception_in_connection_made_is_reported_and_reading_continues(run, loop):
    class Failing(Recorder):
        def connection_made(self, transport):
            super().connection_made(transport)
            raise ValueError("at the start")

    async def main():
        async with connected_to_socket(Failing) as (protocol, peer):
            peer.sendall(b"x")
            await protocol.until_received(1)
            (report,) = loop.reports
            assert report["message"].startswith("Exception in callback")
            assert "connection_made" in report["message"]
            loop.reports.clear()

    run(main())


def test_an_exception_in_connection_lost_is_reported_and_the_socket_still_closes(run, loop):
    class Failing(Recorder):
        def connection_lost(self, exc):
            super().connection_lost(exc)
            raise ValueError("at the end")

    async def main():
        async with connected_to_socket(Failing) as (protocol, peer):
            protocol.transport.close()
            assert await in_thread(peer.recv, 1) == b""
        (report,) = loop.reports
        assert report["message"].startswith("Exception in callback")
        loop.reports.clear()

    run(main())


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("base", [Recorder, BufferedRecorder])
def test_eof_received_is_called_again_after_an_interruption(loop, base, interruption):
    class Interrupted(base):
        def eof_received(self):
            super().eof_received()
            if self.count("eof_received") == 1:
                raise interruption

    async def connect():
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        _, protocol = await loop.create_connection(Interrupted, sock=ours)
        return protocol, theirs

    protocol, theirs = loop.run_until_complete(connect())
    theirs.close()
    with pytest.raises(interruption):
        loop.run_until_complete(protocol.until_lost())
    assert loop.run_until_complete(protocol.until_lost()) is None
    assert protocol.names == ["connection_made", "eof_received", "eof_received", "connection_lost"]


class FailingServer:
    """A server whose ``_detach()`` raises."""

    def _attach(self, *transport):
        pass

    def _detach(self, *transport):
        raise RuntimeError("out of the server")


def lost_with_failures(loop, failure, kind=socket.socket):
    """A connection whose protocol and server both fail at its end."""

    class Fails(Recorder):
        def connection_lost(self, exc):
            super().connection_lost(exc)
            raise failure

    ours, theirs = socket.socketpair()
    theirs.close()
    ours = kind(fileno=ours.detach())
    ours.setblocking(False)
    protocol = Fails()
    loop._make_socket_transport(ours, protocol, server=FailingServer())
    loop.run_until_complete(protocol.until_lost())


def test_two_exceptions_at_the_end_are_reported_chained(loop):
    first = ValueError("out of connection_lost()")
    lost_with_failures(loop, first)
    [report] = loop.reports
    loop.reports.clear()
    assert str(report["exception"]) == "out of the server"
    assert report["exception"].__context__ is first


@pytest.mark.parametrize("loop_name", ["mainspring"])
def test_an_interruption_is_not_lost_to_a_second_exception(loop):
    first = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt) as raised:
        lost_with_failures(loop, first)
    assert raised.value is first
    assert str(first.__context__) == "out of the server"


@pytest.mark.parametrize("loop_name", ["mainspring"])
def test_exceptions_that_are_already_chained_are_left_unchanged(loop):
    first = ValueError("out of connection_lost()")
    first.__context__ = first  # a cycle
    lost_with_failures(loop, first)
    [report] = loop.reports
    loop.reports.clear()
    assert report["exception"] is first or report["exception"].__context__ is first


@pytest.mark.parametrize("loop_name", ["mainspring"])
def test_both_exceptions_of_a_socket_that_cannot_be_closed_are_reported(loop, monkeypatch):
    class Fails(socket.socket):
        def close(self):
            super().close()
            raise ValueError("out of close()")

        def _decref_socketios(self):
            with contextlib.suppress(ValueError):
                super()._decref_socketios()  # which closes
            raise ValueError("out of _decref_socketios()")

    shown = []
    monkeypatch.setattr("sys.unraisablehook", lambda args: shown.append(str(args.exc_value)))
    lost_with_failures(loop, ValueError(), Fails)
    loop.reports.clear()
    assert shown == ["out of close()", "out of _decref_socketios()"]
