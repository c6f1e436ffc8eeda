"""call_later and call_at: order, odd delays, and references released by cancel()."""

import asyncio
import decimal
import fractions
import gc
import math
import weakref

import pytest


def test_timers_fire_in_the_order_of_their_deadlines(loop, run_forever):
    fired = []
    now = loop.time()
    for millisecond in (5, 1, 4, 2, 3):
        loop.call_at(now + millisecond / 1000, fired.append, millisecond)
    loop.call_at(now + 0.006, loop.stop)
    run_forever()
    assert fired == [1, 2, 3, 4, 5]


def test_many_timers_fire_in_the_order_of_their_deadlines(loop, run_forever):
    fired = []
    now = loop.time()
    # A fixed permutation: 7919 is coprime to 1000.
    places = [index * 7919 % 1000 for index in range(1000)]
    for place in places:
        loop.call_at(now + place / 100_000, fired.append, place)
    loop.call_at(now + 0.011, loop.stop)
    run_forever()
    assert fired == sorted(places)


@pytest.mark.mainspring_only
def test_equal_deadlines_keep_their_order(loop, run_forever):
    # asyncio's heap guarantees no order for equal deadlines.
    fired = []
    when = loop.time() + 0.002
    for index in range(1000):
        loop.call_at(when, fired.append, index)
    loop.call_at(when, loop.stop)
    run_forever()
    assert fired == list(range(1000))


def test_a_timer_is_never_early_by_the_loops_own_clock(loop, run_forever):
    early = []
    resolution = 1e-9  # asyncio lets a timer fire within the resolution of the clock

    def check(when):
        now = loop.time()
        if now + resolution < when:
            early.append(when - now)

    now = loop.time()
    for index in range(300):
        when = now + index * 0.000_137
        loop.call_at(when, check, when)
    for index in range(300):
        when = loop.time() + index * 0.000_113
        loop.call_later(when - loop.time(), check, when - 1e-6)
    loop.call_at(now + 0.06, loop.stop)
    run_forever()
    assert not early


def test_the_clock_is_pythons_monotonic_clock(loop):
    import time

    before = time.monotonic()
    now = loop.time()
    after = time.monotonic()
    assert isinstance(now, float)
    assert before <= now <= after


@pytest.mark.parametrize(
    "delay",
    [0, 0.0, -0.0, -1, -1e9, -math.inf, 1e-300, 5e-324, False, True - 1, fractions.Fraction(0)],
    ids=repr,
)
def test_a_due_timer_fires_on_an_idle_loop(loop, run_forever, delay):
    fired = []
    loop.call_later(delay, lambda: (fired.append(1), loop.stop()))
    run_forever()
    assert fired == [1]


@pytest.mark.parametrize("when", [0, 0.0, -1, -1e300, -math.inf, 1, fractions.Fraction(1, 3)], ids=repr)
def test_a_deadline_in_the_past_is_due_at_once(loop, run_forever, when):
    fired = []
    loop.call_at(when, lambda: (fired.append(1), loop.stop()))
    run_forever()
    assert fired == [1]


@pytest.mark.mainspring_only
def test_a_nan_deadline_is_due_at_once(loop, run_forever):
    # As in asyncio up to Python 3.12; later versions raise when the loop processes the timer.
    fired = []
    loop.call_later(math.nan, fired.append, 1)
    loop.call_at(math.nan, fired.append, 2)
    loop.call_later(0, loop.stop)
    run_forever()
    assert sorted(fired) == [1, 2]


@pytest.mark.parametrize("delay", [0.001, fractions.Fraction(1, 1000), 1e-9], ids=repr)
def test_a_short_delay_wakes_the_loop(loop, run_forever, delay):
    loop.call_later(delay, loop.stop)
    run_forever()


@pytest.mark.parametrize(
    "delay", [math.inf, 1e300, 1e18, 2**63, 2**64, 10**30, 1e9, 86400, 24 * 3600 * 365], ids=repr
)
def test_a_distant_timer_does_not_fire(loop, run_forever, delay):
    fired = []
    handle = loop.call_later(delay, fired.append, 1)
    assert handle.when() >= loop.time() + 80_000
    loop.call_later(0.001, loop.stop)
    run_forever()
    assert fired == []
    assert not handle.cancelled()
    handle.cancel()
    assert handle.cancelled()


def test_a_loop_with_only_an_infinite_timer_is_woken_by_a_thread(loop, run_forever):
    import threading

    loop.call_later(math.inf, print)
    thread = threading.Thread(target=lambda: loop.call_soon_threadsafe(loop.stop))
    loop.call_soon(thread.start)
    run_forever()
    thread.join()


@pytest.mark.parametrize(
    "delay", [None, "1", b"1", [], {}, object(), decimal.Decimal(1)], ids=lambda value: type(value).__name__
)
def test_a_delay_of_another_type_raises_type_error(loop, run_iteration, delay):
    ran = []
    with pytest.raises(TypeError):
        loop.call_later(delay, ran.append, 1)
    run_iteration()
    assert ran == []


def test_a_delay_too_large_for_a_float_raises_overflow_error(loop):
    with pytest.raises(OverflowError):
        loop.call_later(10**400, print)


def test_call_at_none_is_refused(loop):
    # Before Python 3.11 asyncio asserts.
    with pytest.raises((TypeError, AssertionError)):
        loop.call_at(None, print)


@pytest.mark.mainspring_only
@pytest.mark.parametrize("when", ["1", [], object(), 1j], ids=lambda value: type(value).__name__)
def test_call_at_refuses_other_types_at_once(loop, when):
    # asyncio accepts it, and raises when the loop processes the timer.
    with pytest.raises(TypeError):
        loop.call_at(when, print)


def test_an_exception_from_the_arithmetic_of_the_delay_propagates(loop):
    class Delay(float):
        def __radd__(self, other):
            raise LookupError("no delay")

    with pytest.raises(LookupError, match="no delay"):
        loop.call_later(Delay(1), print)


def test_when_returns_the_deadline_in_every_state(loop, run_forever):
    when = loop.time() + 0.001
    waiting = loop.call_at(when, loop.stop)
    cancelled = loop.call_at(when, print)
    assert waiting.when() == cancelled.when() == when
    cancelled.cancel()
    assert cancelled.when() == when
    run_forever()
    assert waiting.when() == when
    waiting.cancel()
    assert waiting.when() == when
    kept = loop.call_at(when + 1000, print)
    loop.close()
    assert waiting.when() == cancelled.when() == when
    assert kept.when() == when + 1000


def test_when_returns_the_object_passed_to_call_at(loop):
    when = fractions.Fraction(10**10)
    handle = loop.call_at(when, print)
    assert handle.when() == when
    handle.cancel()


def test_when_of_call_later_lies_between_the_clocks_around_it(loop):
    before = loop.time()
    handle = loop.call_later(100, print)
    after = loop.time()
    assert before + 100 <= handle.when() <= after + 100
    handle.cancel()


@pytest.mark.parametrize("delay", [0, -1, 0.0])
def test_a_delay_of_zero_still_returns_a_timer_handle(loop, delay):
    handle = loop.call_later(delay, print)
    assert isinstance(handle, asyncio.TimerHandle)
    handle.cancel()


def test_a_timer_cancelled_by_another_in_the_same_iteration_does_not_fire(loop, run_forever):
    fired = []
    first = loop.call_at(1, lambda: (fired.append("first"), second.cancel(), third.cancel()))
    second = loop.call_at(2, fired.append, "second")
    third = loop.call_at(3, fired.append, "third")
    loop.call_at(4, loop.stop)
    run_forever()
    assert fired == ["first"]
    assert not first.cancelled()
    assert second.cancelled() and third.cancelled()


def test_a_timer_may_cancel_itself_while_it_runs(loop, run_forever):
    fired = []

    def fire():
        handle.cancel()
        fired.append(handle.cancelled())
        loop.stop()

    handle = loop.call_later(0, fire)
    run_forever()
    assert fired == [True]


def test_a_timer_cancelled_before_its_deadline_never_fires(loop, run_forever):
    fired = []
    handles = [loop.call_later(0.001, fired.append, index) for index in range(100)]
    for handle in handles[::2]:
        handle.cancel()
    loop.call_later(0.002, loop.stop)
    run_forever()
    assert sorted(fired) == list(range(1, 100, 2))


def test_cancelling_a_fired_timer_does_not_affect_a_new_one(loop, run_forever, run_iteration):
    fired = []
    old = [loop.call_at(1, fired.append, "old") for _ in range(10)]
    run_iteration()
    new = [loop.call_at(1, fired.append, "new") for _ in range(10)]
    for handle in old:
        handle.cancel()
        handle.cancel()
    loop.call_at(2, loop.stop)
    run_forever()
    assert fired == ["old"] * 10 + ["new"] * 10
    assert not any(handle.cancelled() for handle in new)


class Tracked:
    def __call__(self, *args):
        pass


def test_cancelling_a_timer_handle_constructed_directly_affects_no_other(loop, run_forever):
    fired = []
    first = loop.call_later(0, fired.append, "first")
    by_hand = type(first)(loop.time(), print, (), loop)
    by_hand._scheduled = True
    by_hand.cancel()
    loop.call_later(0.001, loop.stop)
    run_forever()
    assert fired == ["first"]


def test_cancelling_a_timer_whose_loop_was_replaced_affects_no_timer_there(loop_factory):
    here, there = loop_factory(), loop_factory()
    fired = []
    timer = here.call_later(0, fired.append, "here")
    there.call_later(0, fired.append, "there")
    timer._loop = there
    timer.cancel()
    there.call_later(0.001, there.stop)
    there.run_forever()
    assert fired == ["there"]


def test_cancelling_releases_callback_and_arguments_at_once(loop):
    for schedule in (loop.call_soon, lambda *call: loop.call_later(1000, *call)):
        callback, argument = Tracked(), Tracked()
        references = weakref.ref(callback), weakref.ref(argument)
        handle = schedule(callback, argument)
        del callback, argument
        assert all(reference() is not None for reference in references)
        handle.cancel()
        assert [reference() for reference in references] == [None, None]


def test_firing_releases_callback_and_arguments(loop, run_iteration):
    callback, argument = Tracked(), Tracked()
    references = weakref.ref(callback), weakref.ref(argument)
    loop.call_soon(callback, argument)
    loop.call_later(0, callback, argument)
    del callback, argument
    run_iteration()
    assert [reference() for reference in references] == [None, None]


def test_finalizers_run_by_cancelling_a_timer_may_use_the_loop(loop, run_iteration):
    ran = []

    class Restless:
        def __call__(self):
            pass

        def __del__(self):
            loop.call_soon(ran.append, "soon")
            loop.call_later(0, ran.append, "later")

    for _ in range(100):
        loop.call_later(1000, Restless()).cancel()
    run_iteration()
    assert sorted(ran) == ["later"] * 100 + ["soon"] * 100


@pytest.mark.mainspring_only
def test_cancelled_timers_leave_the_queue_at_once(loop):
    _, idle, _ = loop._counts()
    handles = [loop.call_later(1000 + index, print) for index in range(10_000)]
    assert loop._counts()[1] == idle + 10_000
    for handle in handles:
        handle.cancel()
    assert loop._counts()[1] == idle


@pytest.mark.mainspring_only
def test_a_cancelled_timer_is_freed_with_its_last_reference(loop):
    handle = loop.call_later(1000, print)
    reference = weakref.ref(handle)
    handle.cancel()
    del handle
    assert reference() is None


def test_timers_referenced_only_by_the_loop_still_fire(loop, run_forever):
    fired = []
    for index in range(10):
        loop.call_later(0.001, fired.append, index)
    gc.collect()
    loop.call_later(0.002, loop.stop)
    run_forever()
    assert sorted(fired) == list(range(10))


def test_timers_compare_by_their_deadlines(loop):
    early, late = loop.call_at(10**9, print), loop.call_at(10**9 + 1, print)
    assert early < late and late > early and early <= late and late >= early
    assert not late < early
    assert early == early and early != late
    assert hash(early) == hash(10**9)
    assert sorted([late, early]) == [early, late]
    twin = loop.call_at(10**9, early._callback)
    assert twin == early and hash(twin) == hash(early)
    assert early <= twin and early >= twin
    assert (early == 1) is False
    with pytest.raises(TypeError):
        early < 1  # noqa: B015


def test_a_timer_set_in_a_timer_waits_for_the_next_iteration(loop, run_iteration):
    fired = []
    loop.call_later(0, lambda: (fired.append(1), loop.call_later(-1, fired.append, 2)))
    run_iteration()
    assert fired == [1]
    run_iteration()
    assert fired == [1, 2]


def test_sleep_of_zero_and_negative_delays(run):
    async def main():
        for delay in (0, -1, 0.0, -math.inf, 1e-9):
            await asyncio.sleep(delay)

    run(main())


def test_sleep_for_ever_can_be_cancelled(run):
    async def main():
        task = asyncio.ensure_future(asyncio.sleep(math.inf))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(main())
