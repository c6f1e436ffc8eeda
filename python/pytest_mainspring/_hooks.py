"""The hooks of a run."""

from __future__ import annotations

import contextlib
import inspect
import os
import shlex
import sys
from typing import TYPE_CHECKING, Any

import pytest

from . import _anyio, _unittest
from ._loops import LoopFactory, Loops
from ._settings import SEED, Options

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping

ASYNCIO_HOOK = "pytest_asyncio_loop_factories"

factory_key = pytest.StashKey["LoopFactory | None"]()


class Hooks:
    """Finds the loop factory of each test and hands it to the framework that runs the test."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.options = Options(config)
        self.loops = Loops()
        self._anyio = _anyio.CurrentFactory(self._current_factory)
        self._current: pytest.Item | None = None
        self._is_used = False

    def pytest_report_header(self) -> str | None:
        if not self.options.mainspring:
            return None
        words = ["virtual time" if self.options.virtual_time else "real time"]
        if self.options.seeds is not None:
            words.append(f"seeds 0 to {self.options.seeds - 1}")
        return "mainspring: " + ", ".join(words)

    # Collection.

    @pytest.hookimpl(wrapper=True)
    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> Generator[None]:
        # pytest-asyncio's hook must exist before pytest-asyncio sees the first test that needs it, and not before:
        # its mere existence changes what pytest-asyncio does.
        if not self._is_used and self.options.settings(metafunc.definition) is not None:
            self._is_used = True
            if hasattr(self.config.hook, ASYNCIO_HOOK):
                self.config.pluginmanager.register(
                    AsyncioHook(self.options, self.loops), "mainspring-asyncio"
                )
        yield
        if (
            self.options.seeds is not None
            and _anyio.is_test(metafunc.definition)
            and _is_async(metafunc.function)
        ):
            if seeds := self.options.seeds_of(metafunc.definition):
                _anyio.repeat(metafunc, seeds)

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(
        self, collector: pytest.Collector
    ) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        report = yield
        if self.options.seeds is not None and isinstance(collector, pytest.Class):
            report.result = [copy for node in report.result or () for copy in self._repeat(node)]
        return report

    def _repeat(self, node: pytest.Item | pytest.Collector) -> list[Any]:
        """The test case once for each seed."""
        if (
            not isinstance(node, pytest.Function)
            or not _unittest.is_test_case(node)
            or not _is_async(node.function)
        ):
            return [node]
        seeds = self.options.seeds_of(node)
        return [_unittest.RepeatedTestCase.with_seed(node, seed) for seed in seeds] or [node]

    # Running.

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        self._current = item
        try:
            return (yield)
        finally:
            self._current = None

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Generator[None, Any, Any]:
        value = yield
        if self._is_used and fixturedef.argname == "anyio_backend" and fixturedef.cached_result is not None:
            value = self._anyio.backend(value)
            _, key, _ = fixturedef.cached_result
            fixturedef.cached_result = (value, key, None)
        return value

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        if isinstance(item, pytest.Function):
            item.stash[factory_key] = factory = self._find_factory(item)
            if factory is None:
                self._check_asyncio_test(item)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, Any, Any]:
        __tracebackhide__ = True
        factory = item.stash.get(factory_key, None)
        with contextlib.ExitStack() as stack:
            if factory is not None and isinstance(item, pytest.Function):
                if _unittest.is_test_case(item):
                    stack.enter_context(_unittest.loop_factory(item.instance, factory))
                elif _anyio.is_test(item):
                    self._anyio.check(item, factory)
            return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        factory = item.stash.get(factory_key, None)
        if (
            report.failed
            and factory is not None
            and factory.settings.seed is not None
            and isinstance(item, pytest.Function)
            and _anyio.takes_loop_factory(item.funcargs.get("anyio_backend"))
        ):
            title = f"mainspring: seed {factory.settings.seed}"
            report.sections.append((title, f"replay with: {self._replay_command(item)}"))
        return report

    def _replay_command(self, item: pytest.Item) -> str:
        words = ["pytest"]
        if self.options.seeds is not None:
            # The whole range, so that the test has the same name.
            words += ["--mainspring-seeds", str(self.options.seeds)]
        # A node ID starts at the root of the project, an argument at the current folder.
        path, separator, names = item.nodeid.partition("::")
        path = os.path.relpath(self.config.rootpath / path, self.config.invocation_params.dir)
        return shlex.join([*words, path + separator + names])

    def _current_factory(self) -> LoopFactory | None:
        return None if self._current is None else self._current.stash.get(factory_key, None)

    def _find_factory(self, item: pytest.Function) -> LoopFactory | None:
        params: dict[str, Any] = item.callspec.params if hasattr(item, "callspec") else {}
        for value in params.values():
            if isinstance(value, LoopFactory):  # from pytest-asyncio's hook
                return value
        if not _unittest.is_test_case(item) and not _anyio.is_test(item):
            return None
        settings = self.options.settings(item)
        if settings is None:
            return None
        seed = item.seed if isinstance(item, _unittest.RepeatedTestCase) else params.get(SEED)
        return self.loops.factory(settings if seed is None else settings.with_seed(seed))

    def _check_asyncio_test(self, item: pytest.Function) -> None:
        """Fails a test that asks for a mainspring loop and that pytest-asyncio would run on another one."""
        marker = item.get_closest_marker("asyncio")
        if (
            marker is None
            or marker.kwargs.get("loop_factories")
            or "pytest_asyncio.plugin" not in sys.modules
            or not _is_async(item.function)
            or self.options.settings(item) is None
        ):
            return
        if not hasattr(self.config.hook, ASYNCIO_HOOK):
            pytest.fail("mainspring's pytest plugin needs pytest-asyncio 1.4 or later", pytrace=False)
        pytest.fail(
            f"{item.nodeid}: put the mainspring marker on the function, not on a parameter", pytrace=False
        )


class AsyncioHook:
    """pytest-asyncio's hook for loop factories."""

    def __init__(self, options: Options, loops: Loops) -> None:
        self._options = options
        self._loops = loops

    @pytest.hookimpl(wrapper=True)
    def pytest_asyncio_loop_factories(
        self, item: pytest.Function
    ) -> Generator[None, Mapping[str, Callable[[], Any]] | None, Mapping[str, Callable[[], Any]]]:
        factories = yield
        settings = self._options.settings(item)
        marker = item.get_closest_marker("asyncio")
        if settings is None or (marker is not None and marker.kwargs.get("loop_factories")):
            import asyncio

            # A hook must return a factory: what a Runner without one calls.
            return factories or {"default": asyncio.new_event_loop}
        seeds = self._options.seeds_of(item)
        repeated = {f"seed{seed}": self._loops.factory(settings.with_seed(seed)) for seed in seeds}
        return repeated or {"mainspring": self._loops.factory(settings)}


def _is_async(function: Any) -> bool:
    hypothesis = getattr(function, "hypothesis", None)
    return inspect.iscoroutinefunction(hypothesis.inner_test if hypothesis else function)
