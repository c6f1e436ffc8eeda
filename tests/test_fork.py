"""``os.fork()`` in a process with loops: nothing the child does with its copies affects the parent."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import sys

import pytest

import mainspring

pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")


def in_child(work):
    """Runs ``work()`` in a forked child and returns its exit status. Failures are printed to standard error."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            status = work() or 0
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


async def pipe_and_thread_round_trip():
    """Receives data through a pipe, and lets a thread wake the loop."""
    loop = asyncio.get_running_loop()
    read_end, write_end = os.pipe()
    arrived = loop.create_future()
    loop.add_reader(read_end, lambda: arrived.done() or arrived.set_result(os.read(read_end, 1)))
    os.write(write_end, b"x")
    assert await arrived == b"x"
    loop.remove_reader(read_end)
    os.close(read_end)
    os.close(write_end)
    await loop.run_in_executor(None, int)


class RegisteredPipe:
    """A pipe that is registered with a loop before the fork."""

    def __init__(self, loop):
        self.loop = loop
        self.read_end, self.write_end = os.pipe()
        self.calls = 0
        loop.add_reader(self.read_end, self.called)

    def called(self):
        os.read(self.read_end, 1)
        self.calls += 1
        self.loop.stop()

    def check(self):
        """Checks that the loop still reports readiness of the pipe."""
        calls = self.calls
        os.write(self.write_end, b"x")
        self.loop.call_later(20, self.loop.stop)
        self.loop.run_forever()
        assert self.calls == calls + 1

    def close(self):
        if not self.loop.is_closed():
            self.loop.remove_reader(self.read_end)
        os.close(self.read_end)
        os.close(self.write_end)


@pytest.fixture
def registered_pipe(loop):
    registered_pipe = RegisteredPipe(loop)
    yield registered_pipe
    registered_pipe.close()


@pytest.mark.mainspring_only
def test_a_child_that_closes_its_copy_does_not_affect_the_parents_loop(loop, registered_pipe):
    assert in_child(loop.close) == 0
    registered_pipe.check()


@pytest.mark.mainspring_only
def test_a_child_that_removes_a_reader_does_not_affect_the_parents_loop(loop, registered_pipe):
    assert in_child(lambda: loop.remove_reader(registered_pipe.read_end) is not True) == 0
    registered_pipe.check()


@pytest.mark.mainspring_only
def test_a_child_that_adds_a_reader_does_not_affect_the_parents_loop(loop, registered_pipe, run_iteration):
    read_end, write_end = os.pipe()
    os.write(write_end, b"x")

    def work():
        loop.add_reader(read_end, print)

    assert in_child(work) == 0
    # If the fd were in the parent's epoll set, every poll would report an unknown event.
    counts = loop._counts()
    run_iteration()
    assert loop._counts() == counts
    registered_pipe.check()
    os.close(read_end)
    os.close(write_end)


def test_a_child_may_run_its_copy_of_a_loop_that_was_not_running(loop, registered_pipe):
    assert in_child(lambda: loop.run_until_complete(pipe_and_thread_round_trip())) == 0
    registered_pipe.check()


@pytest.mark.mainspring_only
def test_a_childs_copy_keeps_its_readers(loop, registered_pipe):
    assert in_child(registered_pipe.check) == 0
    registered_pipe.check()


def test_a_child_may_create_its_own_loop(loop, loop_factory, registered_pipe):
    assert in_child(lambda: loop_factory().run_until_complete(pipe_and_thread_round_trip())) == 0
    registered_pipe.check()


def test_a_child_forked_inside_a_running_loop_may_run_another_loop(loop, loop_factory):
    async def main():
        assert (
            in_child(lambda: asyncio.Runner(loop_factory=loop_factory).run(pipe_and_thread_round_trip())) == 0
        )
        await pipe_and_thread_round_trip()

    if sys.version_info < (3, 11):
        pytest.skip("there is no asyncio.Runner")
    loop.run_until_complete(main())


def test_no_loop_is_running_in_a_child_forked_inside_a_running_loop(loop):
    def work():
        with pytest.raises(RuntimeError):
            asyncio.get_running_loop()

    async def main():
        assert in_child(work) == 0

    loop.run_until_complete(main())


@pytest.mark.skipif(
    sys.version_info < (3, 12), reason="in older asyncio the child's signals reach the parent's loop"
)
def test_signals_sent_to_the_child_do_not_reach_the_parents_loop(loop):
    check_signals(loop)


@pytest.mark.mainspring_only
def test_signals_sent_to_the_child_do_not_reach_the_parents_loop_on_any_python(loop):
    check_signals(loop)


def check_signals(loop):
    heard = []

    async def main():
        loop.add_signal_handler(signal.SIGTERM, heard.append, "parent")
        assert in_child(lambda: os.kill(os.getpid(), signal.SIGTERM)) == 0
        await pipe_and_thread_round_trip()
        assert not heard
        os.kill(os.getpid(), signal.SIGTERM)
        await pipe_and_thread_round_trip()
        assert heard == ["parent"]
        loop.remove_signal_handler(signal.SIGTERM)

    loop.run_until_complete(main())


@pytest.mark.mainspring_only
def test_both_processes_can_continue_after_a_fork(run_python):
    done = run_python("""
import os
loop = new_loop()
reader, writer = os.pipe()

def fork():
    global pid
    pid = os.fork()
    # Each process continues with its own copy of the loop.
    if pid == 0:
        loop.stop()
    else:
        assert os.waitpid(pid, 0) == (pid, 0)
        os.write(writer, b"x")

def heard():
    os.read(reader, 1)
    print("heard")
    loop.stop()

loop.add_reader(reader, heard)
loop.call_soon(fork)
loop.run_forever()
loop.close()
""")
    assert (done.stdout, done.stderr, done.returncode) == ("heard\n", "", 0)


def test_children_of_multiprocessing_use_asyncio(run_python):
    done = run_python(
        """
import asyncio, multiprocessing
def work(number):
    loop = new_loop()
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()
    return number + 1
async def main():
    context = multiprocessing.get_context("fork")
    loop = asyncio.get_running_loop()
    def pooled():
        with context.Pool(2) as pool:
            return pool.map(work, range(10))
    assert pooled() == list(range(1, 11))
    await asyncio.sleep(0.001)
    print("done")
if __name__ == "__main__":
    loop = new_loop()
    loop.run_until_complete(main())
    loop.close()
""",
        flags=["-W", "ignore::DeprecationWarning"],
    )
    assert (done.stdout, done.stderr) == ("done\n", "")


@pytest.mark.mainspring_only
def test_a_copy_that_is_garbage_collected_does_not_affect_the_parents_loop(run_python):
    done = run_python("""
import asyncio, gc, os
loop = new_loop()
reader, writer = os.pipe()
got = loop.create_future()
loop.add_reader(reader, lambda: got.set_result(os.read(reader, 1)))
pid = os.fork()
if pid == 0:
    del loop, got
    gc.collect()
    os._exit(0)
assert os.waitpid(pid, 0) == (pid, 0)
os.write(writer, b"x")
assert loop.run_until_complete(asyncio.wait_for(got, 20)) == b"x"
loop.close()
""")
    assert (done.stderr, done.returncode) == ("", 0)


@pytest.mark.mainspring_only
def test_a_fork_in_a_nested_run(loop, loop_factory):
    async def nested():
        status = in_child(lambda: loop_factory().run_until_complete(pipe_and_thread_round_trip()))
        await pipe_and_thread_round_trip()
        return status

    async def main():
        status = loop.run_until_complete(nested())
        await pipe_and_thread_round_trip()
        return status

    mainspring.allow_nested(loop)
    assert loop.run_until_complete(main()) == 0


def drive(loop, until):
    """A host that waits for the loop, as guest mode needs it."""
    while not until():
        select.select([loop.fileno()], [], [], loop.next_timeout())
        loop.process_events(loop.poll_events(0))
        loop.process_ready()


@pytest.mark.mainspring_only
def test_both_processes_can_drive_their_copy_of_a_guest_loop(loop, registered_pipe):
    def run_as_guest():
        task = loop.create_task(pipe_and_thread_round_trip())
        drive(loop, task.done)
        task.result()

    # The fork happens while the host would wait.
    loop.next_timeout()
    assert in_child(run_as_guest) == 0
    run_as_guest()
    registered_pipe.check()


@pytest.mark.mainspring_only
def test_a_guest_run_continues_after_a_fork_in_it(loop):
    async def guest():
        status = in_child(lambda: None)
        await pipe_and_thread_round_trip()
        return status

    async def host():
        over = asyncio.Event()
        run = mainspring.start_guest_run(guest(), loop, done_callback=lambda run: over.set())
        await over.wait()
        return run.result()

    assert loop.run_until_complete(host()) == 0
