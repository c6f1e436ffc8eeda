"""Loops modified by Python code: subclasses and instances with overridden methods, as asyncio allows."""

from __future__ import annotations

import asyncio
import socket
from unittest import mock

import pytest

import mainspring

BASES = {"asyncio": asyncio.SelectorEventLoop, "mainspring": mainspring.Loop}


@pytest.fixture
def derived(loop_kind):
    """Creates a loop of a subclass with the given methods, and closes it after the test."""
    made = []

    def make(**methods):
        loop = type("Derived", (BASES[loop_kind],), methods)()
        made.append(loop)
        return loop

    yield make
    for loop in made:
        loop.close()


class Clock:
    """A clock that only changes when the test sets it."""

    def __init__(self, seconds=1000.0):
        self.seconds = seconds

    def __call__(self, *_):
        return self.seconds


def run_iteration(loop):
    loop.call_soon(loop.stop)
    loop.run_forever()


def test_every_deadline_uses_the_clock_of_the_subclass(derived):
    clock = Clock()
    loop = derived(time=lambda _: clock())
    called = []
    timer = loop.call_later(60, called.append, "later")
    loop.call_at(1030, called.append, "at")
    assert timer.when() == 1060
    run_iteration(loop)
    assert called == []
    clock.seconds = 1030
    run_iteration(loop)
    assert called == ["at"]
    clock.seconds = 2000
    run_iteration(loop)
    assert called == ["at", "later"]


def test_sleep_ends_by_the_clock_of_the_subclass(derived):
    clock = Clock(0.0)
    loop = derived(time=lambda _: clock())

    async def main():
        sleep = loop.create_task(asyncio.sleep(3600))
        await asyncio.sleep(0)
        assert not sleep.done()
        clock.seconds = 3601.0
        await sleep

    loop.run_until_complete(main())


def test_a_clock_on_the_instance_is_used_until_it_is_deleted(loop):
    real = loop.time()
    with mock.patch.object(loop, "time", return_value=5.0) as patched:
        assert loop.call_later(10, print).when() == 15.0
        assert patched.called
    assert "time" not in vars(loop)
    timer = loop.call_later(10, print)
    assert timer.when() >= real + 10


def test_a_clock_of_the_subclass_may_call_super(derived, loop_kind):
    loop = derived(time=lambda self: BASES[loop_kind].time(self) + 1000)
    plain = BASES[loop_kind].time(loop)
    assert loop.time() >= plain + 1000
    loop.run_until_complete(asyncio.sleep(0.001))


def test_a_clock_on_the_instance_may_call_the_original_method(loop):
    original = loop.time
    before = original()
    loop.time = lambda: original() + 1000
    assert loop.call_later(10, print).when() >= before + 1010
    loop.run_until_complete(asyncio.sleep(0.001))


def test_a_clock_patched_into_the_class_is_used_by_loops_that_exist_already(derived):
    loop = derived()
    real = loop.time()
    run_iteration(loop)
    called = []
    with mock.patch.object(type(loop), "time", return_value=5.0):
        timer = loop.call_later(10, called.append, "later")
        assert timer.when() == 15.0
        run_iteration(loop)
        assert called == []
    assert loop.call_later(10, print).when() >= real + 10
    run_iteration(loop)
    assert called == ["later"]


def test_a_clock_patched_into_a_base_class_is_used(loop_kind):
    base = type("Base", (BASES[loop_kind],), {})
    loop = type("Derived", (base,), {})()
    try:
        with mock.patch.object(base, "time", lambda _: 5.0):
            assert loop.call_later(10, print).when() == 15.0
    finally:
        loop.close()


def test_a_loop_whose_class_is_replaced_uses_the_clock_of_the_new_class(derived):
    loop = derived()
    loop.__class__ = type("Later", (type(loop),), {"time": lambda _: 5.0})
    assert loop.call_later(10, print).when() == 15.0


def test_a_clock_that_goes_backwards_is_used(loop):
    called = []
    with mock.patch.object(loop, "time", return_value=1e9):
        run_iteration(loop)
    loop.time = Clock(5.0)
    loop.call_at(10.0, called.append, "ten")
    run_iteration(loop)
    assert called == []
    loop.time.seconds = 10.0
    run_iteration(loop)
    assert called == ["ten"]


def test_an_exception_from_the_clock_propagates(derived, loop_kind, monkeypatch):
    if loop_kind == "asyncio":
        pytest.skip("asyncio raises out of run_forever(); mainspring continues and reports the failure")
    shown = []
    monkeypatch.setattr("sys.unraisablehook", lambda failure: shown.append(failure.exc_type))
    loop = derived(time=lambda _: 1 / 0)
    # Without a timer the loop does not call time().
    loop.call_at(1.0, print)
    run_iteration(loop)
    assert ZeroDivisionError in shown


def test_call_later_goes_through_a_call_at_of_the_subclass(derived, loop_kind):
    seen = []

    def call_at(self, when, callback, *args, context=None):
        seen.append((callback, args, context))
        return BASES[loop_kind].call_at(self, when, callback, *args, context=context)

    loop = derived(call_at=call_at)
    called = []
    loop.call_later(0, called.append, 1)
    run_iteration(loop)
    assert seen == [(called.append, (1,), None)]
    assert called == [1]


def test_call_later_with_a_clock_of_the_subclass_refuses_none(derived):
    loop = derived(time=lambda _: 1.0)
    with pytest.raises(TypeError):
        loop.call_later(None, print)


def test_call_later_goes_through_a_call_at_patched_into_the_class(derived):
    loop = derived()
    with mock.patch.object(type(loop), "call_at") as call_at:
        loop.call_later(0, print)
    assert call_at.call_count == 1


def test_task_steps_go_through_call_soon_of_the_subclass(derived, loop_kind):
    seen = []

    def call_soon(self, callback, *args, context=None):
        seen.append(callback)
        return BASES[loop_kind].call_soon(self, callback, *args, context=context)

    loop = derived(call_soon=call_soon)

    async def main():
        await asyncio.sleep(0)

    loop.run_until_complete(main())
    assert len(seen) >= 2


def test_any_attribute_can_be_set_on_an_instance_and_deleted(loop):
    loop.anything = 1
    assert loop.anything == 1
    del loop.anything
    with pytest.raises(AttributeError):
        del loop.anything


def test_create_connection_uses_getaddrinfo_of_the_instance(loop):
    async def getaddrinfo(*_, **__):
        raise OSError("no names today")

    loop.getaddrinfo = getaddrinfo
    with pytest.raises(OSError, match="no names today"):
        loop.run_until_complete(loop.create_connection(asyncio.Protocol, "localhost", 1))


@pytest.mark.parametrize(
    "use",
    [
        lambda loop: loop.call_soon(print),
        lambda loop: loop.call_soon_threadsafe(print),
        lambda loop: loop.call_later(1, print),
        lambda loop: loop.call_at(1, print),
        lambda loop: loop.get_debug(),
        lambda loop: loop.create_future(),
        lambda loop: loop.add_reader(0, print),
        lambda loop: loop.remove_reader(0),
        lambda loop: loop.add_writer(0, print),
        lambda loop: loop.remove_writer(0),
        lambda loop: loop.run_until_complete(asyncio.sleep(0)),
        lambda loop: loop.close(),
    ],
)
@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")
def test_a_subclass_that_does_not_call_init_is_refused(loop_kind, use):
    def nothing(self):
        pass

    loop = type("Unfinished", (BASES[loop_kind],), {"__init__": nothing, "__del__": nothing})()
    with pytest.raises(AttributeError):
        use(loop)


def test_an_overridden_call_soon_gets_the_callbacks_of_futures_tasks_and_transports(derived, loop_kind):
    base, names = BASES[loop_kind], []

    def call_soon(self, callback, *args, context=None):
        names.append(getattr(callback, "__name__", type(callback).__name__))
        return base.call_soon(self, callback, *args, context=context)

    class Receiver(asyncio.Protocol):
        def connection_lost(self, error):
            lost.set_result(None)

    def when_done(_):
        pass

    loop = derived(call_soon=call_soon)
    lost = loop.create_future()

    async def main():
        future = loop.create_future()
        future.add_done_callback(when_done)
        future.set_result(None)
        ours, theirs = socket.socketpair()
        with theirs:
            transport, _ = await loop.create_connection(Receiver, sock=ours)
            transport.close()
            await lost

    loop.run_until_complete(main())
    assert {"when_done", "connection_made", "_call_connection_lost"} <= set(names)


def test_an_overridden_create_task_gets_accepted_connections_and_asyncio_create_task(derived, loop_kind):
    base, names = BASES[loop_kind], []

    def create_task(self, coro, **kwargs):
        names.append(coro.__name__)
        return base.create_task(self, coro, **kwargs)

    async def nothing():
        pass

    async def main():
        closed = asyncio.Event()

        async def serve(reader, writer):
            writer.close()
            closed.set()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        _, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        await closed.wait()
        writer.close()
        server.close()
        await asyncio.create_task(nothing())

    derived(create_task=create_task).run_until_complete(main())
    assert "serve" in names
    assert "nothing" in names
    assert any("accept_connection" in name for name in names)


def test_an_overridden_call_soon_threadsafe_gets_the_results_of_threads(derived, loop_kind):
    base, names = BASES[loop_kind], []

    def call_soon_threadsafe(self, callback, *args, context=None):
        names.append(getattr(callback, "__name__", type(callback).__name__))
        return base.call_soon_threadsafe(self, callback, *args, context=context)

    loop = derived(call_soon_threadsafe=call_soon_threadsafe)
    assert loop.run_until_complete(loop.run_in_executor(None, lambda: 42)) == 42
    loop.run_until_complete(loop.shutdown_default_executor())
    assert "_set_state" in names


def test_an_overridden_call_later_gets_sleep_and_calls_call_at(derived, loop_kind):
    base, calls = BASES[loop_kind], []

    def call_later(self, delay, callback, *args, context=None):
        calls.append("call_later")
        return base.call_later(self, delay, callback, *args, context=context)

    def call_at(self, when, callback, *args, context=None):
        calls.append("call_at")
        return base.call_at(self, when, callback, *args, context=context)

    derived(call_later=call_later, call_at=call_at).run_until_complete(asyncio.sleep(0.001))
    assert calls[:2] == ["call_later", "call_at"]
