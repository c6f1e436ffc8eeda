"""call_soon: the order of calls, callbacks that fail, and contexts."""

import asyncio
import contextvars

import pytest

LIMIT = 30

number = contextvars.ContextVar("number", default=0)


def test_calls_run_in_the_order_they_were_made(loop, run_iteration):
    ran = []
    for index in range(100):
        loop.call_soon(ran.append, index)
    run_iteration()
    assert ran == list(range(100))


def test_an_iteration_runs_only_the_calls_that_were_ready_when_it_began(loop, run_iteration):
    ran = []

    def first():
        ran.append("first")
        loop.call_soon(ran.append, "third")

    loop.call_soon(first)
    loop.call_soon(ran.append, "second")
    run_iteration()
    assert ran == ["first", "second"]
    run_iteration()
    assert ran == ["first", "second", "third"]


def test_arguments_are_passed_unchanged(loop, run_iteration):
    got = []
    unique = object()
    loop.call_soon(lambda *args: got.append(args), 1, "two", unique, None)
    loop.call_soon(lambda *args: got.append(args))
    run_iteration()
    assert got == [(1, "two", unique, None), ()]


def test_the_callback_may_be_a_keyword_argument(loop, run_iteration):
    ran = []
    loop.call_soon(callback=lambda: ran.append("soon"))
    loop.call_soon_threadsafe(callback=lambda: ran.append("threadsafe"))
    loop.call_later(delay=0, callback=lambda: ran.append("later"))
    loop.call_at(when=loop.time(), callback=lambda: ran.append("at"))
    loop.call_soon(context=None, callback=lambda: ran.append("with context"))
    run_iteration()
    assert sorted(ran) == ["at", "later", "soon", "threadsafe", "with context"]


def test_threadsafe_calls_from_the_loops_thread_keep_their_order(loop, run_iteration):
    ran = []

    def mixed(name):
        for index in range(10):
            schedule = loop.call_soon if index % 2 else loop.call_soon_threadsafe
            schedule(ran.append, f"{name}{index}")

    mixed("outside")
    run_iteration()
    assert ran == [f"outside{index}" for index in range(10)]
    ran.clear()
    loop.call_soon(mixed, "inside")
    run_iteration()
    run_iteration()
    assert ran == [f"inside{index}" for index in range(10)]


def test_a_callback_that_raises_is_reported_and_the_iteration_continues(loop, run_iteration, reported):
    ran = []
    error = LookupError("callback")

    def fail():
        raise error

    loop.call_soon(ran.append, 1)
    handle = loop.call_soon(fail)
    loop.call_soon(ran.append, 2)
    run_iteration()
    assert ran == [1, 2]
    context = reported.pop()
    assert context["exception"] is error
    assert context["handle"] is handle
    assert context["message"].startswith("Exception in callback ")
    assert "fail" in context["message"]


@pytest.mark.parametrize("kind", [asyncio.CancelledError, GeneratorExit, BaseException, StopIteration])
def test_other_base_exceptions_are_reported_too(loop, run_iteration, reported, kind):
    def fail():
        raise kind("callback")

    loop.call_soon(fail)
    ran = []
    loop.call_soon(ran.append, 1)
    run_iteration()
    assert ran == [1]
    assert type(reported.pop()["exception"]) is kind


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_leaves_the_loop_and_ready_calls_stay_ready(loop, run_iteration, kind):
    ran = []

    def leave():
        ran.append("leave")
        raise kind("callback")

    class Stronger(kind):
        pass

    def leave_with_a_subclass():
        raise Stronger

    loop.call_soon(ran.append, "before")
    loop.call_soon(leave)
    loop.call_soon(ran.append, "after")
    loop.call_soon(leave_with_a_subclass)
    loop.call_soon(ran.append, "last")
    with pytest.raises(kind, match="callback"):
        loop.run_forever()
    assert ran == ["before", "leave"]
    assert not loop.is_running()
    assert asyncio._get_running_loop() is None
    with pytest.raises(Stronger):
        loop.run_forever()
    assert ran == ["before", "leave", "after"]
    run_iteration()
    assert ran == ["before", "leave", "after", "last"]


def test_each_call_has_a_copy_of_the_callers_context(loop, run_iteration):
    seen = []

    def look():
        seen.append(number.get())
        number.set(-1)

    def caller():
        for value in (1, 2, 3):
            number.set(value)
            loop.call_soon(look)
            loop.call_later(0, look)
            loop.call_soon_threadsafe(look)

    contextvars.copy_context().run(caller)
    run_iteration()
    assert sorted(seen) == [1, 1, 1, 2, 2, 2, 3, 3, 3]
    assert number.get() == 0


def test_a_call_runs_in_the_context_it_is_given(loop, run_iteration):
    context = contextvars.copy_context()
    context.run(number.set, 7)
    seen = []

    def step():
        seen.append(number.get())
        number.set(number.get() + 1)

    loop.call_soon(step, context=context)
    loop.call_later(0, step, context=context)
    loop.call_at(loop.time(), step, context=context)
    loop.call_soon_threadsafe(step, context=context)
    run_iteration()
    assert seen == [7, 8, 9, 10]
    assert context[number] == 11
    assert number.get() == 0


def test_a_context_that_is_already_entered_fails_the_callback(loop, run_iteration, reported):
    context = contextvars.copy_context()
    ran = []

    def inside():
        loop.call_soon(ran.append, "never", context=context)
        run_iteration()

    context.run(inside)
    assert ran == []
    # From Python 3.12 on asyncio calls the handler in the same context. That fails too, and is logged.
    assert all(isinstance(failure["exception"], RuntimeError) for failure in reported)
    reported.clear()


def test_a_context_survives_a_callback_that_raises(loop, run_iteration, reported):
    context = contextvars.copy_context()

    def fail():
        number.set(5)
        raise LookupError

    loop.call_soon(fail, context=context)
    run_iteration()
    assert context[number] == 5
    assert number.get() == 0
    assert context.run(number.get) == 5
    reported.clear()


def test_a_million_calls_run_in_order(loop, run_iteration):
    million = 1_000_000
    loop.set_debug(False)  # otherwise each call would record a source traceback
    counted = iter(range(million))
    # Each call compares its number with the next expected one, which detects lost, duplicate and reordered calls.
    misplaced = []

    def check(index):
        if next(counted) != index:
            misplaced.append(index)

    for index in range(million):
        loop.call_soon(check, index)
    run_iteration()
    assert not misplaced
    assert next(counted, None) is None


def test_a_chain_of_calls_does_not_grow_the_stack(loop, run_forever):
    left = [100_000]

    def again():
        left[0] -= 1
        if left[0]:
            loop.call_soon(again)
        else:
            loop.stop()

    loop.call_soon(again)
    run_forever()
    assert left == [0]


def test_timers_fire_on_a_busy_loop(loop, run_forever):
    def spin():
        loop.call_soon(spin)

    loop.call_soon(spin)
    loop.call_later(0.001, loop.stop)
    run_forever()
