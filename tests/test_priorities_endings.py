"""Priorities: cancellation and timeouts of background tasks are not delayed."""

from __future__ import annotations

import asyncio
import sys

import pytest
from busy_loop import BusyLoop, iterations, run

import mainspring

pytestmark = pytest.mark.mainspring_only


def test_cancellation_of_a_waiting_background_task_is_not_delayed():
    async def main(loop):
        busy = BusyLoop(loop)
        with mainspring.background(max_overdue=None):
            task = asyncio.create_task(asyncio.sleep(3600))
            await_step = loop.create_future()
            loop.call_soon(await_step.set_result, None)
        busy.stop()
        await await_step
        busy = BusyLoop(loop)
        task.cancel()
        await iterations(3)
        is_done = task.cancelled()
        busy.stop()
        return is_done

    assert run(main)


@pytest.mark.parametrize("debug", [False, True])
def test_cancellation_of_a_queued_background_task_is_not_delayed(debug):
    async def main(loop):
        loop.set_debug(debug)
        started = []

        async def work():
            started.append(True)
            while True:
                await asyncio.sleep(0)

        with mainspring.background(max_overdue=None):
            task = asyncio.create_task(work())
        while not started:
            await asyncio.sleep(0.001)
        busy = BusyLoop(loop)
        await iterations(5)
        task.cancel()
        await iterations(3)
        is_done = task.cancelled()
        busy.stop()
        return is_done

    assert run(main)


def test_many_queued_background_tasks_are_cancelled_at_once():
    async def main(loop):
        async def work():
            while True:
                await asyncio.sleep(0)

        with mainspring.background(max_overdue=None):
            tasks = [asyncio.create_task(work()) for _ in range(20_000)]
        busy = BusyLoop(loop)
        await iterations(3)
        for task in tasks:
            task.cancel()
        await iterations(4)
        is_done = all(task.cancelled() for task in tasks)
        busy.stop()
        return is_done

    assert run(main)


def test_a_queued_background_task_of_a_closed_loop_can_be_cancelled():
    async def main(loop):
        async def work():
            while True:
                await asyncio.sleep(0)

        with mainspring.background(max_overdue=None):
            task = asyncio.create_task(work())
        await asyncio.sleep(0.001)
        return task

    task = run(main)
    task.cancel()
    task._log_destroy_pending = False
    # The coroutine was not closed by the loop.
    task.get_coro().close()


def test_cancellation_reaches_a_task_that_awaits_another_task():
    async def main(loop):
        async def inner():
            await asyncio.sleep(3600)

        async def outer():
            await asyncio.create_task(inner())

        with mainspring.background(max_overdue=None):
            task = asyncio.create_task(outer())
        await asyncio.sleep(0.01)
        busy = BusyLoop(loop)
        task.cancel()
        await iterations(5)
        is_done = task.cancelled()
        busy.stop()
        return is_done

    assert run(main)


def ends_on_a_busy_loop(wait):
    """Whether ``await wait()``, which takes 20 ms, ends in a background task while the loop is busy."""

    async def main(loop):
        ended = []

        async def work():
            await wait()
            ended.append(True)

        with mainspring.background(max_overdue=None):
            task = asyncio.create_task(work())
        await asyncio.sleep(0.005)
        busy = BusyLoop(loop)
        await asyncio.sleep(0.05)
        await iterations(10)
        result = bool(ended)
        busy.stop()
        await task
        return result

    return run(main)


def test_wait_for_interrupts_a_background_task_on_a_busy_loop():
    async def wait():
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(asyncio.sleep(3600), 0.02)

    assert ends_on_a_busy_loop(wait)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="asyncio.timeout()")
def test_asyncio_timeout_interrupts_a_background_task_on_a_busy_loop():
    async def wait():
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.02):
                await asyncio.sleep(3600)

    assert ends_on_a_busy_loop(wait)


def test_wait_with_a_timeout_ends_on_a_busy_loop():
    async def wait():
        waiting = asyncio.get_running_loop().create_future()
        await asyncio.wait([waiting], timeout=0.02)
        waiting.cancel()

    assert ends_on_a_busy_loop(wait)
