"""TLS: bugs of other event loops, each with a test that would have caught it."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import socket
import ssl
import sys
import threading
import weakref

import pytest
from peers import Recorder, connected_to_socket, fill, in_thread, read_exactly, reset
from tls import Authority

LIMIT = 30
HEADER = b"PROXY TCP4 192.0.2.1 192.0.2.2 1111 2222\r\n"


@pytest.fixture(autouse=True)
def needs_new_asyncio_tls(loop_kind):
    if loop_kind == "asyncio" and sys.version_info < (3, 11):
        pytest.skip("asyncio 3.10 has an older TLS implementation")


@pytest.fixture(scope="session")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority"))


class Peer(threading.Thread):
    """The other end, blocking TLS in a new thread; ``result`` is the result or exception of its function."""

    def __init__(self, function, *arguments):
        super().__init__(daemon=True)
        self.function, self.arguments = function, arguments
        self.result = None
        self.start()

    def run(self):
        try:
            self.result = self.function(*self.arguments)
        except (OSError, ValueError) as error:
            self.result = error


def served(authority, sock):
    """The server's end of TLS on a plain, blocking socket."""
    sock.settimeout(LIMIT)
    return authority.server_context().wrap_socket(sock, server_side=True)


def asked(authority, sock):
    sock.settimeout(LIMIT)
    return authority.client_context().wrap_socket(sock, server_hostname="localhost")


async def secured(loop, authority, ours, factory=Recorder, **options):
    return await loop.create_connection(
        factory, sock=ours, ssl=authority.client_context(), server_hostname="localhost", **options
    )


def test_close_ends_a_running_download(loop, run, authority):
    """uvloop #471: after ``close()`` a download continued until the shutdown timeout of thirty seconds.

    The peer sends for as long as it can. After ``close()`` no data is delivered, the connection ends long before the
    shutdown timeout, and the peer has not sent much more by then.
    """
    ours, theirs = socket.socketpair()
    sent = 0

    def send_for_ever():
        nonlocal sent
        with served(authority, theirs) as tls:
            while True:
                sent += tls.send(bytes(1 << 14))

    peer = Peer(send_for_ever)

    async def main():
        options = {"ssl_shutdown_timeout": 1000} if sys.version_info >= (3, 11) else {}
        transport, protocol = await secured(loop, authority, ours, **options)
        await protocol.until_received(1 << 20)
        transport.close()
        before, delivered = sent, len(protocol.received)
        await protocol.until_lost()
        assert len(protocol.received) == delivered
        return sent - before

    # The kernel and both ends buffer far less.
    assert run(main()) < 8 << 20
    peer.join(LIMIT)
    assert isinstance(peer.result, OSError)


@pytest.mark.parametrize("end", ["peer", "cancel"])
def test_cancelled_handshakes_leak_nothing(loop, run, authority, reported, end):
    """uvloop #220, #565; cpython #109534: half-finished handshakes leaked."""
    protocols = weakref.WeakSet()

    def factory():
        protocol = Recorder()
        protocols.add(protocol)
        return protocol

    async def half_a_handshake(hello):
        ours, theirs = socket.socketpair()
        accepting = asyncio.ensure_future(
            loop.connect_accepted_socket(factory, ours, ssl=authority.server_context())
        )
        theirs.sendall(hello)
        for _ in range(4):
            await asyncio.sleep(0)
        if end == "peer":
            reset(theirs)
        else:
            accepting.cancel()
        with pytest.raises((OSError, asyncio.CancelledError)):
            await accepting
        theirs.close()

    def client_hello():
        leaving = ssl.MemoryBIO()
        client = authority.client_context().wrap_bio(ssl.MemoryBIO(), leaving, server_hostname="localhost")
        with pytest.raises(ssl.SSLWantReadError):
            client.do_handshake()
        return leaving.read()

    async def main():
        hello = client_hello()
        for number in range(60):
            await half_a_handshake(hello if number % 2 else hello[: len(hello) // 2])
        for _ in range(5):
            await asyncio.sleep(0)

    def parts_of_connections():
        gc.collect()
        kinds = (asyncio.Transport, ssl.SSLObject, asyncio.sslproto.SSLProtocol)
        return [thing for thing in gc.get_objects() if isinstance(thing, kinds)]

    # Keeps them alive, so that new objects cannot have the same ids.
    before = parts_of_connections()
    run(main())
    gc.collect()
    assert not protocols
    known = set(map(id, before))
    assert not [thing for thing in parts_of_connections() if id(thing) not in known]


class ReadsTheHeaderOnly(Recorder, asyncio.BufferedProtocol):
    """Its buffer has the size of the header, so the rest of the segment stays in the kernel."""

    def __init__(self):
        super().__init__()
        self.room = bytearray(len(HEADER))

    def get_buffer(self, sizehint):
        return memoryview(self.room)[len(self.received) :]

    def buffer_updated(self, nbytes):
        self.received += self.room[len(self.received) :][:nbytes]
        if len(self.received) == len(HEADER):
            self.transport.pause_reading()
        self.changed()


def test_a_client_hello_in_the_same_segment_as_the_header_is_not_lost(loop, run, authority):
    """cpython #142352, uvloop #707: ``start_tls()`` lost a hello that had already arrived.

    A PROXY header and the hello arrive in one segment. The server reads the header, and the hello stays queued.
    """
    ours, theirs = socket.socketpair()
    both_sent = threading.Event()

    def talk():
        theirs.settimeout(LIMIT)
        arriving, leaving = ssl.MemoryBIO(), ssl.MemoryBIO()
        client = authority.client_context().wrap_bio(arriving, leaving, server_hostname="localhost")
        first = HEADER
        while True:
            try:
                client.do_handshake()
                break
            except ssl.SSLWantReadError:
                theirs.sendall(first + leaving.read())
                first = b""
                both_sent.set()
                arriving.write(theirs.recv(1 << 16))
        client.write(b"over TLS")
        theirs.sendall(leaving.read())

    peer = Peer(talk)

    async def main():
        await in_thread(both_sent.wait, LIMIT)
        transport, plain = await loop.create_connection(ReadsTheHeaderOnly, sock=ours)
        assert await plain.until_received(len(HEADER)) == HEADER
        protocol = Recorder()
        secure = await loop.start_tls(transport, protocol, authority.server_context(), server_side=True)
        assert await protocol.until_received(8) == b"over TLS"
        # The underlying transport calls connection_lost().
        lost = asyncio.ensure_future(protocol.until_lost())
        secure.abort()
        await lost

    run(main())
    peer.join(LIMIT)
    assert peer.result is None
    theirs.close()


@pytest.mark.mainspring_only
def test_tls_can_be_started_while_the_protocol_is_paused(loop, run, authority):
    """uvloop #564, cpython #109051: ``start_tls()`` with a full send buffer failed an assertion, or hung.

    (On asyncio's own loop it depends on the version.)
    """

    async def main():
        async with connected_to_socket() as (plain, peer):
            transport = plain.transport
            written = fill(transport)
            assert plain.count("pause_writing") == 1

            def talk():
                read_exactly(peer, written)
                tls = served(authority, peer)
                tls.sendall(b"over TLS")
                received = read_exactly(tls, 1 << 20)
                tls.close()
                return len(received)

            protocol = Recorder()
            talking = asyncio.ensure_future(in_thread(talk))
            secure = await loop.start_tls(
                transport, protocol, authority.client_context(), server_hostname="localhost"
            )
            assert await protocol.until_received(8) == b"over TLS"
            secure.write(bytes(1 << 20))
            assert await talking == 1 << 20
            secure.abort()
            await protocol.until_lost()
            plain.note("connection_lost", None)

    run(main())


@pytest.mark.parametrize("kill", ["shut down", "reset"])
def test_the_loss_of_the_socket_under_tls_reaches_the_protocol(loop, run, authority, kill):
    """cpython #118950: the loss of the raw socket under TLS was not reported to the protocol."""
    ours, theirs = socket.socketpair() if kill == "shut down" else tcp_pair()
    peer = Peer(served, authority, theirs)

    async def main():
        transport, protocol = await secured(loop, authority, ours)
        await in_thread(peer.join, LIMIT)
        if kill == "shut down":
            # Not through the TransportSocket, which has asyncio's own shutdown().
            ours.shutdown(socket.SHUT_RDWR)
        else:
            reset(peer.result)
        transport.write(b"to whom?")
        await protocol.until_lost()
        assert transport.is_closing()

    run(main())
    peer.result.close()


def tcp_pair():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        ours = socket.create_connection(listening.getsockname())
        theirs, _ = listening.accept()
    ours.setblocking(False)
    return ours, theirs


@pytest.mark.parametrize("keeps_open", [False, True])
@pytest.mark.parametrize("how", ["close_notify", "end", "end in a record"])
def test_every_kind_of_end_is_reported_as_on_asyncio(loop, run, authority, how, keeps_open):
    """uvloop PR 385: EOF without ``close_notify`` was reported differently than on asyncio."""
    ours, theirs = socket.socketpair()

    def talk():
        tls = served(authority, theirs)
        tls.sendall(b"data")
        if how == "close_notify":
            # Does not wait for the answer, which may have arrived already.
            tls.settimeout(0)
            with contextlib.suppress(OSError):
                tls.unwrap()
        raw = socket.socket(fileno=tls.detach())
        if how == "end in a record":
            # The header of a record of a hundred bytes, and a part of the record.
            raw.sendall(b"\x17\x03\x03\x00\x64" + bytes(10))
        raw.shutdown(socket.SHUT_WR)
        return raw

    peer = Peer(talk)

    class Ends(Recorder):
        keep_open_at_eof = keeps_open

    async def main():
        _, protocol = await secured(loop, authority, ours, Ends)
        await protocol.until_lost()
        return protocol

    protocol = run(main())
    assert protocol.names == ["connection_made", "data_received", "eof_received", "connection_lost"]
    assert protocol.log[-1] == ("connection_lost", None)
    peer.join(LIMIT)
    peer.result.close()


def test_rapid_reconnects_that_write_from_every_callback(loop, run, authority):
    """picows #40: writes from callbacks broke the write queue while connections were opened and closed."""
    ends = []
    finished = asyncio.Event()
    rounds = 40

    class Server(Recorder):
        def data_received(self, data):
            super().data_received(data)
            self.transport.write(bytes(50_000))
            if len(ends) % 3 == 0:
                self.transport.abort()
            else:
                self.transport.close()
            self.transport.write(b"too late")

    class Client(Recorder):
        def connection_made(self, transport):
            super().connection_made(transport)
            for size in (1, 1000, 20_000):
                transport.write(bytes(size))

        def data_received(self, data):
            super().data_received(data)
            self.transport.write(b"more")

        def eof_received(self):
            self.transport.write(b"at the end")

        def connection_lost(self, exc):
            super().connection_lost(exc)
            self.transport.write(b"after it")
            ends.append(exc)
            if len(ends) >= rounds:
                finished.set()
            else:
                reconnecting.add(loop.create_task(reconnect()))

    reconnecting = set()
    address = None

    async def reconnect():
        try:
            await loop.create_connection(
                Client, *address, ssl=authority.client_context(), server_hostname="localhost"
            )
        except OSError as error:
            # Aborted during the handshake.
            ends.append(error)
            if len(ends) >= rounds:
                finished.set()
            else:
                reconnecting.add(loop.create_task(reconnect()))

    async def main():
        nonlocal address
        server = await loop.create_server(Server, "127.0.0.1", 0, ssl=authority.server_context())
        address = server.sockets[0].getsockname()
        for _ in range(5):
            reconnecting.add(loop.create_task(reconnect()))
        await finished.wait()
        await asyncio.gather(*reconnecting)
        server.close()
        for _ in range(20):
            await asyncio.sleep(0)

    run(main())
    assert len(ends) >= rounds
    assert all(end is None or isinstance(end, OSError) for end in ends)
