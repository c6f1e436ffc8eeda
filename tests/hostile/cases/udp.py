"""Datagrams: refused, too large, empty; endpoints closed in callbacks."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import socket

from hostile import (
    Boom,
    attempt,
    case,
    finish,
    iterations,
    new_loop,
    outcome,
    quiet,
    reporting,
    run,
    settle,
    show,
)


class Datagrams(asyncio.DatagramProtocol):
    """Records its callbacks, and calls the function that ``script`` has for a callback."""

    def __init__(self, **script):
        self.script = script
        self.events = []
        self.received = []
        self.lost = asyncio.get_running_loop().create_future()

    def play(self, name):
        self.events.append(name)
        if name in self.script:
            self.script[name](self)

    def connection_made(self, transport):
        self.transport = transport
        self.play("connection_made")

    def datagram_received(self, data, address):
        self.received.append(data)
        self.play("datagram_received")

    def error_received(self, error):
        self.play("error_received " + type(error).__name__)
        if "error_received" in self.script:
            self.script["error_received"](self)

    def pause_writing(self):
        self.play("pause_writing")

    def resume_writing(self):
        self.play("resume_writing")

    def connection_lost(self, error):
        self.lost.set_result(error)
        self.play("connection_lost")


async def endpoint(**script):
    """An endpoint on loopback, its protocol, and a plain socket that is connected to it."""
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.create_datagram_endpoint(
        lambda: Datagrams(**script), local_addr=("127.0.0.1", 0)
    )
    peer = socket.socket(type=socket.SOCK_DGRAM)
    peer.bind(("127.0.0.1", 0))
    peer.connect(transport.get_extra_info("sockname"))
    return transport, protocol, peer


def closed_address():
    with socket.socket(type=socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()


@case
async def errors_of_the_peer_do_not_end_the_endpoint():
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.create_datagram_endpoint(Datagrams, remote_addr=closed_address())
    for _ in range(3):
        transport.sendto(b"x")
        await settle()
    show(set(protocol.events[1:]), transport.is_closing())
    transport.close()
    await protocol.lost


@case
async def datagrams_of_every_size():
    transport, protocol, peer = await endpoint()
    for size in (0, 1, 1472, 65507):
        peer.send(b"x" * size)
    await settle()
    show([len(data) for data in protocol.received])
    for size in (0, 65507, 65508, 1 << 20):
        show(size, attempt(transport.sendto, b"x" * size, peer.getsockname()))
    await settle()
    show(protocol.events[5:], transport.is_closing())
    transport.abort()
    await protocol.lost
    peer.close()


@case
async def bad_arguments_to_sendto():
    transport, protocol, peer = await endpoint()
    for data in ("text", None, 5, []):
        show(type(data).__name__, attempt(transport.sendto, data, peer.getsockname()))
    for address in (("127.0.0.1",), ("127.0.0.1", 70000), 5, "x", ("not an address", 5), (None, None)):
        result = attempt(transport.sendto, b"x", address)
        show(address, result if "gaierror" not in result else "gaierror", transport.is_closing())
    await settle()
    if not protocol.lost.done():
        transport.abort()
    await protocol.lost
    peer.close()


@case
async def a_remote_address_and_another_one():
    loop = asyncio.get_running_loop()
    _, _, peer = first = await endpoint()
    transport, protocol = await loop.create_datagram_endpoint(Datagrams, remote_addr=peer.getsockname())
    show(
        attempt(transport.sendto, b"x", ("127.0.0.1", 1)), attempt(transport.sendto, b"x", peer.getsockname())
    )
    show(attempt(transport.sendto, b"x", None), attempt(transport.sendto, b"x"))
    for end, recorder in ((transport, protocol), first[:2]):
        end.close()
        await recorder.lost
    peer.close()


def ends_in(callback, method):
    async def main():
        reporting(asyncio.get_running_loop(), words=False)
        transport, protocol, peer = await endpoint(
            **{callback: lambda protocol: getattr(protocol.transport, method)()}
        )
        with contextlib.suppress(ConnectionRefusedError):
            for _ in range(3):
                peer.send(b"x")
        await settle()
        show(callback, method, protocol.events, transport.is_closing())
        if not protocol.lost.done():
            transport.abort()
        await protocol.lost
        peer.close()

    run(main())


@case
def endpoints_that_end_in_callbacks():
    for method in ("close", "abort"):
        for callback in ("connection_made", "datagram_received"):
            ends_in(callback, method)


@case
def endpoints_whose_callbacks_raise():
    for error in (Boom, asyncio.CancelledError, KeyboardInterrupt, SystemExit):
        for callback in ("datagram_received", "connection_lost"):
            loop = new_loop()
            quiet(loop)

            def fail(protocol, error=error):
                raise error

            async def main(fail=fail, callback=callback):
                transport, protocol, peer = await endpoint(**{callback: fail})
                with peer:
                    peer.send(b"x")
                    await settle()
                    transport.abort()
                    await settle()
                    show(protocol.events)

            show(error.__name__, callback, attempt(loop.run_until_complete, main()))
            gc.collect()
            finish(loop)


@case
async def errors_that_are_raised_while_errors_are_reported():
    loop = asyncio.get_running_loop()
    reporting(loop, words=False)

    def fail(protocol):
        raise Boom

    transport, protocol = await loop.create_datagram_endpoint(
        lambda: Datagrams(error_received=fail), remote_addr=closed_address()
    )
    transport.sendto(b"x")
    await settle()
    show(transport.is_closing())
    if not protocol.lost.done():
        transport.abort()
    await protocol.lost


@case
async def bad_arguments_to_create_datagram_endpoint():
    loop = asyncio.get_running_loop()
    stream = socket.socket()
    for options in (
        {}, {"sock": stream}, {"sock": 5}, {"local_addr": 5}, {"local_addr": ("127.0.0.1", 70000)}, {"family": 5000},
        {"remote_addr": "x"}, {"local_addr": ("127.0.0.1", 0), "remote_addr": ("::1", 1)}, {"nonsense": 1},
        {"sock": stream, "local_addr": ("127.0.0.1", 0)}, {"family": socket.AF_UNIX, "local_addr": 5},
    ):  # fmt: skip
        try:
            transport, _ = await loop.create_datagram_endpoint(Datagrams, **options)
            show(sorted(options), "made")
            transport.abort()
            await iterations()
        except Exception as error:
            show(sorted(options), "gaierror" if isinstance(error, socket.gaierror) else type(error).__name__)
    stream.close()


@case
async def a_burst_keeps_its_order():
    transport, protocol, peer = await endpoint()
    for number in range(100):
        peer.send(b"%d" % number)
    await settle()
    show(protocol.received == [b"%d" % number for number in range(100)])
    for number in range(100):
        transport.sendto(b"%d" % number, peer.getsockname())
    show([peer.recv(10) for _ in range(100)] == [b"%d" % number for number in range(100)])
    transport.close()
    await protocol.lost
    peer.close()


@case
async def unix_datagrams_that_are_never_received():
    loop = asyncio.get_running_loop()
    ours, theirs = (socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) for _ in range(2))
    theirs.bind("peer")
    ours.connect("peer")
    ours.setblocking(False)
    theirs.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    transport, protocol = await loop.create_datagram_endpoint(Datagrams, sock=ours)
    transport.set_write_buffer_limits(high=1000, low=10)
    for _ in range(2000):
        transport.sendto(b"x" * 100)
    show("pause_writing" in protocol.events, transport.get_write_buffer_size() > 0)
    theirs.close()
    await settle()
    show(transport.is_closing())
    if not protocol.lost.done():
        transport.abort()
    await protocol.lost


@case
async def every_method_of_a_closed_endpoint():
    transport, protocol, peer = await endpoint()
    transport.close()
    show(transport.is_closing(), attempt(transport.close), attempt(transport.abort))
    await protocol.lost
    show(attempt(transport.close), attempt(transport.is_closing), attempt(repr, transport))
    show(transport.get_extra_info("socket") is not None, await outcome(asyncio.sleep(0)))
    peer.close()
