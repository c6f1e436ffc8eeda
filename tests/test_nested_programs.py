"""Nested runs with mainspring.run(), other loops, threads, signals and nest_asyncio."""

from __future__ import annotations

import asyncio
import gc
import signal
import sys
import threading

import pytest

import mainspring

pytestmark = pytest.mark.mainspring_only

LIMIT = 30


@pytest.fixture
def loop(loop_factory, loop_kind):
    loop = loop_factory()
    mainspring.allow_nested(loop)
    return loop


async def value_after(delay, value):
    await asyncio.sleep(delay)
    return value


def test_mainspring_run_uses_the_running_loop(loop):
    async def inner():
        return asyncio.get_running_loop()

    async def main():
        return mainspring.run(inner())

    assert loop.run_until_complete(main()) is loop
    assert not loop.is_closed()


def test_mainspring_run_cancels_what_a_stop_interrupts(loop):
    ended = []

    async def inner():
        try:
            loop.call_soon(loop.stop)
            await asyncio.sleep(LIMIT)
        finally:
            ended.append("cancelled")

    async def main():
        with pytest.raises(RuntimeError, match="stopped before"):
            mainspring.run(inner())

    loop.run_until_complete(main())
    assert ended == ["cancelled"]


def test_mainspring_run_checks_its_argument_and_restores_debug_mode(loop):
    async def is_debug():
        return asyncio.get_running_loop().get_debug()

    async def main():
        with pytest.raises(ValueError, match="a coroutine was expected"):
            mainspring.run(42)
        return mainspring.run(is_debug(), debug=True), loop.get_debug()

    assert loop.run_until_complete(main()) == (True, False)


def test_a_loop_can_run_inside_another_one(loop, loop_factory, loop_kind):
    other = loop_factory()
    mainspring.allow_nested(other)

    async def innermost():
        assert asyncio.get_running_loop() is loop
        return await value_after(0, "innermost")

    async def inner():
        task = asyncio.current_task()
        assert asyncio.get_running_loop() is other
        await asyncio.sleep(0)
        result = loop.run_until_complete(innermost())
        assert asyncio.current_task() is task
        assert asyncio.get_running_loop() is other
        return result

    async def main():
        task = asyncio.current_task()
        hooks = sys.get_asyncgen_hooks()
        result = other.run_until_complete(inner())
        assert not other.is_running()
        assert sys.get_asyncgen_hooks() == hooks
        assert asyncio.get_running_loop() is loop
        assert asyncio.current_task() is task
        await asyncio.sleep(0)
        return result

    assert loop.run_until_complete(main()) == "innermost"
    assert not loop.is_running()


def test_a_loop_can_run_inside_asyncio_s_loop(loop):
    async def main():
        task = asyncio.current_task()
        result = loop.run_until_complete(value_after(0.001, "inner"))
        assert asyncio.current_task() is task
        await asyncio.sleep(0)
        return result

    assert asyncio.run(main()) == "inner"


def test_another_thread_cannot_run_a_running_loop(loop):
    failures = []

    def run_here():
        try:
            loop.run_forever()
        except RuntimeError as error:
            failures.append(str(error))

    async def main():
        thread = threading.Thread(target=run_here)
        thread.start()
        await asyncio.to_thread(thread.join)

    loop.run_until_complete(main())
    assert failures == ["This event loop is already running"]


def test_a_call_from_another_thread_ends_the_wait_of_a_nested_run(loop):
    async def main():
        future = loop.create_future()
        thread = threading.Thread(target=loop.call_soon_threadsafe, args=(future.set_result, "sent"))
        thread.start()
        result = loop.run_until_complete(future)
        thread.join()
        return result

    assert loop.run_until_complete(main()) == "sent"


def test_a_running_loop_cannot_be_closed_at_any_depth(loop):
    async def close():
        with pytest.raises(RuntimeError, match="Cannot close a running event loop"):
            loop.close()

    async def main():
        loop.run_until_complete(close())
        await close()

    loop.run_until_complete(main())


def test_signal_handlers_work_in_and_after_a_nested_run(loop):
    async def main():
        for _ in range(2):
            future = loop.create_future()
            loop.add_signal_handler(signal.SIGUSR1, future.set_result, "caught")
            signal.raise_signal(signal.SIGUSR1)
            assert loop.run_until_complete(future) == "caught"
        future = loop.create_future()
        loop.add_signal_handler(signal.SIGUSR1, future.set_result, "caught again")
        signal.raise_signal(signal.SIGUSR1)
        return await future

    assert loop.run_until_complete(main()) == "caught again"
    assert loop.remove_signal_handler(signal.SIGUSR1)


def test_asynchronous_generators_are_closed_by_the_loop(loop):
    async def numbers():
        try:
            yield 1
            yield 2
        finally:
            closed.append(True)

    closed = []

    async def nested():
        async for _ in numbers():
            break

    async def main():
        loop.run_until_complete(nested())
        gc.collect()
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    loop.run_until_complete(main())
    assert closed == [True]


def test_debug_mode_works_with_nested_runs(loop):
    loop.set_debug(True)
    loop.slow_callback_duration = LIMIT

    async def main():
        return loop.run_until_complete(value_after(0.001, "nested"))

    assert loop.run_until_complete(main()) == "nested"


def test_a_replaced_stop_method_is_called_at_the_end_of_a_run(loop, monkeypatch):
    calls = []
    original = loop.stop
    monkeypatch.setattr(loop, "stop", lambda: (calls.append(loop._run_depth()), original()))

    async def main():
        loop.run_until_complete(value_after(0, None))

    loop.run_until_complete(main())
    assert calls == [2, 1]


PATCHED = """
import asyncio, sys
import mainspring

library = __import__(sys.argv[1])

async def nested():
    await asyncio.sleep(0.001)
    return asyncio.current_task().get_name()

async def main():
    asyncio.current_task().set_name("main")
    loop = asyncio.get_running_loop()
    library.apply()
    named = loop.create_task(nested(), name="nested")
    print(loop.run_until_complete(named), asyncio.current_task().get_name())
    print(asyncio.run(asyncio.wait_for(asyncio.sleep(0.001, "asyncio.run"), 10)))
    print(mainspring.run(asyncio.sleep(0.001, "mainspring.run")))
    await asyncio.wait_for(asyncio.sleep(0.001), 10)
    return isinstance(loop.create_future(), asyncio.Future), loop.is_running()

print(mainspring.run(main()))
print(mainspring.run(main()))
loop = mainspring.new_event_loop()
library.apply(loop)
print(loop.run_until_complete(main()))
loop.close()
"""


@pytest.mark.parametrize("library", ["nest_asyncio", "nest_asyncio2"])
def test_nest_asyncio_allows_nested_runs(library, run_python):
    pytest.importorskip(library)
    if library == "nest_asyncio" and sys.version_info >= (3, 14):
        pytest.skip("nest_asyncio does not support Python 3.14")
    done = run_python(PATCHED, library, flags=["-W", "error", "-W", "ignore::DeprecationWarning"])
    assert done.stderr == ""
    expected = ["nested main", "asyncio.run", "mainspring.run", "(True, True)"]
    assert done.stdout.splitlines() == expected * 3
