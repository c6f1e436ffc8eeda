"""The number of loop iterations from "the data is in the kernel" to the callback, compared with asyncio.

asyncio polls in every iteration, however many callbacks are ready.  A loop that skips polls delivers late and in
another order.  Programs rely on a chain of ``call_soon`` calls not overtaking data that has already arrived.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import socket

import pytest

import mainspring

FACTORIES = {"asyncio": asyncio.SelectorEventLoop, "mainspring": mainspring.new_event_loop}

# Iterations before the data is sent, and the limit after which the test fails.
WARM = 20
MOST = 1000
WAIT = 30_000


class NotifyingProtocol(asyncio.Protocol):
    """Calls ``delivered`` when data arrives; ``stack`` closes its transport."""

    def __init__(self, delivered, stack):
        self.delivered = delivered
        self.stack = stack

    def connection_made(self, transport):
        self.stack.callback(transport.close)

    def data_received(self, data):
        self.delivered()

    def datagram_received(self, data, address):
        self.delivered()


def until_readable(fd):
    """Waits until the sent data has arrived."""
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    assert poll.poll(WAIT), "no data arrived"


def sockets(stack, tcp=False):
    if tcp:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            theirs = socket.create_connection(listener.getsockname())
            ours = listener.accept()[0]
    else:
        ours, theirs = socket.socketpair()
    stack.enter_context(theirs)
    ours.setblocking(False)
    return ours, theirs


# Each sets up a receiver and returns a function that puts data into the kernel.


async def add_reader_on_a_pipe(loop, delivered, stack):
    reader, writer = os.pipe()
    stack.callback(os.close, reader)
    stack.callback(os.close, writer)
    loop.add_reader(reader, delivered)
    stack.callback(loop.remove_reader, reader)
    return lambda: os.write(writer, b"x")


async def add_reader_on_a_socket(loop, delivered, stack):
    ours, theirs = sockets(stack)
    stack.enter_context(ours)
    loop.add_reader(ours, delivered)
    stack.callback(loop.remove_reader, ours)
    return lambda: theirs.send(b"x")


async def add_reader_in_the_iteration_of_the_data(loop, delivered, stack):
    ours, theirs = sockets(stack)
    stack.enter_context(ours)

    def send():
        theirs.send(b"x")
        loop.add_reader(ours, delivered)

    stack.callback(loop.remove_reader, ours)
    return send


async def add_writer(loop, delivered, stack):
    ours, theirs = sockets(stack)
    stack.enter_context(ours)
    stack.callback(loop.remove_writer, ours)
    return lambda: loop.add_writer(ours, delivered)


async def sock_recv(loop, delivered, stack):
    ours, theirs = sockets(stack)
    stack.enter_context(ours)
    task = loop.create_task(loop.sock_recv(ours, 10))
    task.add_done_callback(lambda _: delivered())
    return lambda: theirs.send(b"x")


async def transport_on(loop, delivered, stack, ours):
    await loop.create_connection(lambda: NotifyingProtocol(delivered, stack), sock=ours)
    for _ in range(3):
        await asyncio.sleep(0)


async def tcp_transport(loop, delivered, stack):
    ours, theirs = sockets(stack, tcp=True)
    await transport_on(loop, delivered, stack, ours)
    return lambda: (theirs.send(b"x"), until_readable(ours))


async def unix_transport(loop, delivered, stack):
    ours, theirs = sockets(stack)
    await transport_on(loop, delivered, stack, ours)
    return lambda: theirs.send(b"x")


async def resumed_transport(loop, delivered, stack):
    ours, theirs = sockets(stack)
    transport, _ = await loop.create_connection(lambda: NotifyingProtocol(delivered, stack), sock=ours)
    for _ in range(3):
        await asyncio.sleep(0)
    transport.pause_reading()
    theirs.send(b"x")
    return transport.resume_reading


async def new_transport(loop, delivered, stack):
    ours, theirs = sockets(stack)
    theirs.send(b"x")

    async def connect():
        await loop.create_connection(lambda: NotifyingProtocol(delivered, stack), sock=ours)

    return lambda: stack.callback(loop.create_task(connect()).cancel)


async def stream_reader(loop, delivered, stack):
    ours, theirs = sockets(stack)
    reader, writer = await asyncio.open_connection(sock=ours)
    stack.callback(writer.close)
    for _ in range(3):
        await asyncio.sleep(0)
    loop.create_task(reader.read(10)).add_done_callback(lambda _: delivered())
    return lambda: theirs.send(b"x")


async def read_pipe(loop, delivered, stack):
    reader, writer = os.pipe()
    stack.callback(os.close, writer)
    await loop.connect_read_pipe(lambda: NotifyingProtocol(delivered, stack), open(reader, "rb", 0))
    for _ in range(3):
        await asyncio.sleep(0)
    return lambda: os.write(writer, b"x")


async def datagrams(loop, delivered, stack):
    transport, _ = await loop.create_datagram_endpoint(
        lambda: NotifyingProtocol(delivered, stack), local_addr=("127.0.0.1", 0)
    )
    for _ in range(3):
        await asyncio.sleep(0)
    peer = stack.enter_context(socket.socket(type=socket.SOCK_DGRAM))
    address = transport.get_extra_info("sockname")
    return lambda: (peer.sendto(b"x", address), until_readable(transport.get_extra_info("socket")))


async def accepted(loop, stack, factory):
    server = await loop.create_server(factory, "127.0.0.1", 0)
    stack.callback(server.close)
    for _ in range(3):
        await asyncio.sleep(0)
    listener = server.sockets[0]

    def connect():
        client = stack.enter_context(socket.create_connection(listener.getsockname()))
        client.send(b"x")
        until_readable(listener)

    return connect


async def accepted_connection(loop, delivered, stack):
    def factory():
        delivered()
        return NotifyingProtocol(delivered, stack)

    return await accepted(loop, stack, factory)


async def accepted_data(loop, delivered, stack):
    return await accepted(loop, stack, lambda: NotifyingProtocol(delivered, stack))


async def signal_from_another_thread(loop, delivered, stack):
    return lambda: loop.call_soon_threadsafe(delivered)


KINDS = [
    add_reader_on_a_pipe,
    add_reader_on_a_socket,
    add_reader_in_the_iteration_of_the_data,
    add_writer,
    sock_recv,
    tcp_transport,
    unix_transport,
    resumed_transport,
    new_transport,
    stream_reader,
    read_pipe,
    datagrams,
    accepted_connection,
    accepted_data,
    signal_from_another_thread,
]


def iterations_to_delivery(loop, kind, busy):
    """The number of iterations from the data to its callback while ``busy`` callbacks keep the loop busy."""
    iteration, sent, delivery = 0, None, None

    def delivered():
        nonlocal delivery
        if delivery is None:
            delivery = iteration
            loop.stop()

    def count():
        nonlocal iteration, sent
        iteration += 1
        if iteration == WARM:
            sent = iteration
            send()
        if iteration == MOST:
            loop.stop()
        if delivery is None:
            loop.call_soon(count)

    def keep_busy():
        if delivery is None:
            loop.call_soon(keep_busy)

    with contextlib.ExitStack() as stack:
        send = loop.run_until_complete(kind(loop, delivered, stack))
        loop.call_soon(count)
        for _ in range(busy):
            loop.call_soon(keep_busy)
        loop.run_forever()
        stack.close()
        loop.run_until_complete(asyncio.sleep(0.001))
    return None if delivery is None else delivery - sent


@pytest.mark.parametrize("busy", [0, 1, 5, 100])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_data_is_delivered_in_the_same_iteration_as_on_asyncio(kind, busy):
    counts = {}
    for name, factory in FACTORIES.items():
        loop = factory()
        counts[name] = iterations_to_delivery(loop, kind, busy)
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()
    assert counts["asyncio"] is not None
    # asyncio calls the protocol factory of a server in a separate task, one iteration after the accept.
    earlier = 1 if kind in (accepted_connection, accepted_data) else 0
    assert counts["mainspring"] == counts["asyncio"] - earlier
