"""Signals: add_signal_handler, Ctrl-C, and handlers of signal.signal() while the loop sleeps."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading

import pytest

LIMIT = 30

USR1 = signal.SIGUSR1


@pytest.fixture(autouse=True)
def restore_signals():
    numbers = (signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGTERM)
    before = {number: signal.getsignal(number) for number in numbers}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)
    assert signal.set_wakeup_fd(-1) == -1, "the wakeup fd was not restored"


def raise_signal(number=USR1):
    os.kill(os.getpid(), number)


def test_a_signal_calls_its_handler_with_the_arguments(loop, run_forever):
    got = []
    loop.add_signal_handler(USR1, lambda *args: (got.append(args), loop.stop()), 1, "two")
    loop.call_soon(raise_signal)
    run_forever()
    assert got == [(1, "two")]


def test_each_signal_is_delivered_once(loop, run_forever):
    got = []

    def again():
        got.append(len(got))
        if len(got) < 5:
            raise_signal()
        else:
            loop.stop()

    loop.add_signal_handler(USR1, again)
    raise_signal()
    run_forever()
    assert got == list(range(5))


def test_each_signal_has_its_own_handler(loop, run_forever):
    got = []

    def arrive(name):
        got.append(name)
        if len(got) == 2:
            loop.stop()

    loop.add_signal_handler(signal.SIGUSR1, arrive, "one")
    loop.add_signal_handler(signal.SIGUSR2, arrive, "two")
    loop.call_soon(raise_signal, signal.SIGUSR1)
    loop.call_soon(raise_signal, signal.SIGUSR2)
    run_forever()
    assert sorted(got) == ["one", "two"]


def test_a_signal_that_arrives_before_the_run_is_delivered(loop, run_forever):
    loop.add_signal_handler(USR1, loop.stop)
    raise_signal()
    run_forever()


def test_a_second_handler_replaces_the_first(loop, run_forever):
    got = []
    loop.add_signal_handler(USR1, got.append, "first")
    loop.add_signal_handler(USR1, lambda: (got.append("second"), loop.stop()))
    loop.call_soon(raise_signal)
    run_forever()
    assert got == ["second"]


def test_remove_returns_whether_a_handler_existed_and_restores_the_signal(loop):
    assert loop.remove_signal_handler(USR1) is False
    loop.add_signal_handler(USR1, print)
    assert callable(signal.getsignal(USR1))
    assert loop.remove_signal_handler(USR1) is True
    assert loop.remove_signal_handler(USR1) is False
    assert signal.getsignal(USR1) == signal.SIG_DFL
    loop.add_signal_handler(signal.SIGINT, print)
    assert loop.remove_signal_handler(signal.SIGINT) is True
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_close_restores_the_signals(loop):
    loop.add_signal_handler(USR1, print)
    loop.close()
    assert signal.getsignal(USR1) == signal.SIG_DFL
    assert signal.set_wakeup_fd(-1) == -1


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_uncatchable_signals_are_refused(loop, number):
    with pytest.raises(RuntimeError, match="cannot be caught"):
        loop.add_signal_handler(number, print)
    assert loop.remove_signal_handler(number) is False


@pytest.mark.parametrize("number", [0, -1, 65, 1000, 2**40])
def test_numbers_that_are_not_signals_raise_value_error(loop, number):
    with pytest.raises(ValueError):
        loop.add_signal_handler(number, print)
    with pytest.raises(ValueError):
        loop.remove_signal_handler(number)


@pytest.mark.parametrize("number", ["SIGUSR1", None, 10.0, object()])
def test_other_types_than_numbers_are_refused(loop, number):
    with pytest.raises(TypeError):
        loop.add_signal_handler(number, print)
    with pytest.raises(TypeError):
        loop.remove_signal_handler(number)


def test_a_coroutine_function_is_refused_as_a_handler(loop):
    async def handler():
        pass

    with pytest.raises(TypeError, match="coroutines cannot be used with add_signal_handler"):
        loop.add_signal_handler(USR1, handler)
    coroutine = handler()
    with pytest.raises(TypeError, match="coroutines cannot be used with add_signal_handler"):
        loop.add_signal_handler(USR1, coroutine)
    coroutine.close()


def test_only_the_main_thread_adds_handlers(loop):
    errors = []

    def body():
        try:
            loop.add_signal_handler(USR1, print)
        except RuntimeError as error:
            errors.append(error)

    thread = threading.Thread(target=body)
    thread.start()
    thread.join(LIMIT)
    assert len(errors) == 1
    assert signal.getsignal(USR1) == signal.SIG_DFL


def test_after_close_no_handler_can_be_added(loop):
    loop.close()
    with pytest.raises(RuntimeError, match="Event loop is closed"):
        loop.add_signal_handler(USR1, print)


def test_a_handler_that_raises_is_reported_and_stays_registered(loop, run_iteration, reported):
    def fail():
        raise LookupError("signal")

    loop.add_signal_handler(USR1, fail)
    for _ in range(2):
        raise_signal()
        while not reported:
            run_iteration()
        assert isinstance(reported.pop()["exception"], LookupError)


def test_a_handler_may_remove_itself(loop, run_forever):
    loop.add_signal_handler(USR1, lambda: (loop.remove_signal_handler(USR1), loop.stop()))
    loop.call_soon(raise_signal)
    run_forever()
    assert loop.remove_signal_handler(USR1) is False


def test_a_signal_from_another_thread_wakes_the_loop(loop, run_forever):
    loop.add_signal_handler(USR1, loop.stop)
    thread = threading.Thread(target=raise_signal)
    loop.call_soon(thread.start)
    run_forever()
    thread.join(LIMIT)


def test_a_signal_reaches_a_busy_loop(loop, run_forever):
    def spin():
        loop.call_soon(spin)

    loop.add_signal_handler(USR1, loop.stop)
    loop.call_soon(spin)
    loop.call_soon(raise_signal)
    run_forever()


def test_the_programs_own_handler_runs_while_the_loop_sleeps(loop, run_forever):
    got = []

    def handler(number, frame):
        got.append(number)
        loop.call_soon_threadsafe(loop.stop)

    signal.signal(USR1, handler)
    # Sent by another process, so that it arrives while this one sleeps, or just before.
    sender = subprocess.Popen([sys.executable, "-c", f"import os; os.kill({os.getpid()}, {int(USR1)})"])
    run_forever()
    sender.wait(LIMIT)
    assert got == [USR1]


def test_the_programs_own_handler_may_raise_out_of_a_sleeping_loop(loop, run_forever):
    def handler(number, frame):
        raise LookupError("from the handler")

    signal.signal(USR1, handler)
    sender = subprocess.Popen([sys.executable, "-c", f"import os; os.kill({os.getpid()}, {int(USR1)})"])
    with pytest.raises(LookupError, match="from the handler"):
        run_forever()
    sender.wait(LIMIT)
    assert not loop.is_running()
    ran = []
    loop.call_soon(ran.append, 1)
    loop.call_soon(loop.stop)
    run_forever()
    assert ran == [1]


def test_the_wakeup_fd_is_restored_after_a_run(loop, run_iteration):
    run_iteration()
    assert signal.set_wakeup_fd(-1) == -1


def test_the_programs_own_wakeup_fd_is_restored(loop, run_iteration):
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        theirs.setblocking(False)
        signal.set_wakeup_fd(ours.fileno())
        signal.signal(USR1, lambda *_: None)
        loop.call_soon(raise_signal)
        run_iteration()
        assert signal.set_wakeup_fd(-1) == ours.fileno()
        assert theirs.recv(10) == bytes([USR1])


def test_handlers_survive_from_one_run_to_the_next(loop, run_forever, run_iteration):
    got = []
    loop.add_signal_handler(USR1, lambda: (got.append(1), loop.stop()))
    for _ in range(3):
        loop.call_soon(raise_signal)
        run_forever()
    run_iteration()
    assert got == [1, 1, 1]


# Ctrl-C is tested from outside: the program prints that it is ready, gets SIGINT, and ends.

# Makes asyncio.run() use the loop, on every Python version.
BY_ASYNCIO_RUN = """
class Policy(asyncio.DefaultEventLoopPolicy):
    def new_event_loop(self):
        return new_loop()
if sys.version_info < (3, 12):
    asyncio.set_event_loop_policy(Policy())
    options = {}
else:
    options = {"loop_factory": new_loop}
"""

INTERRUPTED = {
    "an idle run_forever": """
loop = new_loop()
loop.call_soon(say_ready)
try:
    loop.run_forever()
finally:
    print("closing", loop.is_running())
    loop.close()
""",
    "a busy run_forever": """
loop = new_loop()
def spin():
    loop.call_soon(spin)
loop.call_soon(spin)
loop.call_soon(say_ready)
try:
    loop.run_forever()
finally:
    print("closing", loop.is_running())
    loop.close()
""",
    "a loop busy with native calls": """
loop = new_loop()
import functools
# A call that schedules itself without running Python code: only the loop checks for signals.
chain = functools.partial(loop.call_soon)
chain.__setstate__((loop.call_soon, (chain,), {}, {}))
loop.call_soon(chain)
loop.call_soon(say_ready)
try:
    loop.run_forever()
finally:
    print("closing", loop.is_running())
    loop.close()
""",
    "a waiting run_until_complete": """
loop = new_loop()
loop.call_soon(say_ready)
try:
    loop.run_until_complete(loop.create_future())
except KeyboardInterrupt:
    print("caught")
finally:
    loop.close()
""",
    "asyncio.run with a waiting task": BY_ASYNCIO_RUN
    + """
async def main():
    # Printed after this task has started to wait.
    asyncio.get_running_loop().call_soon(say_ready)
    try:
        await asyncio.sleep(1000)
    except asyncio.CancelledError:
        print("cancelled")
        raise
    finally:
        print("finally")
asyncio.run(main(), **options)
""",
    "asyncio.run with a task that catches": BY_ASYNCIO_RUN
    + """
async def main():
    # Printed after this task has started to wait.
    asyncio.get_running_loop().call_soon(say_ready)
    try:
        await asyncio.sleep(1000)
    except asyncio.CancelledError:
        print("cancelled")
    return 5
print(asyncio.run(main(), **options))
""",
    "a handler of the loop": """
loop = new_loop()
loop.add_signal_handler(signal.SIGINT, lambda: (print("handled"), loop.stop()))
loop.call_soon(say_ready)
loop.run_forever()
loop.close()
print("ended")
""",
    "a thread beside the main one": """
loop = new_loop()
import threading
ended = threading.Event()
thread = threading.Thread(target=lambda: (loop.run_forever(), ended.set()))
loop.call_soon(say_ready)
try:
    thread.start()
    ended.wait(30)
except KeyboardInterrupt:
    print("caught in the main thread")
loop.call_soon_threadsafe(loop.stop)
print(ended.wait(30))
thread.join()
loop.close()
""",
}

PROGRAM = """
import asyncio, signal, sys
def say_ready():
    print("ready", flush=True)
"""

SOURCES = {
    "asyncio": "from asyncio import SelectorEventLoop as new_loop",
    "mainspring": "from mainspring import new_event_loop as new_loop",
}


def interrupted(loop_kind, program):
    """Sends SIGINT to a program when it is ready; returns its exit code, its output and the last line of its stderr."""
    source = "\n".join((SOURCES[loop_kind], PROGRAM, program))
    # Ignores asyncio's deprecation warnings about policies.
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", source]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        watchdog = threading.Timer(LIMIT, process.kill)
        watchdog.start()
        try:
            assert process.stdout.readline() == "ready\n"
            process.send_signal(signal.SIGINT)
            output, errors = process.communicate()
        finally:
            watchdog.cancel()
            with contextlib.suppress(ProcessLookupError):
                process.kill()
    return process.returncode, output, errors.splitlines()[-1:]


@pytest.mark.mainspring_only
@pytest.mark.parametrize("name", INTERRUPTED)
def test_ctrl_c_ends_a_program_as_on_asyncio(loop_kind, name):
    assert interrupted(loop_kind, INTERRUPTED[name]) == interrupted("asyncio", INTERRUPTED[name])


@pytest.mark.mainspring_only
def test_ctrl_c_on_an_idle_loop_is_a_keyboard_interrupt(loop_kind):
    code, output, errors = interrupted(loop_kind, INTERRUPTED["an idle run_forever"])
    assert (code, output, errors) == (-signal.SIGINT, "closing False\n", ["KeyboardInterrupt"])
