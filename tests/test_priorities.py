"""Priorities: lanes, their inheritance, and how long a background callback waits."""

from __future__ import annotations

import asyncio
import contextvars
import os
import sys
import threading

import pytest
from busy_loop import BusyLoop, iterations, run
from hypothesis import given, settings
from hypothesis import strategies as st

import mainspring
from mainspring import Lane

pytestmark = pytest.mark.mainspring_only


def test_lanes_run_in_order(loop):
    order = []
    with mainspring.background(max_overdue=None):
        loop.call_soon(order.append, "background")
    loop.call_soon(order.append, "normal")
    with mainspring.urgent():
        loop.call_soon(order.append, "urgent")
    loop.call_soon(loop.call_later, 0.01, loop.stop)
    loop.run_forever()
    assert order == ["urgent", "normal", "background"]


def test_the_lane_ends_with_its_block():
    assert mainspring.current_lane() is Lane.NORMAL
    with mainspring.background():
        assert mainspring.current_lane() is Lane.BACKGROUND
        with mainspring.urgent():
            assert mainspring.current_lane() is Lane.URGENT
        with mainspring.normal():
            assert mainspring.current_lane() is Lane.NORMAL
        assert mainspring.current_lane() is Lane.BACKGROUND
    assert mainspring.current_lane() is Lane.NORMAL


def test_a_scope_can_be_entered_more_than_once():
    scope = mainspring.background()
    with scope:
        with scope:
            assert mainspring.current_lane() is Lane.BACKGROUND
        assert mainspring.current_lane() is Lane.BACKGROUND
    assert mainspring.current_lane() is Lane.NORMAL


@pytest.mark.parametrize("limit", [-1, -0.001, float("nan")])
def test_a_negative_limit_is_refused(limit):
    with pytest.raises(ValueError, match="max_overdue must not be negative"):
        mainspring.background(max_overdue=limit)


@pytest.mark.parametrize("limit", [0, 0.5, 10**30, float("inf"), None])
def test_limits_that_are_accepted(limit):
    with mainspring.background(max_overdue=limit):
        assert mainspring.current_lane() is Lane.BACKGROUND


def test_tasks_and_callbacks_inherit_the_lane():
    async def main(loop):
        lanes = []

        def note():
            lanes.append(mainspring.current_lane())

        async def child():
            note()
            await asyncio.sleep(0)
            note()

        async def parent():
            note()
            loop.call_soon(note)
            loop.call_later(0, note)
            await asyncio.create_task(child())
            await asyncio.gather(child(), child())

        with mainspring.background():
            task = asyncio.create_task(parent())
        note()
        await task
        return lanes

    lanes = run(main)
    assert lanes[0] is Lane.NORMAL
    assert lanes[1:] == [Lane.BACKGROUND] * 9


@pytest.mark.skipif(sys.version_info < (3, 11), reason="asyncio.TaskGroup")
def test_task_groups_inherit_the_lane():
    async def main(loop):
        async def child():
            return mainspring.current_lane()

        with mainspring.background():
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(child()) for _ in range(3)]
        return [task.result() for task in tasks]

    assert run(main) == [Lane.BACKGROUND] * 3


@pytest.mark.skipif(sys.version_info < (3, 12), reason="eager tasks")
def test_eager_tasks_inherit_the_lane():
    async def main(loop):
        loop.set_task_factory(asyncio.eager_task_factory)
        lanes = []

        async def child():
            lanes.append(mainspring.current_lane())
            await asyncio.sleep(0)
            lanes.append(mainspring.current_lane())

        with mainspring.background():
            task = asyncio.create_task(child())
        assert lanes == [Lane.BACKGROUND]
        await task
        return lanes

    assert run(main) == [Lane.BACKGROUND] * 2


def test_a_task_with_a_context_of_its_own_gets_the_lane_of_that():
    async def main(loop):
        with mainspring.background(max_overdue=None):
            context = contextvars.copy_context()
        loop.call_soon(order.append, "normal")
        loop.call_soon(order.append, "background", context=context)
        loop.call_soon(order.append, "normal")
        await iterations(1)
        before = list(order)
        await asyncio.sleep(0.01)
        return before

    order = []
    assert run(main) == ["normal", "normal"]
    assert order == ["normal", "normal", "background"]


def test_a_background_task_runs_only_when_nothing_else_is_ready():
    async def main(loop):
        steps = []

        async def work():
            for number in range(3):
                steps.append(number)
                await asyncio.sleep(0)

        busy = BusyLoop(loop)
        with mainspring.background(max_overdue=None):
            task = asyncio.create_task(work())
        await iterations(200)
        before = list(steps)
        busy.stop()
        await task
        return before, steps

    assert run(main) == ([], [0, 1, 2])


def test_an_overdue_callback_runs_on_a_busy_loop():
    async def main(loop):
        busy = BusyLoop(loop, width=10)
        done = loop.create_future()
        with mainspring.background(max_overdue=0.01):
            loop.call_soon(done.set_result, None)
        await done
        busy.stop()
        return busy.runs

    assert run(main) > 10


class SteppingLoop(mainspring.Loop):
    """A loop whose clock only the test moves."""

    now = 1000.0

    def time(self):
        return self.now


@settings(max_examples=100, deadline=None)
@given(
    width=st.integers(1, 10),
    limit=st.integers(0, 50),
    durations=st.lists(st.integers(1, 20), min_size=1, max_size=5),
)
def test_a_background_call_is_at_most_one_callback_late(width, limit, durations):
    """While the loop is busy with normal callbacks, and one background callback waits at a time."""
    loop = SteppingLoop()
    lateness = []
    ran = 0

    def busy():
        nonlocal ran
        SteppingLoop.now += durations[ran % len(durations)]
        ran += 1
        if ran < 200:
            loop.call_soon(busy)
        else:
            loop.stop()

    def background(since):
        lateness.append(loop.time() - since - limit)
        with mainspring.background(max_overdue=limit):
            loop.call_soon(background, loop.time())

    for _ in range(width):
        loop.call_soon(busy)
    with mainspring.background(max_overdue=limit):
        loop.call_soon(background, loop.time())
    loop.run_forever()
    loop.close()
    assert lateness
    assert max(lateness) <= max(durations)


def test_after_resumes_when_nothing_else_is_ready(monkeypatch):
    monkeypatch.setattr(mainspring._priorities, "DEFAULT_MAX_OVERDUE", None)

    async def main(loop):
        resumed = []

        async def work():
            resumed.append(await mainspring.after(0.005, "result"))

        task = asyncio.create_task(work())
        busy = BusyLoop(loop)
        await asyncio.sleep(0.05)
        before = list(resumed)
        busy.stop()
        await task
        return before, resumed

    assert run(main) == ([], ["result"])


def test_after_is_overdue_on_a_busy_loop():
    async def main(loop):
        busy = BusyLoop(loop)
        with mainspring.background(max_overdue=0.01):
            await mainspring.after(0.005)
        busy.stop()

    run(main)


def test_after_can_be_cancelled():
    async def main(loop):
        task = asyncio.create_task(mainspring.after(3600))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return loop._counts()[1]

    assert run(main) == 0


def test_after_needs_a_loop_with_lanes():
    async def main():
        await mainspring.after(0)

    loop = asyncio.SelectorEventLoop()
    with pytest.raises(TypeError, match=r"mainspring\.after\(\) needs a mainspring loop"):
        loop.run_until_complete(main())
    loop.close()


def test_call_after_runs_in_the_background(loop):
    order = []
    loop.call_later(0.01, order.append, "normal")
    handle = loop.call_after(0.01, order.append, "background")
    loop.call_later(0.05, loop.stop)
    assert isinstance(handle, asyncio.TimerHandle)
    loop.run_forever()
    assert order == ["normal", "background"]


def test_call_after_can_be_cancelled(loop):
    order = []
    loop.call_after(0, order.append, "cancelled").cancel()
    loop.call_later(0.01, loop.stop)
    loop.run_forever()
    assert order == []


def test_calls_from_other_threads_keep_their_lane():
    async def main(loop):
        order = []

        def send():
            with mainspring.background(max_overdue=None):
                loop.call_soon_threadsafe(order.append, "background")
            loop.call_soon_threadsafe(order.append, "normal")
            with mainspring.urgent():
                loop.call_soon_threadsafe(order.append, "urgent")

        thread = threading.Thread(target=send)
        thread.start()
        thread.join()
        await asyncio.sleep(0.01)
        return order

    assert run(main) == ["urgent", "normal", "background"]


def test_reprs_show_the_lane(loop):
    with mainspring.background():
        assert "lane=background" in repr(loop.call_soon(int))
        assert "lane=background" in repr(loop.call_later(0, int))
        assert "lane=background" in repr(loop.call_soon_threadsafe(int))
        task = loop.create_task(asyncio.sleep(0))
        assert repr(task).startswith("<Task pending ")
        assert repr(task).endswith(" lane=background>")
    with mainspring.urgent():
        assert "lane=urgent" in repr(loop.call_soon(int))
    assert "lane" not in repr(loop.call_soon(int))
    assert "lane" not in repr(loop.call_later(0, int))
    loop.run_until_complete(task)


@pytest.mark.parametrize("io_first", [False, True])
def test_io_first_serves_io_before_each_callback(io_first):
    async def main(loop):
        order = []
        reader, writer = os.pipe()

        def read():
            order.append("io")
            os.read(reader, 1)

        loop.add_reader(reader, read)
        loop.call_soon(os.write, writer, b"x")
        loop.call_soon(order.append, "first")
        loop.call_soon(order.append, "second")
        await asyncio.sleep(0.01)
        loop.remove_reader(reader)
        os.close(reader)
        os.close(writer)
        return order

    expected = ["io", "first", "second"] if io_first else ["first", "second", "io"]
    assert run(main, io_first=io_first) == expected


def test_new_event_loop_takes_io_first():
    loop = mainspring.new_event_loop(io_first=True)
    loop.close()


def test_io_that_never_ends_does_not_starve_callbacks():
    async def main(loop):
        reader, writer = os.pipe()
        os.write(writer, b"x")
        loop.add_reader(reader, lambda: None)
        for _ in range(50):
            await asyncio.sleep(0)
        loop.remove_reader(reader)
        os.close(reader)
        os.close(writer)

    run(main, io_first=True)


def test_a_forged_setting_is_a_normal_lane(loop):
    order = []
    variable = mainspring._mainspring.lane_variable()
    context = contextvars.copy_context()
    context.run(variable.set, "background")
    loop.call_soon(order.append, "forged", context=context)
    loop.call_soon(order.append, "normal")
    loop.call_soon(loop.stop)
    loop.run_forever()
    assert order == ["forged", "normal"]


def test_a_background_task_is_a_task_in_every_way():
    async def main(loop):
        async def work():
            assert asyncio.current_task() is task
            return 42

        with mainspring.background():
            task = asyncio.create_task(work(), name="worker")
        assert isinstance(task, asyncio.Task)
        assert task.get_name() == "worker"
        assert task in asyncio.all_tasks()
        return await task

    assert run(main) == 42


def test_slow_background_callbacks_are_reported_with_their_lane(caplog):
    async def main(loop):
        loop.set_debug(True)
        loop.slow_callback_duration = 0
        with mainspring.background():
            loop.call_soon(int)
        await asyncio.sleep(0.01)

    run(main)
    assert any("lane=background" in record.getMessage() for record in caplog.records)
