"""Child processes: starting them, talking to them, and seeing their end, whatever else goes on in the process."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import signal
import subprocess
import sys
import threading

import pytest

PIPE = asyncio.subprocess.PIPE
# Seconds after which a wait has failed.
LIMIT = 30


class Recorder(asyncio.SubprocessProtocol):
    """Writes down what it is told."""

    def __init__(self):
        self.log = []
        self.data = {1: bytearray(), 2: bytearray()}
        self.ended = asyncio.get_running_loop().create_future()

    def connection_made(self, transport):
        self.log.append("connection_made")

    def pipe_data_received(self, fd, data):
        self.data[fd] += data
        if ("pipe_data_received", fd) not in self.log:
            self.log.append(("pipe_data_received", fd))

    def pipe_connection_lost(self, fd, exc):
        self.log.append(("pipe_connection_lost", fd))

    def process_exited(self):
        self.log.append("process_exited")

    def connection_lost(self, exc):
        self.log.append("connection_lost")
        self.ended.set_result(exc)


@pytest.fixture(autouse=True)
def no_zombies(request):
    """No test leaves a child behind, alive or not."""
    yield
    gc.collect()
    with contextlib.suppress(ChildProcessError):
        pid, status = os.waitpid(-1, os.WNOHANG)
        pytest.fail(f"a child is left: {(pid, status)}")


def is_there(pid):
    """Whether there is such a child, be it a zombie."""
    try:
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


async def until_gone(pid):
    while is_there(pid):
        await asyncio.sleep(0)


def shell(text):
    return ("/bin/sh", "-c", text)


def test_a_child_is_fed_read_and_waited_for(run):
    async def main():
        child = await asyncio.create_subprocess_exec("cat", stdin=PIPE, stdout=PIPE)
        data = bytes(range(256)) * 4096
        assert await child.communicate(data) == (data, None)
        assert child.returncode == 0
        child = await asyncio.create_subprocess_shell(
            "echo out; echo err >&2; exit 7", stdout=PIPE, stderr=PIPE
        )
        assert await child.communicate() == (b"out\n", b"err\n")
        assert await child.wait() == 7

    run(main())


def test_the_protocol_is_told_in_order(run, loop):
    async def main():
        transport, protocol = await loop.subprocess_exec(Recorder, *shell("echo a; echo b >&2"))
        assert protocol.log[0] == "connection_made"
        await protocol.ended
        log = protocol.log
        assert sorted(map(str, log)) == sorted(
            map(
                str,
                [
                    "connection_made",
                    ("pipe_data_received", 1),
                    ("pipe_data_received", 2),
                    ("pipe_connection_lost", 0),
                    ("pipe_connection_lost", 1),
                    ("pipe_connection_lost", 2),
                    "process_exited",
                    "connection_lost",
                ],
            )
        )
        assert log[-1] == "connection_lost"
        for fd in (1, 2):
            assert log.index(("pipe_data_received", fd)) < log.index(("pipe_connection_lost", fd))
        assert transport.get_returncode() == 0
        transport.close()

    run(main())


def test_a_child_that_ends_at_once_is_told_after_connection_made(run, loop):
    async def main():
        for _ in range(20):
            transport, protocol = await loop.subprocess_exec(Recorder, "true")
            await protocol.ended
            assert protocol.log[0] == "connection_made" and protocol.log[-1] == "connection_lost"
            transport.close()

    run(main())


def test_the_transport_tells_of_its_child(run, loop):
    async def main():
        transport, protocol = await loop.subprocess_exec(Recorder, "cat", stderr=None)
        assert isinstance(transport, asyncio.SubprocessTransport)
        popen = transport.get_extra_info("subprocess")
        assert transport.get_pid() == popen.pid
        assert transport.get_returncode() is None
        assert isinstance(transport.get_pipe_transport(0), asyncio.WriteTransport)
        assert isinstance(transport.get_pipe_transport(1), asyncio.ReadTransport)
        assert transport.get_pipe_transport(2) is None
        assert f"pid={popen.pid} running" in repr(transport)
        transport.get_pipe_transport(0).close()
        await protocol.ended
        assert popen.returncode == 0
        assert "returncode=0" in repr(transport)
        transport.close()
        assert transport.is_closing()

    run(main())


@pytest.mark.parametrize("how", ["terminate", "kill", "send_signal"])
def test_signals_reach_the_child_and_none_after_its_end(run, how):
    async def main():
        child = await asyncio.create_subprocess_exec("cat", stdin=PIPE)
        arguments = (signal.SIGHUP,) if how == "send_signal" else ()
        getattr(child, how)(*arguments)
        expected = {"terminate": signal.SIGTERM, "kill": signal.SIGKILL, "send_signal": signal.SIGHUP}[how]
        assert await child.wait() == -expected
        child._transport.close()
        await asyncio.sleep(0)
        # Silent while the transport is ending, an error after.
        with contextlib.suppress(ProcessLookupError):
            getattr(child, how)(*arguments)

    run(main())


def test_signals_during_the_childs_end_lose_nothing(run):
    async def main():
        for _ in range(20):
            child = await asyncio.create_subprocess_exec(*shell("exit 3"))
            with contextlib.suppress(ProcessLookupError):
                for _ in range(50):
                    # Popen itself may find the child ended, and wait for it, in some versions of Python.
                    child.send_signal(0)
                    await asyncio.sleep(0)
            assert await child.wait() in (3, 255)

    logging.getLogger("asyncio").disabled = True  # asyncio itself loses some, and says so
    try:
        run(main())
    finally:
        logging.getLogger("asyncio").disabled = False


@pytest.mark.mainspring_only
def test_a_child_that_popen_has_waited_for_has_its_own_status(run, caplog, loop_kind):
    async def main():
        child = await asyncio.create_subprocess_exec(*shell("exit 3"))
        popen = child._transport.get_extra_info("subprocess")
        popen.wait()
        assert await child.wait() == 3

    run(main())
    assert not caplog.records


@pytest.mark.mainspring_only  # asyncio's, too, where it does not wait for the child in a thread
def test_a_child_somebody_else_has_waited_for_is_unknown_and_warned_of(run, caplog, loop_kind):
    async def main():
        child = await asyncio.create_subprocess_exec(*shell("read x; exit 3"), stdin=PIPE)
        child.stdin.write(b"\n")
        os.waitpid(child.pid, 0)
        assert await child.wait() == 255

    run(main())
    assert "Unknown child process" in caplog.text


def test_children_of_others_are_left_to_them(run):
    async def main():
        theirs = subprocess.Popen(shell("exit 5"))
        for _ in range(5):
            child = await asyncio.create_subprocess_exec("true")
            assert await child.wait() == 0
        assert theirs.wait(LIMIT) == 5

    run(main())


def test_sigchld_is_the_programs_own(run, loop):
    async def main():
        seen = asyncio.Event()
        loop.add_signal_handler(signal.SIGCHLD, seen.set)
        child = await asyncio.create_subprocess_exec(*shell("exit 4"))
        assert await child.wait() == 4
        await seen.wait()
        loop.remove_signal_handler(signal.SIGCHLD)
        # Also where nobody hears it.
        former = signal.signal(signal.SIGCHLD, lambda *_: None)
        try:
            child = await asyncio.create_subprocess_exec(*shell("exit 6"))
            assert await child.wait() == 6
        finally:
            signal.signal(signal.SIGCHLD, former)

    run(main())


@pytest.mark.mainspring_only  # asyncio fails if the child is gone before it is watched
def test_a_process_that_ignores_its_children_hears_of_their_end_without_a_status(run, loop_kind):
    async def main():
        former = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        try:
            child = await asyncio.create_subprocess_exec(*shell("exit 4"))
            assert await child.wait() in (255, 0)
        finally:
            signal.signal(signal.SIGCHLD, former)

    run(main())


def test_closing_the_transport_kills_the_child_and_ends_in_order(run, loop):
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


def test_a_child_that_does_not_read_holds_nobody_up(run):
    async def main():
        child = await asyncio.create_subprocess_exec("sleep", "1000", stdin=PIPE)
        child.stdin.write(bytes(1 << 20))
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(child.stdin.drain(), 0.01)
        child.stdin.write(bytes(1 << 20))
        child.kill()
        assert await child.wait() == -signal.SIGKILL
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            await child.stdin.drain()
        child._transport.close()
        await asyncio.sleep(0)

    run(main())


def test_an_end_of_stdin_that_a_grandchild_holds_does_not_hide_the_childs_end(run, loop):
    async def main():
        # The shell ends; the sleeper keeps the shell's standard output.
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


def test_giving_up_at_any_moment_of_the_start_leaves_no_child_and_no_descriptor(run):
    async def main():
        for passes in range(12):
            task = asyncio.ensure_future(
                asyncio.create_subprocess_exec("sleep", "1000", stdin=PIPE, stdout=PIPE, stderr=PIPE)
            )
            for _ in range(passes):
                await asyncio.sleep(0)
            task.cancel()
            try:
                child = await task
            except asyncio.CancelledError:
                continue
            child.kill()
            await child.communicate()

    run(main())


def test_giving_up_twice_leaves_no_child_either(run):
    async def main():
        for passes in range(1, 6):
            before = children()
            task = asyncio.ensure_future(
                asyncio.create_subprocess_exec("sleep", "1000", stdin=PIPE, stdout=PIPE)
            )
            for _ in range(passes):
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
        # The pipes of those that were given up twice end in the background.
        for _ in range(10):
            await asyncio.sleep(0)

    run(main())


def children():
    with open(f"/proc/self/task/{threading.get_native_id()}/children") as file:
        return file.read()


def test_a_program_that_is_not_there_is_an_error_and_nothing_else(run):
    async def main():
        with pytest.raises(FileNotFoundError):
            await asyncio.create_subprocess_exec("/nowhere/nothing", stdin=PIPE, stdout=PIPE, stderr=PIPE)
        with pytest.raises(PermissionError):
            await asyncio.create_subprocess_exec("/", stdin=PIPE)
        with pytest.raises(ValueError, match="bufsize"):
            await asyncio.create_subprocess_exec("true", bufsize=1)

    run(main())


def test_popen_is_looked_up_when_it_is_used(run, monkeypatch):
    def refuse(*arguments, **options):
        raise ZeroDivisionError

    monkeypatch.setattr(subprocess, "Popen", refuse)

    async def main():
        with pytest.raises(ZeroDivisionError):
            await asyncio.create_subprocess_exec("true", stdin=PIPE)

    run(main())


def test_the_options_of_popen_reach_it(run, tmp_path):
    read_end, write_end = os.pipe()

    async def main():
        child = await asyncio.create_subprocess_exec(
            *shell(
                f"pwd; echo $KEY; umask; cut -d' ' -f1,5 /proc/$$/stat; echo passed > /proc/self/fd/{write_end}"
            ),
            stdout=PIPE,
            cwd=tmp_path,
            env={"KEY": "value", "PATH": os.environ["PATH"]},
            umask=0o027,
            start_new_session=True,
            pass_fds=(write_end,),
        )
        out, _ = await child.communicate()
        where, value, umask, ids = out.decode().splitlines()
        assert (where, value, int(umask, 8)) == (str(tmp_path), "value", 0o027)
        group, pid = ids.split()
        assert group == pid == str(child.pid)
        assert os.read(read_end, 100) == b"passed\n"

    try:
        run(main())
    finally:
        os.close(read_end)
        os.close(write_end)


def test_preexec_fn_runs_in_the_child(run):
    async def main():
        child = await asyncio.create_subprocess_exec(
            *shell("echo $PPID"), stdout=PIPE, preexec_fn=lambda: os.write(1, b"before\n")
        )
        out, _ = await child.communicate()
        assert out == b"before\n%d\n" % os.getpid()

    run(main())


def test_a_failing_preexec_fn_is_an_error_of_the_start(run):
    def fail():
        raise ZeroDivisionError

    async def main():
        with pytest.raises(subprocess.SubprocessError):
            await asyncio.create_subprocess_exec("true", preexec_fn=fail, stdin=PIPE)

    run(main())


def test_at_fork_hooks_run_when_subprocess_runs_them(run_python):
    done = run_python("""
import asyncio, os, sys
os.register_at_fork(before=lambda: print("before", flush=True))
async def main():
    await (await asyncio.create_subprocess_exec("true")).wait()
    print("started", flush=True)
    await (await asyncio.create_subprocess_exec("true", preexec_fn=int)).wait()
loop = new_loop()
loop.run_until_complete(main())
loop.close()
""")
    assert (done.stdout, done.stderr) == ("started\nbefore\n", "")


def test_children_are_started_and_watched_from_several_threads(loop_factory):
    results = []

    def work():
        async def main():
            for number in range(5):
                child = await asyncio.create_subprocess_exec(
                    *shell(f"cat; exit {number}"), stdin=PIPE, stdout=PIPE
                )
                assert await child.communicate(b"abc") == (b"abc", None)
                results.append(child.returncode)

        loop = loop_factory()
        loop.run_until_complete(main())

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT)
    assert sorted(results) == sorted([*range(5)] * 4)


def test_many_children_at_once(run):
    async def one(number):
        child = await asyncio.create_subprocess_exec(*shell(f"read x; exit {number}"), stdin=PIPE)
        await child.communicate(b"\n")
        return child.returncode

    async def main():
        assert await asyncio.gather(*map(one, range(50))) == [*range(50)]

    run(main())


@pytest.mark.mainspring_only
def test_no_child_is_left_when_the_loop_closes_after_it_was_killed(loop):
    async def main():
        transport, _ = await loop.subprocess_exec(Recorder, "sleep", "1000")
        transport.close()
        return transport.get_pid()

    pid = loop.run_until_complete(main())
    loop.close()
    assert not is_there(pid)


@pytest.mark.mainspring_only
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_transport_that_outlives_its_loop_kills_its_child_quietly(loop):
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
def test_a_child_that_cannot_be_served_is_not_left_behind(run, loop, monkeypatch, way):
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


def test_stdin_is_not_inherited_by_other_children(run):
    async def main():
        first = await asyncio.create_subprocess_exec("cat", stdin=PIPE, stdout=PIPE)
        second = await asyncio.create_subprocess_exec("sleep", "1000", close_fds=False)
        # Were its end of the first one's input open in the second, this would never end.
        assert await first.communicate(b"x") == (b"x", None)
        second.kill()
        await second.wait()

    run(main())


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="there are no child watchers any more")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_child_watcher_that_the_program_has_set_is_used(run, loop):
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
