"""Hooks that a subclass or an instance defines: on_iteration_begin(), on_iteration_end(), on_idle()."""

from __future__ import annotations

import asyncio

import pytest

import mainspring

pytestmark = pytest.mark.mainspring_only

LIMIT = 30


@pytest.fixture
def derived(loop_kind, reported):
    """Creates a loop of a subclass with the given methods, and closes it after the test."""
    made = []

    def make(**methods):
        loop = type("Derived", (mainspring.Loop,), methods)()
        loop.set_exception_handler(lambda _, context: reported.append(context))
        made.append(loop)
        return loop

    yield make
    for loop in made:
        loop.close()


def test_the_hooks_surround_each_iteration(derived):
    order = []
    loop = derived(
        on_iteration_begin=lambda self: order.append("begin"),
        on_iteration_end=lambda self: order.append("end"),
    )
    loop.call_soon(order.append, 1)
    loop.call_soon(loop.call_soon, order.append, 2)
    loop.call_soon(loop.call_soon, loop.stop)
    loop.run_forever()
    assert order == ["begin", 1, "end", "begin", 2, "end"]


def test_what_on_iteration_begin_schedules_runs_in_the_same_iteration(derived):
    order = []
    loop = derived(on_iteration_begin=lambda self: self.call_soon(order.append, "scheduled"))
    loop.call_soon(order.append, "first")
    loop.call_soon(loop.stop)
    loop.run_forever()
    assert order == ["first", "scheduled"]


def test_on_idle_gets_the_timeout(derived):
    timeouts = []

    def on_idle(self, timeout):
        timeouts.append(timeout)
        self.stop()

    loop = derived(on_idle=on_idle)
    loop.call_later(LIMIT, loop.stop)
    loop.run_forever()
    assert len(timeouts) == 1
    assert 0 < timeouts[0] <= LIMIT


def test_a_loop_does_not_block_if_on_idle_schedules_work(derived):
    timeouts = []

    def on_idle(self, timeout):
        timeouts.append(timeout)
        self.call_soon(self.stop)

    loop = derived(on_idle=on_idle)
    loop.run_forever()  # for ever, without the hook
    assert timeouts == [None]


def test_on_idle_is_not_called_while_there_is_work(derived):
    timeouts = []
    loop = derived(on_idle=lambda self, timeout: timeouts.append(timeout))
    loop.run_until_complete(asyncio.sleep(0))
    loop.call_at(loop.time(), loop.stop)
    loop.run_forever()
    assert timeouts == []


def test_a_timer_of_on_idle_shortens_the_wait(derived):
    def on_idle(self, timeout):
        if timeout is None:
            self.call_later(0.001, self.stop)

    derived(on_idle=on_idle).run_forever()


def test_a_hook_on_the_instance_is_called_until_it_is_deleted(loop):
    calls = []

    async def main():
        loop.on_iteration_end = lambda: calls.append("end")
        await asyncio.sleep(0)
        assert calls == []  # This iteration began without the hook.
        await asyncio.sleep(0)
        assert calls == ["end"]
        del loop.on_iteration_end
        await asyncio.sleep(0)

    loop.run_until_complete(main())
    assert calls == ["end"]


def test_a_hook_that_is_added_to_the_class_is_called_in_the_next_run(derived):
    loop = derived()
    loop.run_until_complete(asyncio.sleep(0))
    calls = []
    type(loop).on_iteration_begin = lambda self: calls.append(self)
    loop.run_until_complete(asyncio.sleep(0))
    assert set(calls) == {loop}


@pytest.mark.parametrize("name", ["on_iteration_begin", "on_iteration_end", "on_idle"])
def test_an_exception_of_a_hook_reaches_the_exception_handler(derived, reported, name):
    def hook(self, *timeout):
        self.stop()
        raise ValueError(name)

    loop = derived(**{name: hook})
    if name != "on_idle":
        loop.call_soon(lambda: None)
    loop.call_later(LIMIT, loop.stop)
    loop.run_forever()
    assert {context["message"] for context in reported} == {f"Exception in {name}()"}
    assert {str(context["exception"]) for context in reported} == {name}
    reported.clear()


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("name", ["on_iteration_begin", "on_iteration_end", "on_idle"])
def test_an_exception_that_ends_the_run_ends_it(derived, name, kind):
    def hook(self, *timeout):
        raise kind

    loop = derived(**{name: hook})
    if name != "on_idle":
        loop.call_soon(lambda: None)
    loop.call_later(LIMIT, loop.stop)
    with pytest.raises(kind):
        loop.run_forever()


def test_hooks_can_run_the_loop(derived):
    results = []

    def on_idle(self, timeout):
        if not results:
            results.append(None)
            results.append(self.run_until_complete(asyncio.sleep(0.001, "nested")))
            self.stop()

    loop = derived(on_idle=on_idle)
    mainspring.allow_nested(loop)
    loop.run_forever()
    assert results == [None, "nested"]


def test_the_running_loop_is_set_in_hooks(derived):
    seen = []
    loop = derived(on_iteration_begin=lambda self: seen.append(asyncio.get_running_loop()))
    loop.run_until_complete(asyncio.sleep(0))
    assert set(seen) == {loop}


def test_hooks_work_in_debug_mode_and_with_a_replaced_clock(derived):
    calls = []

    def on_idle(self, timeout):
        calls.append(timeout)
        self.stop()

    loop = derived(time=lambda self: mainspring.Loop.time(self) + 1000, on_idle=on_idle)
    loop.set_debug(True)
    loop.call_later(LIMIT, loop.stop)
    loop.run_forever()
    assert len(calls) == 1
    assert 0 < calls[0] <= LIMIT
