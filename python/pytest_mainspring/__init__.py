"""A pytest plugin: async tests on mainspring loops, with virtual time and seeds.

It does nothing unless an option, the ``mainspring`` marker or the ``mainspring_clock`` fixture asks for it.  It is not
part of the package ``mainspring``, so that pytest can load it without loading the native module.  The frameworks that
run async tests stay in charge: the plugin gives them loop factories.

- pytest-asyncio has a hook for loop factories, which also repeats a test for each seed.
- anyio's plugin reads a loop factory from the ``anyio_backend`` fixture.
- ``unittest.IsolatedAsyncioTestCase`` has an attribute, from Python 3.13 on.
"""

from __future__ import annotations

import pytest

from ._hooks import Hooks
from ._loops import Clock
from ._settings import CLOCK, MARKER, SEED

__all__ = ["Clock"]

hooks_key = pytest.StashKey[Hooks]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("mainspring", "asyncio on mainspring's event loop")
    group.addoption("--mainspring", action="store_true", help="run async tests on mainspring loops")
    group.addoption(
        "--mainspring-virtual-time",
        action="store_true",
        help="run async tests on mainspring loops with virtual time",
    )
    group.addoption(
        "--mainspring-seeds",
        type=int,
        metavar="N",
        help="run each async test N times, with virtual time and the seeds 0 to N-1",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        f"{MARKER}(virtual_time=..., seed=..., real_io=..., shuffle_ready=...): run this async test on a mainspring "
        "loop. All but virtual_time imply virtual time.",
    )
    config.stash[hooks_key] = hooks = Hooks(config)
    config.pluginmanager.register(hooks, "mainspring-hooks")


@pytest.fixture(name=CLOCK)
def mainspring_clock(pytestconfig: pytest.Config) -> Clock:
    """The virtual clock of the test's loop: time() and advance(seconds)."""
    return Clock(pytestconfig.stash[hooks_key].loops)


@pytest.fixture(name=SEED)
def _mainspring_seed() -> None:
    """The hooks read the parameter of this fixture."""
