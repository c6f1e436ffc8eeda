"""The garbage collector: in callbacks, with cycles through every object of a loop, and with hostile finalisers."""

from __future__ import annotations

import asyncio
import gc
import os
import socket
import weakref

from hostile import (
    Recorder,
    attempt,
    case,
    connected,
    finish,
    iterations,
    new_loop,
    outcome,
    quiet,
    reporting,
    run,
    settle,
    show,
    tcp_pair,
    unix_pair,
)  # fmt: skip


@case
async def a_collection_in_every_callback():
    collect = {
        name: lambda protocol: gc.collect() and None
        for name in (
            "connection_made",
            "data_received",
            "eof_received",
            "connection_lost",
            "pause_writing",
            "resume_writing",
        )
    }
    transport, protocol, peer = await connected(collect)
    transport.set_write_buffer_limits(10)
    transport.write(b"x" * (1 << 20))
    asyncio.get_running_loop().call_soon(gc.collect)
    peer.sendall(b"data")
    await protocol.has(4)
    peer.close()
    await protocol.end()
    show(protocol.events[0], protocol.events[-1])


@case
def a_collection_at_every_allocation():
    thresholds = gc.get_threshold()
    gc.set_threshold(1)
    try:

        async def main():
            transport, protocol, peer = await connected()
            peer.sendall(b"data")
            show(await protocol.has(4))
            peer.close()
            await protocol.end()
            await asyncio.gather(*(asyncio.sleep(0.0001) for _ in range(10)))

        run(main())
    finally:
        gc.set_threshold(*thresholds)


def is_collected(make):
    """Whether the object from ``make()`` is collected although it references itself."""
    reference = weakref.ref(make())
    for _ in range(3):
        gc.collect()
    return reference() is None


class Node:
    """Holds references to its arguments."""

    def __init__(self, *things):
        self.things = things

    def __call__(self, *arguments):
        pass


@case
def cycles_through_handles():
    def soon():
        loop = new_loop()
        node = Node(loop)
        node.things += (loop.call_soon(node, node),)
        return node

    def later():
        loop = new_loop()
        node = Node(loop)
        node.things += (loop.call_later(1000, node, node),)
        return node

    for make in (soon, later):
        show(make.__name__, is_collected(make))


@case
def cycles_through_registered_fds():
    def watched():
        loop = new_loop()
        sock, other = socket.socketpair()
        node = Node(loop, sock, other)
        loop.add_reader(sock, node)
        loop.add_writer(sock, node, node)
        return node

    show(is_collected(watched))


@case
def cycles_through_transports():
    def connection():
        loop = new_loop()
        quiet(loop)
        transport, protocol, peer = run(connected(), loop)
        protocol.node = node = Node(transport, loop, peer)
        transport.pause_reading()
        return node

    def server():
        loop = new_loop()
        node = Node(loop)
        node.things += (run(loop.create_server(node, "127.0.0.1", 0), loop),)
        return node

    def handlers():
        loop = new_loop()
        node = Node(loop)
        loop.set_exception_handler(node)
        loop.set_task_factory(node)
        loop.attribute = node
        return node

    for make in (connection, server, handlers):
        show(make.__name__, is_collected(make))


@case
def a_socket_that_refers_to_its_transport():
    class Kept(socket.socket):
        pass

    def make():
        loop = new_loop()
        quiet(loop)
        ours, theirs = unix_pair()
        kept = Kept(fileno=ours.detach())
        kept.setblocking(False)

        async def connect():
            return await loop.create_connection(asyncio.Protocol, sock=kept)

        kept.transport, _ = run(connect(), loop)
        kept.transport.abort()
        run(iterations(), loop)
        loop.close()
        theirs.close()
        return kept

    show(is_collected(make))


@case
def a_deadline_that_refers_to_its_timer():
    class Deadline(float):
        pass

    def make():
        loop = new_loop()
        deadline = Deadline(1e9)
        deadline.timer = loop.call_at(deadline, print)
        deadline.timer.cancel()
        loop.close()
        return deadline

    show(is_collected(make))


@case
async def finalisers_that_call_back_into_everything():
    loop = asyncio.get_running_loop()
    reporting(loop)
    transport, protocol, peer = await connected()
    calls = []

    class Hostile:
        def __del__(self):
            calls.append(attempt(loop.call_soon, int))
            calls.append(attempt(loop.call_later, 0, int))
            calls.append(attempt(transport.write, b"x"))
            calls.append(attempt(loop.remove_reader, 0))
            gc.collect()

    loop.call_soon(lambda hostile: None, Hostile())
    loop.call_later(1000, print, Hostile()).cancel()
    cycle = Hostile()
    cycle.itself = cycle
    del cycle
    await iterations()
    gc.collect()
    show(sorted(set(calls)), len(calls))
    transport.abort()
    await protocol.end()
    peer.close()


@case
def finalisers_that_run_while_the_loop_closes():
    loop = new_loop()
    seen = []

    class Hostile:
        def __del__(self):
            seen.append((attempt(loop.call_soon, int), attempt(loop.close), attempt(loop.run_forever)))

    loop.call_soon(print, Hostile())
    loop.call_later(1000, print, Hostile())
    reader, writer = os.pipe()
    loop.add_reader(reader, print, Hostile())
    loop.close()
    gc.collect()
    show(len(seen), {call for calls in seen for call in calls} <= {"fine", "RuntimeError"})
    os.close(reader), os.close(writer)


@case
def finalisers_that_raise():
    import sys

    loop = new_loop()
    unraisable = []
    sys.unraisablehook = lambda what: unraisable.append(what.exc_type.__name__)

    class Hostile:
        def __del__(self):
            raise KeyboardInterrupt

    loop.call_soon(int)
    for _ in range(3):
        loop.call_soon(lambda hostile: None, Hostile())
        loop.call_later(1000, print, Hostile()).cancel()
    run(settle(), loop)
    gc.collect()
    finish(loop)
    gc.collect()
    show(unraisable)
    sys.unraisablehook = sys.__unraisablehook__


@case
async def referrers_and_referents_of_everything():
    loop = asyncio.get_running_loop()
    transport, protocol, peer = await connected(pair=tcp_pair)
    server = await loop.create_server(Recorder, "127.0.0.1", 0)
    handle, timer = loop.call_soon(print), loop.call_later(1000, print)
    handle.cancel()
    for thing in (loop, transport, protocol, server, handle, timer):
        gc.get_referents(thing)
        gc.get_referrers(thing)
        # mainspring's collector does not know a handle that waits in a running loop.
        is_tracked = gc.is_tracked(thing) or isinstance(thing, asyncio.Handle)
        show(is_tracked, attempt(dir, thing), attempt(repr, thing))
        for name in dir(thing):
            attempt(getattr, thing, name)
    timer.cancel()
    transport.abort()
    await protocol.end()
    server.close()
    peer.close()
    await settle()


@case
def copies_and_pickles_of_everything():
    import copy
    import pickle

    loop = new_loop()
    transport, protocol, peer = run(connected(), loop)
    handle = loop.call_later(1000, print)
    for thing in (transport, handle):
        show(attempt(pickle.dumps, thing) != "fine")
    attempt(copy.copy, handle)
    handle.cancel()
    transport.abort()
    run(protocol.end(), loop)
    show(run(outcome(iterations()), loop))
    peer.close()
    finish(loop)
