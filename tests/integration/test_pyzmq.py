"""pyzmq's asyncio sockets, which register one edge-triggered fd per socket with add_reader()."""

from __future__ import annotations

import asyncio
import contextlib

import pytest
from helpers import needed

zmq = needed("zmq")
needed("zmq.asyncio")


@contextlib.contextmanager
def sockets(*kinds):
    context = zmq.asyncio.Context()
    made = [context.socket(kind) for kind in kinds]
    for socket in made:
        socket.linger = 0
    try:
        yield made
    finally:
        for socket in made:
            socket.close()
        context.term()


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:*", "inproc://here", "ipc://*"])
def test_requests_are_answered_in_order(run, address):
    async def serve(socket):
        while (question := await socket.recv_json()) is not None:
            await socket.send_json({"answer": question["number"] * 2})
        await socket.send_json(None)

    async def main():
        with sockets(zmq.REP, zmq.REQ) as (server, client):
            server.bind(address)
            client.connect(server.get_string(zmq.LAST_ENDPOINT))
            serving = asyncio.ensure_future(serve(server))
            for number in range(200):
                await client.send_json({"number": number})
                assert await client.recv_json() == {"answer": number * 2}
            await client.send_json(None)
            await client.recv_json()
            await serving

    run(main())


def test_subscribers_get_their_topics_only(run):
    async def main():
        # XPUB, because it reports when a subscription has arrived.
        with sockets(zmq.XPUB, zmq.SUB, zmq.SUB) as (publisher, first, second):
            port = publisher.bind_to_random_port("tcp://127.0.0.1")
            for subscriber, topic in ((first, b"even"), (second, b"odd")):
                subscriber.connect(f"tcp://127.0.0.1:{port}")
                subscriber.subscribe(topic)
                assert await publisher.recv() == b"\x01" + topic

            async def publish():
                for number in range(500):
                    await publisher.send_multipart([b"odd" if number % 2 else b"even", b"%d" % number])

            async def collect(subscriber):
                return [int((await subscriber.recv_multipart())[1]) for _ in range(250)]

            _, evens, odds = await asyncio.gather(publish(), collect(first), collect(second))
            assert evens == list(range(0, 500, 2))
            assert odds == list(range(1, 500, 2))

    run(main())


def test_large_messages_pass_through_a_pipeline(run):
    async def main():
        with sockets(zmq.PUSH, zmq.PULL) as (push, pull):
            push.sndhwm = pull.rcvhwm = 2
            port = pull.bind_to_random_port("tcp://127.0.0.1")
            push.connect(f"tcp://127.0.0.1:{port}")
            sending = asyncio.gather(*(push.send(bytes([n]) * (1 << 20)) for n in range(30)))
            for n in range(30):
                assert await pull.recv() == bytes([n]) * (1 << 20)
            await sending

    run(main())


def test_a_cancelled_receive_loses_no_message(run):
    async def main():
        with sockets(zmq.PUSH, zmq.PULL) as (push, pull):
            port = pull.bind_to_random_port("tcp://127.0.0.1")
            push.connect(f"tcp://127.0.0.1:{port}")
            waiting = asyncio.ensure_future(pull.recv())
            await asyncio.sleep(0)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            await push.send(b"for the next one")
            assert await pull.recv() == b"for the next one"

    run(main())


def test_a_poller_waits_for_several_sockets(run):
    async def main():
        with sockets(zmq.PUSH, zmq.PULL, zmq.PULL) as (push, silent, pull):
            silent.bind_to_random_port("tcp://127.0.0.1")
            port = pull.bind_to_random_port("tcp://127.0.0.1")
            push.connect(f"tcp://127.0.0.1:{port}")
            poller = zmq.asyncio.Poller()
            poller.register(silent, zmq.POLLIN)
            poller.register(pull, zmq.POLLIN)
            assert await poller.poll(timeout=0) == []
            waiting = asyncio.ensure_future(poller.poll())
            await push.send(b"something")
            assert await waiting == [(pull, zmq.POLLIN)]
            assert await pull.recv() == b"something"

    run(main())
