"""Protocols that raise, close, abort, pause or replace themselves in every callback."""

from __future__ import annotations

import asyncio
import contextlib

from hostile import (
    Boom,
    Recorder,
    Thunder,
    attempt,
    case,
    connected,
    finish,
    iterations,
    new_loop,
    quiet,
    reporting,
    run,
    settle,
    show,
    taken,
    tcp_pair,
)  # fmt: skip

CALLBACKS = [
    "connection_made",
    "data_received",
    "eof_received",
    "pause_writing",
    "resume_writing",
    "connection_lost",
]


LARGE = 1 << 20


async def through_every_callback(name, action):
    """A connection whose protocol performs ``action`` in the first call of the callback ``name``."""
    done = []

    def once(protocol, *arguments):
        if not done:
            done.append(True)
            return action(protocol)

    transport, protocol, peer = await connected({name: once})
    with peer:
        if "writing" in name:
            transport.set_write_buffer_limits(high=10, low=1)
            show("write", attempt(transport.write, b"x" * LARGE))
            await taken(peer, LARGE)
        else:
            with contextlib.suppress(BrokenPipeError):  # the action may have ended the connection already
                peer.sendall(b"data")
                if name == "eof_received":
                    await protocol.has(4)
                peer.shutdown(1)
        await settle()
        show("closing", transport.is_closing())
        if not protocol.lost.done():
            transport.abort()
        await protocol.end()
        show(protocol.events, bytes(protocol.received))


def actions_in(callback, names):
    for name in names:
        # asyncio may call connection_lost() twice, or fail.
        if callback == "resume_writing" and ("close" in name or "abort" in name):
            continue

        async def main(name=name):
            reporting(asyncio.get_running_loop())
            show(callback, name)
            await through_every_callback(callback, ACTIONS[name])

        run(main())


def exceptions_in(callback):
    for error in (Boom, asyncio.CancelledError, GeneratorExit):

        def fail(protocol, error=error):
            raise error

        async def main(error=error, fail=fail):
            reporting(asyncio.get_running_loop())
            show(callback, error.__name__)
            await through_every_callback(callback, fail)

        run(main())


def ends_of_the_run_in(callback):
    """``KeyboardInterrupt`` and ``SystemExit`` propagate from the run; the loop can run again."""
    for error in (KeyboardInterrupt, SystemExit):
        loop = new_loop()
        quiet(loop)
        kept = []

        async def main(error=error, kept=kept):
            def fail(protocol, *arguments):
                if kept[0]:
                    kept[0] = False
                    raise error

            kept.append(True)
            kept.extend(await connected({callback: fail}))
            kept[1].set_write_buffer_limits(high=10, low=1)
            if "writing" in callback:
                kept[1].write(b"x" * LARGE)
                await taken(kept[3], LARGE)
            else:
                kept[3].sendall(b"data")
                kept[3].shutdown(1)
            await settle()
            kept[1].abort()
            await settle()

        show(callback, error.__name__, attempt(loop.run_until_complete, main()))
        loop.run_until_complete(settle())
        if len(kept) > 1:
            kept[1].abort()
            loop.run_until_complete(iterations())
            show(kept[2].events)
            kept[3].close()
        kept.clear()
        finish(loop)


class Other(asyncio.Protocol):
    def data_received(self, data):
        show("other data")

    def connection_lost(self, error):
        show("other lost")


ACTIONS = {
    "close": lambda protocol: protocol.transport.close(),
    "abort": lambda protocol: protocol.transport.abort(),
    "close and abort": lambda protocol: (protocol.transport.close(), protocol.transport.abort()) and None,
    "pause_reading": lambda protocol: show("pause", attempt(protocol.transport.pause_reading)),
    "pause and resume": lambda protocol: show(
        attempt(protocol.transport.pause_reading), attempt(protocol.transport.resume_reading)
    ),
    "write": lambda protocol: protocol.transport.write(b"hello"),
    "write_eof": lambda protocol: show("eof", attempt(protocol.transport.write_eof)),
    "write after close": lambda protocol: (
        (protocol.transport.close(), protocol.transport.write(b"late")) and None
    ),
    "nonsense result": lambda protocol: object(),
    "limits": lambda protocol: show(
        attempt(protocol.transport.set_write_buffer_limits, 0),
        attempt(protocol.transport.set_write_buffer_limits, 5),
    ),
}


def declare():
    """One case for each callback and each way to misbehave in it."""
    for callback in CALLBACKS:
        for title, function in {
            "raises_in": lambda callback=callback: exceptions_in(callback),
            "acts_in": lambda callback=callback: actions_in(callback, ACTIONS),
            "ends_the_run_in": lambda callback=callback: ends_of_the_run_in(callback),
        }.items():
            function.__name__ = f"{title}_{callback}"
            # asyncio 3.10 forgets a pause_reading() in connection_made().
            case(function, since=(3, 11) if function.__name__ == "acts_in_connection_made" else (3, 10))


declare()


@case
def factories_that_raise_everything():
    for error in (Boom, KeyboardInterrupt, SystemExit, asyncio.CancelledError, Thunder):
        loop = new_loop()
        quiet(loop)
        ours, theirs = tcp_pair()
        ours.setblocking(False)

        def factory(error=error):
            raise error

        async def main(factory=factory, ours=ours, loop=loop):
            await loop.create_connection(factory, sock=ours)

        show("client", attempt(loop.run_until_complete, main()))
        ours.close(), theirs.close()
        finish(loop)


@case
def factories_that_return_nonsense():
    for value in (None, 5, object(), asyncio.Protocol, ""):

        async def main(value=value):
            loop = asyncio.get_running_loop()
            reporting(loop)
            ours, theirs = tcp_pair()
            ours.setblocking(False)
            try:
                transport, protocol = await loop.create_connection(lambda: value, sock=ours)
            except Exception as error:
                show(type(value).__name__, error)
                ours.close()
            else:
                show(type(value).__name__, protocol is value, transport.get_protocol() is value)
                transport.abort()
                await iterations()
            theirs.close()

        run(main())


@case
async def protocols_are_exchanged_in_the_middle():
    transport, protocol, peer = await connected(
        {"data_received": lambda protocol: transport.set_protocol(Other())}
    )
    with peer:
        peer.sendall(b"one")
        await protocol.has(3)
        peer.sendall(b"two")
        await settle()
        show(type(transport.get_protocol()).__name__, protocol.events)
        for nonsense in (None, 5, object()):
            show(attempt(transport.set_protocol, nonsense))
        transport.set_protocol(Other())
        transport.abort()
        await iterations()


@case
async def protocols_without_methods():
    class Bare:
        pass

    loop = asyncio.get_running_loop()
    reporting(loop)
    ours, theirs = tcp_pair()
    ours.setblocking(False)
    transport = None
    try:
        transport, _ = await asyncio.wait_for(loop.create_connection(Bare, sock=ours), 0.05)
    except Exception as error:
        show(error)
    else:
        show("connected")
        theirs.send(b"x")
        await settle()
        show(transport.is_closing())
        transport.abort()
    ours.close(), theirs.close()
    await iterations()


@case
async def methods_that_are_replaced_on_the_instance():
    transport, protocol, peer = await connected()
    with peer:
        protocol.data_received = lambda data: show("replaced", data)
        peer.sendall(b"one")
        await settle()
        del protocol.data_received
        peer.sendall(b"two")
        show(await protocol.has(3))
        protocol.connection_lost = lambda error: show("lost", error)
        transport.abort()
        await iterations()


@case
async def a_protocol_that_is_its_own_transports_peer():
    loop = asyncio.get_running_loop()
    ours, theirs = tcp_pair()
    ends = []

    class Echo(Recorder):
        def data_received(self, data):
            super().data_received(data)
            if len(self.received) < 10_000:
                self.transport.write(data + b"x")
            else:
                self.transport.close()

    for sock in (ours, theirs):
        sock.setblocking(False)
        ends.append(await loop.create_connection(Echo, sock=sock))
    ends[0][0].write(b"x" * 100)
    show([await protocol.end() for _, protocol in ends])
    show([len(protocol.received) >= 9000 for _, protocol in ends])
