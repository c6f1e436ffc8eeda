"""``mainspring.ConcurrentFuture``: results that are composed, cancelled, and awaited on any loop."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import gc
import threading
import weakref

import pytest

import mainspring

pytestmark = pytest.mark.mainspring_only

LIMIT = 30
Cancelled = concurrent.futures.CancelledError


@pytest.fixture
def runtime(reported):
    with mainspring.Runtime(shutdown_timeout=LIMIT) as runtime:
        runtime.get_loop().set_exception_handler(lambda _, context: reported.append(context))
        yield runtime


class Gate:
    """A coroutine that waits until the test opens the gate, and notes how it ended."""

    def __init__(self, runtime):
        self.runtime = runtime
        self.begun, self.ended = threading.Event(), threading.Event()
        self.outcome = None

    async def wait(self):
        self.gate = asyncio.Event()
        self.begun.set()
        try:
            await self.gate.wait()
            self.outcome = "passed"
            return "passed"
        except asyncio.CancelledError:
            self.outcome = "cancelled"
            raise
        finally:
            self.ended.set()

    def submit(self):
        future = self.runtime.submit(self.wait())
        assert self.begun.wait(LIMIT)
        return future

    def open(self):
        self.runtime.call(self.gate.set).result(LIMIT)


async def value(result):
    await asyncio.sleep(0)
    return result


async def fail(error):
    await asyncio.sleep(0)
    raise error


# --- map, and_then, or_else


def test_map_converts_a_result(runtime):
    assert runtime.submit(value(6)).map(lambda number: number * 7).result(LIMIT) == 42


def test_map_of_a_settled_future_runs_at_once_on_the_calling_thread(runtime):
    future = runtime.call(int)
    future.result(LIMIT)
    threads = []
    mapped = future.map(lambda _: threads.append(threading.current_thread()))
    assert mapped.done()
    assert threads == [threading.current_thread()]


def test_map_of_a_pending_future_runs_on_the_loops_thread(runtime):
    gate = Gate(runtime)
    mapped = gate.submit().map(lambda _: threading.current_thread().name)
    gate.open()
    assert mapped.result(LIMIT) == "mainspring"


def test_an_exception_passes_map_and_and_then_unchanged(runtime):
    error = KeyError("unchanged")
    called = []
    failed = runtime.submit(fail(error))
    assert failed.map(called.append).exception(LIMIT) is error
    assert failed.and_then(called.append).exception(LIMIT) is error
    assert called == []


def test_an_exception_of_a_function_fails_the_composed_future(runtime):
    done = runtime.call(int)
    for compose in (done.map, done.and_then):
        with pytest.raises(ZeroDivisionError):
            compose(lambda _: 1 / 0).result(LIMIT)


def test_and_then_continues_with_another_future(runtime):
    future = runtime.submit(value(1)).and_then(lambda number: runtime.submit(value(number + 1)))
    assert future.result(LIMIT) == 2


def test_and_then_takes_futures_of_an_executor(runtime):
    with concurrent.futures.ThreadPoolExecutor(1) as executor:
        future = runtime.submit(value("text")).and_then(lambda text: executor.submit(len, text))
        assert future.map(str).result(LIMIT) == "4"


def test_a_function_that_returns_no_future_is_an_error_with_a_next_step(runtime):
    done = runtime.call(int)
    with pytest.raises(TypeError, match=r"and_then\(\) must return a future, not int"):
        done.and_then(lambda number: number).result(LIMIT)
    with pytest.raises(TypeError, match=r"coroutine: return runtime\.submit\(coroutine\)"):
        done.and_then(value).result(LIMIT)


def test_or_else_continues_after_an_exception_only(runtime):
    failed = runtime.submit(fail(KeyError("missing")))
    assert failed.or_else(lambda error: runtime.call(repr, error)).result(LIMIT) == "KeyError('missing')"
    assert runtime.submit(value(1)).or_else(lambda error: 1 / 0).result(LIMIT) == 1


def test_a_long_chain_does_not_use_the_stack(runtime):
    gate = Gate(runtime)
    first = future = gate.submit()
    for _ in range(5_000):
        future = future.map(lambda text: text)
    gate.open()
    assert future.result(LIMIT) == "passed"
    # And along the whole chain backwards.
    gate = Gate(runtime)
    first = future = gate.submit()
    for _ in range(5_000):
        future = future.map(lambda text: text)
    assert future.cancel()
    assert first.cancelled()


def test_a_chained_function_may_wait_for_the_result_of_another(runtime):
    done = runtime.call(int)
    done.result(LIMIT)
    # Both functions are queued on this thread; the first waits for the second.
    source = concurrent.futures.Future()
    futures = []
    outer = done.and_then(lambda _: source)
    outer.add_done_callback(lambda _: None)
    waiting = outer.map(lambda _: futures[0].result())
    futures.append(outer.map(lambda number: number + 1))
    source.set_result(1)
    assert waiting.result(LIMIT) == 2


# --- cancel


def test_cancelling_the_future_cancels_the_task(runtime):
    gate = Gate(runtime)
    future = gate.submit()
    assert future.cancel()
    assert future.cancelled()
    with pytest.raises(Cancelled):
        future.result(LIMIT)
    assert gate.ended.wait(LIMIT)
    assert gate.outcome == "cancelled"


def test_concurrent_futures_wait_sees_a_cancelled_future(runtime):
    futures = [Gate(runtime).submit(), Gate(runtime).submit().map(str)]
    for future in futures:
        future.cancel()
    assert concurrent.futures.wait(futures, LIMIT).not_done == set()


def test_cancelling_a_composed_future_cancels_what_it_is_composed_of(runtime):
    gate = Gate(runtime)
    composed = gate.submit().map(str).or_else(lambda error: 1 / 0)
    assert composed.cancel()
    assert gate.ended.wait(LIMIT)
    assert gate.outcome == "cancelled"


def test_cancelling_reaches_the_second_future_of_and_then(runtime):
    gate, done = Gate(runtime), runtime.call(int)
    composed = done.and_then(lambda _: runtime.submit(gate.wait()))
    assert gate.begun.wait(LIMIT)
    assert composed.cancel()
    assert gate.ended.wait(LIMIT)
    assert gate.outcome == "cancelled"


def test_a_cancelled_future_cancels_the_composed_ones(runtime):
    first = Gate(runtime).submit()
    composed = [first.map(str), first.and_then(str), first.or_else(str), first.timeout(LIMIT)]
    first.cancel()
    for future in composed:
        with pytest.raises(Cancelled):
            future.result(LIMIT)


def test_a_task_that_ends_by_cancellation_cancels_its_future(runtime):
    with pytest.raises(Cancelled):
        runtime.run(fail(asyncio.CancelledError()))


def test_a_function_is_not_called_when_its_future_is_cancelled(runtime):
    gate, called = Gate(runtime), []
    first = gate.submit()
    composed = first.map(called.append)
    composed.cancel()
    runtime.run(value(1))
    assert called == []


def test_an_exception_during_cancellation_is_reported(runtime, reported):
    begun = threading.Event()

    async def stubborn():
        try:
            begun.set()
            await asyncio.sleep(LIMIT)
        finally:
            raise ZeroDivisionError

    future = runtime.submit(stubborn())
    assert begun.wait(LIMIT)
    assert future.cancel()
    runtime.run(value(1))
    runtime.run(value(1))
    assert isinstance(reported.pop()["exception"], ZeroDivisionError)


# --- timeout


def test_timeout_fails_with_timeout_error_and_cancels_the_work(runtime):
    gate = Gate(runtime)
    first = gate.submit()
    with pytest.raises(TimeoutError, match="no result after 0 seconds"):
        first.timeout(0).result(LIMIT)
    assert gate.ended.wait(LIMIT)
    assert gate.outcome == "cancelled"
    assert first.cancelled()


def test_a_result_in_time_ends_the_timeout():
    runtime = mainspring.Runtime()
    gate = Gate(runtime)
    limited = gate.submit().timeout(1000)
    gate.open()
    assert limited.result(LIMIT) == "passed"
    # Nothing is pending any more: this would wait for the timer.
    runtime.join()


def test_timeout_of_a_settled_future_and_of_a_failed_one(runtime):
    done = runtime.submit(value(1))
    done.result(LIMIT)
    assert done.timeout(0).result(LIMIT) == 1
    with pytest.raises(KeyError):
        runtime.submit(fail(KeyError())).timeout(LIMIT).result(LIMIT)


def test_a_bad_timeout_is_an_exception_of_the_future(runtime):
    with pytest.raises(TypeError):
        Gate(runtime).submit().timeout("soon").result(LIMIT)


# --- await


@pytest.mark.parametrize("run", [asyncio.run, mainspring.run], ids=["asyncio", "mainspring"])
def test_a_future_can_be_awaited_on_any_loop(runtime, run):
    async def main():
        with pytest.raises(KeyError):
            await runtime.submit(fail(KeyError()))
        both = asyncio.gather(runtime.submit(value(1)), runtime.submit(value(2)).map(str))
        return await asyncio.wait_for(both, LIMIT)

    assert run(main()) == [1, "2"]


def test_cancelling_the_task_that_awaits_cancels_the_work(runtime):
    gate = Gate(runtime)

    async def main():
        task = asyncio.ensure_future(gate.submit())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert gate.ended.wait(LIMIT)
    assert gate.outcome == "cancelled"


# --- failures that nobody retrieves


def test_an_exception_that_is_never_retrieved_is_reported(runtime, reported):
    error = KeyError()
    gate = threading.Event()
    runtime.submit(fail(error)).add_done_callback(lambda _: gate.set())
    assert gate.wait(LIMIT)
    runtime.run(value(1))
    gc.collect()
    context = reported.pop()
    assert context["exception"] is error
    assert context["message"] == "ConcurrentFuture exception was never retrieved"


def test_an_exception_that_was_retrieved_is_not_reported(runtime):
    future = runtime.submit(fail(KeyError()))
    assert isinstance(future.map(str).exception(LIMIT), KeyError)
    with pytest.raises(KeyError):
        future.result()
    del future
    gc.collect()


def test_a_wait_that_times_out_does_not_count_as_retrieved(runtime, reported):
    gate = Gate(runtime)
    future = gate.submit().map(lambda _: 1 / 0)
    with pytest.raises(concurrent.futures.TimeoutError):
        future.result(0)
    gate.open()
    runtime.run(value(1))
    del future
    gc.collect()
    assert isinstance(reported.pop()["exception"], ZeroDivisionError)


@pytest.mark.parametrize("work", ["run", "call"])
def test_a_failure_leaves_no_reference_cycle(runtime, work):
    class Error(Exception):
        pass

    def fail_at_once():
        raise Error

    async def fail_in_a_task():
        raise Error

    gc.collect()
    gc.disable()
    try:
        with contextlib.suppress(Error):
            if work == "run":
                runtime.run(fail_in_a_task())
            runtime.call(fail_at_once).result(LIMIT)
        # The loop has left the callback that settled the future.
        runtime.run(value(1))
        left = [found for found in gc.get_objects() if isinstance(found, Error)]
        assert not left, gc.get_referrers(*left)
    finally:
        gc.enable()


def test_composed_futures_leave_no_reference_cycle(runtime):
    class Value:
        pass

    gc.collect()
    gc.disable()
    try:
        first = runtime.submit(value(Value()))
        last = first.map(lambda found: found).and_then(lambda found: runtime.delay(0, found)).timeout(LIMIT)
        reference = weakref.ref(last.result(LIMIT))
        del first, last
        runtime.run(value(1))
        runtime.run(value(1))
        assert reference() is None
    finally:
        gc.enable()
