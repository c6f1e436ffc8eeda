"""start_tls(): upgrading plain connections on either side, over any transport."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import sys
import warnings

import pytest
from peers import TIMEOUT, Echo, Recorder, connected_to_socket, fill, in_thread, pattern, read_exactly
from tls import mainspring_only, new_tls, secured

pytestmark = [new_tls, pytest.mark.filterwarnings("ignore:unclosed transport <asyncio:ResourceWarning")]


def serve_tls(authority, plain, plain_size=0):
    """The other end of an upgrade, on a blocking socket: reads the plain text, then speaks TLS."""
    before = read_exactly(plain, plain_size)
    return before, authority.server_context().wrap_socket(plain, server_side=True, suppress_ragged_eofs=False)


async def upgraded(loop, authority, client, peer, plain_size=0):
    """Upgrades both ends: (the plain text received before, the new transport, the other end)."""
    serving = asyncio.ensure_future(in_thread(serve_tls, authority, peer, plain_size))
    transport = await loop.start_tls(
        client.transport, client, authority.client_context(), server_hostname="localhost"
    )
    before, secure = await serving
    return before, transport, secure


def test_the_protocol_stays_and_gets_no_second_connection_made(run, loop, authority):
    async def main():
        async with connected_to_socket() as (client, peer):
            plain = client.transport
            _, client.transport, secure = await upgraded(loop, authority, client, peer)
            assert client.transport is not plain
            assert client.transport.get_protocol() is client
            assert client.transport._ssl_protocol._transport is plain
            client.transport.write(b"secret")
            assert await in_thread(secure.recv, 100) == b"secret"
            await in_thread(secure.sendall, b"answer")
            assert await client.until_received(6) == b"answer"
            secure.close()
            await client.until_lost()
            assert client.names == ["connection_made", "data_received", "eof_received", "connection_lost"]

    run(main())


def test_the_arguments_are_checked(run, loop, authority):
    async def main():
        async with connected_to_socket() as (client, _):
            with pytest.raises(TypeError, match="sslcontext is expected to be an instance of ssl.SSLContext"):
                await loop.start_tls(client.transport, client, None)
            with pytest.raises(TypeError, match="is not supported by start_tls"):
                await loop.start_tls(object(), client, authority.client_context())
            with pytest.raises(ValueError, match="positive number"):
                await loop.start_tls(
                    client.transport, client, authority.client_context(), ssl_handshake_timeout=0
                )

    run(main())


def test_a_failed_upgrade_closes_the_plain_transport(run, loop, authority):
    async def main():
        async with connected_to_socket() as (client, peer):
            upgrade = asyncio.ensure_future(
                loop.start_tls(
                    client.transport, client, authority.client_context(), server_hostname="localhost"
                )
            )
            peer.sendall(b"what do you mean?")
            with pytest.raises(ssl.SSLError):
                await upgrade
            assert client.transport.is_closing()
            assert isinstance(await client.until_lost(), ssl.SSLError)

    run(main())


@mainspring_only
def test_a_connected_protocol_gets_connection_lost_when_the_upgrade_times_out(run, loop, authority):
    async def main():
        async with connected_to_socket() as (client, _):
            with pytest.raises(ConnectionAbortedError, match="longer than 0.05 seconds"):
                await loop.start_tls(
                    client.transport,
                    client,
                    authority.client_context(),
                    server_hostname="localhost",
                    ssl_handshake_timeout=0.05,
                )
            assert isinstance(await client.until_lost(), ConnectionAbortedError)

    run(main())


def test_data_written_before_the_upgrade_arrives_as_plain_text(run, loop, authority):
    async def main():
        async with connected_to_socket() as (client, peer):
            client.transport.write(b"plain text")
            before, client.transport, secure = await upgraded(loop, authority, client, peer, 10)
            assert before == b"plain text"
            secure.close()
            await client.until_lost()

    run(main())


@mainspring_only
def test_an_upgrade_while_writing_is_paused_resumes_the_protocol(run, loop, authority):
    """asyncio's protocol asserts that writing is not paused."""

    async def main():
        async with connected_to_socket() as (client, peer):
            said = fill(client.transport)
            assert client.count("pause_writing") == 1
            before, client.transport, secure = await upgraded(loop, authority, client, peer, said)
            assert before == bytes(said)
            await client.until(lambda: client.count("resume_writing") > 0)
            data = pattern(100_000)
            client.transport.write(data)
            assert await in_thread(read_exactly, secure, len(data)) == data
            assert client.names == ["connection_made", "pause_writing", "resume_writing"]
            secure.close()
            await client.until_lost()

    run(main())


@mainspring_only
@pytest.mark.skipif(sys.version_info < (3, 11), reason="StreamWriter.start_tls() is new in Python 3.11")
@pytest.mark.parametrize("whole", [True, False])
def test_a_client_hello_that_arrived_with_plain_text_is_not_lost(run, authority, whole):
    """A proxy header and the client's first record, or the beginning of it, arrive in one segment."""

    async def handler(reader, writer):
        assert await reader.readline() == b"PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n"
        ready.set_result(None)
        await writer.start_tls(authority.server_context())
        writer.write(await reader.readline())
        await writer.drain()
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()

    def client(address):
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        session = authority.client_context().wrap_bio(incoming, outgoing, server_hostname="localhost")
        with pytest.raises(ssl.SSLWantReadError):
            session.do_handshake()
        hello = outgoing.read()
        with socket.create_connection(address, timeout=TIMEOUT) as plain:
            head = len(hello) if whole else 100
            plain.sendall(b"PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n" + hello[:head])
            asyncio.run_coroutine_threadsafe(asyncio.wait_for(ready, TIMEOUT), loop).result()
            plain.sendall(hello[head:])

            def step(operation, *args):
                while True:
                    try:
                        result = operation(*args)
                    except ssl.SSLWantReadError:
                        plain.sendall(outgoing.read())
                        incoming.write(plain.recv(10_000))
                    else:
                        plain.sendall(outgoing.read())
                        return result

            step(session.do_handshake)
            step(session.write, b"a secret\n")
            return step(session.read, 100)

    async def main():
        nonlocal loop, ready
        loop = asyncio.get_running_loop()
        ready = loop.create_future()
        server = await asyncio.start_server(handler, "127.0.0.1", 0)
        assert await in_thread(client, server.sockets[0].getsockname()) == b"a secret\n"
        server.close()
        await asyncio.wait_for(server.wait_closed(), TIMEOUT)

    loop = ready = None
    with warnings.catch_warnings():
        # In some versions asyncio's streams drop the plain transport without closing it.
        warnings.simplefilter("ignore", ResourceWarning)
        run(main())


def test_tls_inside_of_tls(run, loop, authority):
    """As through an HTTPS proxy: the inner connection runs over the transport of the outer one."""

    class Inner(Echo):
        async def secure(self):
            context = authority.server_context("leaf")
            self.transport = await loop.start_tls(self.transport, self, context, server_side=True)

    async def main():
        async with secured(authority, Recorder, Inner) as (client, server):
            outer = client.transport
            _, client.transport = await asyncio.gather(
                server.secure(),
                loop.start_tls(outer, client, authority.client_context(), server_hostname="localhost"),
            )
            assert client.transport._ssl_protocol._transport is outer
            data = pattern(300_000)
            client.transport.write(data)
            assert await client.until_received(len(data)) == data
            assert client.transport.get_extra_info("peername") == outer.get_extra_info("peername")
            client.transport.close()
            assert await client.until_lost() is None
            assert await server.until_lost() is None
            assert outer.is_closing()

    run(main())


def test_tls_over_a_third_party_transport(run, loop, authority):
    """Anything that calls a protocol as asyncio's transports do can carry TLS."""

    class Pipe(asyncio.Transport):
        """One of two ends in memory."""

        _start_tls_compatible = True
        other: Pipe
        protocol = None
        closed = False

        def get_protocol(self):
            return self.protocol

        def set_protocol(self, protocol):
            self.protocol = protocol

        def write(self, data):
            loop.call_soon(self.other.arrive, bytes(data))

        def arrive(self, data):
            while data and not self.closed:
                buffer = self.protocol.get_buffer(len(data))
                count = min(len(buffer), len(data))
                buffer[:count] = data[:count]
                self.protocol.buffer_updated(count)
                data = data[count:]

        def pause_reading(self):
            pass

        def resume_reading(self):
            pass

        def is_closing(self):
            return self.closed

        def close(self):
            self._force_close(None)

        def _force_close(self, exc):
            if not self.closed:
                self.closed = True
                loop.call_soon(self.protocol.connection_lost, exc)

    async def main():
        here, there = Pipe(), Pipe()
        here.other, there.other = there, here
        client, server = Recorder(), Echo()
        server.transport, client.transport = await asyncio.gather(
            loop.start_tls(there, server, authority.server_context(), server_side=True),
            loop.start_tls(here, client, authority.client_context(), server_hostname="localhost"),
        )
        data = pattern(200_000)
        client.transport.write(data)
        assert await client.until_received(len(data)) == data
        client.transport.close()
        assert await client.until_lost() is None
        assert await server.until_lost() is None

    run(main())
