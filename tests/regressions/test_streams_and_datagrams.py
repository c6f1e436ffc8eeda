"""Streams, flow control and datagrams: bugs of other event loops, each with a test that would have caught it.

Elsewhere: every callback combined with every action (uvloop #496), ``tests/net/test_reentrancy.py``; readers with
limits compared with asyncio (rsloop), ``tests/differential/test_stream_readers.py``; two ends that flood each other,
``tests/net/test_tcp_fds.py``.
"""

from __future__ import annotations

import asyncio
import errno
import socket

import pytest
from peers import Recorder, fill, pattern, read_exactly

LIMIT = 30


class WritesToTheOthers(Recorder):
    """Writes to all other transports in resume_writing()."""

    def __init__(self, all_protocols, name):
        super().__init__()
        self.all_protocols, self.sign = all_protocols, bytes([name])

    def resume_writing(self):
        super().resume_writing()
        for other in self.all_protocols:
            if other is not self:
                other.transport.write(self.sign)


def test_resume_writing_may_write_to_other_transports(loop, run):
    """uvloop #496: writing to another transport inside ``resume_writing()`` broke the loop's iteration."""
    count = 6
    pairs = [socket.socketpair() for _ in range(count)]

    async def main():
        all_protocols = []
        for name, (ours, _) in enumerate(pairs):
            all_protocols.append(WritesToTheOthers(all_protocols, name))
            await loop.create_connection(lambda: all_protocols[-1], sock=ours)
        written = []
        for protocol in all_protocols:
            protocol.transport.set_write_buffer_limits(high=0)
            written.append(fill(protocol.transport))
        assert all(protocol.count("pause_writing") == 1 for protocol in all_protocols)

        def read_all():
            # All of them become writable in one iteration, or nearly.
            signs = []
            for (_, theirs), size in zip(pairs, written, strict=True):
                theirs.settimeout(LIMIT)
                assert not any(read_exactly(theirs, size))
            for _, theirs in pairs:
                signs.append(read_exactly(theirs, count - 1))
            return signs

        signs = await loop.run_in_executor(None, read_all)
        for name, received in enumerate(signs):
            assert sorted(received) == [other for other in range(count) if other != name]
        for protocol in all_protocols:
            protocol.transport.abort()
            await protocol.until_lost()

    run(main())
    for _, theirs in pairs:
        theirs.close()


@pytest.mark.parametrize("factor", [1, 2, 3, 50])
@pytest.mark.parametrize("way", ["readexactly", "read", "readuntil"])
def test_reads_far_past_the_limit_complete(loop, run, factor, way):
    """rsloop: a reader that had paused its transport hung in a read of more than twice its limit."""
    limit = 1000
    size = factor * limit + 1
    data = pattern(size)
    ours, theirs = socket.socketpair()

    async def main():
        reader, writer = await asyncio.open_connection(sock=ours, limit=limit)
        # The buffer is full and the transport paused before the read starts.
        theirs.sendall(data)
        theirs.shutdown(socket.SHUT_WR)
        for _ in range(5):
            await asyncio.sleep(0)
        if way == "readexactly":
            assert await reader.readexactly(size) == data
        elif way == "read":
            assert await reader.read() == data
        else:
            with pytest.raises((asyncio.LimitOverrunError, asyncio.IncompleteReadError)):
                await reader.readuntil(b"not there")
            assert await reader.read() in (data, b"")
        writer.close()
        await writer.wait_closed()

    run(main())
    theirs.close()


class Datagrams(Recorder, asyncio.DatagramProtocol):
    def datagram_received(self, data, addr):
        self.note("datagram_received", data)

    def error_received(self, exc):
        self.note("error_received", exc)


@pytest.mark.parametrize(
    ("data", "address", "number"),
    [
        # Both errors concern one datagram only.
        (b"to all", ("255.255.255.255", 9), errno.EACCES),
        (bytes(70_000), None, errno.EMSGSIZE),
    ],
    ids=["refused address", "too long"],
)
def test_a_datagram_that_cannot_be_sent_does_not_close_the_endpoint(loop, run, data, address, number):
    """uvloop #601, #338: one failed ``sendto()`` closed the transport."""
    with socket.socket(type=socket.SOCK_DGRAM) as peer:
        peer.bind(("127.0.0.1", 0))
        peer.settimeout(LIMIT)
        there = peer.getsockname()

        async def main():
            transport, protocol = await loop.create_datagram_endpoint(Datagrams, ("127.0.0.1", 0))
            for _ in range(3):
                transport.sendto(data, address or there)
                assert not transport.is_closing()
                transport.sendto(b"next", there)
                assert peer.recv(100) == b"next"
            await protocol.until(lambda: protocol.count("error_received") == 3)
            errors = [entry[1] for entry in protocol.log if entry[0] == "error_received"]
            assert [error.errno for error in errors] == [number] * 3
            peer.sendto(b"answer", transport.get_extra_info("sockname"))
            await protocol.until(lambda: protocol.count("datagram_received") == 1)
            transport.close()
            await protocol.until_lost()

        run(main())


def datagram_pair():
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8 << 10)
    return ours, theirs


@pytest.mark.mainspring_only
def test_an_endpoint_whose_queue_fails_is_not_paused_for_ever(loop, run):
    """cpython #156698: after an error on a queued datagram the protocol stayed paused, and the rest unsent."""
    ours, theirs = datagram_pair()

    async def main():
        transport, protocol = await loop.create_datagram_endpoint(Datagrams, sock=ours)
        transport.set_write_buffer_limits(high=0)
        while not protocol.count("pause_writing"):
            transport.sendto(bytes(1000))
        transport.sendto(bytes(1000))
        theirs.close()
        await protocol.until(lambda: protocol.count("resume_writing") > 0)
        assert protocol.count("error_received") > 0
        assert transport.get_write_buffer_size() == 0
        transport.close()
        await protocol.until_lost()

    run(main())


def test_both_directions_make_progress_while_both_are_busy(loop, run):
    """Found in the source of another loop: an event for both directions delivered only the read.

    Each end reads a little and writes a lot at every event. Neither direction may wait for the other to be idle.
    """
    size = 4 << 20
    sides = socket.socketpair()

    class Busy(Recorder):
        sent = 0

        def push(self):
            while self.sent < size and not self.paused:
                self.transport.write(pattern(65536))
                self.sent += 65536

        paused = False

        def pause_writing(self):
            super().pause_writing()
            self.paused = True

        def resume_writing(self):
            super().resume_writing()
            self.paused = False
            self.push()

        def data_received(self, data):
            super().data_received(data)
            self.push()

    async def main():
        ends = [(await loop.create_connection(Busy, sock=sock))[1] for sock in sides]
        for end in ends:
            end.push()
        for end in ends:
            assert await end.until_received(size) == pattern(65536) * (size // 65536)
        for end in ends:
            end.transport.abort()
            await end.until_lost()

    run(main())


def test_one_fast_peer_does_not_starve_the_others(loop, run_iteration):
    """A loop that drained one peer before the next starved the others.

    Independent of timing: one peer has sent more than one read takes, another has sent one byte, and a call is ready.
    After one iteration all three were served, the fast peer once.
    """
    fast, quick = socket.socketpair()
    slow, quiet = socket.socketpair()
    quick.setblocking(False)
    transports = []
    for sock in (fast, slow):
        connecting = loop.create_connection(Recorder, sock=sock)
        transports.append(loop.run_until_complete(connecting))
    sent = 0
    # On Unix sockets a short read returns the data of one send, and a long one that of many.
    transports[0][0].pause_reading()
    try:
        while True:
            sent += quick.send(bytes(4096))
    except BlockingIOError:
        pass
    quiet.send(b"x")
    transports[0][0].resume_reading()
    calls = []
    loop.call_soon(calls.append, True)
    run_iteration()
    first, second = (protocol for _, protocol in transports)
    assert calls == [True]
    assert second.received == b"x"
    assert first.count("data_received") == 1
    for transport, protocol in transports:
        transport.abort()
        loop.run_until_complete(protocol.until_lost())
    quick.close()
    quiet.close()


@pytest.mark.parametrize("kind", [ValueError, asyncio.CancelledError, RecursionError])
def test_an_exception_in_data_received_is_reported_and_ends_the_connection(loop, run, reported, kind):
    """rloop: exceptions from ``data_received()`` vanished."""
    ours, theirs = socket.socketpair()
    error = kind("mine")

    class Fails(Recorder):
        def data_received(self, data):
            super().data_received(data)
            raise error

    async def main():
        transport, protocol = await loop.create_connection(Fails, sock=ours)
        theirs.send(b"data")
        lost = await protocol.until_lost()
        assert lost is error
        assert protocol.names == ["connection_made", "data_received", "connection_lost"]
        (report,) = reported
        assert report["exception"] is error
        assert report["message"] == "Fatal error: protocol.data_received() call failed."
        assert report["transport"] is transport and report["protocol"] is protocol
        reported.clear()

    run(main())
    assert theirs.recv(10) == b""
    theirs.close()
