"""Tests that anyio's pytest plugin runs."""

from __future__ import annotations

import functools
import importlib
import sys
import weakref
from typing import TYPE_CHECKING, Any

import pytest

from ._settings import SEED

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Sequence

    from ._loops import LoopFactory
    from ._settings import Settings


class BackendFactory(functools.partial["asyncio.AbstractEventLoop"]):
    """The loop factory that the plugin gives to anyio."""


def takes_loop_factory(backend: Any) -> bool:
    """Whether a value of the ``anyio_backend`` fixture is asyncio without a loop factory, or not known yet."""
    name, options = backend if isinstance(backend, tuple) else (backend, {})
    return name in (None, "asyncio") and isinstance(options.get("loop_factory"), (BackendFactory, type(None)))


def is_test(item: pytest.Function) -> bool:
    """Whether anyio's plugin runs the test, on an asyncio loop that the plugin chooses."""
    # The name under which pytest knows a plugin depends on how it was loaded.
    if "anyio_backend" not in item.fixturenames or "anyio.pytest_plugin" not in sys.modules:
        return False
    params = item.callspec.params if hasattr(item, "callspec") else {}
    return takes_loop_factory(params.get("anyio_backend") or item.funcargs.get("anyio_backend"))


def repeat(metafunc: pytest.Metafunc, seeds: Sequence[int]) -> None:
    """Repeats the test once for each seed, on asyncio only.  Call this when all other parameters are set."""
    other_backends = [
        call for call in metafunc._calls if not takes_loop_factory(call.params.get("anyio_backend"))
    ]
    metafunc.fixturenames.append(SEED)
    metafunc.parametrize(SEED, seeds, ids=[f"seed{seed}" for seed in seeds], indirect=True)
    calls = [call for call in metafunc._calls if takes_loop_factory(call.params.get("anyio_backend"))]
    metafunc._calls = calls + other_backends


class CurrentFactory:
    """A loop factory for anyio: the loop that the current test asks for.

    The backend of anyio is chosen once for several tests, but the loop depends on the test.
    """

    def __init__(self, current: Callable[[], LoopFactory | None]) -> None:
        self._current = current
        self._loop: Callable[[], asyncio.AbstractEventLoop | None] = lambda: None
        self._settings: Settings | None = None

    def backend(self, backend: Any) -> Any:
        """The value of the ``anyio_backend`` fixture, with a loop factory if it is asyncio."""
        if backend is None or not takes_loop_factory(backend):
            return backend
        name, options = backend if isinstance(backend, tuple) else (backend, {})
        return name, {**options, "loop_factory": BackendFactory(self._new_event_loop, options)}

    def check(self, item: pytest.Function, factory: LoopFactory) -> None:
        """Fails the test if a fixture keeps a loop with other settings open: anyio would use this loop."""
        loop = self._loop()
        if loop is not None and not loop.is_closed() and self._settings != factory.settings:
            pytest.fail(
                f"{item.nodeid}: this test needs a loop of its own ({factory.settings}), but an async fixture that "
                "several tests share keeps another loop open",
                pytrace=False,
            )

    def _new_event_loop(self, options: dict[str, Any]) -> asyncio.AbstractEventLoop:
        factory = self._current()
        loop = _default_event_loop(options) if factory is None else factory()
        self._loop = weakref.ref(loop)
        self._settings = None if factory is None else factory.settings
        return loop


def _default_event_loop(options: dict[str, Any]) -> asyncio.AbstractEventLoop:
    """What anyio creates for a test that does not ask for mainspring."""
    import asyncio

    if options.get("use_uvloop"):
        loop: asyncio.AbstractEventLoop = importlib.import_module("uvloop").new_event_loop()
        return loop
    return asyncio.new_event_loop()
