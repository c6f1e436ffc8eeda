"""TLS: the basic cases and the refusals. Details are in the other test_tls_*.py files."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import sys
import warnings

import pytest
from peers import TIMEOUT, Echo, Recorder, end_of, in_thread, pattern

# asyncio 3.10 warns about some closed transports as unclosed.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed transport <asyncio.sslproto:ResourceWarning")

MIB = 1 << 20


@pytest.fixture(autouse=True)
def ignore_failed_handshakes(loop):
    """asyncio reports failed handshakes in debug mode."""

    def handle(loop, context):
        if not (loop.get_debug() and "incoming connection" in context["message"]):
            loop.reports.append(context)

    loop.set_exception_handler(handle)


@contextlib.asynccontextmanager
async def secure_server(authority, factory=Echo):
    loop = asyncio.get_running_loop()
    made = []

    def make():
        made.append(factory())
        return made[-1]

    server = await loop.create_server(make, "127.0.0.1", 0, ssl=authority.server_context())
    try:
        yield server.sockets[0].getsockname(), made
    finally:
        server.close()
        for protocol in made:
            if protocol.transport is not None:
                await end_of(protocol)


@pytest.mark.parametrize("size", [1, 16_384, 100_000, 3 * MIB])
def test_protocols_exchange_data_over_tls(run, loop, authority, size):
    async def main():
        data = pattern(size)
        async with secure_server(authority) as (address, made):
            transport, client = await loop.create_connection(
                Recorder, *address, ssl=authority.client_context(), server_hostname="localhost"
            )
            assert isinstance(transport, asyncio.Transport)
            transport.write(data)
            assert await client.until_received(size) == data
            assert transport.get_extra_info("ssl_object").version() in ("TLSv1.2", "TLSv1.3")
            assert transport.get_extra_info("cipher") is not None
            assert dict(transport.get_extra_info("peercert")["subject"][0])["commonName"] == "localhost"
            assert transport.get_extra_info("peername") == address
            transport.close()
            assert await client.until_lost() is None
            assert await made[0].until_lost() is None
        for end in (client, made[0]):
            # Whether eof_received() comes in between depends on the version.
            assert end.names[:2] == ["connection_made", "data_received"]
            assert end.names[-1] == "connection_lost" and end.count("connection_lost") == 1

    run(main())


def test_streams_exchange_data_over_tls(run, authority):
    async def echo(reader, writer):
        while data := await reader.read(50_000):
            writer.write(data)
            await writer.drain()
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()

    async def main():
        server = await asyncio.start_server(echo, "127.0.0.1", 0, ssl=authority.server_context())
        address = server.sockets[0].getsockname()

        async def client(number):
            reader, writer = await asyncio.open_connection(
                *address, ssl=authority.client_context(), server_hostname="localhost"
            )
            data = bytes([number]) * 200_000
            writer.write(data)
            assert await reader.readexactly(len(data)) == data
            writer.close()
            await asyncio.wait_for(writer.wait_closed(), TIMEOUT)

        await asyncio.gather(*(client(number) for number in range(10)))
        server.close()
        await asyncio.wait_for(server.wait_closed(), TIMEOUT)

    run(main())


def test_an_untrusted_certificate_is_refused(run, loop, authority):
    async def main():
        async with secure_server(authority) as (address, made):
            with pytest.raises(ssl.SSLCertVerificationError):
                await loop.create_connection(
                    Recorder, *address, ssl=ssl.create_default_context(), server_hostname="localhost"
                )

    run(main())


def test_a_certificate_for_another_name_is_refused(run, loop, authority):
    async def main():
        async with secure_server(authority) as (address, made):
            with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
                await loop.create_connection(
                    Recorder, *address, ssl=authority.client_context(), server_hostname="elsewhere.example"
                )

    run(main())


def test_a_peer_that_does_not_speak_tls_fails_the_handshake(run, loop, authority):
    async def main():
        with socket.create_server(("127.0.0.1", 0)) as listening:
            connecting = asyncio.ensure_future(
                loop.create_connection(
                    Recorder,
                    *listening.getsockname(),
                    ssl=authority.client_context(),
                    server_hostname="localhost",
                )
            )
            peer, _ = await in_thread(listening.accept)
            peer.sendall(b"HTTP/1.1 400 I only speak plain text\r\n\r\n")
            with pytest.raises(ssl.SSLError):
                await connecting
            peer.close()

    run(main())


def test_a_peer_that_disconnects_fails_the_handshake(run, loop, authority):
    async def main():
        with socket.create_server(("127.0.0.1", 0)) as listening:
            connecting = asyncio.ensure_future(
                loop.create_connection(
                    Recorder,
                    *listening.getsockname(),
                    ssl=authority.client_context(),
                    server_hostname="localhost",
                )
            )
            peer, _ = await in_thread(listening.accept)
            await in_thread(peer.recv, 10_000)
            peer.close()
            with pytest.raises((ConnectionError, ssl.SSLError)):
                await connecting

    run(main())


def test_a_client_that_does_not_speak_tls_does_not_stop_the_server(run, loop, authority):
    async def main():
        async with secure_server(authority) as (address, made):
            with socket.create_connection(address, timeout=TIMEOUT) as rude:
                rude.sendall(b"GET / HTTP/1.0\r\n\r\n")
                await in_thread(lambda: [rude.recv(1000) for _ in range(2)])
            transport, client = await loop.create_connection(
                Recorder, *address, ssl=authority.client_context(), server_hostname="localhost"
            )
            transport.write(b"polite")
            assert await client.until_received(6) == b"polite"
            transport.close()
            await client.until_lost()

    run(main())


def test_a_plain_connection_can_be_upgraded(run, loop, authority):
    class Upgrades(Echo):
        def data_received(self, data):
            if self.name == "plain" and data == b"STARTTLS":
                self.name = "secure"
                self.transport.write(b"go on")
                self.upgrade = asyncio.ensure_future(self.start())
            else:
                super().data_received(data)

        async def start(self):
            context = authority.server_context()
            self.transport = await loop.start_tls(self.transport, self, context, server_side=True)
            self.transport.write(b"it is safe now")

        name = "plain"

    async def main():
        made = []

        def make():
            made.append(Upgrades())
            return made[-1]

        server = await loop.create_server(make, "127.0.0.1", 0)
        transport, client = await loop.create_connection(Recorder, *server.sockets[0].getsockname())
        transport.write(b"STARTTLS")
        assert await client.until_received(5) == b"go on"
        secure = await loop.start_tls(
            transport, client, authority.client_context(), server_hostname="localhost"
        )
        assert secure.get_extra_info("ssl_object") is not None
        assert await client.until_received(19) == b"go onit is safe now"
        data = pattern(500_000)
        secure.write(data)
        assert (await client.until_received(19 + len(data)))[19:] == data
        secure.close()
        await client.until_lost()
        await made[0].until_lost()
        server.close()

    run(main())


@pytest.mark.skipif(sys.version_info < (3, 11), reason="StreamWriter.start_tls() is new in Python 3.11")
def test_streams_can_be_upgraded(run, authority):
    async def handler(reader, writer):
        assert await reader.readline() == b"STARTTLS\n"
        writer.write(b"go on\n")
        await writer.drain()
        await writer.start_tls(authority.server_context())
        writer.write(await reader.readline())
        await writer.drain()
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()

    async def main():
        server = await asyncio.start_server(handler, "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(b"STARTTLS\n")
        assert await reader.readline() == b"go on\n"
        await writer.start_tls(authority.client_context(), server_hostname="localhost")
        writer.write(b"a secret\n")
        assert await reader.readline() == b"a secret\n"
        writer.close()
        await asyncio.wait_for(writer.wait_closed(), TIMEOUT)
        server.close()
        await asyncio.wait_for(server.wait_closed(), TIMEOUT)

    with warnings.catch_warnings():
        # In some versions asyncio's streams drop the plain transport without closing it.
        warnings.simplefilter("ignore", ResourceWarning)
        run(main())


def test_an_abort_during_the_handshake_leaks_nothing(run, loop, authority):
    async def main():
        async with secure_server(authority) as (address, made):
            for _ in range(20):
                client = socket.create_connection(address, timeout=TIMEOUT)
                client.sendall(b"\x16\x03\x01")
                client.close()
            transport, client = await loop.create_connection(
                Recorder, *address, ssl=authority.client_context(), server_hostname="localhost"
            )
            transport.abort()
            await client.until_lost()

    run(main())
