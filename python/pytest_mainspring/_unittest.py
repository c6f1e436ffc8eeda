"""Tests of ``unittest.IsolatedAsyncioTestCase``."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING, Any

import pytest
from _pytest.unittest import TestCaseFunction

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ._loops import LoopFactory


class RepeatedTestCase(TestCaseFunction):
    """A test method that runs once for each seed.  pytest has no parameters for test cases."""

    seed: int

    @classmethod
    def with_seed(cls, item: pytest.Function, seed: int) -> RepeatedTestCase:
        assert item.parent is not None
        copy = cls.from_parent(item.parent, name=f"{item.name}[seed{seed}]")
        copy.seed = seed
        return copy

    @property
    def _method(self) -> str:
        return self.name.partition("[")[0]

    def _getinstance(self) -> Any:
        return self.parent.obj(self._method)  # type: ignore[union-attr]

    def _getobj(self) -> Any:
        return getattr(self.instance, self._method)


def is_test_case(item: pytest.Function) -> bool:
    """Whether the test is a method of an ``IsolatedAsyncioTestCase`` without a loop factory of its own."""
    # Only the first use of the class imports its module, and asyncio with it.
    module = sys.modules.get("unittest.async_case")
    return (
        module is not None
        and item.cls is not None
        and issubclass(item.cls, module.IsolatedAsyncioTestCase)
        and getattr(item.cls, "loop_factory", None) is None
    )


@contextlib.contextmanager
def loop_factory(case: Any, factory: LoopFactory) -> Iterator[None]:
    """Runs this test case on a loop of ``factory``.

    Python 3.13 has an attribute for it.  Before, the method that creates the loop is replaced, in this object only.
    """
    import asyncio

    loop: asyncio.AbstractEventLoop | None = None

    def new_event_loop() -> asyncio.AbstractEventLoop:
        nonlocal loop
        loop = factory()
        # setUp() may ask for the current loop.  A Runner with a loop factory does not set it.
        asyncio.set_event_loop(loop)
        return loop

    if sys.version_info >= (3, 13):
        name, value = "loop_factory", new_event_loop
    elif sys.version_info >= (3, 11):

        def set_up_runner() -> None:
            case._asyncioRunner = asyncio.Runner(debug=True, loop_factory=new_event_loop)

        name, value = "_setupAsyncioRunner", set_up_runner
    else:

        def set_up_loop() -> None:
            # The method creates its loop at once, so the function is replaced for a moment only.
            original = asyncio.new_event_loop
            asyncio.new_event_loop = new_event_loop
            try:
                type(case)._setupAsyncioLoop(case)
            finally:
                asyncio.new_event_loop = original

        name, value = "_setupAsyncioLoop", set_up_loop
    setattr(case, name, value)
    try:
        yield
    finally:
        delattr(case, name)
        if loop is not None:
            asyncio.set_event_loop(None)
            # Python 3.10 leaves the loop open if the end of the test fails too, as it does after a deadlock.
            loop.close()
