"""Features of the standard library that use a loop: runners, test cases, and remote inspection of tasks."""

from __future__ import annotations

import asyncio
import contextvars
import os
import re
import signal
import subprocess
import sys

import pytest

LIMIT = 30

since = {
    version: pytest.mark.skipif(sys.version_info < version, reason="asyncio of this Python does not have it")
    for version in [(3, 11), (3, 12), (3, 13), (3, 14)]
}


@since[3, 11]
def test_a_runner_keeps_its_loop_and_its_context(loop_factory):
    value = contextvars.ContextVar("value", default=0)

    async def count():
        value.set(value.get() + 1)
        return value.get(), asyncio.get_running_loop()

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        first, loop = runner.run(count())
        second, same = runner.run(count())
        assert (first, second) == (1, 2)
        assert loop is same is runner.get_loop()
    assert loop.is_closed()


@since[3, 11]
def test_a_runner_cancels_remaining_tasks_and_closes_generators(loop_factory):
    ended = []

    async def numbers():
        try:
            yield 1
            yield 2
        finally:
            await asyncio.sleep(0)
            ended.append("generator")

    async def linger():
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            ended.append("task")

    async def main():
        main.kept = numbers()
        await main.kept.__anext__()
        main.task = asyncio.create_task(linger())
        await asyncio.sleep(0)
        assert await asyncio.to_thread(sum, range(5)) == 10

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(main())
    assert ended == ["task", "generator"]
    assert main.task.cancelled()


@since[3, 11]
def test_a_runner_turns_an_interrupt_into_a_cancellation(loop_factory):
    ended = []

    async def main():
        try:
            signal.raise_signal(signal.SIGINT)
            await asyncio.get_running_loop().create_future()
        finally:
            ended.append("cleaned up")

    with asyncio.Runner(loop_factory=loop_factory) as runner, pytest.raises(KeyboardInterrupt):
        runner.run(main())
    assert ended == ["cleaned up"]


@since[3, 12]
def test_run_takes_a_loop_factory(loop_factory):
    made = []

    def factory():
        made.append(loop_factory())
        return made[0]

    async def main():
        return asyncio.get_running_loop()

    assert asyncio.run(main(), loop_factory=factory) is made[0]
    assert made[0].is_closed()


def test_asynchronous_test_cases_run_on_the_loop(run_python, loop_kind):
    program = """
        import asyncio, sys, unittest
        import mainspring

        if sys.version_info < (3, 13) and new_loop is mainspring.new_event_loop:
            mainspring.install()

        class Case(unittest.IsolatedAsyncioTestCase):
            loop_factory = staticmethod(new_loop)

            async def asyncSetUp(self):
                self.loop = asyncio.get_running_loop()
                self.addAsyncCleanup(self.note, "cleanup")

            async def note(self, what):
                await asyncio.sleep(0)
                assert asyncio.get_running_loop() is self.loop
                print(what, type(self.loop).__module__)

            async def test_passes(self):
                await self.note("test")

            async def test_fails(self):
                self.fail("as it should")

            async def asyncTearDown(self):
                await self.note("teardown")

        unittest.main()
    """
    done = run_python(program)
    assert re.findall(r"^(\w+) (asyncio|mainspring)", done.stdout, re.MULTILINE) == [
        (what, loop_kind) for what in ("teardown", "cleanup", "test", "teardown", "cleanup")
    ]
    assert "Ran 2 tests" in done.stderr and "FAILED (failures=1)" in done.stderr


@pytest.fixture
def waiting_process(write_program):
    """A process with tasks that wait for each other. It allows other processes of its user to inspect it."""
    program = """
        import asyncio, ctypes

        PR_SET_PTRACER, ANYBODY = 0x59616D61, ctypes.c_ulong(-1)
        ctypes.CDLL(None).prctl(PR_SET_PTRACER, ANYBODY, 0, 0, 0)

        async def waits_for_ever():
            print("ready", flush=True)
            await asyncio.get_running_loop().create_future()

        async def waits_for_the_other():
            async with asyncio.TaskGroup() as group:
                group.create_task(waits_for_ever(), name="inner")

        async def main():
            await asyncio.create_task(waits_for_the_other(), name="outer")

        asyncio.run(main(), loop_factory=new_loop)
    """
    process = subprocess.Popen([sys.executable, write_program(program)], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "ready\n"
        yield process.pid
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def look(command, pid):
    done = subprocess.run(
        [sys.executable, "-m", "asyncio", command, str(pid)], capture_output=True, text=True, timeout=LIMIT
    )
    if "permission" in (done.stdout + done.stderr).lower() and os.getuid() != 0:
        pytest.skip("this user may not read another process's memory")
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@since[3, 14]
def test_its_tasks_can_be_listed_by_another_process(waiting_process):
    listed = look("ps", waiting_process)
    for words in ("outer", "inner", "waits_for_ever", "waits_for_the_other"):
        assert words in listed


@since[3, 14]
def test_its_tasks_can_be_drawn_by_another_process(waiting_process):
    tree = look("pstree", waiting_process)
    assert tree.index("outer") < tree.index("inner") < tree.index("waits_for_ever")
