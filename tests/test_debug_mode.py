"""Debug mode: checks, warnings, and source tracebacks of handles."""

import asyncio
import logging
import sys
import threading
import time

import pytest

LIMIT = 30


@pytest.fixture
def log(caplog):
    caplog.set_level(logging.WARNING, logger="asyncio")
    yield caplog
    # The records reference exceptions, their frames, and so the loop.
    caplog.clear()


def messages(log):
    return [record.getMessage() for record in log.records if record.name == "asyncio"]


def callback(*args):
    pass


def test_debug_mode_is_off_by_default(loop_factory, run_python):
    program = "loop = new_loop(); print(loop.get_debug()); loop.close()"
    assert run_python(program, env={}).stdout == "False\n"


def test_the_environment_turns_debug_mode_on(run_python):
    program = "loop = new_loop(); print(loop.get_debug()); loop.close()"
    assert run_python(program, env={"PYTHONASYNCIODEBUG": "1"}).stdout == "True\n"
    assert run_python(program, env={}, flags=["-X", "dev"]).stdout == "True\n"


def test_set_debug_and_get_debug(loop):
    loop.set_debug(True)
    assert loop.get_debug() is True
    loop.set_debug(False)
    assert loop.get_debug() is False


def test_debug_mode_can_change_while_the_loop_runs(loop, run):
    async def main():
        loop.set_debug(True)
        assert loop.call_soon(callback)._source_traceback
        await asyncio.sleep(0)
        assert sys.get_coroutine_origin_tracking_depth() > 0
        loop.set_debug(False)
        assert not loop.call_soon(callback)._source_traceback
        await asyncio.sleep(0)
        assert sys.get_coroutine_origin_tracking_depth() == 0

    run(main())
    assert sys.get_coroutine_origin_tracking_depth() == 0


def test_coroutine_origins_are_tracked_while_a_debugged_loop_runs(loop, run_iteration):
    loop.set_debug(True)
    depths = []
    loop.call_soon(lambda: depths.append(sys.get_coroutine_origin_tracking_depth()))
    run_iteration()
    assert depths[0] > 0
    assert sys.get_coroutine_origin_tracking_depth() == 0


def work_of_20_ms():
    # This sleep is the slow callback itself; it synchronises nothing.
    time.sleep(0.02)


@pytest.mark.parametrize("schedule", ["soon", "later"])
def test_a_slow_callback_is_named_in_a_warning(loop, run_iteration, log, schedule):
    loop.set_debug(True)
    loop.slow_callback_duration = 0.01
    if schedule == "soon":
        loop.call_soon(work_of_20_ms)
    else:
        loop.call_later(0, work_of_20_ms)
    run_iteration()
    (message,) = [text for text in messages(log) if "work_of_20_ms" in text]
    assert message.startswith("Executing <" + ("Handle" if schedule == "soon" else "TimerHandle"))
    assert "took 0." in message and message.endswith(" seconds")


def test_a_slow_task_is_named_in_a_warning(loop, log):
    loop.set_debug(True)
    loop.slow_callback_duration = 0.01

    async def slow_coroutine():
        work_of_20_ms()

    loop.run_until_complete(slow_coroutine())
    assert any("slow_coroutine" in text and text.startswith("Executing <Task") for text in messages(log))


def test_a_slow_callback_that_raises_is_reported_and_named(loop, run_iteration, log, reported):
    loop.set_debug(True)
    loop.slow_callback_duration = 0.01

    def slow_failure():
        work_of_20_ms()
        raise LookupError

    loop.call_soon(slow_failure)
    run_iteration()
    assert isinstance(reported.pop()["exception"], LookupError)
    assert any("slow_failure" in text for text in messages(log))


def test_fast_callbacks_and_normal_mode_log_no_warning(loop, run_iteration, log):
    loop.set_debug(False)
    loop.slow_callback_duration = 0.0
    loop.call_soon(callback)
    run_iteration()
    loop.set_debug(True)
    loop.slow_callback_duration = LIMIT
    loop.call_soon(callback)
    run_iteration()
    assert messages(log) == []


def test_a_call_from_another_thread_raises_while_the_loop_runs(loop, run):
    loop.set_debug(True)
    errors = []

    def elsewhere():
        for schedule in (
            lambda: loop.call_soon(callback),
            lambda: loop.call_later(1, callback),
            lambda: loop.call_at(loop.time(), callback),
        ):
            try:
                schedule()
            except RuntimeError as error:
                errors.append(str(error))
        loop.call_soon_threadsafe(callback)

    async def main():
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join(LIMIT)

    run(main())
    assert errors == ["Non-thread-safe operation invoked on an event loop other than the current one"] * 3


def test_a_stopped_loop_may_be_called_from_any_thread(loop, run_iteration):
    loop.set_debug(True)
    ran = []
    thread = threading.Thread(target=lambda: loop.call_soon(ran.append, 1))
    thread.start()
    thread.join(LIMIT)
    run_iteration()
    assert ran == [1]


async def coroutine_function():
    pass


SCHEDULERS = {
    "call_soon": lambda loop, callback: loop.call_soon(callback),
    "call_soon_threadsafe": lambda loop, callback: loop.call_soon_threadsafe(callback),
    "call_later": lambda loop, callback: loop.call_later(1000, callback),
    "call_at": lambda loop, callback: loop.call_at(loop.time() + 1000, callback),
}


@pytest.mark.parametrize("method", SCHEDULERS)
def test_callbacks_are_checked(loop, run_iteration, method):
    loop.set_debug(True)
    schedule = SCHEDULERS[method]
    # asyncio's call_later() calls call_at(), and its message names that.
    method = method.replace("later", "(later|at)")
    with pytest.raises(TypeError, match=f"coroutines cannot be used with {method}"):
        schedule(loop, coroutine_function)
    coroutine = coroutine_function()
    with pytest.raises(TypeError, match=f"coroutines cannot be used with {method}"):
        schedule(loop, coroutine)
    coroutine.close()
    for wrong in (None, 1, "text", object()):
        with pytest.raises(TypeError, match=f"a callable object was expected by {method}"):
            schedule(loop, wrong)
    run_iteration()


@pytest.mark.parametrize("method", SCHEDULERS)
def test_in_normal_mode_a_bad_callback_fails_when_it_is_called(loop, run_iteration, reported, method):
    loop.set_debug(False)
    handle = SCHEDULERS[method](loop, None)
    run_iteration()
    if method in ("call_soon", "call_soon_threadsafe"):
        assert isinstance(reported.pop()["exception"], TypeError)
    handle.cancel()


@pytest.mark.parametrize("method", SCHEDULERS)
def test_a_handle_remembers_the_line_that_made_it(loop, method):
    loop.set_debug(True)
    line = sys._getframe().f_lineno + 1
    handle = SCHEDULERS[method](loop, callback)
    stack = handle._source_traceback
    # The innermost frame is the lambda that calls the loop; the next is this test.
    assert stack[-1].filename == __file__ and stack[-1].name == "<lambda>"
    assert (stack[-2].filename, stack[-2].lineno) == (__file__, line)
    assert f"created at {__file__}:" in repr(handle)
    handle.cancel()
    assert "cancelled" in repr(handle)
    assert "created at" in repr(handle)


def test_handles_have_no_source_traceback_in_normal_mode(loop):
    loop.set_debug(False)
    assert loop.call_soon(callback)._source_traceback is None
    assert loop.call_later(0, callback)._source_traceback is None


def test_a_cancelled_handle_keeps_its_repr_in_debug_mode(loop):
    for debug in (False, True):
        loop.set_debug(debug)
        handle = loop.call_soon(callback, "argument")
        handle.cancel()
        assert ("argument" in repr(handle)) is debug


def test_the_running_handle_is_known_in_debug_mode(loop, run_iteration):
    loop.set_debug(True)
    seen = []
    handle = loop.call_soon(lambda: seen.append(loop._current_handle))
    run_iteration()
    assert seen == [handle]
    assert loop._current_handle is None


def test_an_interrupt_clears_the_running_handle(loop):
    loop.set_debug(True)

    def leave():
        raise KeyboardInterrupt

    loop.call_soon(leave)
    with pytest.raises(KeyboardInterrupt):
        loop.run_forever()
    assert loop._current_handle is None


def test_the_warning_about_an_unawaited_coroutine_shows_its_origin(run_python):
    done = run_python(
        """
async def forgotten():
    pass

async def main():
    forgotten()

loop = new_loop()
loop.set_debug(True)
loop.run_until_complete(main())
loop.close()
"""
    )
    assert done.returncode == 0
    assert "coroutine 'forgotten' was never awaited" in done.stderr
    assert "Coroutine created at" in done.stderr
