"""Tasks and futures: cancelled at every await, finished twice, re-entered."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import sys

from hostile import (
    Boom,
    Thunder,
    attempt,
    case,
    connected,
    finish,
    iterations,
    new_loop,
    outcome,
    quiet,
    reporting,
    run,
    show,
)


@case
async def cancelled_at_every_await():
    async def work():
        lock, event, queue = asyncio.Lock(), asyncio.Event(), asyncio.Queue()
        async with lock:
            await asyncio.sleep(0)
            queue.put_nowait(1)
            await queue.get()
            asyncio.get_running_loop().call_soon(event.set)
            await event.wait()
            await asyncio.gather(asyncio.sleep(0), asyncio.sleep(0))
            await asyncio.wait_for(asyncio.sleep(0), 5)
            await asyncio.shield(asyncio.sleep(0))
            await asyncio.wait([asyncio.ensure_future(asyncio.sleep(0))])

    for moment in range(25):
        task = asyncio.ensure_future(work())
        await iterations(moment)
        cancelled = task.cancel()
        show(moment, cancelled, await outcome(task))
        await iterations()


@case
async def cancelled_tasks_that_refuse():
    async def stubborn():
        for number in range(3):
            try:
                await asyncio.sleep(100)
            except asyncio.CancelledError:
                show("no", number)
        return "done"

    task = asyncio.ensure_future(stubborn())
    for _ in range(3):
        await iterations(2)
        task.cancel()
    show(await task)


@case
async def cancel_with_messages_and_in_done_callbacks():
    task = asyncio.ensure_future(asyncio.sleep(100))
    task.add_done_callback(lambda task: show("done", task.cancelled(), task.cancel("late")))
    await iterations()
    show(task.cancel("first"), task.cancel("second"))
    try:
        await task
    except asyncio.CancelledError as error:
        show(error.args)


@case
async def done_callbacks_that_raise_everything():
    loop = asyncio.get_running_loop()
    reporting(loop)
    for error in (Boom, asyncio.CancelledError, GeneratorExit, StopIteration, RecursionError):

        def fail(future, error=error):
            raise error

        future = loop.create_future()
        future.add_done_callback(fail)
        future.add_done_callback(lambda _: show("second"))
        future.set_result(None)
        await iterations()


@case
def done_callbacks_that_end_the_run():
    for error in (KeyboardInterrupt, SystemExit):
        loop = new_loop()

        def fail(future, error=error):
            raise error

        future = loop.create_future()
        future.add_done_callback(fail)
        future.set_result(None)
        show(attempt(loop.run_until_complete, future))
        loop.stop()
        loop.run_forever()
        finish(loop)


@case
def coroutines_that_raise_base_exceptions():
    for error in (KeyboardInterrupt, SystemExit, Thunder):
        loop = new_loop()
        quiet(loop)

        async def fail(error=error):
            await iterations()
            raise error

        show(attempt(loop.run_until_complete, fail()))
        child = None

        async def parent(fail=fail):
            nonlocal child
            child = asyncio.ensure_future(fail())
            await child

        show(attempt(loop.run_until_complete, parent()))
        show(child.done())
        finish(loop)


@case
async def futures_finished_in_every_way_twice():
    loop = asyncio.get_running_loop()
    ways = [
        lambda future: future.set_result(1),
        lambda future: future.set_exception(Boom()),
        lambda future: future.set_exception(Boom),
        lambda future: future.set_exception(5),
        lambda future: future.set_exception(StopIteration()),
        lambda future: future.cancel(),
    ]
    for first in ways:
        for second in ways:
            future = loop.create_future()
            show(attempt(first, future), attempt(second, future), attempt(future.result), future.cancelled())
            if future.done() and not future.cancelled():
                future.exception()


@case
async def a_task_that_awaits_itself_and_foreign_things():
    loop = asyncio.get_running_loop()
    holder = []

    async def myself():
        await holder[0]

    holder.append(asyncio.ensure_future(myself()))
    show(await outcome(holder[0]))

    class Yields:
        def __init__(self, value):
            self.value = value

        def __await__(self):
            yield self.value

    async def bad(value):
        await Yields(value)

    other = new_loop()
    for value in (5, "text", asyncio.sleep, other.create_future(), object()):
        show(type(value).__name__, await outcome(asyncio.ensure_future(bad(value))))
    other.close()
    show(attempt(asyncio.ensure_future, 5), attempt(loop.create_task, 5), attempt(loop.create_task, None))


@case
async def create_task_with_bad_names_and_options():
    loop = asyncio.get_running_loop()
    for options in ({"name": 5}, {"name": None}, {"name": b""}, {"nonsense": 1}):
        coroutine = asyncio.sleep(0)
        try:
            task = loop.create_task(coroutine, **options)
            show(list(options), "made", await outcome(task))
        except Exception as error:
            show(list(options), error)
        coroutine.close()


@case
def task_factories_that_misbehave():
    loop = new_loop()
    quiet(loop)
    for name, factory in {
        "raises": lambda loop, coroutine, **options: 1 / 0,
        "none": lambda loop, coroutine, **options: coroutine.close(),
        "plain": lambda loop, coroutine, **options: asyncio.Task(coroutine, loop=loop, **options),
        "no options": lambda loop, coroutine: asyncio.Task(coroutine, loop=loop),
    }.items():
        loop.set_task_factory(factory)
        coroutine = asyncio.sleep(0)
        show(name, attempt(loop.run_until_complete, coroutine))
        coroutine.close()
    show(attempt(loop.set_task_factory, 5))
    loop.set_task_factory(None)
    show(loop.get_task_factory())
    finish(loop)


@case(since=(3, 12))
async def eager_tasks_that_fail_block_and_recurse():
    loop = asyncio.get_running_loop()
    quiet(loop)
    loop.set_task_factory(asyncio.eager_task_factory)

    async def fails():
        raise Boom

    async def waits():
        await asyncio.sleep(0)
        return 5

    async def deep(level):
        if level:
            return await loop.create_task(deep(level - 1))
        return "bottom"

    task = loop.create_task(fails())
    show(task.done(), await outcome(task))
    task = loop.create_task(waits())
    show(task.done(), await task)
    show(await deep(50), await deep(20))
    task = loop.create_task(waits())
    show(task.cancel(), await outcome(task))
    me = asyncio.current_task()
    loop.create_task(fails()).exception()
    show(asyncio.current_task() is me)


@case(since=(3, 12))
def an_eager_task_that_ends_the_run():
    for error in (KeyboardInterrupt, SystemExit):
        loop = new_loop()
        quiet(loop)
        loop.set_task_factory(asyncio.eager_task_factory)

        async def fail(error=error):
            raise error

        async def main(fail=fail):
            asyncio.get_running_loop().create_task(fail())

        show(attempt(loop.run_until_complete, main()))
        loop.set_task_factory(None)
        run(iterations(), loop)
        finish(loop)


@case
async def unreferenced_tasks():
    loop = asyncio.get_running_loop()
    reporting(loop)
    weak = []

    async def wait_for_nothing():
        future = loop.create_future()
        weak.append(future)
        await future

    task = loop.create_task(wait_for_nothing())
    await iterations()
    del task
    weak.clear()
    gc.collect()
    await iterations()
    show("collected")


@case
async def exceptions_that_are_never_retrieved():
    loop = asyncio.get_running_loop()
    reporting(loop)

    async def fails():
        raise Boom

    task = loop.create_task(fails())
    await iterations()
    del task
    gc.collect()
    future = loop.create_future()
    future.set_exception(Boom())
    del future
    gc.collect()
    await iterations()


@case
def async_generators_left_in_the_middle():
    loop = new_loop()
    quiet(loop)

    async def numbers(name):
        try:
            while True:
                yield name
        finally:
            await asyncio.sleep(0)
            show("finalised", name)

    async def main():
        async for name in numbers("first"):
            show(name)
            break
        gc.collect()
        await iterations()
        generator = numbers("second")
        await generator.__anext__()
        return generator

    kept = run(main(), loop)
    loop.run_until_complete(loop.shutdown_asyncgens())
    show(attempt(loop.run_until_complete, kept.__anext__()))
    finish(loop)


@case
def coroutines_that_cannot_be_closed():
    loop = new_loop()
    reporting(loop)

    async def immortal():
        while True:
            try:
                await asyncio.sleep(0)
            except asyncio.CancelledError:
                show("cancelled")
                return 5

    task = loop.create_task(immortal())
    loop.stop()
    loop.run_forever()
    task.cancel()
    show(loop.run_until_complete(task))
    coroutine = immortal()
    show(attempt(coroutine.throw, Boom))
    finish(loop)


@case
async def context_variables_stay_with_their_callbacks():
    variable = contextvars.ContextVar("variable", default="outer")
    loop = asyncio.get_running_loop()

    async def set_and_show(value):
        variable.set(value)
        await iterations()
        loop.call_soon(lambda: show("soon", variable.get()))
        loop.call_later(0, lambda: show("later", variable.get()))
        await asyncio.sleep(0.001)
        show("task", variable.get())

    for value in ("a", "b"):
        await asyncio.ensure_future(set_and_show(value))
    show(variable.get())
    script = {name: lambda protocol: show(variable.get()) for name in ("data_received", "connection_lost")}
    variable.set("connection")
    _, protocol, peer = await connected(script)
    variable.set("later")
    peer.send(b"x")
    await protocol.has(1)
    peer.close()
    await protocol.end()


@case
async def deep_chains_of_awaits_and_done_callbacks():
    loop = asyncio.get_running_loop()

    async def deep(level):
        if level:
            return await deep(level - 1)
        await asyncio.sleep(0)
        return "bottom"

    limit = sys.getrecursionlimit()
    show(await deep(limit // 4))
    show(await outcome(deep(limit * 2)))
    futures = [loop.create_future() for _ in range(5000)]
    for first, second in zip(futures, futures[1:], strict=False):
        first.add_done_callback(lambda _, second=second: second.set_result(None))
    futures[0].set_result(None)
    await asyncio.wait_for(futures[-1], 10)
    show("last")


@case
def a_task_of_one_loop_on_another():
    first, second = new_loop(), new_loop()
    quiet(first), quiet(second)
    future = first.create_future()

    async def wait():
        await future

    show(attempt(second.run_until_complete, wait()))
    show(attempt(second.run_until_complete, future))
    coroutine = wait()
    show(attempt(asyncio.run_coroutine_threadsafe, coroutine, None))
    coroutine.close()
    finish(first)
    finish(second)
