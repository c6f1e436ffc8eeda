"""Child processes: starting them and exchanging data with them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import threading

import pytest
from children import PIPE, Recorder, shell

pytestmark = pytest.mark.usefixtures("no_zombies")

# Timeout in seconds.
LIMIT = 30


def test_a_child_can_be_written_to_read_from_and_waited_for(run):
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


def test_protocol_callbacks_come_in_order(run, loop):
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


def test_process_exited_of_a_short_lived_child_comes_after_connection_made(run, loop):
    async def main():
        for _ in range(20):
            transport, protocol = await loop.subprocess_exec(Recorder, "true")
            await protocol.ended
            assert protocol.log[0] == "connection_made" and protocol.log[-1] == "connection_lost"
            transport.close()

    run(main())


def test_the_transport_describes_its_child(run, loop):
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


def test_a_child_that_does_not_read_does_not_block_the_loop(run):
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


def test_starting_a_missing_program_raises_and_leaks_nothing(run):
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


def test_popen_options_are_passed_on(run, tmp_path):
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


def test_a_failing_preexec_fn_fails_the_start(run):
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


def test_stdin_is_not_inherited_by_other_children(run):
    async def main():
        first = await asyncio.create_subprocess_exec("cat", stdin=PIPE, stdout=PIPE)
        second = await asyncio.create_subprocess_exec("sleep", "1000", close_fds=False)
        # If the second child inherited the first one's stdin pipe, this would never end.
        assert await first.communicate(b"x") == (b"x", None)
        second.kill()
        await second.wait()

    run(main())
