"""Callbacks, timers and handles: invalid numbers, handles in every state, nested runs."""

from __future__ import annotations

import asyncio
import contextvars
import fractions
import math
import sys

from hostile import (
    Boom,
    Thunder,
    attempt,
    case,
    finish,
    iterations,
    new_loop,
    outcome,
    quiet,
    reporting,
    run,
    show,
)

ODD_NUMBERS = [0, -1, -0.0, 1e-9, -1e300, -math.inf, True, fractions.Fraction(-1, 3), sys.float_info.min]
ENDLESS = [math.inf, 1e300, 2**62, 1e18, 1e9]
NO_NUMBERS = [None, "soon", b"", [], {}, object()]


def every_method(handle):
    return [
        attempt(handle.cancel),
        handle.cancelled(),
        attempt(hash, handle),
        attempt(repr, handle),
        attempt(lambda: handle == handle),
        attempt(lambda: handle < handle),
        attempt(lambda: handle._run()),
        handle.cancelled(),
    ]


@case
def odd_deadlines_run_at_once():
    loop = new_loop()
    for number in ODD_NUMBERS:
        for method in (loop.call_later, loop.call_at):
            method(number, loop.stop)
            loop.run_forever()
            show(method.__name__, number)
    finish(loop)


@case
def infinite_deadlines_do_not_hang_or_fire():
    loop = new_loop()
    fired = []
    handles = [loop.call_later(number, fired.append, number) for number in ENDLESS]
    handles += [loop.call_at(number * 2, fired.append, number) for number in ENDLESS]
    run(iterations(20), loop)
    show(fired, [handle.cancelled() for handle in handles])
    for handle in handles:
        handle.cancel()
    run(asyncio.sleep(0.001), loop)
    show(fired)
    finish(loop)


@case
async def infinite_sleeps_are_cancelled():
    tasks = [asyncio.ensure_future(asyncio.sleep(number)) for number in (*ENDLESS, 10**15)]
    await iterations()
    for task in tasks:
        task.cancel()
    show([await outcome(task) for task in tasks])


@case
def call_later_refuses_invalid_deadlines():
    loop = new_loop()
    for number in NO_NUMBERS:
        show(type(number).__name__, attempt(loop.call_later, number, print))
    finish(loop)


@case
def callbacks_that_cannot_be_called():
    loop = new_loop()
    reporting(loop)
    for bad in (None, 1, "text", object()):
        show(type(bad).__name__, attempt(loop.call_soon, bad), attempt(loop.call_later, 0, bad))
        run(asyncio.sleep(0.001), loop)
    finish(loop)


@case
def missing_and_unknown_arguments():
    loop = new_loop()
    for method in (
        loop.call_soon,
        loop.call_later,
        loop.call_at,
        loop.call_soon_threadsafe,
        loop.create_task,
    ):
        show(method.__name__, attempt(method), attempt(method, 1, print, nonsense=1))
    show(attempt(loop.call_soon, print, context=7), attempt(loop.call_soon, print, context="x"))
    show(attempt(loop.call_later, 1), attempt(loop.stop, 1), attempt(loop.close, 1), attempt(loop.time, 1))
    show(attempt(loop.run_until_complete), attempt(loop.run_until_complete, 5), attempt(loop.run_forever, 1))
    quiet(loop)
    finish(loop)


@case
def a_handle_is_used_in_every_state():
    loop = new_loop()
    seen = []
    soon = loop.call_soon(seen.append, 1)
    timer = loop.call_later(1000, seen.append, 2)
    show("pending", every_method(soon), every_method(timer), timer.when() > 0)
    run(iterations(), loop)
    show("after", every_method(soon), every_method(timer), timer.when() > 0)
    ran = loop.call_soon(seen.append, 3)
    run(iterations(), loop)
    show("run", every_method(ran), seen)
    inside = []
    inside.append(loop.call_later(0, lambda: show("inside", inside[0].cancelled(), inside[0].when() > 0)))
    run(asyncio.sleep(0.001), loop)
    finish(loop)
    show("closed", every_method(soon), every_method(timer), every_method(inside[0]))


@case
def a_handle_cancels_itself_and_its_neighbours():
    loop = new_loop()
    handles = []

    def cancel_all(number):
        show("runs", number)
        for handle in handles:
            handle.cancel()

    handles += [loop.call_soon(cancel_all, number) for number in range(5)]
    handles += [loop.call_later(0, cancel_all, number) for number in range(5, 10)]
    run(asyncio.sleep(0.001), loop)
    show([handle.cancelled() for handle in handles])
    finish(loop)


@case
def timers_compare_like_numbers():
    loop = new_loop()
    first, second, again = (loop.call_at(when, print) for when in (1e9, 2e9, 1e9))
    show(first < second, first <= again, first > second, second >= first, first == again, first == second)
    show(attempt(lambda: first < 5), attempt(lambda: first < None), first == 5, first != None)  # noqa: E711
    show(hash(first) == hash(again), first in {again}, [first, second].index(second))
    for handle in (first, second, again):
        handle.cancel()
    finish(loop)


@case
def most_timers_are_cancelled_again():
    loop = new_loop()
    seen = []
    handles = [loop.call_later(0.001 + number % 7 * 1e-4, seen.append, number) for number in range(5000)]
    for number, handle in enumerate(handles):
        if number % 100:
            handle.cancel()
    run(asyncio.sleep(0.01), loop)
    show(len(seen), sorted(seen)[:5])
    finish(loop)


@case
def run_until_complete_inside_a_callback():
    loop = new_loop()
    reporting(loop)

    def nested():
        coroutine = iterations()
        show("nested", attempt(loop.run_until_complete, coroutine), attempt(loop.run_forever))
        coroutine.close()

    loop.call_soon(nested)
    loop.call_soon(loop.stop)
    loop.run_forever()
    finish(loop)


@case
def stop_before_during_and_after_a_run():
    loop = new_loop()
    seen = []
    loop.stop()
    loop.stop()
    loop.call_soon(seen.append, 1)
    loop.run_forever()
    show(seen)
    loop.call_soon(lambda: (loop.stop(), loop.call_soon(seen.append, 3)))
    loop.call_soon(seen.append, 2)
    loop.run_forever()
    show(seen)
    loop.stop()
    loop.run_forever()
    show(seen)
    finish(loop)
    show(attempt(loop.stop), attempt(loop.run_forever), attempt(loop.call_soon, print), loop.is_closed())


@case
def a_future_that_the_loop_is_stopped_under():
    loop = new_loop()
    future = loop.create_future()
    loop.call_soon(loop.stop)
    show(attempt(loop.run_until_complete, future))
    future.set_result(1)
    show(loop.run_until_complete(future))
    finish(loop)


@case
def close_inside_a_run_and_twice():
    loop = new_loop()
    loop.call_soon(lambda: show("inside", attempt(loop.close)))
    run(iterations(), loop)
    show(attempt(loop.close), attempt(loop.close), loop.is_closed(), loop.is_running())
    show(
        attempt(loop.call_later, 0, print),
        attempt(loop.call_at, 0, print),
        attempt(loop.call_soon_threadsafe, print),
    )
    show(attempt(loop.create_future), attempt(repr, loop), loop.time() > 0)


@case
def callbacks_that_schedule_without_end_do_not_starve_a_timer():
    loop = new_loop()

    def again():
        loop.call_soon(again)

    again()
    loop.call_later(0.002, loop.stop)
    loop.run_forever()
    show("stopped")
    loop.close()


@case
def a_callback_that_recurses_too_deep():
    loop = new_loop()
    reporting(loop)

    def deep():
        deep()

    loop.call_soon(deep)
    loop.call_soon(lambda: show("next"))
    run(iterations(), loop)
    finish(loop)


@case
def a_long_chain_of_handles_is_freed():
    loop = new_loop()
    soon = loop.call_soon(print)
    timer = loop.call_later(1000, print)
    for _ in range(100_000):
        soon = loop.call_soon(soon.cancelled)
        timer = loop.call_later(1000, timer.cancelled)
    loop.close()
    del soon, timer
    show("freed")


@case
def a_context_that_is_entered_already():
    loop = new_loop()
    reporting(loop)
    context = contextvars.copy_context()
    variable = contextvars.ContextVar("variable", default=0)
    loop.call_soon(variable.set, 5, context=context)
    loop.call_soon(lambda: show("inside", variable.get()), context=context)
    loop.call_soon(lambda: show("outside", variable.get()))
    context.run(run, iterations(), loop)
    run(iterations(), loop)
    show(context[variable] if variable in context else "none")
    finish(loop)


@case
def a_base_exception_out_of_a_callback_leaves_the_rest_ready():
    loop = new_loop()
    reporting(loop)
    for error in (
        KeyboardInterrupt,
        SystemExit,
        Thunder,
        Boom,
        asyncio.CancelledError,
        GeneratorExit,
        StopIteration,
    ):

        def fail(error=error):
            raise error

        loop.call_soon(fail)
        loop.call_soon(lambda: show("next"))
        loop.call_soon(loop.stop)
        show(error.__name__, attempt(loop.run_forever))
        loop.stop()
        show(attempt(loop.run_forever))
    finish(loop)
