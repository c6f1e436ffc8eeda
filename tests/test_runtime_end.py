"""How a ``mainspring.Runtime`` ends: nothing that it has accepted is lost."""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import socket
import threading

import pytest

import mainspring

pytestmark = pytest.mark.mainspring_only

LIMIT = 30
Cancelled = concurrent.futures.CancelledError


async def value(result):
    await asyncio.sleep(0)
    return result


class Endless:
    """A coroutine that ends only when it is cancelled, and then cleans up."""

    def __init__(self):
        self.begun, self.cleaned_up = threading.Event(), threading.Event()

    async def run(self):
        self.begun.set()
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            await asyncio.sleep(0)
            self.cleaned_up.set()

    def submit(self, runtime):
        future = runtime.submit(self.run())
        assert self.begun.wait(LIMIT)
        return future


# --- leaving the block


def test_leaving_the_block_waits_for_accepted_work():
    with mainspring.Runtime() as runtime:
        slow = runtime.delay(0.05, "slow")
        call = runtime.call(len, "four")
    assert slow.done() and call.done()
    assert (slow.result(), call.result()) == ("slow", 4)


def test_leaving_the_block_waits_for_work_that_continues_accepted_work():
    with mainspring.Runtime() as runtime:
        future = runtime.delay(0.02, 1).and_then(lambda number: runtime.delay(0.02, number + 1)).map(str)
    assert future.done()
    assert future.result() == "2"


def test_the_thread_and_the_loop_have_ended_after_the_block():
    with mainspring.Runtime() as runtime:
        thread = runtime.call(threading.current_thread).result(LIMIT)
    assert not thread.is_alive()
    assert runtime.get_loop().is_closed()


def test_work_is_cancelled_after_the_shutdown_timeout():
    endless = Endless()
    with mainspring.Runtime(shutdown_timeout=0) as runtime:
        future = endless.submit(runtime)
        composed = future.map(str)
    assert endless.cleaned_up.is_set()
    for settled in (future, composed):
        assert settled.done()
        with pytest.raises(Cancelled):
            settled.result()


def test_work_is_cancelled_when_an_exception_leaves_the_block():
    endless = Endless()
    with pytest.raises(ZeroDivisionError), mainspring.Runtime() as runtime:
        future = endless.submit(runtime)
        raise ZeroDivisionError
    assert endless.cleaned_up.is_set()
    assert future.cancelled()


def test_calls_that_have_not_begun_are_cancelled_and_not_made():
    go_on, made = threading.Event(), []
    runtime = mainspring.Runtime()
    runtime.call(go_on.wait, LIMIT)
    futures = [runtime.call(made.append, 1), runtime.submit(value(1))]
    ending = threading.Thread(target=runtime.shutdown, args=(0,))
    ending.start()
    # The request is there when the busy callback returns.
    while runtime._thread.end < 3:
        os.sched_yield()
    go_on.set()
    ending.join(LIMIT)
    assert [future.cancelled() for future in futures] == [True, True]
    assert made == []


def test_a_result_despite_the_cancellation_is_kept():
    begun = threading.Event()

    async def stubborn():
        try:
            begun.set()
            await asyncio.sleep(1000)
        except asyncio.CancelledError:
            return "finished anyway"

    runtime = mainspring.Runtime()
    future = runtime.submit(stubborn())
    assert begun.wait(LIMIT)
    runtime.shutdown(0)
    assert future.result(LIMIT) == "finished anyway"


def test_other_tasks_of_the_loop_are_cancelled_as_by_asyncio_run():
    endless = Endless()

    async def start():
        return asyncio.ensure_future(endless.run())

    with mainspring.Runtime() as runtime:
        task = runtime.run(start())
        assert endless.begun.wait(LIMIT)
    assert endless.cleaned_up.is_set()
    assert task.cancelled()


def test_timers_and_registered_fds_do_not_keep_the_block():
    near, far = socket.socketpair()
    with near, far, mainspring.Runtime() as runtime:
        loop = runtime.get_loop()
        runtime.call(loop.add_reader, near, print).result(LIMIT)
        runtime.call(loop.call_later, 1000, print).result(LIMIT)


def test_async_generators_and_the_executor_are_shut_down():
    closed, threads = [], []

    async def numbers():
        try:
            yield 1
        finally:
            closed.append(True)

    async def start():
        await asyncio.get_running_loop().run_in_executor(
            None, lambda: threads.append(threading.current_thread())
        )
        generator = numbers()
        await generator.__anext__()
        return generator

    with mainspring.Runtime() as runtime:
        generator = runtime.run(start())
    assert closed == [True]
    assert not threads[0].is_alive()
    del generator


def test_a_task_that_submits_work_while_it_is_cancelled_gets_a_cancelled_future():
    futures = []

    async def submit_at_the_end():
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            futures.append(runtime.submit(value(1)))
            futures.append(runtime.call(print))

    async def start():
        asyncio.ensure_future(submit_at_the_end())
        await asyncio.sleep(0)

    with mainspring.Runtime() as runtime:
        runtime.run(start())
    assert [future.cancelled() for future in futures] == [True, True]


def test_tasks_that_raise_system_exit_at_the_end_do_not_break_it():
    endless = Endless()

    async def leave():
        try:
            await endless.run()
        finally:
            raise SystemExit(1)

    runtime = mainspring.Runtime()
    future = runtime.submit(leave())
    assert endless.begun.wait(LIMIT)
    runtime.shutdown(0)
    assert isinstance(future.exception(), SystemExit)
    assert runtime.get_loop().is_closed()


# --- after the end


def test_use_after_the_end_is_an_error_with_a_next_step():
    with mainspring.Runtime(name="ended") as runtime:
        pass
    uses = [
        lambda: runtime.run(value(1)),
        lambda: runtime.submit(value(1)),
        lambda: runtime.call(print),
        lambda: runtime.delay(0),
        lambda: runtime.read(("127.0.0.1", 9)),
    ]
    for use in uses:
        with pytest.raises(RuntimeError, match=r"'ended' was shut down.*create a new mainspring\.Runtime"):
            use()
    runtime.shutdown()
    runtime.join()


def test_a_settled_future_can_be_used_after_the_end():
    with mainspring.Runtime() as runtime:
        future = runtime.submit(value(1))
    assert future.map(str).timeout(1).result() == "1"
    assert asyncio.run(asyncio.wait_for(future, LIMIT)) == 1
    assert not future.cancel()


# --- join


def test_join_waits_until_nothing_is_pending():
    order = []

    async def start():
        # A timer, and a task that another task has started.
        asyncio.get_running_loop().call_later(0.05, order.append, "timer")
        asyncio.ensure_future(later())

    async def later():
        await asyncio.sleep(0.02)
        order.append("task")

    runtime = mainspring.Runtime()
    runtime.submit(start())
    runtime.join()
    assert order == ["task", "timer"]
    assert runtime.get_loop().is_closed()


def test_join_waits_for_a_task_that_another_thread_wakes():
    runtime = mainspring.Runtime()
    foreign = concurrent.futures.Future()

    async def wait_for_the_thread():
        return await asyncio.wrap_future(foreign)

    waiting = runtime.submit(wait_for_the_thread())
    runtime.run(value(1))
    joined = threading.Thread(target=runtime.join)
    joined.start()
    while runtime._thread.end < 1:
        os.sched_yield()
    # The loop has nothing to do but to wait. Work is still accepted.
    assert runtime.run(value(2)) == 2
    assert not waiting.done()
    foreign.set_result("woken")
    joined.join(LIMIT)
    assert waiting.result() == "woken"


def test_a_joining_runtime_accepts_work_until_it_is_idle():
    runtime = mainspring.Runtime()
    endless = Endless()
    work = endless.submit(runtime)
    joined = threading.Thread(target=runtime.join)
    joined.start()
    while runtime._thread.end < 1:
        os.sched_yield()
    results = [runtime.run(value(number)) for number in range(10)]
    work.cancel()
    joined.join(LIMIT)
    assert results == list(range(10))
    with pytest.raises(RuntimeError, match="accepts no more work"):
        runtime.call(print)


def test_shutdown_ends_a_join():
    runtime = mainspring.Runtime()
    work = Endless().submit(runtime)
    joined = threading.Thread(target=runtime.join)
    joined.start()
    runtime.shutdown(0)
    joined.join(LIMIT)
    assert work.cancelled()


# --- many threads


def submit_from_threads_until(end):
    """Ends a runtime by ``end(runtime, stop)`` while four threads submit. Returns the accepted futures."""
    runtime = mainspring.Runtime()
    stop = threading.Event()
    accepted = [[] for _ in range(4)]

    def submit(futures):
        try:
            while not stop.is_set():
                futures.append(runtime.submit(value(1)))
                futures.append(runtime.call(int))
                futures.append(runtime.delay(0).map(str))
        except RuntimeError as error:
            assert "accepts no more work" in str(error)

    threads = [threading.Thread(target=submit, args=(futures,)) for futures in accepted]
    for thread in threads:
        thread.start()
    while not all(accepted):
        os.sched_yield()
    end(runtime, stop)
    stop.set()
    for thread in threads:
        thread.join(LIMIT)
    return sum(accepted, [])


ENDS = {
    "shutdown": lambda runtime, stop: runtime.shutdown(),
    "timeout": lambda runtime, stop: runtime.shutdown(0),
    "join": lambda runtime, stop: (stop.set(), runtime.join()),
}


@pytest.mark.parametrize("way", ENDS)
def test_every_accepted_future_is_settled_while_many_threads_submit(way):
    for _ in range(5):
        futures = submit_from_threads_until(ENDS[way])
        assert all(future.done() for future in futures)
        if way != "timeout":
            assert not any(future.cancelled() for future in futures)


def test_many_threads_end_a_runtime_at_once():
    runtime = mainspring.Runtime()
    future = Endless().submit(runtime)
    threads = [threading.Thread(target=runtime.shutdown, args=(0,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT)
    assert future.cancelled()


def test_many_threads_wait_for_and_cancel_the_same_futures():
    outcomes = []

    def wait(future):
        try:
            future.result(LIMIT)
        except Cancelled:
            outcomes.append("cancelled")

    with mainspring.Runtime() as runtime:
        for _ in range(20):
            futures = [Endless().submit(runtime) for _ in range(3)]
            waiters = [threading.Thread(target=wait, args=(future,)) for future in futures for _ in range(2)]
            cancellers = [threading.Thread(target=future.cancel) for future in futures for _ in range(2)]
            for thread in waiters + cancellers:
                thread.start()
            for thread in waiters + cancellers:
                thread.join(LIMIT)
            assert all(future.cancelled() for future in futures)
    assert outcomes == ["cancelled"] * 120


# --- a loop that fails


def test_a_loop_that_fails_settles_what_was_accepted(monkeypatch):
    class Broken(mainspring.Loop):
        def run_forever(self):
            if fails.is_set():
                fails.clear()
                raise OSError("no epoll")
            super().run_forever()

    fails, printed = threading.Event(), []
    monkeypatch.setattr(threading, "excepthook", lambda hook: printed.append(hook.exc_value))
    runtime = mainspring.Runtime(loop_factory=Broken)
    endless = Endless()
    future = endless.submit(runtime)
    fails.set()
    runtime.call(runtime.get_loop().stop)
    with pytest.raises(Cancelled):
        future.result(LIMIT)
    runtime.shutdown()
    assert str(printed[0]) == "no epoll"
