"""Stream transports over TCP: pausing, changing the protocol, extra info and repr."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import socket
import sys
import warnings
import weakref

import pytest
from peers import (
    BufferedRecorder,
    Echo,
    Recorder,
    connected,
    connected_to_socket,
    fill,
    in_thread,
    read_to_end,
)

# Pausing


def test_nothing_is_delivered_while_reading_is_paused(run):
    async def main():
        async with connected() as (client, server):
            assert server.transport.is_reading()
            server.transport.pause_reading()
            assert not server.transport.is_reading()
            client.transport.write(b"later")
            client.transport.write_eof()
            # A round trip on another connection gives the data time to arrive.
            async with connected(server_factory=Echo) as (other, _):
                other.transport.write(b"x")
                await other.until_received(1)
            assert server.names == ["connection_made"]
            server.transport.resume_reading()
            assert server.transport.is_reading()
            await server.until_lost()
            assert bytes(server.received) == b"later"

    run(main())


def test_pausing_and_resuming_can_be_repeated(run):
    async def main():
        async with connected() as (client, server):
            for _ in range(2):
                server.transport.pause_reading()
            for _ in range(2):
                server.transport.resume_reading()
            client.transport.write(b"x")
            await server.until_received(1)
            server.transport.close()
            assert not server.transport.is_reading()
            server.transport.pause_reading()
            server.transport.resume_reading()
            assert not server.transport.is_reading()
            await server.until_lost()
            server.transport.pause_reading()
            server.transport.resume_reading()

    run(main())


def skip_where_asyncio_reads_while_paused(loop_name):
    if loop_name == "asyncio" and sys.version_info < (3, 11):
        pytest.skip(
            "asyncio starts to read after connection_made() even if that paused reading; fixed in 3.11"
        )


def test_reading_paused_in_connection_made_stays_paused(run, loop_name):
    skip_where_asyncio_reads_while_paused(loop_name)

    class Paused(Recorder):
        def connection_made(self, transport):
            super().connection_made(transport)
            transport.pause_reading()

    async def main():
        async with connected(server_factory=Paused) as (client, server):
            client.transport.write(b"later")
            async with connected(server_factory=Echo) as (other, _):
                other.transport.write(b"x")
                await other.until_received(1)
            assert not server.received
            server.transport.resume_reading()
            await server.until_received(5)

    run(main())


def test_a_transport_that_is_paused_still_sends(run):
    async def main():
        async with connected_to_socket() as (protocol, peer):
            protocol.transport.pause_reading()
            written = fill(protocol.transport)
            protocol.transport.write_eof()
            assert len(await in_thread(read_to_end, peer)) == written

    run(main())


# Changing the protocol


@pytest.mark.parametrize("former", [Recorder, BufferedRecorder])
@pytest.mark.parametrize("latter", [Recorder, BufferedRecorder])
def test_a_new_protocol_takes_over_mid_stream(run, former, latter):
    async def main():
        async with connected(server_factory=former) as (client, server):
            client.transport.write(b"first")
            await server.until_received(5)
            successor = latter()
            successor.transport = server.transport
            server.transport.set_protocol(successor)
            assert server.transport.get_protocol() is successor
            client.transport.write(b"second")
            assert await successor.until_received(6) == b"second"
            client.transport.write_eof()
            await successor.until_lost()
            assert bytes(server.received) == b"first"
            assert server.count("connection_lost") == 0
            assert successor.count("connection_made") == 0
            # The teardown waits for it.
            server.note("connection_lost", None)

    run(main())


def test_the_transport_releases_its_protocol_at_the_end(run):
    async def main():
        async with connected() as (client, _):
            transport = client.transport
            client.transport.close()
            await client.until_lost()
            await asyncio.sleep(0)
            assert transport.get_protocol() is None

    run(main())


# Extra info and repr


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_both_ends_expose_their_addresses(run, host):
    async def main():
        async with connected(host=host) as (client, server):
            here, there = client.transport, server.transport
            assert here.get_extra_info("peername") == there.get_extra_info("sockname")
            assert there.get_extra_info("peername") == here.get_extra_info("sockname")
            assert here.get_extra_info("sockname")[0] == host
            for end in (here, there):
                sock = end.get_extra_info("socket")
                assert sock.getsockname() == end.get_extra_info("sockname")
                assert sock.getpeername() == end.get_extra_info("peername")
                assert sock.family == (socket.AF_INET6 if ":" in host else socket.AF_INET)
                assert sock.type == socket.SOCK_STREAM
                assert sock.fileno() >= 0
                assert end.get_extra_info("socket") is sock
            assert len(here.get_extra_info("peername")) == (4 if ":" in host else 2)

    run(main())


def test_unknown_extra_info_returns_the_default(run):
    async def main():
        async with connected() as (client, server):
            for end in (client.transport, server.transport):
                assert end.get_extra_info("sslcontext") is None
                assert end.get_extra_info("no such thing", 5) == 5

    run(main())


def test_addresses_are_available_in_connection_lost(run):
    class Asks(Recorder):
        def connection_lost(self, exc):
            self.addresses = [self.transport.get_extra_info(name) for name in ("sockname", "peername")]
            super().connection_lost(exc)

    async def main():
        async with connected(Asks, Asks) as (client, server):
            client.transport.close()
            await client.until_lost()
            await server.until_lost()
        assert client.addresses == server.addresses[::-1]
        assert None not in client.addresses

    run(main())


def test_small_writes_are_sent_at_once(run):
    async def main():
        async with connected() as (client, server):
            for end in (client.transport, server.transport):
                sock = end.get_extra_info("socket")
                assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)

    run(main())


def test_transports_are_asyncio_transports_and_take_attributes_and_methods(run):
    async def main():
        async with connected() as (client, server):
            for end in (client.transport, server.transport):
                assert isinstance(end, asyncio.Transport)
                assert isinstance(end, asyncio.ReadTransport)
                assert isinstance(end, asyncio.WriteTransport)
                assert weakref.ref(end)() is end
                end.anything = "mine"
                assert end.anything == "mine"
                assert end == end and hash(end) == hash(end)
            written = []
            client.transport.write = written.append
            client.transport.write("anything")
            assert written == ["anything"]
            del client.transport.write
            client.transport.write(b"x")
            await server.until_received(1)

    run(main())


def test_repr_shows_the_state(run):
    async def main():
        async with connected_to_socket() as (protocol, _):
            transport = protocol.transport
            await asyncio.sleep(0)
            fd = transport.get_extra_info("socket").fileno()
            assert f"fd={fd} read=polling write=<idle, bufsize=0>" in repr(transport)
            fill(transport)
            transport.pause_reading()
            size = transport.get_write_buffer_size()
            assert f"read=idle write=<polling, bufsize={size}>" in repr(transport)
            transport.close()
            assert "closing" in repr(transport)
            transport.abort()
            await protocol.until_lost()
            await asyncio.sleep(0)
            assert "closed" in repr(transport)
            assert f"fd={fd}" in repr(transport)

    run(main())


@contextlib.contextmanager
def recorded_warnings():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield caught


def messages(caught):
    return [str(warning.message) for warning in caught]


def test_an_unclosed_dropped_transport_warns_and_closes(run, loop):
    async def main():
        ours, theirs = socket.socketpair()
        transport, protocol = await loop.create_connection(asyncio.Protocol, sock=ours)
        # The loop holds the transport until it is paused.
        transport.pause_reading()
        text = repr(transport)
        del ours, protocol
        with recorded_warnings() as caught:
            del transport
            gc.collect()
            assert f"unclosed transport {text}" in messages(caught)
            caught.clear()
        theirs.settimeout(30)
        assert theirs.recv(1) == b""
        theirs.close()

    run(main())


@pytest.mark.parametrize("kind", ["stream", "pipe"])
def test_a_finalizer_of_the_transports_referents_may_close_the_transport(run, loop, kind):
    lost = []

    class Closes:
        def __init__(self, transport):
            self.transport = transport

        def __del__(self):
            if not self.transport.is_closing():
                self.transport.close()

    class Holds(asyncio.Protocol):
        def connection_made(self, transport):
            self.closes = Closes(transport)

        def connection_lost(self, exc):
            lost.append(exc)

    async def main():
        ours, theirs = socket.socketpair()
        if kind == "stream":
            transport, protocol = await loop.create_connection(Holds, sock=ours)
        else:
            transport, protocol = await loop.connect_read_pipe(Holds, ours)
        transport.pause_reading()
        with recorded_warnings() as caught:
            del ours, transport, protocol
            gc.collect()
            while not lost:
                await asyncio.sleep(0)
            caught.clear()
        theirs.close()

    run(main())
    assert lost == [None]


def test_an_unclosed_dropped_accepted_transport_detaches_from_its_server(run, loop, loop_name):
    skip_where_asyncio_reads_while_paused(loop_name)
    if loop_name == "asyncio" and sys.version_info[:2] == (3, 12):
        pytest.skip("asyncio's server waits for the transport forever")

    class Paused(asyncio.Protocol):
        def connection_made(self, transport):
            transport.pause_reading()
            made.set_result(None)

    async def main():
        nonlocal made
        made = loop.create_future()
        server = await loop.create_server(Paused, "127.0.0.1", 0)
        client = socket.create_connection(server.sockets[0].getsockname())
        with recorded_warnings() as caught:
            await made
            while not any("unclosed transport" in message for message in messages(caught)):
                await asyncio.sleep(0)
                gc.collect()
            caught.clear()
        client.close()
        server.close()
        await server.wait_closed()

    made = None
    run(main())


@pytest.mark.parametrize("listens_on", ["127.0.0.1", "0.0.0.0", "::1"])
def test_an_accepted_connection_keeps_its_addresses_after_its_end(run, listens_on):
    async def main():
        loop = asyncio.get_running_loop()
        accepted = []

        def factory():
            accepted.append(Recorder())
            return accepted[-1]

        server = await loop.create_server(factory, listens_on, 0)
        port = server.sockets[0].getsockname()[1]
        host = "::1" if ":" in listens_on else "127.0.0.1"
        with socket.create_connection((host, port)) as client:
            name = client.getsockname()
            await wait_for_peer(lambda: accepted)
        await accepted[0].until_lost()
        transport = accepted[0].transport
        assert transport.get_extra_info("peername") == name
        assert transport.get_extra_info("sockname")[:2] == (host, port)
        assert transport.get_extra_info("socket").fileno() == -1
        server.close()
        await server.wait_closed()

    async def wait_for_peer(predicate):
        while not predicate():
            await asyncio.sleep(0)

    run(main())
