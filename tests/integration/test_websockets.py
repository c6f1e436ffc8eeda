"""websockets: server and client in one loop."""

from __future__ import annotations

import asyncio
import contextlib

import pytest
from helpers import needed

websockets = needed("websockets")
needed("websockets.asyncio.server")
needed("websockets.asyncio.client")

serve, connect = websockets.asyncio.server.serve, websockets.asyncio.client.connect
broadcast = websockets.asyncio.server.broadcast


@contextlib.asynccontextmanager
async def serving(handler, **options):
    async with serve(handler, "127.0.0.1", 0, **options) as server:
        scheme = "wss" if "ssl" in options else "ws"
        yield f"{scheme}://localhost:{server.sockets[0].getsockname()[1]}/"


async def echo(connection):
    async for message in connection:
        await connection.send(message)


def test_messages_come_back(run):
    async def one(address, name):
        async with connect(address) as connection:
            for number in range(50):
                await connection.send(f"{name} {number}")
                assert await connection.recv() == f"{name} {number}"

    async def main():
        async with serving(echo) as address:
            await asyncio.gather(*(one(address, f"client {n}") for n in range(10)))

    run(main())


@pytest.mark.parametrize("compression", ["deflate", None])
def test_a_large_message_is_echoed_completely(run, compression):
    message = bytes(range(256)) * (1 << 14)

    async def main():
        async with serving(echo, max_size=None, compression=compression) as address:
            async with connect(address, max_size=None, compression=compression) as connection:
                await connection.send(message)
                assert await connection.recv() == message

    run(main())


def test_a_fragmented_message_can_be_received_in_parts_or_complete(run):
    async def main():
        seen = []

        async def in_parts(connection):
            seen.append([part async for part in connection.recv_streaming()])
            await connection.send(await connection.recv())

        async def fragments():
            for letter in "abc":
                await asyncio.sleep(0)
                yield letter * 70_000

        async with serving(in_parts) as address, connect(address) as connection:
            await connection.send(fragments())
            await connection.send([b"one", b"two"])
            assert await connection.recv() == b"onetwo"
        assert "".join(seen[0]) == "a" * 70_000 + "b" * 70_000 + "c" * 70_000
        assert len(seen[0]) > 1

    run(main())


def test_a_ping_is_answered(run):
    async def main():
        async with serving(echo, ping_interval=None) as address:
            async with connect(address, ping_interval=None) as connection:
                for number in range(10):
                    pong = await connection.ping(f"ping {number}")
                    assert await pong >= 0

    run(main())


def test_a_peer_that_does_not_answer_pings_is_disconnected(run):
    async def main():
        ended = asyncio.Event()

        async def silent(reader, writer):
            """Completes the WebSocket handshake, and then sends nothing."""
            handshake = websockets.server.ServerProtocol()
            handshake.receive_data(await reader.readuntil(b"\r\n\r\n"))
            (request,) = handshake.events_received()
            handshake.send_response(handshake.accept(request))
            writer.writelines(handshake.data_to_send())
            await reader.read()
            writer.close()
            await writer.wait_closed()
            ended.set()

        server = await asyncio.start_server(silent, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        options = {"ping_interval": 0.02, "ping_timeout": 0.02, "close_timeout": 0.02}
        async with connect(f"ws://127.0.0.1:{port}/", **options) as connection:
            with pytest.raises(websockets.ConnectionClosedError) as caught:
                await connection.recv()
        assert caught.value.sent.code == 1011
        await ended.wait()
        server.close()
        await server.wait_closed()

    run(main())


@pytest.mark.parametrize("code", [1000, 1001, 1011, 3456])
def test_the_close_code_reaches_the_other_end(run, code):
    async def main():
        async def leave(connection):
            await connection.close(code, "good bye")

        async with serving(leave) as address, connect(address) as connection:
            with pytest.raises(websockets.ConnectionClosed) as caught:
                await connection.recv()
            assert (caught.value.rcvd.code, caught.value.rcvd.reason) == (code, "good bye")

    run(main())


def test_a_lost_connection_is_not_an_orderly_end(run):
    async def main():
        async def vanish(connection):
            connection.transport.abort()

        async with serving(vanish) as address, connect(address) as connection:
            with pytest.raises(websockets.ConnectionClosedError):
                await connection.recv()
            assert connection.close_code == 1006

    run(main())


def test_a_broadcast_reaches_everyone(run):
    async def main():
        there = set()
        everyone = asyncio.get_running_loop().create_future()

        async def stay(connection):
            there.add(connection)
            if len(there) == 20:
                everyone.set_result(None)
            await connection.wait_closed()

        async with serving(stay) as address, contextlib.AsyncExitStack() as stack:
            clients = [await stack.enter_async_context(connect(address)) for _ in range(20)]
            await everyone
            broadcast(there, "hear, hear")
            answers = await asyncio.gather(*(client.recv() for client in clients))
            assert answers == ["hear, hear"] * 20

    run(main())


def test_a_slow_reader_applies_back_pressure(run):
    size = 1 << 16

    async def main():
        async def send_much(connection):
            for number in range(200):
                await connection.send(bytes([number]) * size)

        async with serving(send_much, write_limit=size, compression=None) as address:
            async with connect(address, max_queue=2, compression=None) as connection:
                numbers = [message[0] async for message in connection]
                assert numbers == list(range(200))

    run(main())


def test_it_works_over_tls(run, authority):
    async def main():
        async with serving(echo, ssl=authority.server_context(), max_size=None) as address:
            async with connect(address, ssl=authority.client_context(), max_size=None) as connection:
                message = "secret " * 200_000
                await connection.send(message)
                assert await connection.recv() == message

    run(main())
