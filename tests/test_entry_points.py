"""Ways to run a program on the loop: run, install, policies, runners, subclasses."""

import asyncio
import os
import re
import sys
import unittest
import warnings

import pytest

import mainspring

LIMIT = 30

since_311 = pytest.mark.skipif(sys.version_info < (3, 11), reason="new in Python 3.11")

since_312 = pytest.mark.skipif(sys.version_info < (3, 12), reason="new in Python 3.12")

with_policies = pytest.mark.skipif(sys.version_info >= (3, 16), reason="gone from Python 3.16")


async def which_loop():
    await asyncio.sleep(0)
    return type(asyncio.get_running_loop())


@pytest.fixture
def former_policy():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        former = asyncio.get_event_loop_policy()
        yield
        asyncio.set_event_loop_policy(former)


def test_run_returns_the_result_and_uses_our_loop():
    assert mainspring.run(which_loop()) is mainspring.Loop
    assert asyncio._get_running_loop() is None


def test_run_raises_the_exception_of_the_coroutine():
    async def fail():
        raise LookupError("main")

    with pytest.raises(LookupError, match="main"):
        mainspring.run(fail())


@pytest.mark.parametrize("debug", [True, False])
def test_run_sets_debug_mode(debug):
    async def main():
        return asyncio.get_running_loop().get_debug()

    assert mainspring.run(main(), debug=debug) is debug


def test_run_does_not_change_debug_mode_by_default():
    async def main():
        return asyncio.get_running_loop().get_debug()

    expected = asyncio.run(main())
    assert mainspring.run(main()) is expected


@pytest.mark.parametrize("wrong", [None, 1, "main", which_loop])
def test_run_refuses_other_objects_as_asyncio_does(wrong):
    with pytest.raises((TypeError, ValueError)) as expected:
        asyncio.run(wrong)
    with pytest.raises(expected.type):
        mainspring.run(wrong)


def test_run_cannot_be_called_from_a_running_loop():
    async def main():
        coroutine = which_loop()
        with pytest.raises(RuntimeError, match="cannot be called from a running event loop"):
            mainspring.run(coroutine)
        coroutine.close()

    mainspring.run(main())


def test_run_cancels_remaining_tasks_and_closes_the_loop():
    cancelled, loops = [], []

    async def wait():
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            cancelled.append(True)
            raise

    async def main():
        loops.append(asyncio.get_running_loop())
        tasks = [asyncio.ensure_future(wait()) for _ in range(3)]
        await asyncio.sleep(0)
        return len(tasks)

    assert mainspring.run(main()) == 3
    assert cancelled == [True] * 3
    assert loops[0].is_closed()


def test_run_closes_async_generators_and_the_executor():
    closed, generators, threads = [], [], []

    async def numbers():
        try:
            yield 1
        finally:
            closed.append(True)

    async def main():
        generators.append(numbers())
        await generators[0].__anext__()
        await asyncio.to_thread(threads.append, 1)

    mainspring.run(main())
    assert closed == [True] and threads == [1]


def test_run_can_be_called_repeatedly():
    for index in range(20):
        assert mainspring.run(asyncio.sleep(0, index)) == index


def test_new_event_loop_returns_a_loop():
    loop = mainspring.new_event_loop()
    try:
        assert type(loop) is mainspring.Loop
        assert isinstance(loop, asyncio.AbstractEventLoop)
        assert isinstance(loop, asyncio.BaseEventLoop)
        assert re.fullmatch(r"<Loop running=False closed=False debug=(True|False)>", repr(loop))
    finally:
        loop.close()
    assert "closed=True" in repr(loop)


def test_the_package_exports_its_names():
    for name in mainspring.__all__:
        assert getattr(mainspring, name) is not None
    assert re.fullmatch(r"\d+\.\d+\.\d+.*", mainspring.__version__)
    with pytest.raises(AttributeError):
        mainspring.nothing_of_that_name  # noqa: B018


@with_policies
def test_install_makes_asyncio_run_use_our_loop(former_policy):
    mainspring.install()
    assert asyncio.run(which_loop()) is mainspring.Loop
    loop = asyncio.new_event_loop()
    assert type(loop) is mainspring.Loop
    loop.close()


@with_policies
def test_the_policy_makes_and_keeps_loops(former_policy):
    policy = mainspring.EventLoopPolicy()
    assert isinstance(policy, asyncio.AbstractEventLoopPolicy)
    asyncio.set_event_loop_policy(policy)
    loop = policy.new_event_loop()
    assert type(loop) is mainspring.Loop
    asyncio.set_event_loop(loop)
    assert asyncio.get_event_loop_policy().get_event_loop() is loop
    asyncio.set_event_loop(None)
    loop.close()
    assert asyncio.run(which_loop()) is mainspring.Loop


@since_311
def test_a_runner_takes_the_loop_factory():
    with asyncio.Runner(loop_factory=mainspring.new_event_loop) as runner:
        assert runner.run(which_loop()) is mainspring.Loop
        assert runner.run(which_loop()) is mainspring.Loop
        loop = runner.get_loop()
    assert loop.is_closed()
    with asyncio.Runner(loop_factory=mainspring.Loop, debug=True) as runner:
        assert runner.get_loop().get_debug() is True


@since_312
def test_asyncio_run_takes_the_loop_factory():
    assert asyncio.run(which_loop(), loop_factory=mainspring.new_event_loop) is mainspring.Loop


@with_policies
def test_isolated_async_test_cases_run_on_our_loop(former_policy):
    seen = []

    class Case(unittest.IsolatedAsyncioTestCase):
        async def asyncSetUp(self):
            seen.append(await which_loop())

        async def test_loop(self):
            seen.append(await which_loop())

        async def test_failure(self):
            await asyncio.sleep(0)
            self.fail("as planned")

    mainspring.install()
    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromTestCase(Case).run(result)
    assert result.testsRun == 2
    assert len(result.failures) == 1 and "as planned" in result.failures[0][1]
    assert not result.errors
    assert seen == [mainspring.Loop] * 3


def test_attributes_can_be_set_and_methods_replaced(loop, run):
    loop.colour = "red"
    assert loop.colour == "red"
    calls = []
    original = loop.call_soon

    def call_soon(callback, *args, context=None):
        calls.append(callback)
        return original(callback, *args, context=context)

    loop.call_soon = call_soon
    run(asyncio.sleep(0))
    assert calls
    del loop.call_soon
    calls.clear()
    run(asyncio.sleep(0))
    assert not calls


def test_a_loop_can_be_subclassed(loop_kind, reported):
    base = mainspring.Loop if loop_kind == "mainspring" else asyncio.SelectorEventLoop

    class Counting(base):
        def __init__(self):
            super().__init__()
            self.scheduled = 0
            self.reports = []

        def call_soon(self, callback, *args, context=None):
            self.scheduled += 1
            return super().call_soon(callback, *args, context=context)

        def call_exception_handler(self, context):
            self.reports.append(context)

        def create_future(self):
            self.scheduled += 1000
            return super().create_future()

    loop = Counting()
    try:
        assert loop.run_until_complete(which_loop()) is Counting
        assert 0 < loop.scheduled < 1000
        loop.create_future()
        assert loop.scheduled >= 1000
        loop.call_soon(lambda: 1 / 0)
        loop.stop()
        loop.run_forever()
        assert isinstance(loop.reports[0]["exception"], ZeroDivisionError)
        assert repr(loop).startswith("<Counting ")
    finally:
        loop.close()


def test_a_subclass_that_does_not_call_init_raises(loop_kind):
    base = mainspring.Loop if loop_kind == "mainspring" else asyncio.SelectorEventLoop

    class Forgetful(base):
        def __init__(self):
            pass

        def __del__(self):
            pass

    loop = Forgetful()
    for use in (
        lambda: loop.run_forever(),
        lambda: loop.run_until_complete(asyncio.Future(loop=loop)),
        lambda: loop.create_task(None),
        lambda: loop.close(),
    ):
        with pytest.raises((AttributeError, RuntimeError)):
            use()


def test_closing_a_loop_closes_its_fds_at_once(loop_factory):
    def count():
        return len(os.listdir("/proc/self/fd"))

    before = count()
    loops = [loop_factory() for _ in range(3)]
    assert count() > before
    for loop in loops:
        loop.close()
    assert count() == before


def test_fds_of_the_loop_are_not_inheritable(loop_factory):
    def inheritable():
        return {fd for fd in map(int, os.listdir("/proc/self/fd")) if is_inheritable(fd)}

    before = inheritable()
    loop_factory()
    assert inheritable() == before


def is_inheritable(fd):
    try:
        return os.get_inheritable(fd)
    except OSError:
        return False  # the fd that listed them


@pytest.mark.parametrize(
    "before", ["", "loop.add_signal_handler(signal.SIGUSR1, print)", "loop.set_debug(True)"]
)
def test_a_program_may_end_without_closing_its_loop(run_python, before):
    ended = run_python(
        f"""
import signal, sys
def main():
    loop = new_loop()
    {before}
    loop.call_later(100, print)
    sys.exit(3)
main()
"""
    )
    assert (ended.returncode, ended.stderr) == (3, "")
