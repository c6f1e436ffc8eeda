"""Timers, handles, threads and tasks: bugs of other event loops, each with a test that would have caught it.

Elsewhere: many calls from threads with idle gaps (uvloop #408, #720), ``tests/test_threads.py``; many timers by the
loop's own clock (uvloop #359, #739), ``tests/test_timers.py``; debug mode, ``tests/test_debug_mode.py``.
"""

from __future__ import annotations

import asyncio
import contextvars
import math
import os
import socket
import sys
import threading

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import floats, integers, one_of

LIMIT = 30


def from_outside(loop, set_timer):
    set_timer()


def from_a_call(loop, set_timer):
    loop.call_soon(set_timer)


def from_a_timer(loop, set_timer):
    loop.call_later(0.001, set_timer)


def from_a_thread(loop, set_timer):
    thread = threading.Thread(target=loop.call_soon_threadsafe, args=(set_timer,))
    loop.call_later(0.001, thread.start)


@pytest.mark.parametrize("delay", [0, 0.0, -0.0, -1, -1e300, -math.inf, 1e-9, 5e-324])
@pytest.mark.parametrize("where", [from_outside, from_a_call, from_a_timer, from_a_thread])
@pytest.mark.parametrize("how", ["call_later", "call_at"])
def test_a_due_timer_fires_although_the_poll_has_no_timeout(loop, run_forever, delay, where, how):
    """rloop #40: a due timer never fired because the loop polled without a timeout. The loop has nothing else to do."""

    def set_timer():
        if how == "call_later":
            loop.call_later(delay, loop.stop)
        else:
            loop.call_at(loop.time() + delay, loop.stop)

    where(loop, set_timer)
    run_forever()


numbers = one_of(
    floats(),
    integers(),
    st.sampled_from([2**31, 2**32, 2**63, 2**64, -(2**63), 10**400, math.inf, -math.inf, math.nan]),
)
fuzzed = settings(
    max_examples=150, derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck)
)


@fuzzed
@given(number=numbers)
def test_no_delay_or_deadline_breaks_the_timers(loop_factory, number):
    """rsloop #48, #53: ``sleep(inf)`` and NaN panicked. Any number is accepted, or raises an ordinary exception."""
    loop = loop_factory()
    refusals = (OverflowError, ValueError)
    handles = []
    for schedule in (loop.call_later, loop.call_at):
        try:
            handles.append(schedule(number, lambda: None))
        except refusals:
            pass

    async def main():
        for wait in (lambda: asyncio.sleep(number), lambda: asyncio.wait_for(loop.create_future(), number)):
            task = loop.create_task(wait())
            for _ in range(3):
                await asyncio.sleep(0)
            task.cancel()
            try:
                await task
            except (*refusals, asyncio.CancelledError, asyncio.TimeoutError):
                pass

    loop.run_until_complete(main())
    for handle in handles:
        handle.cancel()
    loop.close()


@fuzzed
@given(number=one_of(integers(), st.sampled_from([2**31, 2**32 - 1, 2**63, 2**64, -(2**63), 10**400])))
def test_no_number_breaks_other_methods(loop_factory, number):
    """rsloop #48, #53, for every other method that takes a number: it works or raises an ordinary exception."""
    loop = loop_factory()
    ours, theirs = socket.socketpair()
    ordinary = (OSError, ValueError, OverflowError, RuntimeError, TypeError)

    async def main():
        transport, _ = await loop.create_connection(asyncio.Protocol, sock=ours)
        taken = {item.fileno() for item in (ours, theirs)} | set(range(64))
        attempts = [
            lambda: transport.set_write_buffer_limits(high=number),
            lambda: transport.set_write_buffer_limits(low=number),
            lambda: transport.get_extra_info(number),
            lambda: loop.remove_signal_handler(number),
        ]
        if number not in taken:
            attempts += [
                lambda: loop.add_reader(number, lambda: None),
                lambda: loop.remove_reader(number),
                lambda: loop.add_writer(number, lambda: None),
                lambda: loop.remove_writer(number),
            ]
        for attempt in attempts:
            try:
                attempt()
            except ordinary:
                pass
        with socket.create_server(("127.0.0.1", 0)) as listening:
            try:
                server = await loop.create_server(asyncio.Protocol, sock=listening, backlog=number)
                server.close()
            except ordinary:
                pass
        transport.abort()
        for _ in range(3):
            await asyncio.sleep(0)

    try:
        loop.run_until_complete(main())
    finally:
        theirs.close()
        loop.close()


def query_handle(handle, other):
    """The results of every method of a timer handle."""
    return [
        handle.when(),
        handle.cancelled(),
        isinstance(repr(handle), str),
        handle == other,
        handle < other,
        handle <= other,
        handle > other,
        handle >= other,
        hash(handle) == hash(handle),
        getattr(handle, "get_context", lambda: None)() is not None or sys.version_info < (3, 12),
    ]


def test_a_timer_handle_can_be_queried_in_every_state(loop, run_forever):
    """uvloop #469: ``TimerHandle.when()`` crashed after the timer had fired."""
    other = loop.call_at(2.0, lambda: None)
    answers = []
    inside = []

    def fire():
        inside.append(query_handle(fired, other))
        loop.stop()

    fired = loop.call_at(1.0, fire)
    cancelled = loop.call_at(1.0, lambda: None)
    answers.append(query_handle(fired, other))
    cancelled.cancel()
    run_forever()
    answers += [query_handle(fired, other), *inside]
    fired.cancel()
    other_answers = [query_handle(fired, other), query_handle(cancelled, other)]
    loop.close()
    other_answers += [query_handle(fired, other), query_handle(cancelled, other)]
    expected = [1.0, False, True, False, True, True, False, False, True, True]
    assert answers == [expected] * 3
    assert [answer[:2] for answer in other_answers] == [[1.0, True]] * 4


def test_calls_from_threads_that_wait_for_each_result_all_run(loop_factory):
    """uvloop #408, #720: calls from threads stopped the loop, or were lost while it went to sleep.

    Each thread waits for the result of a call before the next call, so the loop sleeps in between.
    """
    loop = loop_factory()
    running = threading.Thread(target=loop.run_forever)
    running.start()
    unanswered = []

    def ask():
        for number in range(300):
            answered = threading.Event()
            loop.call_soon_threadsafe(answered.set)
            if not answered.wait(LIMIT):
                unanswered.append(number)
                return

    threads = [threading.Thread(target=ask) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    loop.call_soon_threadsafe(loop.stop)
    running.join(LIMIT)
    assert not unanswered


@pytest.mark.skipif(sys.version_info < (3, 15), reason="asyncio's own tasks have the bug before Python 3.15")
def test_a_failing_eager_start_leaves_the_loop_unchanged(loop, run, reported):
    """cpython #157301: an eager task whose context could not be entered hung the loop."""
    entered = contextvars.copy_context()

    async def step():
        return "step"

    async def main():
        factory = asyncio.eager_task_factory
        loop.set_task_factory(factory)
        coroutine = step()
        try:
            with pytest.raises(RuntimeError, match="cannot enter context"):
                await entered.run(lambda: loop.create_task(coroutine, context=entered))
        finally:
            coroutine.close()
        with pytest.raises(TypeError):
            await loop.create_task(coroutine, context="no context")
        me = asyncio.current_task()
        assert await loop.create_task(step()) == "step"
        assert asyncio.current_task() is me
        loop.set_task_factory(None)
        assert await loop.create_task(step()) == "step"

    try:
        run(main())
    finally:
        reported.clear()  # a task that never started may be reported


@pytest.mark.parametrize("what", ["call_soon", "call_soon_threadsafe", "call_later", "call_at"])
def test_a_bad_context_does_not_stop_the_loop(loop, run, reported, what):
    """cpython #157301, for calls: an invalid context is refused, or reported when the call runs."""
    schedule = getattr(loop, what)
    arguments = (0, print) if what in ("call_later", "call_at") else (print,)
    try:
        schedule(*arguments, context="no context")
    except (TypeError, AttributeError):
        pass
    run(asyncio.sleep(0.001))
    reported.clear()
    assert run(asyncio.sleep(0, "goes on")) == "goes on"


def test_no_timer_is_early_by_less_than_a_millisecond(loop, run_forever):
    """uvloop #359, #739: rounding to milliseconds let timers fire early."""
    early = []
    left = 200

    def fire(number):
        nonlocal left
        now = loop.time()
        if now < handles[number].when():
            early.append((handles[number].when(), now))
        left -= 1
        if not left:
            loop.stop()

    handles = [loop.call_later(number * 0.0000731, fire, number) for number in range(left)]
    run_forever()
    assert not early


@pytest.mark.parametrize("delay", [0, -1, 0.0, 1, math.inf])
def test_call_later_always_returns_a_timer_handle(loop, delay):
    """uvloop #482: ``call_later(0)`` returned a handle without ``when()``."""
    for handle in (loop.call_later(delay, print), loop.call_at(loop.time() + delay, print)):
        assert isinstance(handle, asyncio.TimerHandle)
        assert isinstance(handle.when(), float)
        handle.cancel()


ABANDONED = """
import asyncio, gc

async def numbers():
    try:
        for number in range(10):
            await asyncio.sleep(0)
            yield number
    finally:
        await asyncio.sleep(0)
        closed.append(True)

closed = []

async def main():
    async for number in numbers():
        break
    kept = numbers()
    await kept.__anext__()
    cycle = [numbers()]
    cycle.append(cycle)
    await cycle[0].__anext__()
    del cycle
    gc.collect()
    for _ in range(5):
        await asyncio.sleep(0)
    return kept

loop = new_loop()
assert loop.get_debug()
kept = loop.run_until_complete(main())
loop.run_until_complete(loop.shutdown_asyncgens())
loop.close()
del kept
gc.collect()
print(len(closed))
"""


def test_abandoned_generators_do_not_crash_debug_mode(run_python):
    """uvloop #730: debug mode crashed with unfinished asynchronous generators."""
    environment = {**os.environ, "PYTHONASYNCIODEBUG": "1"}
    done = run_python(ABANDONED, flags=["-X", "dev", "-X", "faulthandler"], env=environment)
    assert (done.returncode, done.stdout.strip()) == (0, "3"), done.stderr
