"""``mainspring.Runtime`` with fork, Ctrl-C and interpreter exit."""

from __future__ import annotations

import asyncio
import os
import signal
import sys

import pytest

import mainspring

pytestmark = [
    pytest.mark.mainspring_only,
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
]

LIMIT = 30


async def value(result):
    await asyncio.sleep(0)
    return result


# --- fork


def in_child(work):
    """The exit status of a forked child that runs ``work()``."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            signal.alarm(LIMIT)
            work()
            status = 0
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_a_forked_child_gets_a_clear_error_from_every_method():
    def work():
        uses = [
            lambda: runtime.run(value(1)),
            lambda: runtime.submit(value(1)),
            lambda: runtime.call(print),
            lambda: runtime.delay(0),
            lambda: runtime.read(("127.0.0.1", 9)),
            lambda: runtime.wrap_async_context_manager(asyncio.Lock()),
            lambda: runtime.__enter__(),
            lambda: pending.result(),
            lambda: pending.exception(),
            lambda: pending.timeout(1),
            runtime.get_loop,
            runtime.shutdown,
            runtime.join,
        ]
        for use in uses:
            with pytest.raises(RuntimeError, match=r"before a fork.*create a new mainspring\.Runtime"):
                use()
        assert repr(runtime) == "<Runtime name='parent' not in this process>"
        # Neither of these blocks.
        pending.cancel()
        runtime.__exit__(None, None, None)
        with mainspring.Runtime() as own:
            assert own.run(value(1)) == 1

    with mainspring.Runtime(name="parent", shutdown_timeout=0) as runtime:
        pending = runtime.delay(1000)
        assert in_child(work) == 0
        assert runtime.run(value(1)) == 1
        assert not pending.done()


def test_a_forked_child_exits_although_the_runtime_is_open(run_python):
    done = run_python(
        """
import mainspring, os
with mainspring.Runtime() as runtime:
    pending = runtime.delay(1000)
    pid = os.fork()
    if pid == 0:
        raise SystemExit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
    pending.cancel()
print("done")
""",
        flags=["-W", "ignore::DeprecationWarning"],
    )
    assert (done.stdout, done.stderr, done.returncode) == ("done\n", "", 0)


# --- Ctrl-C

CTRL_C = """
import asyncio, mainspring, os, signal, threading

log = []

def interrupt():
    # Python misses a signal that arrives just before the main thread blocks, so wait until it is blocked.
    in_a_row = 0
    while in_a_row < 20:
        with open(f"/proc/self/task/{os.getpid()}/stat") as file:
            in_a_row = in_a_row + 1 if file.read().rpartition(") ")[2].startswith("S") else 0
        os.sched_yield()
    os.kill(os.getpid(), signal.SIGINT)

async def work():
    interrupting = asyncio.get_running_loop().run_in_executor(None, interrupt)
    try:
        await asyncio.sleep(1000)
    except asyncio.CancelledError:
        log.append("cancelled")
        raise
    finally:
        await interrupting
        log.append("cleaned up")
"""


def test_ctrl_c_during_run_cancels_the_coroutine_and_waits_for_its_end(run_python):
    done = run_python(f"""{CTRL_C}
async def value():
    return "usable"

with mainspring.Runtime() as runtime:
    try:
        runtime.run(work())
    except KeyboardInterrupt:
        print(log, runtime.run(value()))
""")
    assert (done.stdout, done.stderr) == ("['cancelled', 'cleaned up'] usable\n", "")


def test_ctrl_c_while_the_block_is_left_cancels_the_work(run_python):
    done = run_python(f"""{CTRL_C}
try:
    with mainspring.Runtime() as runtime:
        future = runtime.submit(work())
except KeyboardInterrupt:
    print(log, future.cancelled(), runtime)
""")
    expected = "['cancelled', 'cleaned up'] True <Runtime name='mainspring' ended>\n"
    assert (done.stdout, done.stderr) == (expected, "")


def test_ctrl_c_while_a_context_manager_is_entered_leaves_it(run_python):
    done = run_python(f"""{CTRL_C}
class Manager:
    async def __aenter__(self):
        await work()
    async def __aexit__(self, *error):
        log.append("left")

with mainspring.Runtime() as runtime:
    try:
        with runtime.wrap_async_context_manager(Manager()):
            log.append("entered")
    except KeyboardInterrupt:
        print(log)
""")
    assert (done.stdout, done.stderr) == ("['cancelled', 'cleaned up']\n", "")


def test_a_second_ctrl_c_does_not_wait(run_python):
    done = run_python(f"""{CTRL_C}
release = threading.Event()

async def stubborn():
    try:
        await work()
    finally:
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, interrupt)
        await loop.run_in_executor(None, release.wait)

with mainspring.Runtime() as runtime:
    try:
        runtime.run(stubborn())
    except KeyboardInterrupt:
        print("interrupted")
        release.set()
""")
    assert (done.stdout, done.stderr) == ("interrupted\n", "")


# --- interpreter exit


def test_the_interpreter_exits_although_a_runtime_is_open(run_python):
    done = run_python("""
import asyncio, mainspring, threading

begun = threading.Event()

async def endless():
    try:
        begun.set()
        await asyncio.sleep(1000)
    finally:
        await asyncio.sleep(0)
        print("cleaned up", flush=True)

runtime = mainspring.Runtime(name="forgotten")
runtime.submit(asyncio.to_thread(int)).result()
future = runtime.submit(endless())
begun.wait()
""")
    assert (done.stdout, done.returncode) == ("cleaned up\n", 0)
    assert "The runtime 'forgotten' was not shut down before the interpreter exits" in done.stderr
    assert "(pending: 1): use `with`, or call shutdown()" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_idle_runtime_at_interpreter_exit_is_silent(run_python):
    done = run_python(
        """
import asyncio, mainspring
runtime = mainspring.Runtime()
print(runtime.run(asyncio.sleep(0, "done")))
""",
        flags=["-X", "dev"],
    )
    assert (done.stdout, done.stderr, done.returncode) == ("done\n", "", 0)


def test_other_threads_may_use_a_runtime_while_the_main_thread_exits(run_python):
    done = run_python("""
import asyncio, mainspring, threading
runtime = mainspring.Runtime()

def work():
    threading.main_thread().join()
    with runtime:
        print(runtime.run(asyncio.sleep(0.01, "done")))

threading.Thread(target=work).start()
""")
    assert (done.stdout, done.stderr, done.returncode) == ("done\n", "", 0)


def test_sys_exit_in_the_block_cancels_the_work(run_python):
    done = run_python("""
import mainspring, sys
with mainspring.Runtime() as runtime:
    runtime.delay(1000)
    sys.exit(5)
""")
    assert (done.stderr, done.returncode) == ("", 5)
