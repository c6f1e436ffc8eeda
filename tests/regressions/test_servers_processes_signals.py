"""Sockets, servers, processes and signals: bugs of other event loops, each with a test that would have caught it.

Elsewhere: ``accept()`` without free fds (cpython #151615, zuvloop #78), ``tests/net/test_accept.py``;
``Server.wait_closed()`` by version (cpython #104344, uvloop #180), ``tests/net/test_server.py``; Ctrl-C on an idle
loop, with and without handlers (uvloop #295), ``tests/test_signals.py``.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
import threading

import pytest
from peers import Recorder

LIMIT = 30


@pytest.fixture
def sockets():
    opened = []

    def pair(*arguments):
        ends = socket.socketpair(*arguments)
        opened.extend(ends)
        for end in ends:
            end.setblocking(False)
        return ends

    pair.opened = opened
    yield pair
    for sock in opened:
        sock.close()


async def cancelled_after(coroutine, steps):
    """Starts a coroutine and cancels it after ``steps`` iterations: (whether that was in time, the result)."""
    task = asyncio.ensure_future(coroutine)
    for _ in range(steps):
        await asyncio.sleep(0)
    task.cancel()
    try:
        return False, await task
    except asyncio.CancelledError:
        return True, None


@pytest.mark.parametrize("steps", [0, 1, 2, 3])
def test_a_cancelled_receive_can_be_retried_at_once(loop, run, sockets, steps):
    """cpython #74250, #85489: a cancelled ``sock_recv()`` left its reader registered, or lost data."""
    ours, theirs = sockets()

    async def main():
        for round_number in range(5):
            assert (await cancelled_after(loop.sock_recv(ours, 100), steps))[0]
            assert not loop.remove_reader(ours)
            word = b"%d" % round_number
            again = asyncio.ensure_future(loop.sock_recv(ours, 100))
            await asyncio.sleep(0)
            theirs.send(word)
            assert await again == word

    run(main())


@pytest.mark.parametrize("steps", [0, 1, 2, 3])
def test_a_cancelled_send_can_be_retried_at_once(loop, run, sockets, steps):
    """cpython #153761: a cancelled ``sock_sendall()`` left its writer registered."""
    ours, theirs = sockets()

    async def main():
        with contextlib.suppress(BlockingIOError):
            while True:
                ours.send(bytes(1 << 16))
        assert (await cancelled_after(loop.sock_sendall(ours, b"never sent"), steps))[0]
        assert not loop.remove_writer(ours)
        with contextlib.suppress(BlockingIOError):
            while theirs.recv(1 << 18):
                pass
        await loop.sock_sendall(ours, b"sent")
        assert theirs.recv(100) == b"sent"

    run(main())


@pytest.mark.parametrize("steps", [0, 1, 2, 3, 4])
def test_a_cancelled_accept_loses_no_connection(loop, run, sockets, steps):
    """cpython #74250: a cancelled ``sock_accept()`` lost a connection. Here it is cancelled before one arrives."""

    async def main():
        with socket.create_server(("127.0.0.1", 0)) as listening:
            listening.setblocking(False)
            assert (await cancelled_after(loop.sock_accept(listening), steps))[0]
            assert not loop.remove_reader(listening)
            with socket.create_connection(listening.getsockname()) as client:
                accepted, address = await asyncio.wait_for(loop.sock_accept(listening), LIMIT)
                assert address == client.getsockname()
                accepted.close()

    run(main())


@pytest.mark.mainspring_only
@pytest.mark.parametrize("steps", range(6))
def test_an_accept_cancelled_while_the_connection_arrives_does_not_lose_it(loop, run, sockets, steps):
    """cpython #74250, #153761: cancelled in the iterations in which the connection arrives.

    Either the call returns it, or the next one gets it. (On asyncio's own loop it may be lost.)
    """

    async def main():
        with socket.create_server(("127.0.0.1", 0)) as listening:
            listening.setblocking(False)
            accepting = asyncio.ensure_future(loop.sock_accept(listening))
            await asyncio.sleep(0)
            client = socket.create_connection(listening.getsockname())
            with client:
                late, result = await cancelled_after(accepting, steps)
                if late:
                    result = await asyncio.wait_for(loop.sock_accept(listening), LIMIT)
                assert result[1] == client.getsockname()
                result[0].close()

    run(main())


# Processes.

SLEEPS = [sys.executable, "-c", "import time; time.sleep(1000)"]


def no_child_is_left():
    """Whether there is no child, running or zombie. Does not reap children itself."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return True
    return False


@pytest.fixture
def children(loop_kind):
    """Fails a test that leaves a child."""
    if sys.version_info < (3, 12):
        # A watcher with threads or pidfds needs no SIGCHLD handler.
        watcher = asyncio.PidfdChildWatcher() if hasattr(os, "pidfd_open") else asyncio.ThreadedChildWatcher()
        asyncio.set_child_watcher(watcher)
    yield
    if sys.version_info < (3, 12):
        asyncio.set_child_watcher(None)
        asyncio.set_event_loop_policy(None)
    assert no_child_is_left()


@pytest.fixture
def run_child(loop, run, children):
    """Runs a coroutine on a loop that is attached to the child watcher."""
    if sys.version_info < (3, 12):
        asyncio.get_child_watcher().attach_loop(loop)
    return run


def test_a_child_that_does_not_read_does_not_abort_the_process(loop, run_child):
    """uvloop #317: a full pipe to a child's standard input aborted the process."""

    async def main():
        process = await asyncio.create_subprocess_exec(*SLEEPS, stdin=asyncio.subprocess.PIPE)
        process.stdin.write(bytes(4 << 20))
        draining = asyncio.ensure_future(process.stdin.drain())
        for _ in range(5):
            await asyncio.sleep(0)
        assert not draining.done()
        process.kill()
        assert await process.wait() == -signal.SIGKILL
        with contextlib.suppress(ConnectionResetError, BrokenPipeError):
            await draining
        process._transport.close()

    run_child(main())


class Process(asyncio.SubprocessProtocol):
    def __init__(self):
        self.log = []
        self.lost = asyncio.get_running_loop().create_future()

    def process_exited(self):
        self.log.append("process_exited")

    def connection_lost(self, exc):
        self.log.append("connection_lost")
        self.lost.set_result(exc)


@pytest.mark.parametrize("when", ["at once", "later", "exited"])
def test_a_closed_subprocess_transport_calls_connection_lost_and_leaves_no_zombie(loop, run_child, when):
    """uvloop #128: ``close()`` was not followed by ``connection_lost()``, and the child stayed a zombie."""

    async def main():
        command = ["/bin/true"] if when == "exited" else SLEEPS
        transport, protocol = await loop.subprocess_exec(Process, *command)
        if when == "exited":
            while transport.get_returncode() is None:
                await asyncio.sleep(0.001)
        elif when == "later":
            for _ in range(5):
                await asyncio.sleep(0)
        transport.close()
        assert await asyncio.wait_for(protocol.lost, LIMIT) is None
        assert protocol.log == ["process_exited", "connection_lost"]
        assert transport.get_returncode() == (0 if when == "exited" else -signal.SIGKILL)

    run_child(main())


@pytest.mark.parametrize("steps", range(10))
def test_a_spawn_can_be_cancelled_at_any_point(loop, run_child, steps):
    """uvloop #118: cancelling during the spawn blocked the loop."""

    async def main():
        spawning = asyncio.ensure_future(
            asyncio.create_subprocess_exec(
                *SLEEPS, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
            )
        )
        for _ in range(steps):
            await asyncio.sleep(0)
        spawning.cancel()
        try:
            process = await spawning
        except asyncio.CancelledError:
            pass
        else:
            process.kill()
            await process.wait()
            process._transport.close()
        # The loop still works.
        process = await asyncio.create_subprocess_exec("/bin/true")
        assert await process.wait() == 0

    run_child(main())
    # A child whose spawn was cancelled is killed and reaped in the background.
    for _ in range(1000):
        if no_child_is_left():
            return
        loop.run_until_complete(asyncio.sleep(0.01))


SPAWNS_IN_THREADS = """
import asyncio, os, sys, threading

forks = []
os.register_at_fork(before=lambda: forks.append("before"), after_in_parent=lambda: forks.append("parent"))
if sys.version_info < (3, 12):
    asyncio.set_child_watcher(asyncio.ThreadedChildWatcher())
failures = []

async def main():
    for _ in range(5):
        process = await asyncio.create_subprocess_exec(
            "/bin/cat", stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
        )
        out, _ = await process.communicate(b"through the child")
        assert (out, process.returncode) == (b"through the child", 0), (out, process.returncode)

def body():
    loop = new_loop()
    try:
        loop.run_until_complete(asyncio.wait_for(main(), 30))
    except BaseException as error:
        failures.append(repr(error))
    finally:
        loop.close()

threads = [threading.Thread(target=body) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
try:
    os.waitpid(-1, os.WNOHANG)
    failures.append("a child is left")
except ChildProcessError:
    pass
print(failures, forks)
"""


def test_several_threads_spawn_without_running_fork_hooks(run_python):
    """uvloop #508, #749: spawning from several threads, and hooks of ``os.register_at_fork()`` run for a subprocess."""
    done = run_python(SPAWNS_IN_THREADS)
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "[] []", "")


# Several loops.


class LoopThread(threading.Thread):
    """Runs a coroutine on a loop in a new thread."""

    def __init__(self, loop, coroutine):
        super().__init__(daemon=True)
        self.loop, self.coroutine = loop, coroutine
        self.result = None
        self.start()

    def run(self):
        self.result = self.loop.run_until_complete(asyncio.wait_for(self.coroutine, LIMIT))


async def use_every_kind_of_call(loop, sockets):
    """Calls, timers, calls from a thread, I/O through transports and readers, new tasks."""
    for _ in range(200):
        await asyncio.sleep(0)
    await asyncio.sleep(0.001)
    await loop.run_in_executor(None, lambda: None)
    ours, theirs = sockets()
    transport, protocol = await loop.create_connection(Recorder, sock=ours)
    for _ in range(50):
        theirs.send(b"ping")
        await protocol.until(lambda: len(protocol.received) % 4 == 0)
    transport.write(b"pong")
    transport.close()
    await protocol.until_lost()
    assert theirs.recv(100) == b"pong"
    other = loop.create_future()
    left, right = sockets()
    loop.add_reader(left, lambda: other.done() or other.set_result(None))
    right.send(b"x")
    await other
    loop.remove_reader(left)
    await loop.shutdown_default_executor()
    return "done"


def test_a_blocked_loop_blocks_no_other(loop_factory, sockets):
    """zuvloop #132: a process-wide lock made four loops slower than one.

    Independent of timing: one loop blocks in a callback, another sleeps in the kernel, a third blocks in a reader
    callback, while a fourth uses every kind of call. A process-wide lock held by a running or sleeping loop would
    block the fourth.
    """
    stuck, asleep, reading, free = (loop_factory() for _ in range(4))
    release, standing, in_reader = threading.Event(), threading.Event(), threading.Event()

    async def stand_still():
        standing.set()
        release.wait(LIMIT)

    async def sleep():
        await asyncio.get_running_loop().create_future()

    async def stand_still_in_a_reader():
        left, right = sockets()
        done = reading.create_future()

        def readable():
            in_reader.set()
            release.wait(LIMIT)
            reading.remove_reader(left)
            done.set_result(None)

        reading.add_reader(left, readable)
        right.send(b"x")
        await done

    sleeping = asleep.create_task(sleep())
    sleeping.add_done_callback(lambda _: asleep.stop())
    others = [
        LoopThread(stuck, stand_still()),
        LoopThread(reading, stand_still_in_a_reader()),
        threading.Thread(target=asleep.run_forever),
    ]
    others[2].start()
    try:
        assert standing.wait(LIMIT) and in_reader.wait(LIMIT)
        working = LoopThread(free, use_every_kind_of_call(free, sockets))
        working.join(LIMIT)
        assert working.result == "done"
    finally:
        release.set()
        asleep.call_soon_threadsafe(sleeping.cancel)
        for other in others:
            other.join(LIMIT)
