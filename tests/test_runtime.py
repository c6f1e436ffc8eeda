"""``mainspring.Runtime``: a loop on its own thread, used by a synchronous program."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import contextvars
import functools
import os
import socket
import threading
import traceback

import pytest

import mainspring

pytestmark = pytest.mark.mainspring_only

LIMIT = 30


@pytest.fixture
def runtime(reported):
    with mainspring.Runtime(name="under test", shutdown_timeout=LIMIT) as runtime:
        runtime.get_loop().set_exception_handler(lambda _, context: reported.append(context))
        yield runtime


async def double(number):
    await asyncio.sleep(0)
    return 2 * number


async def fail(error):
    await asyncio.sleep(0)
    raise error


@contextlib.contextmanager
def serving(data):
    """A peer that sends ``data`` to one client and closes the connection. Its address."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve():
            connection, _ = listener.accept()
            with connection:
                connection.sendall(data)

        thread = threading.Thread(target=serve)
        thread.start()
        yield listener.getsockname()
        thread.join(LIMIT)


# --- run, submit, call


def test_run_returns_the_result_of_a_coroutine(runtime):
    assert runtime.run(double(21)) == 42


def test_the_loop_runs_on_a_named_thread(runtime):
    thread = runtime.call(threading.current_thread).result(LIMIT)
    assert thread.name == "under test"
    assert thread is not threading.current_thread()


def test_run_raises_the_exception_of_the_coroutine_with_its_traceback(runtime):
    with pytest.raises(ZeroDivisionError) as caught:
        runtime.run(fail(ZeroDivisionError("out of luck")))
    names = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert names[0] == "test_run_raises_the_exception_of_the_coroutine_with_its_traceback"
    assert names[-1] == "fail"


def test_a_failure_of_a_call_has_the_traceback_of_the_function(runtime):
    def broken():
        return 1 / 0

    with pytest.raises(ZeroDivisionError) as caught:
        runtime.call(broken).result(LIMIT)
    assert traceback.extract_tb(caught.value.__traceback__)[-1].name == "broken"


def test_submit_returns_a_future_that_concurrent_futures_knows(runtime):
    futures = [runtime.submit(double(number)) for number in range(5)]
    assert all(isinstance(future, concurrent.futures.Future) for future in futures)
    done, pending = concurrent.futures.wait(futures, LIMIT)
    assert not pending
    assert sorted(future.result() for future in done) == [0, 2, 4, 6, 8]


def test_calls_and_coroutines_start_in_the_order_of_their_submission(runtime):
    order = []

    async def note(number):
        order.append(number)

    futures = []
    for number in range(0, 20, 2):
        futures.append(runtime.call(order.append, number))
        futures.append(runtime.submit(note(number + 1)))
    concurrent.futures.wait(futures, LIMIT)
    assert [number for number in order if number % 2 == 0] == list(range(0, 20, 2))
    assert [number for number in order if number % 2] == list(range(1, 20, 2))


def test_the_context_variables_of_the_submitting_thread_are_copied(runtime):
    variable = contextvars.ContextVar("variable", default="default")

    async def change():
        before = variable.get()
        variable.set("changed in the task")
        return before

    variable.set("of the thread")
    assert runtime.run(change()) == "of the thread"
    assert runtime.call(variable.get).result(LIMIT) == "of the thread"
    assert variable.get() == "of the thread"


def test_a_task_group_and_a_timeout_work_in_a_coroutine(runtime):
    async def main():
        return await asyncio.wait_for(asyncio.gather(double(1), double(2)), LIMIT)

    assert runtime.run(main()) == [2, 4]


@pytest.mark.parametrize("method", ["run", "submit"])
@pytest.mark.parametrize(
    ("value", "hint"),
    [
        (double, r"pass \w+\(func\(\.\.\.\)\), or use call"),
        (42, "takes a coroutine, not 42"),
        (None, "takes a coroutine, not None"),
    ],
)
def test_only_coroutines_are_accepted(runtime, method, value, hint):
    with pytest.raises(TypeError, match=hint):
        getattr(runtime, method)(value)


def test_an_awaitable_that_is_not_a_coroutine_is_refused_with_a_next_step(runtime):
    future = runtime.delay(0)
    with pytest.raises(TypeError, match="await it in a coroutine"):
        runtime.submit(future)


def test_call_refuses_an_asynchronous_function(runtime):
    with pytest.raises(TypeError, match=r"asynchronous: use submit\(\)"):
        runtime.call(double, 1).result(LIMIT)
    with pytest.raises(TypeError, match="takes a function"):
        runtime.call(42)


def test_the_future_of_a_call_that_runs_cannot_be_cancelled(runtime):
    begun, go_on = threading.Event(), threading.Event()

    def work():
        begun.set()
        assert go_on.wait(LIMIT)
        return "done"

    future = runtime.call(work)
    assert begun.wait(LIMIT)
    assert not future.cancel()
    go_on.set()
    assert future.result(LIMIT) == "done"


def test_a_call_that_has_not_begun_is_not_made_after_a_cancel(runtime):
    go_on, made = threading.Event(), []
    busy = runtime.call(go_on.wait, LIMIT)
    future = runtime.call(made.append, 1)
    assert future.cancel()
    go_on.set()
    assert busy.result(LIMIT)
    runtime.run(double(1))
    assert made == []


def test_system_exit_of_a_task_reaches_the_caller_and_not_the_loop(runtime):
    with pytest.raises(SystemExit):
        runtime.run(fail(SystemExit(3)))
    with pytest.raises(KeyboardInterrupt):
        runtime.run(fail(KeyboardInterrupt()))
    assert runtime.run(double(1)) == 2


def test_stop_called_by_a_callback_does_not_end_the_runtime(runtime):
    runtime.call(runtime.get_loop().stop).result(LIMIT)
    assert runtime.run(double(1)) == 2


def test_a_task_factory_that_fails_fails_the_future(runtime, reported):
    def factory(loop, coro, **options):
        coro.close()
        raise ZeroDivisionError

    runtime.call(runtime.get_loop().set_task_factory, factory).result(LIMIT)
    with pytest.raises(ZeroDivisionError):
        runtime.run(double(1))
    runtime.call(runtime.get_loop().set_task_factory, None).result(LIMIT)


def test_eager_tasks(runtime):
    if not hasattr(asyncio, "eager_task_factory"):
        pytest.skip("eager tasks are new in Python 3.12")
    runtime.call(runtime.get_loop().set_task_factory, asyncio.eager_task_factory).result(LIMIT)

    async def at_once():
        return 42

    assert runtime.run(at_once()) == 42
    assert runtime.run(double(2)) == 4
    with pytest.raises(ZeroDivisionError):
        runtime.run(fail(ZeroDivisionError()))


# --- waiting on the loop's own thread


def test_waiting_on_the_loops_own_thread_raises_instead_of_blocking(runtime):
    def misuse():
        errors = []
        waits = [
            lambda: runtime.run(double(1)),
            lambda: runtime.delay(0).result(),
            lambda: runtime.delay(0).exception(),
            runtime.shutdown,
            runtime.join,
            lambda: runtime.wrap_async_context_manager(contextlib.AsyncExitStack()).__enter__(),
        ]
        for wait in waits:
            try:
                wait()
            except RuntimeError as error:
                errors.append(str(error))
        return errors

    errors = runtime.call(misuse).result(LIMIT)
    assert len(errors) == 6
    assert all("on the loop's own thread would wait forever: " in error for error in errors)
    assert runtime.run(double(1)) == 2


def test_work_may_submit_work_and_await_it(runtime):
    async def outer():
        return await runtime.submit(double(1)) + await runtime.call(len, "ab")

    assert runtime.run(outer()) == 4


# --- delay, read


def test_delay_has_a_value(runtime):
    assert runtime.delay(0.001, "value").result(LIMIT) == "value"
    assert runtime.delay(0).result(LIMIT) is None


def test_read_of_an_address_returns_everything_until_the_end(runtime):
    data = os.urandom(1 << 20)
    with serving(data) as address:
        assert runtime.read(address).result(LIMIT) == data


def test_read_of_a_unix_socket(runtime, tmp_path):
    path = tmp_path / "socket"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        for source in (path, str(path)):
            future = runtime.read(source)
            connection, _ = listener.accept()
            with connection:
                connection.sendall(b"hello")
            assert future.result(LIMIT) == b"hello"


def test_read_of_a_socket_leaves_it_open_and_keeps_its_timeout(runtime):
    near, far = socket.socketpair()
    with near, far:
        near.settimeout(12.5)
        future = runtime.read(near)
        far.sendall(b"one")
        far.sendall(b"two")
        far.close()
        assert future.result(LIMIT) == b"onetwo"
        assert near.gettimeout() == 12.5
        assert near.fileno() != -1


def test_a_read_that_is_cancelled_leaves_the_socket_usable(runtime):
    near, far = socket.socketpair()
    with near, far:
        future = runtime.read(near)
        runtime.run(double(1))
        assert future.cancel()
        # The task of the read ends before this one.
        runtime.run(double(1))
        assert near.gettimeout() is None
        far.sendall(b"data")
        assert near.recv(10) == b"data"


def test_a_failing_read_is_an_exception_of_the_future(runtime):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = listener.getsockname()
    with pytest.raises(ConnectionRefusedError):
        runtime.read(address).result(LIMIT)
    with pytest.raises(TypeError, match="takes a socket"):
        runtime.read(42).result(LIMIT)


# --- options


def test_repr_shows_name_state_and_pending_work():
    with mainspring.Runtime(name="n") as runtime:
        assert repr(runtime) == "<Runtime name='n' running pending=0>"
        future = runtime.delay(1000)
        assert repr(runtime) == "<Runtime name='n' running pending=1>"
        future.cancel()
    assert repr(runtime) == "<Runtime name='n' ended>"


def test_debug_and_loop_factory():
    factory = functools.partial(mainspring.new_event_loop, io_first=True)
    with mainspring.Runtime(debug=True, loop_factory=factory) as runtime:
        assert runtime.get_loop().get_debug()
        assert runtime.run(double(1)) == 2
        assert runtime.call(asyncio.get_running_loop).result(LIMIT) is runtime.get_loop()


def test_a_loop_factory_that_fails_or_returns_another_loop_starts_no_thread():
    threads = threading.active_count()
    with pytest.raises(ZeroDivisionError):
        mainspring.Runtime(loop_factory=lambda: 1 / 0)
    with pytest.raises(TypeError, match=r"mainspring\.Loop, not object"):
        mainspring.Runtime(loop_factory=object)
    with pytest.raises((TypeError, ValueError)):
        mainspring.Runtime(shutdown_timeout="soon")
    assert threading.active_count() == threads


def test_two_runtimes_serve_each_other():
    with mainspring.Runtime(name="one") as one, mainspring.Runtime(name="two") as two:

        async def ask():
            return await two.submit(double(1)) + await two.submit(double(2))

        assert one.run(ask()) == 6
