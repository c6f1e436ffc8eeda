"""Deadlock detection in virtual time."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import threading

import pytest

from mainspring import testing

pytestmark = pytest.mark.mainspring_only


def deadlock_of(main, **options):
    """Runs ``main()``, which has to end in a deadlock, and returns it."""
    with pytest.raises(testing.Deadlock) as caught:
        testing.run(main(), **options)
    return caught.value


def test_it_lists_every_task_its_line_and_what_it_waits_for():
    queue = None

    async def consume():
        return await queue.get()  # the line of consume

    async def main():
        nonlocal queue
        queue = asyncio.Queue()
        await asyncio.create_task(consume(), name="consumer")  # the line of main

    deadlock = deadlock_of(main)
    consumer, main_task = sorted(deadlock.tasks, key=lambda task: task.name != "consumer")
    assert consumer.name == "consumer"
    assert consumer.coroutine.endswith("consume")
    assert [frame.line for frame in consumer.stack] == ["return await queue.get()  # the line of consume"]
    assert consumer.waits_for.startswith("Queue.get() of <Queue")
    assert main_task.stack[-1].line.endswith("# the line of main")
    assert main_task.waits_for == "the task consumer"
    message = str(deadlock)
    assert "2 tasks wait" in message
    assert f"{os.path.basename(__file__)}:{consumer.stack[0].lineno}, in consume" in message


def test_a_chain_of_coroutines_is_listed_from_the_outside_in():
    async def inner():
        await asyncio.Event().wait()

    async def outer():
        await inner()

    async def main():
        await outer()

    (task,) = deadlock_of(main).tasks
    assert [frame.name for frame in task.stack] == ["main", "outer", "inner"]
    assert task.waits_for.startswith("Event.wait() of")


async def lock():
    lock = asyncio.Lock()
    await lock.acquire()
    await lock.acquire()


async def condition():
    condition = asyncio.Condition()
    async with condition:
        await condition.wait()


async def semaphore():
    await asyncio.Semaphore(0).acquire()


async def future():
    await asyncio.get_running_loop().create_future()


async def gather():
    await asyncio.gather(future(), future())


async def shield():
    await asyncio.shield(future())


async def async_generator():
    async def items():
        await future()
        yield

    async for _ in items():
        pass


async def itself():
    task = asyncio.current_task()
    other = asyncio.create_task(asyncio.wait({task}))
    await asyncio.wait({other})


@pytest.mark.parametrize(
    "main", [lock, condition, semaphore, future, gather, shield, async_generator, itself]
)
def test_every_way_to_wait_is_described(main):
    deadlock = deadlock_of(main)
    assert all(task.stack and task.waits_for for task in deadlock.tasks)
    assert any(main.__name__ in str(task) for task in deadlock.tasks)


def test_timers_run_first():
    ran = []

    async def main():
        asyncio.get_running_loop().call_later(3600, ran.append, "timer")
        await asyncio.Event().wait()

    deadlock_of(main)
    assert ran == ["timer"]


def test_clean_up_runs_after_it():
    ended = []

    async def main():
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(10)
            ended.append(True)

    deadlock_of(main)
    assert ended == [True]


def test_two_ends_of_one_connection_that_both_read_are_a_deadlock():
    async def main():
        first, second = socket.socketpair()
        streams = [await asyncio.open_connection(sock=sock) for sock in (first, second)]
        try:
            await asyncio.gather(*(reader.read() for reader, _ in streams))
        finally:
            for _, writer in streams:
                writer.close()

    waits = [task.waits_for for task in deadlock_of(main).tasks]
    assert any(wait.startswith("StreamReader") for wait in waits)


def test_a_thread_that_works_is_no_deadlock():
    release = threading.Event()

    async def main():
        loop = asyncio.get_running_loop()
        called = loop.create_future()

        def work():
            release.wait()
            loop.call_soon_threadsafe(called.set_result, 1)

        threading.Thread(target=work).start()
        threading.Timer(0.05, release.set).start()
        return await called

    assert testing.run(main()) == 1


def test_a_signal_handler_can_still_end_the_wait():
    # The signal arrives before the loop can find out that nothing else will.
    async def main():
        import signal

        loop = asyncio.get_running_loop()
        received = loop.create_future()
        loop.add_signal_handler(signal.SIGUSR1, received.set_result, "signal")
        os.kill(os.getpid(), signal.SIGUSR1)
        return await received

    assert testing.run(main()) == "signal"


def test_a_loop_without_work_is_a_deadlock():
    loop = testing.new_event_loop()
    try:
        with pytest.raises(testing.Deadlock, match="nothing can ever run again$"):
            loop.run_forever()
        # The loop can be used again.
        assert loop.run_until_complete(asyncio.sleep(1, "again")) == "again"
    finally:
        loop.close()


def test_a_deadlock_names_the_seed():
    async def main():
        await asyncio.Event().wait()

    deadlock = deadlock_of(main, seed=7)
    assert "seed=7" in deadlock.__notes__[0]


@pytest.mark.skipif(sys.version_info < (3, 12), reason="eager tasks")
def test_eager_tasks_are_listed():
    async def main():
        asyncio.get_running_loop().set_task_factory(asyncio.eager_task_factory)
        await asyncio.create_task(asyncio.Event().wait(), name="eager")

    assert {task.name for task in deadlock_of(main).tasks} >= {"eager"}
