"""Workloads of one process, without a load generator: `ROWS[name].run(loop, count)` does `count` operations.

compare-builds measures their time, instructions their instructions, and tools/build-pgo trains with them.
"""

import asyncio
import inspect
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass

from . import native

# Small enough for malloc's cache of the thread. The cost of a larger block depends on what is free in the heap, and
# differs from process to process.
PAYLOAD = b"x" * 512
LINE = b"x" * 20 + b"\n"
LINES_AT_ONCE = 1000
TIMERS = 50


def nothing():
    pass


async def return_at_once():
    pass


def chain(loop, count):
    left = count

    def callback():
        nonlocal left
        left -= 1
        if left:
            loop.call_soon(callback)
        else:
            loop.stop()

    loop.call_soon(callback)
    loop.run_forever()


def fan_out(loop, count):
    for _ in range(count):
        loop.call_soon(nothing)
    loop.call_soon(loop.stop)
    loop.run_forever()


def threadsafe(loop, count):
    for _ in range(count):
        loop.call_soon_threadsafe(nothing)
    loop.call_soon_threadsafe(loop.stop)
    loop.run_forever()


def timer_fire(loop, count):
    # In batches: the cost of a timer depends on how many are due, and on where the clock is in the timer wheel.
    for _ in range(0, count, TIMERS):
        for _ in range(TIMERS):
            loop.call_later(0, nothing)
        loop.call_later(0, loop.stop)
        loop.run_forever()


def timer_cancel(loop, count):
    for _ in range(count):
        loop.call_later(100, nothing).cancel()


async def sleep0(loop, count):
    for _ in range(count):
        await asyncio.sleep(0)


async def create_await(loop, count):
    for _ in range(count):
        await loop.create_task(return_at_once())


async def gather(loop, count):
    await asyncio.gather(*[return_at_once() for _ in range(count)])


async def future(loop, count):
    for _ in range(count):
        awaited = loop.create_future()
        loop.call_soon(awaited.set_result, None)
        await awaited


async def queue(loop, count):
    messages = asyncio.Queue(10)

    async def put():
        for number in range(count):
            await messages.put(number)

    putting = loop.create_task(put())
    for _ in range(count):
        await messages.get()
    await putting


def connected_sockets():
    pair = socket.socketpair()
    for end in pair:
        end.setblocking(False)
    return pair


class EchoServer(asyncio.Protocol):
    def __init__(self):
        self.lost = asyncio.get_running_loop().create_future()

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        self.transport.write(data)

    def connection_lost(self, exc):
        self.lost.set_result(None)


class EchoClient(EchoServer):
    """Sends a payload, and again when it has come back."""

    def start(self, payload, count):
        self.payload, self.left, self.missing = payload, count, len(payload)
        self.done = asyncio.get_running_loop().create_future()
        self.transport.write(payload)
        return self.done

    def data_received(self, data):
        self.missing -= len(data)
        if self.missing:
            return
        self.left -= 1
        if self.left:
            self.missing = len(self.payload)
            self.transport.write(self.payload)
        else:
            self.done.set_result(None)


async def serve_protocol(loop, sock):
    _, server = await loop.connect_accepted_socket(EchoServer, sock)
    await server.lost


async def serve_streams(loop, sock):
    reader, writer = await asyncio.open_connection(sock=sock)
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()


async def serve_sock(loop, sock):
    while data := await loop.sock_recv(sock, len(PAYLOAD)):
        await loop.sock_sendall(sock, data)
    sock.close()


async def serve_tls(loop, sock):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(native.certificate())
    _, server = await loop.connect_accepted_socket(EchoServer, sock, ssl=context)
    await server.lost


def trusting_context():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def echo(serve, payload=PAYLOAD, tls=False):
    async def run(loop, count):
        here, there = connected_sockets()
        serving = loop.create_task(serve(loop, there))
        options = {"ssl": trusting_context(), "server_hostname": ""} if tls else {}
        transport, client = await loop.create_connection(EchoClient, sock=here, **options)
        await client.start(payload, count)
        transport.close()
        await client.lost
        await serving

    return run


async def readline(loop, count):
    here, there = connected_sockets()
    reader, writer = await asyncio.open_connection(sock=here)
    _, sender = await asyncio.open_connection(sock=there)

    async def send():
        for sent in range(0, count, LINES_AT_ONCE):
            sender.write(LINE * min(LINES_AT_ONCE, count - sent))
            await sender.drain()

    sending = loop.create_task(send())
    for _ in range(count):
        await reader.readline()
    await sending
    for stream in (writer, sender):
        stream.close()
        await stream.wait_closed()


@dataclass(frozen=True)
class Workload:
    function: Callable
    # The operations of a slice of a few milliseconds.
    slice: int

    def run(self, loop, count):
        if inspect.iscoroutinefunction(self.function):
            loop.run_until_complete(self.function(loop, count))
        else:
            self.function(loop, count)


ROWS = {
    "call_soon.chain": Workload(chain, 20_000),
    "call_soon.fanout": Workload(fan_out, 10_000),
    "threadsafe": Workload(threadsafe, 10_000),
    "timers.fire": Workload(timer_fire, 8_000),
    "timers.cancel": Workload(timer_cancel, 15_000),
    "task.sleep0": Workload(sleep0, 8_000),
    "task.create_await": Workload(create_await, 3_000),
    "task.gather": Workload(gather, 2_000),
    "task.future": Workload(future, 6_000),
    "task.queue": Workload(queue, 3_000),
    "echo.protocol": Workload(echo(serve_protocol), 1_500),
    "echo.streams": Workload(echo(serve_streams), 600),
    "echo.sock": Workload(echo(serve_sock), 600),
    "readline": Workload(readline, 5_000),
    "tls.small": Workload(echo(serve_tls, tls=True), 300),
    "tls.large": Workload(echo(serve_tls, bytes(100 * 1024), tls=True), 20),
}
