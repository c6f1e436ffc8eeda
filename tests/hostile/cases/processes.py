"""Child processes: many at once, killed, cancelled, with unread streams."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import subprocess

from hostile import (
    Boom,
    attempt,
    case,
    describe,
    finish,
    iterations,
    new_loop,
    outcome,
    quiet,
    run,
    settle,
    show,
)

PIPES = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}


async def shell(command, **options):
    return await asyncio.create_subprocess_exec("sh", "-c", command, **options)


@case
async def many_children_at_once():
    children = await asyncio.gather(*(shell(f"exit {number % 7}") for number in range(30)))
    show(await asyncio.gather(*(child.wait() for child in children)))


@case
async def children_that_cannot_be_started():
    for arguments in (("/no/such/program",), ("/",), ("",), ("nul\0",), (5,), (None,), ("true", 5)):
        show(arguments, await outcome(asyncio.create_subprocess_exec(*arguments)))
    show(
        await outcome(asyncio.create_subprocess_shell(5)),
        await outcome(asyncio.create_subprocess_shell(["x"])),
    )
    for options in (
        {"cwd": "/no/such/folder"},
        {"universal_newlines": True},
        {"shell": True},
        {"bufsize": 5},
        {"text": True},
    ):
        show(options, await outcome(asyncio.create_subprocess_exec("true", **options)))


@case
async def every_method_of_a_child_in_every_state():
    child = await shell("exec sleep 20", **PIPES)
    show(child.returncode, attempt(child.send_signal, 0), attempt(child.send_signal, "x"))
    child.kill()
    show(await child.wait(), await child.wait(), child.returncode)
    await settle()
    for method in (child.kill, child.terminate):
        show(attempt(method))
    show(attempt(child.send_signal, signal.SIGTERM), child.stdin.is_closing() or attempt(child.stdin.close))
    show(await child.stdout.read(), await child.stderr.read())


@case
async def communicate_in_odd_ways():
    child = await shell("cat", **PIPES)
    show(await child.communicate(b"x" * 200_000) == (b"x" * 200_000, b""))
    child = await shell("exit 0", **PIPES)
    show((await child.communicate(b"x" * (1 << 20)))[0])
    child = await shell("echo hello; exec sleep 20", **PIPES)
    task = asyncio.ensure_future(child.communicate())
    await iterations()
    task.cancel()
    show(await outcome(task))
    child.kill()
    show(await child.wait())
    child = await shell("exit 3")
    show(await child.communicate(), child.returncode)


@case
async def a_child_that_does_not_read():
    child = await shell("exec sleep 20", stdin=subprocess.PIPE)
    child.stdin.write(b"x" * (1 << 22))
    task = asyncio.ensure_future(child.stdin.drain())
    await iterations()
    show(task.done())
    child.kill()
    show(
        await child.wait(),
        (await outcome(task)).partition("(")[0] in ("BrokenPipeError", "ConnectionResetError"),
    )


@case
async def starting_is_cancelled_at_every_moment():
    quiet(asyncio.get_running_loop())
    for moment in range(8):
        task = asyncio.ensure_future(shell("exit 0", **PIPES))
        await iterations(moment)
        task.cancel()
        if await outcome(task) == "fine":
            await task.result().communicate()
    await asyncio.sleep(0.05)
    gc.collect()
    show("done", await (await shell("exit 4")).wait())


@case
async def waiting_is_cancelled():
    child = await shell("exec sleep 20")
    for number in range(4):
        task = asyncio.ensure_future(child.wait())
        await iterations(number)
        task.cancel()
        show(await outcome(task))
    child.kill()
    show(await child.wait())


@case
async def a_child_that_was_reaped_elsewhere():
    quiet(asyncio.get_running_loop())
    child = await shell("exit 5")
    show(await child.wait())
    try:
        os.waitpid(child.pid, 0)
    except ChildProcessError as error:
        show(describe(error))


@case
async def a_child_that_closes_its_streams_and_lives():
    child = await shell("exec >&- 2>&-; sleep 0.02; exit 6", **PIPES)
    show(await child.stdout.read(), await child.stderr.read(), await child.wait())


@case
async def a_grandchild_that_holds_the_streams():
    child = await shell("sleep 20 & exit 7", stdout=subprocess.PIPE)
    while child.returncode is None:
        await asyncio.sleep(0.001)
    show(child.returncode)
    child._transport.close()
    await settle()


def callbacks_of(protocol_class, error):
    loop = new_loop()
    quiet(loop)
    kept = []

    async def main():
        transport, protocol = await loop.subprocess_exec(
            protocol_class, "sh", "-c", "echo x; echo y >&2; exit 8"
        )
        kept.append(transport)
        while transport.get_returncode() is None:
            await asyncio.sleep(0.001)
        await settle()
        transport.close()

    show(protocol_class.__name__, error.__name__, attempt(loop.run_until_complete, main()))
    for transport in kept:
        transport.close()
    for _ in range(2):
        attempt(loop.run_until_complete, settle())
    kept.clear()
    gc.collect()
    finish(loop)


@case
def protocols_of_children_that_raise():
    for error in (Boom, asyncio.CancelledError):
        for name in ("pipe_data_received", "pipe_connection_lost", "process_exited", "connection_lost"):

            def fail(self, *arguments, error=error):
                raise error

            callbacks_of(type(name, (asyncio.SubprocessProtocol,), {name: fail}), error)


@case
async def transports_of_children_that_are_closed_at_once():
    loop = asyncio.get_running_loop()
    for _ in range(5):
        transport, _ = await loop.subprocess_exec(asyncio.SubprocessProtocol, "sleep", "20")
        transport.close()
        transport.close()
        show(attempt(transport.kill), attempt(transport.get_pid), transport.is_closing())
    await settle()
    for number in (0, 1, 2, 3, -1, "x"):
        show(attempt(transport.get_pipe_transport, number))


@case
def children_that_outlive_their_loop():
    loop = new_loop()
    quiet(loop)
    child = run(shell("exec sleep 20", stdin=subprocess.PIPE), loop)
    pid = child.pid
    loop.close()
    os.kill(pid, signal.SIGKILL)
    del child
    gc.collect()
    show("closed")
    try:
        os.waitpid(pid, 0)
    except ChildProcessError:
        pass


@case
def children_of_a_loop_in_another_thread():
    import threading

    results = []

    def runs():
        async def main():
            return await (await shell("exit 9")).wait()

        results.append(run(main()))

    # In older versions the policy's child watcher also needs a loop in the main thread.
    threads = [threading.Thread(target=runs) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    show(results)


@case
async def a_grandchild_that_holds_the_output():
    # When wait() returns depends on the version, and on whether the exit is known before the call.
    for is_called_first in (True, False):
        os.mkfifo("held")
        hold = os.open("held", os.O_RDWR)
        child = await shell("cat held & read line; exit 3", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        if is_called_first:
            waiting = asyncio.ensure_future(child.wait())
            await iterations()
        child.stdin.write(b"line\n")
        while child.returncode is None:
            await asyncio.sleep(0.001)
        if not is_called_first:
            waiting = asyncio.ensure_future(child.wait())
        await settle()
        show(is_called_first, child.returncode, waiting.done())
        # EOF ends the grandchild, once it has opened the file.
        os.write(hold, b"data")
        show(await child.stdout.readexactly(4))
        os.close(hold)
        show(await waiting, await child.stdout.read())
        os.unlink("held")
