"""Forks at unexpected moments."""

from __future__ import annotations

import asyncio
import os
import socket

from hostile import (
    Recorder,
    attempt,
    case,
    connected,
    finish,
    iterations,
    new_loop,
    outcome,
    run,
    settle,
    show,
)


def in_child(function):
    """Runs ``function`` in a forked process, which then exits at once."""
    pid = os.fork()
    if not pid:
        try:
            function()
        except BaseException as error:
            show("child", error)
        finally:
            os._exit(0)
    show("child ended", os.waitpid(pid, 0)[1])


@case
def fork_inside_a_callback():
    loop = new_loop()
    loop.call_soon(
        in_child, lambda: show("in the child", loop.is_running(), attempt(asyncio.get_running_loop))
    )
    run(iterations(), loop)
    finish(loop)


@case
def the_child_runs_its_own_loop():
    loop = new_loop()

    def child():
        other = new_loop()
        other.run_until_complete(iterations())
        other.close()
        show("ran")

    async def main():
        in_child(child)
        await iterations()

    run(main(), loop)
    run(iterations(), loop)
    finish(loop)


@case
def the_child_closes_the_parents_loop():
    loop = new_loop()
    run(iterations(), loop)
    in_child(lambda: show("child", attempt(loop.close)))
    run(settle(), loop)
    show("parent goes on")
    finish(loop)


@case
def the_child_ends_the_parents_connections_and_the_parent_continues():
    loop = new_loop()

    async def main():
        transport, protocol, peer = await connected()
        in_child(lambda: show("child", attempt(peer.close)))
        peer.sendall(b"data")
        show(await protocol.has(4))
        transport.write(b"answer")
        show(await loop.run_in_executor(None, peer.recv, 10))
        transport.abort()
        await protocol.end()
        peer.close()

    run(main(), loop)
    finish(loop)


@case
def the_child_exits_in_the_ordinary_way():
    loop = new_loop()
    kept = run(connected(), loop)
    pid = os.fork()
    if not pid:
        raise SystemExit(5)
    show(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    kept[0].write(b"still")
    show(kept[2].recv(10))
    kept[0].abort()
    run(iterations(), loop)
    kept[2].close()
    finish(loop)


@case
def fork_with_an_idle_loop_and_threads():
    loop = new_loop()

    async def main():
        await loop.run_in_executor(None, int)
        in_child(lambda: show("child", loop.is_closed()))
        show(await loop.run_in_executor(None, int))

    run(main(), loop)
    finish(loop)


@case
def fork_while_a_server_accepts():
    loop = new_loop()

    async def main():
        server = await loop.create_server(Recorder, "127.0.0.1", 0)
        address = server.sockets[0].getsockname()
        in_child(lambda: show("child", attempt(socket.create_connection(address).close)))
        await settle()
        _, protocol = await loop.create_connection(Recorder, *address)
        show(protocol.events)
        protocol.transport.abort()
        server.close()
        await settle()

    run(main(), loop)
    finish(loop)


@case
def calls_from_the_child_do_not_reach_the_parent():
    loop = new_loop()
    seen = []
    in_child(lambda: (loop.call_soon_threadsafe(seen.append, 1), loop.call_soon(seen.append, 1)) and None)
    run(settle(), loop)
    show(seen)
    finish(loop)


@case
def subprocesses_started_in_callbacks_between_forks():
    loop = new_loop()

    async def main():
        for _ in range(3):
            in_child(lambda: None)
            child = await asyncio.create_subprocess_exec("sh", "-c", "exit 3")
            show(await child.wait())
        show(await outcome(asyncio.create_subprocess_exec("/no/such/program")))

    run(main(), loop)
    finish(loop)
