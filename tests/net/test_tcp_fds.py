"""Stream transports over TCP: ownership of the fd."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import socket
import warnings

import pytest
from peers import (
    BufferedRecorder,
    Recorder,
    connected,
    pattern,
)


def test_closing_the_socket_under_a_transport_does_not_free_its_fd(run, loop_name):
    if loop_name == "asyncio":
        pytest.skip("asyncio's transport continues with the next owner of the fd number")

    async def main():
        loop = asyncio.get_running_loop()
        ours, theirs = socket.socketpair()
        transport, protocol = await loop.create_connection(Recorder, sock=ours)
        number = ours.fileno()
        ours.close()
        # New sockets do not get the fd number, and keep their data.
        others = [socket.socketpair() for _ in range(4)]
        assert number not in [end.fileno() for pair in others for end in pair]
        for left, _ in others:
            left.sendall(b"private")
        theirs.sendall(b"for the transport")
        await protocol.until_received(17)
        assert bytes(protocol.received) == b"for the transport"
        transport.write(b"answer")
        assert theirs.recv(100) == b"answer"
        transport.close()
        await protocol.until_lost()
        # After the end the fd number is free, and no other socket's data was touched.
        assert theirs.recv(1) == b""
        others.append(socket.socketpair())
        others[-1][0].sendall(b"private")
        transport.abort()
        transport.write(b"stray")
        await asyncio.sleep(0)
        for left, right in others:
            assert right.recv(100) == b"private"
            left.close()
            right.close()
        theirs.close()

    run(main())


def test_a_socket_detached_under_a_transport_is_not_closed_by_it(run, loop_name):
    if loop_name == "asyncio":
        pytest.skip("asyncio's transport loses its fd, and the event repeats forever")

    async def main():
        loop = asyncio.get_running_loop()
        ours, theirs = socket.socketpair()
        transport, protocol = await loop.create_connection(Recorder, sock=ours)
        transport.pause_reading()
        number = ours.detach()
        transport.close()
        await protocol.until_lost()
        again = socket.socket(fileno=number)
        again.sendall(b"still mine")
        assert theirs.recv(100) == b"still mine"
        again.close()
        theirs.close()

    run(main())


def test_a_cancelled_create_connection_closes_its_socket_once(run):
    async def main():
        loop = asyncio.get_running_loop()
        with socket.create_server(("127.0.0.1", 0)) as listening:
            address = listening.getsockname()
            for steps in range(12):
                task = asyncio.ensure_future(loop.create_connection(Recorder, *address))
                for _ in range(steps):
                    await asyncio.sleep(0)
                task.cancel()
                bystanders = []
                try:
                    transport, protocol = await task
                except asyncio.CancelledError:
                    bystanders.append(socket.socketpair())
                else:
                    transport.abort()
                    await protocol.until_lost()
                for _ in range(5):
                    await asyncio.sleep(0)
                    gc.collect()
                for left, right in bystanders:
                    left.sendall(b"alive")
                    assert right.recv(10) == b"alive"
                    left.close()
                    right.close()

    with warnings.catch_warnings():
        # An unused transport is collected with a warning, in asyncio too.
        warnings.simplefilter("ignore", ResourceWarning)
        run(main())
        gc.collect()


def test_a_transport_may_outlive_its_loop(loop, loop_name):
    async def main():
        ours, theirs = socket.socketpair()
        transport, protocol = await loop.create_connection(Recorder, sock=ours)
        return transport, protocol, theirs

    transport, protocol, theirs = loop.run_until_complete(main())
    loop.close()
    repr(transport)
    transport.get_extra_info("socket")
    with pytest.raises(RuntimeError, match="Event loop is closed"):
        transport.close()
    theirs.close()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        del transport, protocol
        gc.collect()


@pytest.mark.parametrize("protocol_type", [Recorder, BufferedRecorder])
def test_peers_that_flood_each_other_lose_no_data(run, protocol_type):
    class Flood(protocol_type):
        left = 400
        sent = 0

        def connection_made(self, transport):
            super().connection_made(transport)
            self.pump()

        def resume_writing(self):
            super().resume_writing()
            self.pump()

        def pump(self):
            before = self.count("pause_writing")
            while self.left and self.count("pause_writing") == before:
                self.transport.write(pattern(20_000 + self.left))
                self.sent += 20_000 + self.left
                self.left -= 1

    async def main():
        async with connected(Flood, Flood) as (client, server):
            total = sum(20_000 + left for left in range(1, 401))
            expected = b"".join(pattern(20_000 + left) for left in range(400, 0, -1))
            for end in (client, server):
                assert await end.until_received(total) == expected
                assert end.count("pause_writing") - end.count("resume_writing") in (0, 1)

    run(main())


def test_the_socket_of_an_unclosed_server_warns(loop):
    server = loop.run_until_complete(loop.create_server(Recorder, "127.0.0.1", 0))
    loop.close()
    assert server.sockets[0].fileno() >= 0
    with pytest.warns(ResourceWarning, match=r"unclosed <socket\.socket fd="):
        del server
        gc.collect()


def test_the_repr_of_a_transport_with_a_closed_loop_shows_no_polling_state(loop):
    ours, theirs = socket.socketpair()
    transport, _ = loop.run_until_complete(loop.create_connection(Recorder, sock=ours))
    loop.close()
    assert repr(transport).endswith(f"Transport fd={ours.fileno()}>")
    theirs.close()
    with pytest.warns(ResourceWarning, match="unclosed transport"):
        del transport, _
        gc.collect()
    ours.close()


def test_a_negative_backlog_is_accepted(run, loop):
    async def main():
        server = await loop.create_server(Recorder, "127.0.0.1", 0, backlog=-1)
        server.close()

    run(main())


async def accepted():
    """An accepted connection: the server, its transport and protocol, and the peer."""
    loop = asyncio.get_running_loop()
    made = loop.create_future()

    class Accepted(Recorder):
        def connection_made(self, transport):
            super().connection_made(transport)
            made.set_result((transport, self))

    server = await loop.create_server(Accepted, "127.0.0.1", 0)
    peer = socket.create_connection(server.sockets[0].getsockname())
    return server, *await made, peer


async def works(server, transport, protocol, peer):
    """Checks that the connection carries data in both directions and ends."""
    peer.sendall(b"question")
    await protocol.until_received(8)
    transport.write(b"answer")
    assert peer.recv(100) == b"answer"
    sock = transport.get_extra_info("socket")
    assert sock.fileno() > 0 and sock.getpeername() == peer.getsockname()
    transport.close()
    await protocol.until_lost()
    assert peer.recv(1) == b""
    peer.close()
    server.close()
    await server.wait_closed()


@pytest.mark.parametrize("place", ["before", "after", "setblocking"])
def test_a_connection_survives_a_failure_to_create_its_socket_object(run, monkeypatch, place):
    init = socket.socket.__init__

    def fail(self, *args, **kwargs):
        if place == "after":
            init(self, *args, **kwargs)
        raise ZeroDivisionError  # as a signal handler or an audit hook might

    async def main():
        server, transport, protocol, peer = await accepted()
        with monkeypatch.context() as patch:
            patch.setattr(socket.socket, "setblocking" if place == "setblocking" else "__init__", fail)
            with contextlib.suppress(ZeroDivisionError):
                transport.get_extra_info("socket")
        gc.collect()
        await works(server, transport, protocol, peer)

    run(main())


@pytest.mark.parametrize("use", ["write", "get_extra_info", "abort"])
def test_a_transport_can_be_used_while_its_socket_object_is_created(run, monkeypatch, use):
    init = socket.socket.__init__

    async def main():
        server, transport, protocol, peer = await accepted()

        def use_the_transport(self, *args, **kwargs):
            init(self, *args, **kwargs)
            patch.undo()
            if use == "write":
                transport.write(b"meanwhile")
            elif use == "abort":
                transport.abort()
            else:
                assert transport.get_extra_info("socket").fileno() > 0

        with monkeypatch.context() as patch:
            patch.setattr(socket.socket, "__init__", use_the_transport)
            sock = transport.get_extra_info("socket")
            reached = socket.socket.__init__ is init
        assert sock.fileno() > 0
        if use == "write" and reached:
            assert peer.recv(9) == b"meanwhile"
        if use == "abort" and reached:
            await protocol.until_lost()
            peer.close()
            server.close()
            await server.wait_closed()
            return
        assert transport.get_extra_info("socket") is sock
        await works(server, transport, protocol, peer)

    run(main())
