"""Threads: concurrent calls, and loops that are closed and stopped meanwhile."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import queue
import threading
import time

from hostile import (
    LIMIT,
    Boom,
    attempt,
    case,
    finish,
    iterations,
    new_loop,
    outcome,
    quiet,
    reporting,
    run,
    show,
)


def in_threads(count, function, *arguments):
    threads = [threading.Thread(target=function, args=arguments) for _ in range(count)]
    for thread in threads:
        thread.start()
    return threads


@case
def calls_from_many_threads_all_run():
    loop = new_loop()
    count = 0

    def one():
        nonlocal count
        count += 1
        if count == 20_000:
            loop.stop()

    def calls():
        for _ in range(5000):
            loop.call_soon_threadsafe(one)

    threads = in_threads(4, calls)
    loop.run_forever()
    for thread in threads:
        thread.join()
    show(count)
    finish(loop)


@case
def each_threads_calls_keep_their_order():
    loop = new_loop()
    seen = {name: [] for name in range(4)}

    def calls(name):
        for number in range(1000):
            loop.call_soon_threadsafe(seen[name].append, number)

    threads = [threading.Thread(target=calls, args=(name,)) for name in seen]

    async def main():
        for thread in threads:
            thread.start()
        while sum(map(len, seen.values())) < 4000:
            await asyncio.sleep(0)

    run(main(), loop)
    for thread in threads:
        thread.join()
    show([numbers == list(range(1000)) for numbers in seen.values()])
    finish(loop)


@case
def calls_of_several_threads_run_in_the_order_they_were_made():
    loop = new_loop()
    asked, answered = queue.Queue(), queue.Queue()

    def serve():
        while (number := asked.get()) is not None:
            loop.call_soon_threadsafe(order.append, ("thread", number))
            answered.put(number)

    order = []
    thread = threading.Thread(target=serve)
    thread.start()

    async def main():
        for number in range(50):
            asked.put(number)
            answered.get()
            loop.call_soon(order.append, ("loop", number))
            await iterations(3)

    run(main(), loop)
    asked.put(None)
    thread.join()
    show(order == [(who, number) for number in range(50) for who in ("thread", "loop")], len(order))
    finish(loop)


@case
def the_loop_is_closed_while_threads_call_it():
    for _ in range(20):
        loop = new_loop()
        refused = []

        def calls(loop=loop, refused=refused):
            try:
                while True:
                    loop.call_soon_threadsafe(int)
            except RuntimeError as error:
                refused.append(str(error))

        threads = in_threads(2, calls)
        loop.call_later(0.001, loop.stop)
        loop.run_forever()
        loop.close()
        for thread in threads:
            thread.join()
        assert refused == ["Event loop is closed"] * 2, refused
    show("refused")


@case
def stop_from_a_thread():
    loop = new_loop()
    for _ in range(50):
        thread = threading.Thread(target=loop.call_soon_threadsafe, args=(loop.stop,))
        loop.call_soon(thread.start)
        loop.run_forever()
        thread.join()
    show("stopped")
    finish(loop)


@case
def methods_called_from_the_wrong_thread():
    loop = new_loop()
    quiet(loop)
    results = []

    def wrong():
        # Not run_forever(): in some versions of asyncio a refused run breaks the current one.
        results.append(attempt(loop.close))
        results.append(loop.is_running())
        results.append(attempt(asyncio.get_running_loop))
        results.append(attempt(asyncio.current_task))
        loop.call_soon_threadsafe(loop.stop)

    thread = threading.Thread(target=wrong)
    loop.call_soon(thread.start)
    loop.run_forever()
    thread.join()
    show(results)
    finish(loop)


@case
def call_soon_from_another_thread_is_seen_in_debug_mode():
    loop = new_loop()
    results = []

    def wrong():
        if loop.get_debug():
            results.append(attempt(loop.call_soon, print))
            results.append(attempt(loop.call_later, 1, print))
            results.append(attempt(loop.call_at, 1, print))
        loop.call_soon_threadsafe(loop.stop)

    thread = threading.Thread(target=wrong)
    loop.call_soon(thread.start)
    loop.run_forever()
    thread.join()
    show(results)
    finish(loop)


@case
def run_coroutine_threadsafe_succeeds_fails_and_is_cancelled():
    loop = new_loop()
    quiet(loop)

    async def works(error=None):
        await iterations()
        if error:
            raise error
        return 5

    async def waits():
        try:
            await asyncio.sleep(100)
        except asyncio.CancelledError:
            cancelled.append(True)
            raise

    def calls():
        submit = asyncio.run_coroutine_threadsafe
        show(submit(works(), loop).result(LIMIT))
        show(attempt(submit(works(Boom()), loop).result, LIMIT))
        future = submit(waits(), loop)
        show(attempt(future.result, 0.01), future.cancel(), future.cancelled())
        show(attempt(submit, works, loop), attempt(submit, 5, loop))
        loop.call_soon_threadsafe(loop.stop)

    cancelled = []
    thread = threading.Thread(target=calls)
    thread.start()
    loop.run_forever()
    thread.join()
    finish(loop)
    show(cancelled)


@case
def a_thread_waits_for_a_loop_that_ends():
    loop = new_loop()
    started = threading.Event()
    results = []

    def waits():
        coroutine = asyncio.sleep(100)
        future = asyncio.run_coroutine_threadsafe(coroutine, loop)
        started.set()
        try:
            future.result(LIMIT)
        except BaseException as error:
            results.append(type(error).__name__)

    thread = threading.Thread(target=waits)
    thread.start()
    started.wait()
    run(iterations(), loop)
    finish(loop)
    thread.join()
    show(results)


@case
def loops_in_many_threads_call_each_other():
    loops = [new_loop() for _ in range(4)]
    finished = threading.Barrier(len(loops))
    counts = [0] * len(loops)

    def pass_on(index, rest):
        counts[index] += 1
        if rest:
            following = (index + 1) % len(loops)
            loops[following].call_soon_threadsafe(pass_on, following, rest - 1)
        else:
            for loop in loops:
                loop.call_soon_threadsafe(loop.stop)

    def runs(index):
        loops[index].run_forever()
        finished.wait(LIMIT)
        loops[index].close()

    threads = [threading.Thread(target=runs, args=(index,)) for index in range(len(loops))]
    loops[0].call_soon(pass_on, 0, 399)
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    show(counts)


@case(since=(3, 11))
def executors_that_fail_and_are_closed():
    loop = new_loop()
    reporting(loop)

    def fails():
        raise Boom

    async def main():
        show(await outcome(loop.run_in_executor(None, fails)))
        show(attempt(loop.run_in_executor, None, None))
        show(attempt(loop.run_in_executor, 5, print), attempt(loop.set_default_executor, 5))
        executor = concurrent.futures.ThreadPoolExecutor(1)
        executor.shutdown()
        show(attempt(loop.run_in_executor, executor, print))
        await loop.shutdown_default_executor()
        show(attempt(loop.run_in_executor, None, print))
        await loop.shutdown_default_executor()

    run(main(), loop)
    finish(loop)


@case
def executor_work_that_is_cancelled_and_late():
    loop = new_loop()
    reporting(loop)
    release = threading.Event()
    started = threading.Event()

    def work():
        started.set()
        release.wait(LIMIT)
        return 5

    async def main():
        future = loop.run_in_executor(None, work)
        await loop.run_in_executor(None, started.wait, LIMIT)
        show(future.cancel())
        show(await outcome(future))
        release.set()

    run(main(), loop)
    finish(loop)
    show("closed")


@case
def executor_results_that_come_after_the_close():
    loop = new_loop()
    release, executor = threading.Event(), concurrent.futures.ThreadPoolExecutor(1)
    future = loop.run_in_executor(executor, release.wait, LIMIT)
    run(iterations(), loop)
    loop.close()
    release.set()
    executor.shutdown()
    show(future.done())


@case
def the_exit_of_a_default_executor_that_is_slow():
    loop = new_loop()
    quiet(loop)
    release = threading.Event()
    loop.run_in_executor(None, release.wait, LIMIT)

    async def main():
        task = asyncio.ensure_future(loop.shutdown_default_executor())
        await iterations()
        release.set()
        await task

    run(main(), loop)
    show("shut down")
    finish(loop)


@case
def call_soon_threadsafe_from_a_finaliser():
    loop = new_loop()
    seen = []

    class Calls:
        def __del__(self):
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(seen.append, 1)

    def makes():
        for _ in range(200):
            cycle = Calls()
            cycle.itself = cycle

    async def main():
        await loop.run_in_executor(None, makes)
        import gc

        gc.collect()
        await iterations()

    run(main(), loop)
    show(len(seen))
    finish(loop)


@case
def an_idle_loop_is_woken_repeatedly():
    loop = new_loop()
    woken = []

    def wakes():
        for _ in range(30):
            time.sleep(0.0005)
            loop.call_soon_threadsafe(woken.append, 1)
        loop.call_soon_threadsafe(loop.stop)

    thread = threading.Thread(target=wakes)
    thread.start()
    loop.run_forever()
    thread.join()
    show(len(woken))
    finish(loop)
