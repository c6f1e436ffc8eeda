"""Ownership of fds: bugs of other event loops, each with a test that would have caught it.

Also here: closing under memory pressure, which crashed (uvloop #706, #649).  ``tests/net/test_soak.py`` tries random
orders of operations.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import io
import os
import socket
import warnings
import weakref

import pytest
from peers import Recorder


async def iterations(count):
    for _ in range(count):
        await asyncio.sleep(0)


@pytest.mark.parametrize("steps", range(8))
def test_the_fd_of_a_cancelled_connection_belongs_to_its_next_owner(run, steps):
    """uvloop #645, #738, #740: a cancelled ``create_connection(sock=…)`` closed an fd number that was in use again.

    The call is cancelled at each await, its socket is collected, and its fd number is reused at once. The new owner
    receives exactly the data sent to it, and is not closed.
    """

    async def main():
        loop = asyncio.get_running_loop()
        ours, theirs = socket.socketpair()
        theirs.setblocking(False)
        number = ours.fileno()
        connecting = loop.create_task(loop.create_connection(Recorder, sock=ours))
        await iterations(steps)
        connecting.cancel()
        made = None
        try:
            made = await connecting
        except asyncio.CancelledError:
            pass
        if made is not None:
            transport, protocol = made
            transport.abort()
            await protocol.until_lost()
            del transport, protocol
        ours.close()
        del ours, connecting, made
        gc.collect()
        # asyncio frees the fd number in the iteration of connection_lost().
        await iterations(3)
        gc.collect()
        owners = [socket.socketpair() for _ in range(4)]
        assert number in [end.fileno() for pair in owners for end in pair]
        with contextlib.suppress(OSError):
            theirs.send(b"for the connection that was given up")
        for _ in range(5):
            await iterations(2)
            gc.collect()
        for left, right in owners:
            right.setblocking(False)
            left.sendall(b"mine")
            assert right.recv(100) == b"mine"
            left.close()
            right.close()
        theirs.close()

    with warnings.catch_warnings():
        # A half-open connection is collected with a warning, in asyncio too.
        warnings.simplefilter("ignore", ResourceWarning)
        run(main())
        gc.collect()


class OpensAnotherWhenClosed(io.FileIO):
    """Its fd number is reused as soon as it is closed."""

    another = None

    def close(self):
        if not self.closed:
            super().close()
            type(self).another = os.pipe()


@pytest.mark.parametrize("end", ["read", "write"])
def test_a_pipe_is_closed_once(loop, run, end):
    """uvloop #763: ``connect_read_pipe`` closed the fd of its file twice.

    The file's ``close()`` opens a pipe, which gets the fd number. That pipe must stay open.
    """
    reading, writing = os.pipe()
    OpensAnotherWhenClosed.another = None
    mine, other = (reading, writing) if end == "read" else (writing, reading)

    async def main():
        file = OpensAnotherWhenClosed(mine, "r" if end == "read" else "w")
        connect = loop.connect_read_pipe if end == "read" else loop.connect_write_pipe
        transport, protocol = await connect(Recorder, file)
        transport.close()
        await protocol.until_lost()

    run(main())
    for _ in range(3):
        run(iterations(2))
        gc.collect()
    left, right = OpensAnotherWhenClosed.another
    assert mine in (left, right)
    os.write(right, b"alive")
    assert os.read(left, 10) == b"alive"
    for fd in (left, right, other):
        os.close(fd)


def pair():
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    return ours, theirs


def registered(loop, sock):
    loop.add_reader(sock, lambda: None)


def operated_on(loop, sock):
    loop.run_until_complete(loop.sock_sendall(sock, b"x"))


def connected(loop, sock):
    return loop.run_until_complete(loop.create_connection(Recorder, sock=sock))[0]


def accepted(loop, sock):
    return loop.run_until_complete(loop.connect_accepted_socket(Recorder, sock))[0]


def streamed(loop, sock):
    async def main():
        return await asyncio.open_connection(sock=sock)

    return loop.run_until_complete(main())[1]


@pytest.mark.parametrize("use", [registered, operated_on])
def test_a_socket_owned_by_the_caller_outlives_the_loop(loop_factory, use):
    """uvloop #464: a socket that the caller still owned was closed with the loop."""
    loop = loop_factory()
    ours, theirs = pair()
    use(loop, ours)
    loop.close()
    gc.collect()
    theirs.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        theirs.recv(10)
    ours.sendall(b"still mine")
    assert theirs.recv(100) == b"still mine"
    ours.close()
    theirs.close()


@pytest.mark.parametrize("use", [connected, accepted, streamed])
def test_a_socket_that_was_handed_over_is_closed_with_its_transport(loop_factory, use):
    """uvloop #464, the other side: after ``connection_lost()`` the socket is closed, and not before."""
    loop = loop_factory()
    ours, theirs = pair()
    transport = use(loop, ours)
    transport.close()
    assert ours.fileno() >= 0
    loop.run_until_complete(iterations(3))
    assert ours.fileno() == -1
    assert theirs.recv(10) == b""
    theirs.close()


@pytest.mark.parametrize("use", [connected, accepted])
def test_an_open_transport_keeps_its_socket_after_the_loop_closes_until_it_is_dropped(loop_factory, use):
    """uvloop #464: closing the loop closes no socket; dropping the transport does."""
    loop = loop_factory()
    ours, theirs = pair()
    theirs.setblocking(False)
    transport = use(loop, ours)
    loop.close()
    with pytest.raises(BlockingIOError):
        theirs.recv(10)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        del transport, loop
        gc.collect()
        # The fixture holds the loop; the rest of the transport is freed with this socket.
        ours.close()
        gc.collect()
    theirs.close()


class CollectsWhenLost(Recorder):
    """Drops all references in connection_lost(), and runs a collection there."""

    alive: weakref.WeakSet = weakref.WeakSet()

    def __init__(self):
        super().__init__()
        self.alive.add(self)

    def connection_lost(self, exc):
        super().connection_lost(exc)
        self.transport = None
        if len(self.alive) % 7 == 0:
            gc.collect(0)


def test_connections_aborted_and_collected_in_their_last_callback_leak_nothing(loop, run):
    """uvloop #706, #649: crashes in close callbacks. Connect, abort from either side, collect; nothing leaks."""

    async def main():
        server = await loop.create_server(CollectsWhenLost, "127.0.0.1", 0, backlog=200)
        address = server.sockets[0].getsockname()
        for round_number in range(15):
            made = await asyncio.gather(
                *(loop.create_connection(CollectsWhenLost, *address) for _ in range(20))
            )
            for index, (transport, _) in enumerate(made):
                transport.write(b"x" * (index * 1000))
                if (index + round_number) % 3 == 0:
                    transport.close()
                else:
                    transport.abort()
            ends = [protocol for _, protocol in made]
            del made, transport, _
            gc.collect(0)
            for end in ends:
                await end.until_lost()
            del ends, end
        server.close()
        # Accepted connections end by themselves.
        while CollectsWhenLost.alive:
            await asyncio.sleep(0)
            gc.collect()

    run(main())
    gc.collect()
    assert not [thing for thing in gc.get_objects() if isinstance(thing, (asyncio.Transport, Recorder))]


def test_a_loop_may_close_before_the_last_callbacks_have_run(loop_factory):
    """uvloop #649: closing the loop while transports are closing."""
    loop = loop_factory()
    ends = [pair() for _ in range(10)]
    transports = [connected(loop, ours) for ours, _ in ends]
    for transport in transports[:5]:
        transport.abort()
    for transport in transports[5:]:
        transport.write(bytes(1 << 20))
        transport.close()
    loop.close()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        del transport, transports, loop
        gc.collect()
        for ours, theirs in ends:
            ours.close()
            theirs.close()
        gc.collect()
