"""Thousands of connections that are opened, used, closed, aborted, reset and dropped in random order.

A failure message contains the random seed: ``MAINSPRING_SEED=… pytest tests/net/test_soak.py`` repeats the run.
"""

from __future__ import annotations

import asyncio
import errno
import gc
import os
import random
import socket
import warnings

import pytest
from peers import LOOPS, TIMEOUT, reset

CYCLES = 3000
AT_ONCE = 20


class Restless(asyncio.Protocol):
    """Counts its callbacks and sometimes performs a random action in one."""

    def __init__(self, soak):
        self.soak = soak
        self.transport = None
        self.lost = 0

    def act(self, chance=0.1):
        # The protocol may have been replaced, and then has no transport.
        if self.transport is not None and self.soak.random.random() < chance:
            self.soak.do_something(self.transport)

    def connection_made(self, transport):
        assert not self.lost
        self.transport = transport
        self.soak.alive.add(self)
        self.act(0.05)

    def data_received(self, data):
        assert data and not self.lost
        self.act()

    def buffer_updated(self, nbytes):
        # Also for a buffer that the previous protocol provided.
        self.data_received(b"x" * nbytes)

    def eof_received(self):
        assert not self.lost
        self.act()
        return self.soak.random.random() < 0.2

    def pause_writing(self):
        self.act()

    def resume_writing(self):
        self.act()

    def connection_lost(self, error):
        self.lost += 1
        assert self.lost == 1
        assert error is None or isinstance(error, OSError), error
        self.soak.alive.discard(self)
        self.act()
        self.transport = None


class Buffered(Restless, asyncio.BufferedProtocol):
    def get_buffer(self, sizehint):
        self.act(0.02)
        return bytearray(self.soak.random.choice([1, 100, 10_000]))


class Soak:
    def __init__(self, loop, seed):
        self.loop = loop
        self.random = random.Random(seed)
        self.alive = set()
        self.finished = 0

    def protocol(self):
        return self.random.choice([Restless, Buffered])(self)

    def do_something(self, transport):
        """One random call on a transport in any state."""
        data = bytes(self.random.choice([1, 1000, 300_000]))
        what = self.random.randrange(12)
        try:
            if what == 0:
                transport.close()
            elif what == 1:
                transport.abort()
            elif what <= 4:
                transport.write(data)
            elif what == 5:
                transport.writelines([data, bytearray(b"more"), memoryview(data)])
            elif what == 6:
                transport.write_eof()
            elif what == 7:
                transport.pause_reading()
            elif what == 8:
                transport.resume_reading()
            elif what == 9:
                transport.set_write_buffer_limits(high=self.random.choice([0, 1000, 1 << 20]))
            elif what == 10:
                if transport.get_protocol() is not None and not transport.is_closing():
                    former = transport.get_protocol()
                    successor = self.protocol()
                    successor.transport = transport
                    self.alive.discard(former)
                    former.transport = None
                    self.alive.add(successor)
                    transport.set_protocol(successor)
            else:
                repr(transport)
                transport.get_extra_info("socket")
        except RuntimeError as error:
            assert "after write_eof()" in str(error)
        except OSError as error:
            # The peer is gone; the transport will notice later.
            assert (what, error.errno) == (6, errno.ENOTCONN)

    def do_to_peer(self, peer):
        """One random action of the peer. Returns whether the peer can still act."""
        what = self.random.randrange(10)
        try:
            if what <= 3:
                peer.send(bytes(self.random.choice([1, 1000, 100_000])))
            elif what <= 6:
                peer.recv(1 << 20)
            elif what == 7:
                peer.shutdown(socket.SHUT_WR)
            elif what == 8:
                reset(peer)
                return False
            else:
                peer.close()
                return False
        except OSError:
            pass
        return True

    async def cycle(self, address):
        transport = None
        if self.random.random() < 0.5:
            # We accept.
            peer = socket.socket()
            peer.setblocking(False)
            peer.connect_ex(address)
        else:
            ours, peer = socket.socketpair()
            peer.setblocking(False)
            connecting = asyncio.ensure_future(self.loop.create_connection(self.protocol, sock=ours))
            if self.random.random() < 0.1:
                for _ in range(self.random.randrange(5)):
                    await asyncio.sleep(0)
                connecting.cancel()
            try:
                transport, _ = await connecting
            except asyncio.CancelledError:
                ours.close()
            del connecting
        for _ in range(self.random.randrange(15)):
            if self.random.random() < 0.3:
                await asyncio.sleep(0)
            if transport is not None and self.random.random() < 0.5:
                self.do_something(transport)
            elif not self.do_to_peer(peer):
                break
            if self.random.random() < 0.05:
                # From here on at most the loop holds it.
                transport = None
            if self.random.random() < 0.01:
                gc.collect()
        peer.close()
        self.finished += 1

    async def main(self):
        server = await self.loop.create_server(self.protocol, "127.0.0.1", 0, backlog=500)
        address = server.sockets[0].getsockname()

        async def worker():
            while self.finished < CYCLES:
                await self.cycle(address)

        await asyncio.gather(*(worker() for _ in range(AT_ONCE)))
        server.close()
        # Paused and half-closed connections do not end by themselves.
        while self.alive:
            for protocol in list(self.alive):
                if protocol.transport is not None:
                    protocol.transport.abort()
            self.alive = {protocol for protocol in self.alive if protocol.transport is not None}
            await asyncio.sleep(0)
        for _ in range(5):
            await asyncio.sleep(0)


@pytest.mark.parametrize("seed", [os.environ.get("MAINSPRING_SEED") or number for number in (1, 2, None)])
def test_random_connection_lifecycles_leak_nothing(seed):
    # Fixed seeds and one random seed. Only mainspring: asyncio fails in some of these orders (a second connection_lost,
    # an assertion).
    seed = str(seed or random.SystemRandom().randrange(1 << 32))
    loop = LOOPS["mainspring"]()
    reports = []
    loop.set_exception_handler(lambda loop, context: reports.append(context))
    soak = Soak(loop, seed)
    with warnings.catch_warnings():
        # Some are dropped unclosed on purpose.
        warnings.simplefilter("ignore", ResourceWarning)
        loop.run_until_complete(asyncio.wait_for(soak.main(), 3 * TIMEOUT))
        gc.collect()
        left = [thing for thing in gc.get_objects() if isinstance(thing, (asyncio.Transport, Restless))]
        assert not left, f"MAINSPRING_SEED={seed}: {left}"
        loop.close()
    assert not reports, f"MAINSPRING_SEED={seed}: {reports}"
    del soak, loop
