"""Servers: listening, closing, waiting for connections."""

from __future__ import annotations

import asyncio
import errno
import gc
import socket
import sys
import warnings

import pytest
from peers import TIMEOUT, Echo, Recorder, in_thread, read_exactly, reset
from tcp_server import ask, refuses, serving


def test_a_server_listens_on_every_given_address(run):
    async def main():
        async with serving(host=["127.0.0.1", "::1"]) as it:
            addresses = [sock.getsockname()[:2] for sock in it.server.sockets]
            assert {host for host, _ in addresses} == {"127.0.0.1", "::1"}
            for address in addresses:
                await in_thread(ask, address)

    run(main())


def test_a_server_that_has_not_started_refuses_connections(run):
    async def main():
        async with serving(start_serving=False) as it:
            assert not it.server.is_serving()
            assert refuses(it.address)
            await it.server.start_serving()
            assert it.server.is_serving()
            await it.server.start_serving()
            await in_thread(ask, it.address)

    run(main())


def test_serve_forever_serves_until_cancelled_and_then_closes(run):
    async def main():
        async with serving(start_serving=False) as it:
            task = asyncio.ensure_future(it.server.serve_forever())
            await asyncio.sleep(0)
            await in_thread(ask, it.address)
            assert not task.done()
            # From 3.12 on a cancelled serve_forever() waits for the connections to end.
            await it.until_accepted(1)
            await it.end()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert not it.server.is_serving()
            assert refuses(it.address)

    run(main())


def test_serve_forever_cannot_be_called_twice_nor_after_close(run):
    async def main():
        async with serving() as it:
            task = asyncio.ensure_future(it.server.serve_forever())
            await asyncio.sleep(0)
            with pytest.raises(RuntimeError, match="is already being awaited on serve_forever"):
                await it.server.serve_forever()
            it.server.close()
            with pytest.raises(asyncio.CancelledError):
                await task
            with pytest.raises(RuntimeError, match="is closed"):
                await it.server.serve_forever()

    run(main())


def test_close_stops_listening_and_keeps_connections(run):
    async def main():
        async with serving() as it:
            client = socket.create_connection(it.address, timeout=TIMEOUT)
            await it.until_accepted(1)
            it.server.close()
            it.server.close()
            assert refuses(it.address)
            assert it.server.sockets == ()
            assert not it.server.is_serving()
            client.sendall(b"still there?")
            assert await in_thread(read_exactly, client, 12) == b"still there?"
            client.close()

    run(main())


def test_wait_closed_waits_for_connections_as_in_this_python_version(run):
    async def main():
        async with serving() as it:
            client = socket.create_connection(it.address, timeout=TIMEOUT)
            await it.until_accepted(1)
            it.server.close()
            waiting = asyncio.ensure_future(it.server.wait_closed())
            await asyncio.sleep(0)
            # Before 3.12 wait_closed() of a closed server returned at once.
            assert waiting.done() == (sys.version_info < (3, 12))
            client.close()
            await it.accepted[0].until_lost()
            await asyncio.wait_for(waiting, TIMEOUT)

    run(main())


def test_wait_closed_of_an_open_server_waits_for_close(run):
    async def main():
        async with serving() as it:
            waiting = asyncio.ensure_future(it.server.wait_closed())
            await in_thread(ask, it.address)
            assert not waiting.done()
            it.server.close()
            await it.end()
            await asyncio.wait_for(waiting, TIMEOUT)

    run(main())


def test_a_connection_that_fails_is_not_waited_for(run):
    async def main():
        async with serving() as it:
            client = socket.create_connection(it.address, timeout=TIMEOUT)
            await it.until_accepted(1)
            reset(client)
            assert isinstance(await it.accepted[0].until_lost(), ConnectionResetError)
            it.server.close()
            await asyncio.wait_for(it.server.wait_closed(), TIMEOUT)

    run(main())


@pytest.mark.skipif(sys.version_info < (3, 13), reason="Server.close_clients() is new in Python 3.13")
@pytest.mark.parametrize("how", ["close_clients", "abort_clients"])
def test_a_server_can_end_all_its_connections(run, how):
    async def main():
        async with serving() as it:
            clients = [socket.create_connection(it.address, timeout=TIMEOUT) for _ in range(3)]
            await it.until_accepted(3)
            it.server.close()
            getattr(it.server, how)()
            await asyncio.wait_for(it.server.wait_closed(), TIMEOUT)
            for client in clients:
                assert await in_thread(client.recv, 1) == b""
                client.close()

    run(main())


def test_a_server_exposes_its_loop_and_its_sockets(run, loop):
    async def main():
        async with serving() as it:
            assert isinstance(it.server, asyncio.AbstractServer)
            assert it.server.get_loop() is loop
            (sock,) = it.server.sockets
            assert sock.getsockname() == it.address
            assert sock.type == socket.SOCK_STREAM
            assert sock.fileno() >= 0
            assert "Server" in repr(it.server)

    run(main())


def test_a_server_is_a_context_manager(run, loop):
    async def main():
        async with await loop.create_server(Recorder, "127.0.0.1", 0) as server:
            address = server.sockets[0].getsockname()
            assert server.is_serving()
        assert not server.is_serving()
        assert refuses(address)

    run(main())


def test_a_server_accepts_a_socket_and_closes_it(run, loop):
    async def main():
        sock = socket.create_server(("127.0.0.1", 0))
        server = await loop.create_server(Recorder, sock=sock)
        assert server.sockets[0].getsockname() == sock.getsockname()
        server.close()
        assert sock.fileno() == -1

    run(main())


def test_an_address_in_use_raises_an_os_error_that_names_it(run, loop):
    async def main():
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            with pytest.raises(OSError, match="error while attempting to bind on address") as caught:
                await loop.create_server(Recorder, "127.0.0.1", port)
            assert caught.value.errno == errno.EADDRINUSE
            assert str(port) in str(caught.value)

    run(main())


def test_a_port_can_be_reused_at_once(run, loop):
    async def main():
        for _ in range(3):
            async with serving() as it:
                # The server's end closes first, so it is the one in TIME_WAIT.
                client = socket.create_connection(it.address, timeout=TIMEOUT)
                await it.until_accepted(1)
                await it.end()
                client.close()
                port = it.address[1]
            server = await loop.create_server(Echo, "127.0.0.1", port)
            server.close()
            await server.wait_closed()

    run(main())


def test_reuse_port_lets_two_servers_share_a_port(run, loop):
    async def main():
        async with serving(reuse_port=True) as it:
            server = await loop.create_server(Echo, *it.address, reuse_port=True)
            with pytest.raises(OSError):
                await loop.create_server(Echo, *it.address)
            server.close()
            await server.wait_closed()

    run(main())


def test_a_loop_may_be_closed_while_its_server_still_listens(loop):
    async def start():
        return await loop.create_server(Recorder, "127.0.0.1", 0)

    server = loop.run_until_complete(start())
    loop.close()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        del server
        gc.collect()
