"""Nested runs: callbacks and tasks that run their own loop."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import socket
import sys

import pytest

import mainspring

pytestmark = pytest.mark.mainspring_only

LIMIT = 30

variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="unset")


@pytest.fixture
def loop(loop_factory, loop_kind):
    loop = loop_factory()
    mainspring.allow_nested(loop)
    return loop


async def value_after(delay, value):
    await asyncio.sleep(delay)
    return value


def test_a_nested_run_is_refused_unless_it_is_allowed(loop_factory, loop_kind):
    loop = loop_factory()

    async def main():
        coroutine = value_after(0, 1)
        with pytest.raises(RuntimeError, match="already running"):
            loop.run_until_complete(coroutine)
        with pytest.raises(RuntimeError, match="already running"):
            loop.run_forever()
        with pytest.raises(RuntimeError, match="running event loop"):
            mainspring.run(coroutine)
        coroutine.close()
        mainspring.allow_nested()
        return loop.run_until_complete(value_after(0, 2))

    assert loop.run_until_complete(main()) == 2


@pytest.mark.parametrize("new_loop", [mainspring.Loop, mainspring.new_event_loop])
def test_the_constructor_allows_nested_runs(new_loop, loop_kind):
    loop = new_loop(nested=True)

    async def main():
        return loop.run_until_complete(value_after(0.001, "nested"))

    assert loop.run_until_complete(main()) == "nested"
    loop.close()


def test_allow_nested_needs_a_mainspring_loop(loop_kind):
    loop = asyncio.SelectorEventLoop()
    with pytest.raises(TypeError, match="SelectorEventLoop"):
        mainspring.allow_nested(loop)
    loop.close()
    with pytest.raises(RuntimeError, match="no running event loop"):
        mainspring.allow_nested()


def test_every_depth_has_its_own_task_and_result(loop):
    async def count_down(depth):
        task = asyncio.current_task()
        await asyncio.sleep(0)
        inner = loop.run_until_complete(count_down(depth - 1)) if depth else []
        assert asyncio.current_task() is task
        assert asyncio.get_running_loop() is loop
        await asyncio.sleep(0)
        assert asyncio.current_task() is task
        return [task, *inner]

    tasks = loop.run_until_complete(count_down(10))
    assert len(set(tasks)) == 11
    assert all(task.done() for task in tasks)


def test_callbacks_have_no_current_task_in_a_nested_run(loop):
    seen = []

    async def main():
        loop.call_soon(lambda: seen.append(asyncio.current_task()))
        loop.run_until_complete(asyncio.sleep(0))

    loop.run_until_complete(main())
    assert seen == [None]


def test_each_callback_runs_once_and_in_order(loop):
    order = []

    def nested():
        order.append("nested begins")
        loop.call_soon(order.append, 3)
        loop.run_until_complete(asyncio.sleep(0))
        order.append("nested ends")
        loop.call_soon(order.append, 5)
        loop.call_soon(loop.stop)

    loop.call_soon(order.append, 0)
    loop.call_soon(nested)
    loop.call_soon(order.append, 1)
    loop.call_soon(order.append, 2)
    loop.call_soon(loop.call_soon, order.append, 4)
    loop.run_forever()
    assert order == [0, "nested begins", 1, 2, 3, 4, "nested ends", 5]


def test_other_tasks_go_on_during_a_nested_run(loop):
    async def main():
        event = asyncio.Event()
        other = asyncio.create_task(event.wait())
        loop.call_soon(event.set)
        loop.run_until_complete(other)
        assert other.done()

    loop.run_until_complete(main())


def test_stop_ends_the_innermost_run(loop):
    order = []

    def nested():
        loop.call_soon(loop.stop)
        loop.run_forever()
        order.append("nested is over")
        loop.call_soon(order.append, "outer continues")
        loop.call_soon(loop.stop)

    loop.call_soon(nested)
    loop.run_forever()
    assert order == ["nested is over", "outer continues"]


def test_a_stopped_nested_run_raises_and_the_outer_one_continues(loop):
    async def main():
        loop.call_soon(loop.stop)
        future = loop.create_future()
        with pytest.raises(RuntimeError, match="stopped before Future completed"):
            loop.run_until_complete(future)
        await asyncio.sleep(0.001)
        return "continued"

    assert loop.run_until_complete(main()) == "continued"


def test_the_end_of_the_outer_future_does_not_end_the_nested_run(loop):
    outer = loop.create_future()
    results = []

    async def nested():
        outer.set_result("outer")
        for _ in range(5):
            await asyncio.sleep(0)
        assert outer.done()
        return "nested"

    loop.call_soon(lambda: results.append(loop.run_until_complete(nested())))
    assert loop.run_until_complete(outer) == "outer"
    assert results == ["nested"]


def test_two_runs_can_wait_for_one_future(loop):
    future = loop.create_future()
    results = []
    loop.call_soon(lambda: results.append(loop.run_until_complete(future)))
    loop.call_later(0.001, future.set_result, "done")
    assert loop.run_until_complete(future) == "done"
    assert results == ["done"]


@pytest.mark.parametrize("depth", [1, 2])
def test_a_nested_run_refuses_to_wait_for_a_task_that_waits_for_it(loop, depth):
    async def wait_for(task, depth):
        if depth > 1:
            return loop.run_until_complete(wait_for(task, depth - 1))
        with pytest.raises(RuntimeError, match="waits for this nested run"):
            loop.run_until_complete(task)
        return "refused"

    async def main():
        return await wait_for(asyncio.current_task(), depth)

    assert loop.run_until_complete(main()) == "refused"
    assert loop.run_until_complete(main()) == "refused"


def test_the_exception_of_a_nested_run_reaches_its_caller(loop):
    async def fail():
        await asyncio.sleep(0)
        raise ValueError("nested")

    async def main():
        with pytest.raises(ValueError, match="nested"):
            loop.run_until_complete(fail())
        return "continued"

    assert loop.run_until_complete(main()) == "continued"


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_an_exception_that_ends_the_run_passes_through_every_depth(loop, kind):
    async def fail():
        raise kind

    reached = []

    async def main():
        try:
            loop.run_until_complete(fail())
        except kind:
            reached.append(asyncio.current_task())
            raise

    task = loop.create_task(main())
    with pytest.raises(kind):
        loop.run_until_complete(task)
    assert reached == [task]
    assert loop.run_until_complete(value_after(0, "usable")) == "usable"
    del task
    gc.collect()


def test_cancelling_the_outer_task_takes_effect_at_its_next_await(loop):
    steps = []

    async def main():
        task = asyncio.current_task()
        loop.call_soon(task.cancel)
        steps.append(loop.run_until_complete(value_after(0.001, "nested completes")))
        await asyncio.sleep(LIMIT)

    with pytest.raises(asyncio.CancelledError):
        loop.run_until_complete(main())
    assert steps == ["nested completes"]


def test_cancelling_the_nested_task_raises_in_the_caller(loop):
    async def main():
        inner = loop.create_task(asyncio.sleep(LIMIT))
        loop.call_soon(inner.cancel)
        with pytest.raises(asyncio.CancelledError):
            loop.run_until_complete(inner)
        await asyncio.sleep(0)
        return "continued"

    assert loop.run_until_complete(main()) == "continued"


def test_wait_for_in_a_nested_run(loop):
    async def main():
        with pytest.raises(asyncio.TimeoutError):
            loop.run_until_complete(asyncio.wait_for(loop.create_future(), 0.001))
        return "continued"

    assert loop.run_until_complete(main()) == "continued"


@pytest.mark.skipif(sys.version_info < (3, 11), reason="TaskGroup and timeout() are new in Python 3.11")
def test_task_groups_and_timeouts_work_at_every_depth(loop):
    async def work(depth):
        async with asyncio.timeout(LIMIT), asyncio.TaskGroup() as group:
            tasks = [group.create_task(value_after(0, depth)) for _ in range(3)]
            inner = loop.run_until_complete(work(depth - 1)) if depth else 0
        return sum(task.result() for task in tasks) + inner

    assert loop.run_until_complete(work(3)) == 18


@pytest.mark.skipif(sys.version_info < (3, 12), reason="eager tasks are new in Python 3.12")
def test_eager_tasks_can_run_the_loop(loop):
    loop.set_task_factory(asyncio.eager_task_factory)

    async def inner():
        task = asyncio.current_task()
        result = loop.run_until_complete(value_after(0.001, "deep"))
        assert asyncio.current_task() is task
        return result

    async def main():
        task = asyncio.current_task()
        result = await asyncio.create_task(inner())
        assert asyncio.current_task() is task
        return result

    assert loop.run_until_complete(main()) == "deep"


def test_a_nested_task_copies_the_context_of_its_caller(loop):
    async def nested():
        seen = variable.get()
        variable.set("nested")
        await asyncio.sleep(0)
        return seen, variable.get()

    async def main():
        variable.set("outer")
        seen = loop.run_until_complete(nested())
        return seen, variable.get()

    assert loop.run_until_complete(main()) == (("outer", "nested"), "outer")
    assert variable.get() == "unset"


@pytest.mark.skipif(sys.version_info < (3, 11), reason="create_task(context=) is new in Python 3.11")
def test_a_task_whose_context_is_entered_continues_after_the_nested_run(loop):
    shared = contextvars.copy_context()
    order = []

    async def sharing():
        order.append("sharing")
        variable.set("by sharing")

    async def main():
        task = loop.create_task(sharing(), context=shared)
        loop.run_until_complete(value_after(0.001, None))
        order.append("nested is over")
        await task
        return variable.get()

    assert loop.run_until_complete(loop.create_task(main(), context=shared)) == "by sharing"
    assert order == ["nested is over", "sharing"]


def test_a_callback_whose_context_is_entered_runs_in_a_copy(loop):
    shared = contextvars.copy_context()
    seen = []

    def outer():
        variable.set("outer")
        loop.call_soon(lambda: seen.append(variable.get()), context=shared)
        loop.run_until_complete(asyncio.sleep(0))
        loop.stop()

    loop.call_soon(outer, context=shared)
    loop.run_forever()
    assert seen == ["outer"]


def test_a_reader_that_runs_the_loop_is_called_for_the_same_data(loop, pair):
    ours, theirs = pair
    depth, order = [], []

    def readable():
        order.append(len(depth))
        if not depth:
            depth.append(None)
            loop.run_until_complete(future)
            loop.stop()
        else:
            ours.recv(1)
            future.set_result(None)

    future = loop.create_future()
    loop.add_reader(ours, readable)
    theirs.send(b"x")
    loop.run_forever()
    loop.remove_reader(ours)
    assert order == [0, 1]


def test_a_protocol_that_runs_the_loop_receives_later_data(loop):
    received = []
    futures = [loop.create_future() for _ in range(3)]

    class Recursive(asyncio.Protocol):
        def connection_made(self, transport):
            self.transport = transport

        def data_received(self, data):
            received.append(data)
            index = len(received)
            futures[index - 1].set_result(None)
            if index < 3:
                self.transport.write(b"next")
                loop.run_until_complete(futures[index])

    async def main():
        ours, theirs = socket.socketpair()
        theirs.setblocking(False)
        transport, _ = await loop.create_connection(Recursive, sock=ours)
        await loop.sock_sendall(theirs, b"0")
        for index in (1, 2):
            assert await loop.sock_recv(theirs, 100) == b"next"
            await loop.sock_sendall(theirs, b"%d" % index)
        await futures[2]
        transport.close()
        theirs.close()
        await asyncio.sleep(0)

    loop.run_until_complete(asyncio.wait_for(main(), LIMIT))
    assert received == [b"0", b"1", b"2"]
