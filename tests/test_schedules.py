"""Seeds: what they order, and how a failure is replayed."""

from __future__ import annotations

import asyncio
import itertools
import os
import socket
import sys

import pytest

from mainspring import testing

pytestmark = pytest.mark.mainspring_only


async def order_of_timers(*deadlines):
    loop = asyncio.get_running_loop()
    order = []
    for name, deadline in zip(itertools.count(), deadlines):
        loop.call_at(deadline, order.append, name)
    await asyncio.sleep(max(deadlines) + 1)
    return tuple(order)


async def order_of_tasks(count):
    order = []

    async def work(name):
        await asyncio.sleep(0)
        order.append(name)

    await asyncio.gather(*map(work, range(count)))
    return tuple(order)


def orders(main, seeds=range(100), **options):
    return {testing.run(main(), seed=seed, **options) for seed in seeds}


def test_without_a_seed_the_order_is_asyncios():
    assert testing.run(order_of_timers(1, 1, 1, 1)) == (0, 1, 2, 3)
    assert testing.run(order_of_tasks(4)) == (0, 1, 2, 3)


def test_seeds_give_every_order_of_equal_deadlines():
    assert orders(lambda: order_of_timers(1, 1, 1)) == set(itertools.permutations(range(3)))


def test_the_same_seed_gives_the_same_order():
    for seed in (0, 1, -1, 2**64 + 5):
        first = testing.run(order_of_timers(*[1] * 20), seed=seed)
        assert testing.run(order_of_timers(*[1] * 20), seed=seed) == first


def test_different_deadlines_keep_their_order():
    assert orders(lambda: order_of_timers(3, 1, 2)) == {(1, 2, 0)}


def test_tasks_keep_their_order_unless_that_is_shuffled():
    assert orders(lambda: order_of_tasks(3)) == {(0, 1, 2)}
    assert orders(lambda: order_of_tasks(3), shuffle_ready=True) == set(itertools.permutations(range(3)))


def test_callbacks_keep_their_order():
    async def main():
        loop = asyncio.get_running_loop()
        order = []
        for name in range(5):
            loop.call_soon(order.append, name)
            asyncio.create_task(asyncio.sleep(0))
        await asyncio.sleep(1)
        return tuple(order)

    assert orders(main, shuffle_ready=True) == {(0, 1, 2, 3, 4)}


def test_seeds_give_every_order_of_io_events():
    async def main():
        loop = asyncio.get_running_loop()
        order = []
        pairs = [socket.socketpair() for _ in range(3)]
        for name, (ours, _) in enumerate(pairs):
            loop.add_reader(ours, order.append, name)
        for _, theirs in pairs:
            theirs.send(b"x")
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        for ours, theirs in pairs:
            loop.remove_reader(ours)
            ours.close()
            theirs.close()
        return tuple(order[:3])

    assert orders(main) == set(itertools.permutations(range(3)))


@pytest.mark.skipif(sys.version_info < (3, 11), reason="TaskGroup")
def test_a_task_group_ends_its_tasks_in_the_same_order_for_the_same_seed():
    async def main():
        ended = []

        async def work(name):
            try:
                await asyncio.sleep(3600)
            finally:
                ended.append(name)

        async def fail():
            await asyncio.sleep(1)
            raise ValueError

        try:
            async with asyncio.TaskGroup() as group:
                for name in range(20):
                    group.create_task(work(name))
                group.create_task(fail())
        except Exception:  # an ExceptionGroup
            pass
        return tuple(ended)

    for shuffle_ready in (False, True):
        # Objects between the runs, so that the tasks have other addresses.
        kept = []
        found = set()
        for _ in range(5):
            found.add(testing.run(main(), seed=3, shuffle_ready=shuffle_ready))
            kept.append([object() for _ in range(1000)])
        assert len(found) == 1


def test_connections_work_under_every_order():
    async def main():
        async def handle(reader, writer):
            while line := await reader.readline():
                writer.write(line)
            writer.close()

        async def client(address, name):
            reader, writer = await asyncio.open_connection(*address)
            for number in range(3):
                writer.write(f"{name} {number}\n".encode())
                assert await reader.readline() == f"{name} {number}\n".encode()
            writer.close()
            await writer.wait_closed()

        server = await asyncio.start_server(handle, "127.0.0.1", 0)
        address = server.sockets[0].getsockname()
        await asyncio.gather(*(client(address, name) for name in range(3)))
        server.close()
        await server.wait_closed()

    assert testing.explore(main, range(30), shuffle_ready=True) == 30


def race():
    """Two timers with the same deadline: the test holds only if they run in one order."""

    async def main():
        assert await order_of_timers(1, 1) == (0, 1)

    return main()


def test_explore_finds_a_race_and_names_its_seed():
    with pytest.raises(AssertionError) as caught:
        testing.explore(race)
    (note,) = caught.value.__notes__
    seed = int(note.split("seed=")[1].rstrip(")"))
    with pytest.raises(AssertionError):
        testing.run(race(), seed=seed)
    testing.explore(race, range(seed))


def test_explore_returns_the_number_of_runs():
    assert testing.explore(lambda: asyncio.sleep(1), range(5)) == 5
    assert testing.explore(lambda: asyncio.sleep(1), iter([3, 4])) == 2


def test_explore_shows_its_progress(capsys):
    testing.explore(lambda: asyncio.sleep(1), range(5), progress=True)
    assert "5 of 5 seeds" in capsys.readouterr().err
    testing.explore(lambda: asyncio.sleep(1), iter(range(5)), progress=True)
    assert "5 seeds" in capsys.readouterr().err
    testing.explore(lambda: asyncio.sleep(1), range(5))
    assert capsys.readouterr().err == ""


def test_explore_needs_a_function():
    with pytest.raises(TypeError, match=r"pass main, not main\(\)"):
        testing.explore(asyncio.sleep(0))


def test_an_interrupted_search_names_the_seed():
    async def main():
        os.kill(os.getpid(), 2)
        await asyncio.sleep(1)

    with pytest.raises(KeyboardInterrupt) as caught:
        testing.explore(main, [5])
    assert "seed=5" in caught.value.__notes__[0]


def fails_in_a_callback():
    asyncio.get_running_loop().call_soon(int, "nonsense")


def fails_in_a_task():
    async def fail():
        raise ValueError("in a task")

    # Something refers to the task until the end, and it is not collected before.
    asyncio.current_task().other = asyncio.create_task(fail())


def fails_in_a_collected_task():
    async def fail():
        raise ValueError("in a task")

    asyncio.create_task(fail())


def fails_at_the_end():
    async def fail():
        try:
            await asyncio.Event().wait()
        finally:
            raise ValueError("at the end")

    asyncio.current_task().other = asyncio.create_task(fail())


@pytest.mark.parametrize(
    "fail", [fails_in_a_callback, fails_in_a_task, fails_in_a_collected_task, fails_at_the_end]
)
@pytest.mark.parametrize("eager", [False, True])
def test_an_exception_that_nothing_handles_is_found(fail, eager):
    if eager and not hasattr(asyncio, "eager_task_factory"):
        pytest.skip("this Python has no eager tasks")

    async def main():
        if eager:
            asyncio.get_running_loop().set_task_factory(asyncio.eager_task_factory)
        fail()
        await asyncio.sleep(1)

    with pytest.raises(ValueError) as caught:
        testing.explore(main, [3])
    unhandled, seed = caught.value.__notes__
    assert unhandled.startswith("mainspring: the program does not handle this: ")
    assert "seed=3" in seed


def test_an_exception_that_the_program_handles_is_no_failure():
    async def fail():
        raise ValueError

    async def main():
        results = await asyncio.gather(fail(), fail(), return_exceptions=True)
        task = asyncio.create_task(fail())
        await asyncio.wait([task])
        assert len([*results, task.exception()]) == 3
        seen = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: seen.append(context))
        fails_in_a_callback()
        fails_in_a_task()
        await asyncio.sleep(1)
        assert len(seen) == 1

    assert testing.explore(main, range(3)) == 3


def test_the_exception_of_the_program_itself_comes_first():
    async def main():
        fails_in_a_callback()
        await asyncio.sleep(1)
        raise KeyError("of the program")

    with pytest.raises(KeyError):
        testing.run(main())
