"""Starting and ending a run of the loop: stop, run_until_complete, close, nesting, threads."""

import asyncio
import threading

import pytest

LIMIT = 30


def test_stop_lets_the_iteration_finish(loop, run_forever):
    ran = []

    def stop():
        loop.stop()
        loop.call_soon(ran.append, "next pass")

    loop.call_soon(ran.append, "before")
    loop.call_soon(stop)
    loop.call_soon(ran.append, "after")
    run_forever()
    assert ran == ["before", "after"]


def test_stop_before_run_forever_runs_one_iteration(loop):
    ran = []
    loop.call_soon(lambda: (ran.append(1), loop.call_soon(ran.append, 2)))
    loop.stop()
    loop.run_forever()
    assert ran == [1]


def test_repeated_stops_count_once(loop):
    loop.stop()
    loop.stop()
    loop.run_forever()
    ran = []
    loop.call_soon(ran.append, 1)
    loop.call_soon(loop.stop)
    loop.run_forever()
    assert ran == [1]


def test_a_loop_can_run_repeatedly(loop, run):
    for index in range(50):
        assert run(asyncio.sleep(0, index)) == index


def test_run_until_complete_returns_the_result(loop):
    async def answer():
        return 42

    assert loop.run_until_complete(answer()) == 42
    future = loop.create_future()
    loop.call_soon(future.set_result, "done")
    assert loop.run_until_complete(future) == "done"


def test_run_until_complete_of_a_finished_future_returns_at_once(loop):
    future = loop.create_future()
    future.set_result(1)
    assert loop.run_until_complete(future) == 1


def test_run_until_complete_raises_the_exception_of_the_coroutine(loop):
    async def fail():
        raise LookupError("here")

    with pytest.raises(LookupError, match="here"):
        loop.run_until_complete(fail())


def test_run_until_complete_of_a_cancelled_future_raises_cancelled_error(loop):
    future = loop.create_future()
    loop.call_soon(future.cancel)
    with pytest.raises(asyncio.CancelledError):
        loop.run_until_complete(future)


def test_run_until_complete_raises_if_the_loop_is_stopped_first(loop):
    future = loop.create_future()
    loop.call_soon(loop.stop)
    with pytest.raises(RuntimeError, match="Event loop stopped before Future completed"):
        loop.run_until_complete(future)


def test_run_until_complete_refuses_a_future_of_another_loop(loop, loop_factory):
    other = loop_factory()
    with pytest.raises(ValueError):
        loop.run_until_complete(other.create_future())


@pytest.mark.parametrize("wrong", [None, 1, "coroutine", print])
def test_run_until_complete_refuses_objects_that_are_not_awaitable(loop, wrong):
    with pytest.raises(TypeError):
        loop.run_until_complete(wrong)


def test_an_interrupt_in_a_task_propagates_from_run_until_complete(loop):
    async def leave():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        loop.run_until_complete(leave())


def inside(loop, function):
    """Calls a function from a callback of the running loop and returns the exception it raised."""
    caught = []

    def call():
        try:
            function()
        except BaseException as error:
            caught.append(error)

    loop.call_soon(call)
    loop.call_soon(loop.stop)
    loop.run_forever()
    return caught[0] if caught else None


def test_a_running_loop_cannot_be_run_again(loop):
    future = loop.create_future()
    future.set_result(None)
    for function in (loop.run_forever, lambda: loop.run_until_complete(future)):
        error = inside(loop, function)
        assert isinstance(error, RuntimeError)
        assert str(error) == "This event loop is already running"
    ran = []
    loop.call_soon(ran.append, 1)
    loop.stop()
    loop.run_forever()
    assert ran == [1]


def test_another_loop_cannot_run_inside_a_running_one(loop, loop_factory):
    other = loop_factory()
    error = inside(loop, other.run_forever)
    assert isinstance(error, RuntimeError)
    assert "another loop is running" in str(error)
    assert not other.is_running()


def test_asyncio_run_cannot_be_called_inside_a_running_loop(loop):
    coroutine = asyncio.sleep(0)
    error = inside(loop, lambda: asyncio.run(coroutine))
    coroutine.close()
    assert isinstance(error, RuntimeError)
    assert "cannot be called from a running event loop" in str(error)


def test_a_running_loop_cannot_be_closed(loop):
    error = inside(loop, loop.close)
    assert isinstance(error, RuntimeError)
    assert str(error) == "Cannot close a running event loop"
    assert not loop.is_closed()


def test_the_running_loop_is_known_while_it_runs(loop, run_iteration):
    seen = []
    loop.call_soon(lambda: seen.append((asyncio.get_running_loop() is loop, loop.is_running())))
    run_iteration()
    assert seen == [(True, True)]
    assert asyncio._get_running_loop() is None
    assert not loop.is_running()


def test_close_drops_ready_calls(loop):
    ran = []
    loop.call_soon(ran.append, 1)
    loop.call_later(0, ran.append, 2)
    loop.close()
    assert loop.is_closed()
    loop.close()
    with pytest.raises(RuntimeError, match="Event loop is closed"):
        loop.run_forever()
    assert ran == []


def in_thread(function):
    """Runs a function in a new thread, and returns its result or raises its exception."""
    outcome = {}

    def body():
        try:
            outcome["result"] = function()
        except BaseException as error:
            outcome["error"] = error

    thread = threading.Thread(target=body)
    thread.start()
    thread.join(LIMIT)
    assert not thread.is_alive(), "the thread did not end"
    if "error" in outcome:
        raise outcome["error"]
    return outcome["result"]


def test_a_loop_made_in_one_thread_runs_in_another(loop):
    async def main():
        await asyncio.sleep(0)
        return threading.get_ident()

    there = in_thread(lambda: (threading.get_ident(), loop.run_until_complete(main())))
    assert there[0] == there[1] != threading.get_ident()
    assert loop.run_until_complete(main()) == threading.get_ident()


def test_a_loop_made_and_closed_in_a_thread(loop_factory):
    def body():
        loop = loop_factory()
        try:
            return loop.run_until_complete(asyncio.sleep(0, "done"))
        finally:
            loop.close()

    assert in_thread(body) == "done"


def test_a_loop_that_runs_in_another_thread_cannot_be_run_here(loop):
    started, ended = threading.Event(), threading.Event()

    def body():
        loop.call_soon(started.set)
        loop.run_forever()
        ended.set()

    thread = threading.Thread(target=body)
    thread.start()
    try:
        assert started.wait(LIMIT)
        assert loop.is_running()
        with pytest.raises(RuntimeError, match="Cannot close a running event loop"):
            loop.close()
        with pytest.raises(RuntimeError, match="This event loop is already running"):
            loop.run_forever()
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(LIMIT)
    assert ended.is_set()
    assert not loop.is_running()


def test_loops_in_several_threads_do_not_disturb_each_other(loop_factory):
    count, rounds = 8, 500
    loops = [loop_factory() for _ in range(count)]
    results = [None] * count

    async def steps(index):
        total = 0
        for step in range(rounds):
            await asyncio.sleep(0)
            assert asyncio.get_running_loop() is loops[index]
            total += step
        return total

    def body(index):
        results[index] = loops[index].run_until_complete(asyncio.wait_for(steps(index), LIMIT))

    threads = [threading.Thread(target=body, args=(index,)) for index in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT)
    assert results == [sum(range(rounds))] * count


def test_callbacks_dropped_by_close_may_use_the_loop(loop):
    errors = []

    class Clinging:
        def __call__(self):
            pass

        def __del__(self):
            try:
                loop.call_soon(print)
            except RuntimeError as error:
                errors.append(str(error))

    for _ in range(10):
        loop.call_soon(Clinging())
        loop.call_later(1000, Clinging())
    loop.close()
    assert errors == ["Event loop is closed"] * 20
