"""Other threads and the loop: call_soon_threadsafe, executors, run_coroutine_threadsafe."""

import asyncio
import concurrent.futures
import contextlib
import contextvars
import sys
import threading

import pytest

LIMIT = 30


@pytest.fixture
def background(loop):
    """The loop, running in another thread."""
    started = threading.Event()

    def body():
        loop.call_soon(started.set)
        loop.run_forever()

    thread = threading.Thread(target=body)
    thread.start()
    assert started.wait(LIMIT)
    yield loop
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(loop.stop)
    thread.join(LIMIT)
    assert not thread.is_alive(), "the loop did not stop"


@pytest.fixture
def no_switching():
    """Disables thread switches: only blocking calls release the GIL."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(LIMIT)
    yield
    sys.setswitchinterval(interval)


def test_a_call_from_another_thread_wakes_a_loop_that_runs_single_iterations(loop, no_switching):
    called = []
    asleep = threading.Lock()
    asleep.acquire()

    def other():
        asleep.acquire()
        loop.call_soon_threadsafe(called.append, "the call")

    thread = threading.Thread(target=other)
    thread.start()
    # Without a wake-up the iteration would wait for this timer.
    timer = loop.call_later(LIMIT, called.append, "the timer")
    # The thread continues when this one releases the GIL: while the loop sleeps.
    asleep.release()
    loop._run_once()
    timer.cancel()
    thread.join(LIMIT)
    assert called == ["the call"]


def test_a_call_from_another_thread_wakes_an_idle_loop(background):
    for _ in range(200):
        # The loop is idle: each round finds it asleep or about to sleep.
        arrived = threading.Event()
        background.call_soon_threadsafe(arrived.set)
        assert arrived.wait(LIMIT)


def test_every_call_from_many_threads_runs_with_idle_gaps_between_rounds(background):
    threads, rounds, calls = 8, 30, 20
    barrier = threading.Barrier(threads + 1)
    arrived = []
    complete = threading.Event()

    def arrive(item):
        arrived.append(item)
        if len(arrived) == threads * calls:
            complete.set()

    def body(index):
        for _ in range(rounds):
            barrier.wait(LIMIT)
            for call in range(calls):
                background.call_soon_threadsafe(arrive, (index, call))
            barrier.wait(LIMIT)

    workers = [threading.Thread(target=body, args=(index,)) for index in range(threads)]
    for worker in workers:
        worker.start()
    try:
        for _ in range(rounds):
            arrived.clear()
            complete.clear()
            barrier.wait(LIMIT)
            barrier.wait(LIMIT)
            assert complete.wait(LIMIT), f"{threads * calls - len(arrived)} calls did not arrive"
            assert len(arrived) == threads * calls
            for index in range(threads):
                # The calls of one thread keep their order.
                assert [call for thread, call in arrived if thread == index] == list(range(calls))
    except BaseException:
        barrier.abort()
        raise
    finally:
        for worker in workers:
            worker.join(LIMIT)


def test_calls_from_threads_run_while_the_loop_is_busy(background):
    done = threading.Event()
    spinning = [True]

    def spin():
        if spinning[0]:
            background.call_soon(spin)

    background.call_soon_threadsafe(spin)
    left = [1000]

    def arrive():
        left[0] -= 1
        if not left[0]:
            spinning[0] = False
            done.set()

    for _ in range(1000):
        background.call_soon_threadsafe(arrive)
    assert done.wait(LIMIT)


def test_a_call_from_another_thread_can_be_cancelled_before_it_runs(background):
    hold, held, ran = threading.Event(), threading.Event(), []

    def block():
        held.set()
        hold.wait(LIMIT)

    background.call_soon_threadsafe(block)
    assert held.wait(LIMIT)
    handle = background.call_soon_threadsafe(ran.append, "cancelled")
    done = threading.Event()
    background.call_soon_threadsafe(done.set)
    handle.cancel()
    hold.set()
    assert done.wait(LIMIT)
    assert ran == []


def test_a_threadsafe_call_copies_the_callers_context(background):
    number = contextvars.ContextVar("number", default=0)
    number.set(7)
    seen, done = [], threading.Event()
    background.call_soon_threadsafe(lambda: (seen.append(number.get()), done.set()))
    assert done.wait(LIMIT)
    context = contextvars.copy_context()
    context.run(number.set, 9)
    done.clear()
    background.call_soon_threadsafe(lambda: (seen.append(number.get()), done.set()), context=context)
    assert done.wait(LIMIT)
    assert seen == [7, 9]


def test_a_call_made_before_the_loop_runs_is_kept(loop, run_iteration):
    ran = []
    thread = threading.Thread(target=loop.call_soon_threadsafe, args=(ran.append, 1))
    thread.start()
    thread.join(LIMIT)
    assert ran == []
    run_iteration()
    assert ran == [1]


def test_a_call_made_while_the_loop_stops_runs_in_the_next_run(loop, run_iteration):
    ran = []

    def stop_then_call():
        loop.stop()
        thread = threading.Thread(target=loop.call_soon_threadsafe, args=(ran.append, 1))
        thread.start()
        thread.join(LIMIT)

    loop.call_soon(stop_then_call)
    loop.run_forever()
    assert ran == []
    run_iteration()
    assert ran == [1]


def test_after_close_a_threadsafe_call_raises(loop):
    loop.close()
    with pytest.raises(RuntimeError, match="Event loop is closed"):
        loop.call_soon_threadsafe(print)


def test_calls_made_while_the_loop_closes_run_or_raise(loop_factory):
    for _ in range(20):
        loop = loop_factory()
        refused, begun = [], threading.Event()

        def body(loop=loop, refused=refused, begun=begun):
            try:
                while True:
                    loop.call_soon_threadsafe(begun.set)
            except RuntimeError as error:
                refused.append(str(error))

        thread = threading.Thread(target=body)
        thread.start()
        loop.call_later(LIMIT, loop.stop)
        loop.call_soon(loop.stop)
        loop.run_forever()
        loop.close()
        thread.join(LIMIT)
        assert refused == ["Event loop is closed"]


def test_stop_from_another_thread(loop, run_forever):
    thread = threading.Thread(target=lambda: loop.call_soon_threadsafe(loop.stop))
    loop.call_soon(thread.start)
    run_forever()
    thread.join(LIMIT)


@pytest.mark.parametrize(
    "work",
    ["lambda: None", "lambda: loop.call_later(0.0001, work)", "lambda: loop.call_soon(work)"],
    ids=["idle", "timers", "busy"],
)
def test_a_daemon_thread_with_a_loop_does_not_disturb_the_exit_of_the_program(run_python, work):
    done = run_python(
        f"""
import threading
loop = new_loop()
work = {work}
started = threading.Event()
loop.call_soon(work)
loop.call_soon(started.set)
threading.Thread(target=loop.run_forever, daemon=True).start()
started.wait()
print("the end")
""",
        env={},  # not in debug mode
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "the end\n", "")


def test_run_in_executor_returns_results_and_raises_exceptions(loop, run):
    def fail():
        raise LookupError("in the thread")

    async def main():
        assert await loop.run_in_executor(None, threading.get_ident) != threading.get_ident()
        assert await loop.run_in_executor(None, max, 1, 2) == 2
        with pytest.raises(LookupError, match="in the thread"):
            await loop.run_in_executor(None, fail)
        await loop.shutdown_default_executor()

    run(main())


def test_run_in_executor_does_not_block_the_loop(loop, run):
    async def main():
        release = threading.Event()
        waiting = loop.run_in_executor(None, release.wait, LIMIT)
        for _ in range(10):
            await asyncio.sleep(0)
        assert not waiting.done()
        release.set()
        assert await waiting is True
        await loop.shutdown_default_executor()

    run(main())


def test_to_thread_propagates_the_context(loop, run):
    number = contextvars.ContextVar("number", default=0)

    async def main():
        number.set(3)
        assert await asyncio.to_thread(number.get) == 3
        assert await asyncio.to_thread(divmod, 7, 2) == (3, 1)
        await loop.shutdown_default_executor()

    run(main())


def test_a_custom_executor_is_used(loop, run):
    with concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix="mine") as executor:

        async def main():
            return await loop.run_in_executor(executor, lambda: threading.current_thread().name)

        assert run(main()).startswith("mine")


def test_a_custom_default_executor_is_used(loop, run):
    loop.set_default_executor(concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix="default"))

    async def main():
        name = await loop.run_in_executor(None, lambda: threading.current_thread().name)
        await loop.shutdown_default_executor()
        return name

    assert run(main()).startswith("default")


@pytest.mark.skipif(sys.version_info < (3, 11), reason="a deprecation before Python 3.11")
def test_the_default_executor_must_be_a_thread_pool(loop):
    with pytest.raises(TypeError):
        loop.set_default_executor(object())


def test_after_shutdown_the_default_executor_refuses_work(loop, run):
    async def main():
        await loop.run_in_executor(None, int)
        await loop.shutdown_default_executor()
        with pytest.raises(RuntimeError):
            loop.run_in_executor(None, print)

    run(main())


def test_many_jobs_in_the_executor(loop, run):
    async def main():
        jobs = [loop.run_in_executor(None, pow, index, 2) for index in range(1000)]
        assert await asyncio.gather(*jobs) == [index**2 for index in range(1000)]
        await loop.shutdown_default_executor()

    run(main())


def test_cancelling_a_task_that_waits_for_the_executor(loop, run):
    async def main():
        release = threading.Event()
        waiting = loop.run_in_executor(None, release.wait, LIMIT)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        release.set()
        await loop.shutdown_default_executor()

    run(main())


def test_run_coroutine_threadsafe_returns_results_and_raises_exceptions(background):
    async def answer():
        await asyncio.sleep(0)
        return threading.get_ident()

    async def fail():
        raise LookupError("in the loop")

    assert asyncio.run_coroutine_threadsafe(answer(), background).result(LIMIT) != threading.get_ident()
    with pytest.raises(LookupError, match="in the loop"):
        asyncio.run_coroutine_threadsafe(fail(), background).result(LIMIT)


def test_run_coroutine_threadsafe_can_be_cancelled(background):
    begun, cancelled = threading.Event(), threading.Event()

    async def wait():
        begun.set()
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    future = asyncio.run_coroutine_threadsafe(wait(), background)
    assert begun.wait(LIMIT)
    assert future.cancel()
    assert cancelled.wait(LIMIT)
    # The task ends in the iteration that set the event, or in the next.
    ended = asyncio.run_coroutine_threadsafe(asyncio.sleep(0), background)
    ended.result(LIMIT)


def test_run_coroutine_threadsafe_from_many_threads(background):
    async def double(value):
        await asyncio.sleep(0)
        return 2 * value

    with concurrent.futures.ThreadPoolExecutor(8) as executor:

        def ask(value):
            return asyncio.run_coroutine_threadsafe(double(value), background).result(LIMIT)

        assert list(executor.map(ask, range(500))) == [2 * value for value in range(500)]
