"""Tasks, task factories, asyncio's own coroutines and async generators on the loop."""

import asyncio
import contextvars
import gc
import importlib
import sys
import weakref

import pytest

LIMIT = 30

number = contextvars.ContextVar("number", default=0)

since_311 = pytest.mark.skipif(sys.version_info < (3, 11), reason="new in Python 3.11")
since_312 = pytest.mark.skipif(sys.version_info < (3, 12), reason="new in Python 3.12")


@pytest.fixture(params=[False, True], ids=["plain", "debug"])
def debug(request, loop):
    loop.set_debug(request.param)
    # Anything may be slow on a loaded machine; test_debug_mode.py covers slow callbacks.
    loop.slow_callback_duration = LIMIT
    return request.param


async def answer(value=42):
    await asyncio.sleep(0)
    return value


def test_create_task_runs_the_coroutine(loop, run):
    async def main():
        task = loop.create_task(answer(), name="the task")
        assert isinstance(task, asyncio.Task)
        assert task.get_name() == "the task"
        assert task.get_loop() is loop
        return await task

    assert run(main()) == 42


def test_tasks_get_a_default_name(loop, run):
    async def main():
        task = loop.create_task(answer())
        assert task.get_name().startswith("Task-")
        await task

    run(main())


@since_311
def test_a_task_runs_in_the_context_it_is_given(loop, run):
    context = contextvars.copy_context()
    context.run(number.set, 5)

    async def step():
        number.set(number.get() + 1)
        await asyncio.sleep(0)
        return number.get()

    async def main():
        return await loop.create_task(step(), context=context)

    assert run(main()) == 6
    assert context[number] == 6
    assert number.get() == 0


def outcome(function, *args, **kwargs):
    """The result of a call as text: the task's name, or the exception."""
    try:
        task = function(*args, **kwargs)
    except Exception as error:
        return type(error).__name__, str(error).replace("BaseEventLoop.", "")
    name = task.get_name()
    return "Task" if name.startswith("Task-") else name


def test_create_task_accepts_and_refuses_the_same_arguments_as_asyncio(loop, run):
    asyncios_own = asyncio.BaseEventLoop.create_task
    spelled_out = "".join(["na", "me"])
    arguments = [
        {},
        {"name": None},
        {"name": "given"},
        {spelled_out: "spelled out"},
        {"context": None},
        {"context": contextvars.copy_context()},
        {"name": "both", "context": contextvars.copy_context()},
        {"context": contextvars.copy_context(), "name": "turned round"},
        {"name": "one too many", "context": None, "colour": 1},
        {"colour": 1},
        {"name": 1},
    ]

    async def main():
        others = asyncio.all_tasks()
        for keywords in arguments:
            coroutines = [answer(), answer()]
            ours = outcome(loop.create_task, coroutines[0], **keywords)
            assert ours == outcome(asyncios_own, loop, coroutines[1], **keywords), keywords
            await asyncio.gather(*asyncio.all_tasks() - others)
            for coroutine in coroutines:
                coroutine.close()
        for positional in [(), (None,), (1, 2)]:
            ours = outcome(loop.create_task, *positional)
            assert ours == outcome(asyncios_own, loop, *positional), positional
        coroutine = answer(7)
        assert await loop.create_task(coro=coroutine) == 7

    run(main())


def test_a_replaced_create_task_or_task_class_is_used(loop, run, monkeypatch):
    made = []
    asyncios_own = asyncio.BaseEventLoop.create_task
    task_class = asyncio.tasks.Task

    def create_task(self, coro, **kwargs):
        made.append("create_task")
        return asyncios_own(self, coro, **kwargs)

    def watched_task(coro, **kwargs):
        made.append("Task")
        return task_class(coro, **kwargs)

    async def main():
        monkeypatch.setattr(asyncio.BaseEventLoop, "create_task", create_task)
        assert await loop.create_task(answer()) == 42
        monkeypatch.undo()
        monkeypatch.setattr(asyncio.tasks, "Task", watched_task)
        assert await loop.create_task(answer()) == 42
        monkeypatch.undo()
        assert await loop.create_task(answer()) == 42

    run(main())
    assert made == ["create_task", "Task"]


def test_a_task_can_be_created_while_another_one_is(loop):
    """`Task()` calls `call_soon()`, which a derived loop may override."""
    inner = []

    class Nested(type(loop)):
        def call_soon(self, callback, *args, context=None):
            if not inner:
                inner.append(None)
                inner[0] = self.create_task(answer())
            return super().call_soon(callback, *args, context=context)

    nested = Nested()
    try:

        async def main():
            return await nested.create_task(answer()), await inner[0]

        assert nested.run_until_complete(main()) == (42, 42)
    finally:
        nested.close()


@pytest.mark.parametrize("closes", [False, True])
@pytest.mark.filterwarnings("ignore:unclosed event loop:ResourceWarning")
def test_a_loop_that_created_tasks_is_collected(loop_kind, closes):
    async def main():
        await asyncio.get_running_loop().create_task(answer())

    new_loop = importlib.import_module(loop_kind).new_event_loop()
    new_loop.run_until_complete(main())
    found = weakref.ref(new_loop)
    if closes:
        new_loop.close()
    del new_loop
    gc.collect()
    assert found() is None


def test_create_task_on_a_closed_loop_raises(loop):
    loop.close()
    coroutine = answer()
    with pytest.raises(RuntimeError, match="Event loop is closed"):
        loop.create_task(coroutine)
    coroutine.close()


def test_the_task_factory_creates_the_tasks(loop, run):
    made = []

    def factory(loop, coroutine, **options):
        made.append(sorted(set(options) - {"name", "context", "eager_start"}))
        options.pop("eager_start", None)
        return asyncio.Task(coroutine, loop=loop, **options)

    assert loop.get_task_factory() is None
    loop.set_task_factory(factory)
    assert loop.get_task_factory() is factory

    async def main():
        return await loop.create_task(answer(), name="named")

    assert run(main()) == 42
    assert made and not any(made)
    loop.set_task_factory(None)
    assert loop.get_task_factory() is None


def test_a_task_factory_without_keywords_still_works(loop, run):
    loop.set_task_factory(lambda loop, coroutine: asyncio.Task(coroutine, loop=loop))

    async def main():
        return await loop.create_task(answer())

    if sys.version_info >= (3, 14):
        return  # asyncio passes the name by keyword from here on
    assert run(main()) == 42


def test_a_task_factory_must_be_callable(loop):
    with pytest.raises(TypeError):
        loop.set_task_factory(1)


@since_312
def test_an_eager_task_runs_at_once_up_to_its_first_await(loop, run):
    loop.set_task_factory(asyncio.eager_task_factory)
    ran = []

    async def step():
        ran.append("begun")
        await asyncio.sleep(0)
        ran.append("ended")

    async def main():
        task = asyncio.create_task(step())
        assert ran == ["begun"]
        await task
        finished = asyncio.create_task(answer_at_once())
        assert finished.done()
        return await finished

    async def answer_at_once():
        return 42

    assert run(main()) == 42
    assert ran == ["begun", "ended"]


@since_312
def test_an_eager_task_that_fails_to_start_does_not_hang(loop, run):
    loop.set_task_factory(asyncio.eager_task_factory)

    async def fail():
        raise LookupError("at once")

    async def main():
        with pytest.raises(LookupError, match="at once"):
            await asyncio.create_task(fail())
        return await asyncio.create_task(answer())

    assert run(main()) == 42


def test_gather_wait_for_shield_and_wait(loop, run, debug):
    async def fail():
        await asyncio.sleep(0)
        raise LookupError

    async def main():
        assert await asyncio.gather(*map(answer, range(10))) == list(range(10))
        results = await asyncio.gather(answer(1), fail(), return_exceptions=True)
        assert results[0] == 1 and isinstance(results[1], LookupError)
        assert await asyncio.wait_for(answer(), LIMIT) == 42
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(loop.create_future(), 0.001)
        inner = loop.create_task(answer())
        outer = asyncio.shield(inner)
        outer.cancel()
        with pytest.raises(asyncio.CancelledError):
            await outer
        assert await inner == 42
        tasks = [loop.create_task(answer(index)) for index in range(3)]
        done, pending = await asyncio.wait(tasks, timeout=LIMIT)
        assert done == set(tasks) and not pending

    run(main())


@since_311
def test_timeouts_and_task_groups(loop, run, debug):
    async def main():
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.001):
                await loop.create_future()
        async with asyncio.timeout(LIMIT):
            await asyncio.sleep(0)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(answer(index)) for index in range(5)]
        assert [task.result() for task in tasks] == list(range(5))

        async def fail():
            raise LookupError

        cancelled = []

        async def wait():
            try:
                await loop.create_future()
            except asyncio.CancelledError:
                cancelled.append(True)
                raise

        with pytest.raises(BaseException) as caught:  # noqa: B017
            async with asyncio.TaskGroup() as group:
                group.create_task(wait())
                group.create_task(answer())
                await asyncio.sleep(0)
                group.create_task(fail())
        assert [type(error) for error in caught.value.exceptions] == [LookupError]
        assert cancelled == [True]

    run(main())


def test_queues_events_and_locks(run, debug):
    async def main():
        queue, ended, lock, got = asyncio.Queue(2), asyncio.Event(), asyncio.Lock(), []

        async def consume():
            while (item := await queue.get()) is not None:
                async with lock:
                    got.append(item)
            ended.set()

        consumer = asyncio.ensure_future(consume())
        for item in [*range(100), None]:
            await queue.put(item)
        await ended.wait()
        await consumer
        assert got == list(range(100))

    run(main())


def test_a_task_can_be_cancelled_before_it_starts_and_while_it_waits(loop, run, debug):
    async def main():
        ran = []

        async def never():
            ran.append("begun")
            await loop.create_future()

        early = loop.create_task(never())
        early.cancel()
        with pytest.raises(asyncio.CancelledError):
            await early
        assert ran == []
        late = loop.create_task(never())
        await asyncio.sleep(0)
        late.cancel("enough")
        with pytest.raises(asyncio.CancelledError):
            await late
        assert ran == ["begun"]
        assert early.cancelled() and late.cancelled()

    run(main())


def test_current_task_and_all_tasks(loop, run):
    async def main():
        this = asyncio.current_task()
        other = loop.create_task(loop.create_future().__await__.__self__ and answer())
        assert asyncio.all_tasks() >= {this, other}
        assert asyncio.current_task(loop) is this
        await other
        assert other not in asyncio.all_tasks()

    run(main())
    assert asyncio.current_task(loop) is None
    assert asyncio.all_tasks(loop) == set()


def test_a_task_destroyed_while_pending_is_reported(loop, run, reported, debug):
    async def main():
        future = loop.create_future()
        task = loop.create_task(wait(future))
        await asyncio.sleep(0)
        del task, future
        gc.collect()

    async def wait(future):
        await future

    run(main())
    assert [context["message"] for context in reported] == ["Task was destroyed but it is pending!"]
    reported.clear()


def test_an_exception_that_was_never_retrieved_is_reported(loop, run, reported):
    async def fail():
        raise LookupError

    async def main():
        task = loop.create_task(fail())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        del task
        gc.collect()

    run(main())
    assert [context["message"] for context in reported] == ["Task exception was never retrieved"]
    reported.clear()


def test_an_abandoned_async_generator_is_closed_by_the_loop(loop, run, debug):
    closed = []

    async def main():
        finished = asyncio.Event()

        async def numbers():
            try:
                while True:
                    yield 1
            finally:
                await asyncio.sleep(0)
                closed.append(True)
                finished.set()

        async for _ in numbers():
            break
        gc.collect()
        await finished.wait()

    run(main())
    assert closed == [True]


def test_shutdown_asyncgens_closes_the_remaining_generators(loop, run, debug):
    closed = []

    async def numbers(name):
        try:
            yield 1
            yield 2
        finally:
            await asyncio.sleep(0)
            closed.append(name)

    kept = []

    async def main():
        for name in range(5):
            generator = numbers(name)
            kept.append(generator)
            assert await generator.__anext__() == 1

    run(main())
    assert closed == []
    run(loop.shutdown_asyncgens())
    assert sorted(closed) == list(range(5))


def test_an_async_generator_that_fails_to_close_is_reported(loop, run, reported):
    async def stubborn():
        try:
            yield 1
        finally:
            raise LookupError

    generator = stubborn()

    async def main():
        await generator.__anext__()

    run(main())
    run(loop.shutdown_asyncgens())
    context = reported.pop()
    assert isinstance(context["exception"], LookupError)
    assert context["asyncgen"] is generator


def test_the_async_generator_hooks_are_restored_after_a_run(loop, run_iteration):
    before = sys.get_asyncgen_hooks()
    seen = []
    loop.call_soon(lambda: seen.append(sys.get_asyncgen_hooks()))
    run_iteration()
    assert seen[0] != before
    assert sys.get_asyncgen_hooks() == before


def test_the_same_factory_works_with_several_loops(loop_factory):
    loops = [loop_factory() for _ in range(3)]
    for loop in loops * 2:
        assert loop.run_until_complete(answer()) == 42


def test_futures_belong_to_their_loop(loop, run):
    future = loop.create_future()
    assert isinstance(future, asyncio.Future)
    assert future.get_loop() is loop
    loop.call_soon(future.set_result, 1)
    assert run(future) == 1


def test_many_tasks_wait_and_finish(run):
    async def main():
        gate = asyncio.Event()

        async def wait(index):
            await gate.wait()
            return index

        tasks = [asyncio.ensure_future(wait(index)) for index in range(10_000)]
        await asyncio.sleep(0)
        gate.set()
        assert await asyncio.gather(*tasks) == list(range(10_000))

    run(main())


def test_create_future_uses_asyncios_current_future_class(loop, monkeypatch):
    monkeypatch.setattr("asyncio.futures.Future", asyncio.futures._PyFuture)
    assert type(loop.create_future()) is asyncio.futures._PyFuture
