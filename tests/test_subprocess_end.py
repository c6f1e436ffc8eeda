"""The exit of child processes: how it is reported, how it is caused, and that none is leaked."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import subprocess
import sys
import threading

import pytest
from children import PIPE, Recorder, is_there, shell

pytestmark = pytest.mark.usefixtures("no_zombies")

# Timeout in seconds.
LIMIT = 30


@pytest.mark.parametrize("how", ["terminate", "kill", "send_signal"])
def test_signals_reach_the_child_until_it_exits(run, how):
    async def main():
        child = await asyncio.create_subprocess_exec("cat", stdin=PIPE)
        arguments = (signal.SIGHUP,) if how == "send_signal" else ()
        getattr(child, how)(*arguments)
        expected = {"terminate": signal.SIGTERM, "kill": signal.SIGKILL, "send_signal": signal.SIGHUP}[how]
        assert await child.wait() == -expected
        child._transport.close()
        await asyncio.sleep(0)
        # Ignored while the transport is ending, an error afterwards.
        with contextlib.suppress(ProcessLookupError):
            getattr(child, how)(*arguments)

    run(main())


def test_signals_while_the_child_exits_lose_nothing(run):
    async def main():
        for _ in range(20):
            child = await asyncio.create_subprocess_exec(*shell("exit 3"))
            with contextlib.suppress(ProcessLookupError):
                for _ in range(50):
                    # In some Python versions Popen itself may notice the exit and reap the child.
                    child.send_signal(0)
                    await asyncio.sleep(0)
            assert await child.wait() in (3, 255)

    logging.getLogger("asyncio").disabled = True  # asyncio itself loses some, and logs that
    try:
        run(main())
    finally:
        logging.getLogger("asyncio").disabled = False


@pytest.mark.mainspring_only
def test_a_child_reaped_by_popen_keeps_its_status(run, caplog, loop_kind):
    async def main():
        child = await asyncio.create_subprocess_exec(*shell("exit 3"))
        popen = child._transport.get_extra_info("subprocess")
        popen.wait()
        assert await child.wait() == 3

    run(main())
    assert not caplog.records


@pytest.mark.mainspring_only  # asyncio's too, unless it waits for the child in a thread
def test_a_child_reaped_elsewhere_has_an_unknown_status_and_logs_a_warning(run, caplog, loop_kind):
    async def main():
        child = await asyncio.create_subprocess_exec(*shell("read x; exit 3"), stdin=PIPE)
        child.stdin.write(b"\n")
        os.waitpid(child.pid, 0)
        assert await child.wait() == 255

    run(main())
    assert "Unknown child process" in caplog.text


def test_children_started_elsewhere_are_not_reaped(run):
    async def main():
        theirs = subprocess.Popen(shell("exit 5"))
        for _ in range(5):
            child = await asyncio.create_subprocess_exec("true")
            assert await child.wait() == 0
        assert theirs.wait(LIMIT) == 5

    run(main())


def test_sigchld_stays_available_to_the_program(run, loop):
    async def main():
        seen = asyncio.Event()
        loop.add_signal_handler(signal.SIGCHLD, seen.set)
        child = await asyncio.create_subprocess_exec(*shell("exit 4"))
        assert await child.wait() == 4
        await seen.wait()
        loop.remove_signal_handler(signal.SIGCHLD)
        # Also without a handler.
        former = signal.signal(signal.SIGCHLD, lambda *_: None)
        try:
            child = await asyncio.create_subprocess_exec(*shell("exit 6"))
            assert await child.wait() == 6
        finally:
            signal.signal(signal.SIGCHLD, former)

    run(main())


@pytest.mark.mainspring_only  # asyncio fails if the child exits before the watcher starts
def test_with_sigchld_ignored_the_exit_is_reported_without_a_status(run, loop_kind):
    async def main():
        former = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        try:
            child = await asyncio.create_subprocess_exec(*shell("exit 4"))
            assert await child.wait() in (255, 0)
        finally:
            signal.signal(signal.SIGCHLD, former)

    run(main())


def test_closing_the_transport_kills_the_child_and_calls_back_in_order(run, loop):
    async def main():
        transport, protocol = await loop.subprocess_exec(Recorder, "sleep", "1000")
        pid = transport.get_pid()
        transport.close()
        transport.close()
        assert transport.is_closing()
        await protocol.ended
        assert transport.get_returncode() == -signal.SIGKILL
        assert protocol.log[-1] == "connection_lost"
        assert not is_there(pid)

    run(main())


def test_a_pipe_held_open_by_a_grandchild_does_not_hide_the_childs_exit(run, loop):
    async def main():
        # The shell exits; sleep keeps the shell's standard output open.
        transport, protocol = await loop.subprocess_exec(
            Recorder, *shell("sleep 1000 & echo $!"), stdin=None, stderr=None
        )
        while not protocol.data[1].endswith(b"\n"):
            await asyncio.sleep(0)
        while "process_exited" not in protocol.log:
            await asyncio.sleep(0)
        assert "connection_lost" not in protocol.log
        os.kill(int(protocol.data[1]), signal.SIGKILL)
        await protocol.ended
        transport.close()

    run(main())


def test_cancelling_the_start_at_any_point_leaks_no_child_and_no_fd(run):
    async def main():
        for iterations in range(12):
            task = asyncio.ensure_future(
                asyncio.create_subprocess_exec("sleep", "1000", stdin=PIPE, stdout=PIPE, stderr=PIPE)
            )
            for _ in range(iterations):
                await asyncio.sleep(0)
            task.cancel()
            try:
                child = await task
            except asyncio.CancelledError:
                continue
            child.kill()
            await child.communicate()

    run(main())


# asyncio may drop the child before it has seen its exit; Popen then warns.
@pytest.mark.mainspring_only
def test_cancelling_the_start_twice_leaks_no_child(run):
    async def main():
        for iterations in range(1, 6):
            before = children()
            task = asyncio.ensure_future(
                asyncio.create_subprocess_exec("sleep", "1000", stdin=PIPE, stdout=PIPE)
            )
            for _ in range(iterations):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.sleep(0)
            task.cancel()
            try:
                child = await task
            except asyncio.CancelledError:
                while children() != before:
                    await asyncio.sleep(0)
            else:
                child.kill()
                await child.communicate()
        # The pipes of starts that were cancelled twice are closed in the background.
        for _ in range(10):
            await asyncio.sleep(0)

    run(main())


def children():
    with open(f"/proc/self/task/{threading.get_native_id()}/children") as file:
        return file.read()


@pytest.mark.mainspring_only
def test_a_killed_child_is_reaped_although_the_loop_closes(loop):
    async def main():
        transport, _ = await loop.subprocess_exec(Recorder, "sleep", "1000")
        transport.close()
        return transport.get_pid()

    pid = loop.run_until_complete(main())
    loop.close()
    assert not is_there(pid)


@pytest.mark.mainspring_only
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_transport_that_outlives_its_loop_kills_its_child(loop):
    async def main():
        return await loop.subprocess_exec(Recorder, "sleep", "1000")

    transport, protocol = loop.run_until_complete(main())
    pid = transport.get_pid()
    loop.close()
    assert is_there(pid)
    transport.close()
    assert not is_there(pid)
    assert transport.get_extra_info("subprocess").returncode == -signal.SIGKILL


@pytest.mark.mainspring_only
@pytest.mark.parametrize("way", ["pidfd", "pipes"])
def test_a_child_whose_setup_fails_is_not_leaked(run, loop, monkeypatch, way):
    from mainspring import _mainspring, _processes

    started = []
    if way == "pidfd":

        def refuse(pid):
            started.append(pid)
            raise OSError(24, "Too many open files")

        monkeypatch.setattr(_mainspring, "ChildWatch", refuse)
    else:

        def refuse(self):
            started.append(self._proc.pid)
            loop._make_write_pipe_transport(self._proc.stdin, asyncio.BaseProtocol()).close()
            raise OSError(24, "Too many open files")

        monkeypatch.setattr(_processes.SubprocessTransport, "_open_pipes", refuse)

    async def main():
        with pytest.raises(OSError, match="Too many"):
            await asyncio.create_subprocess_exec("sleep", "1000", stdin=PIPE, stdout=PIPE)
        assert not is_there(started[0])
        for _ in range(3):
            await asyncio.sleep(0)

    run(main())


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="this Python has no child watchers")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_child_watcher_set_by_the_program_is_used(run, loop):
    class Watcher(asyncio.ThreadedChildWatcher):
        def add_child_handler(self, pid, callback, *args):
            pids.append(pid)
            super().add_child_handler(pid, callback, *args)

    pids = []

    async def main():
        asyncio.set_child_watcher(Watcher())
        try:
            child = await asyncio.create_subprocess_exec(*shell("exit 3"))
            assert await child.wait() == 3
            assert pids == [child.pid]
        finally:
            asyncio.set_child_watcher(None)

    run(main())
