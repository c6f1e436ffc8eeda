"""Which loop a test gets: the options of the run, the markers of the test and the fixtures that it uses."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mainspring.testing._loop import RealIO

MARKER = "mainspring"
CLOCK = "mainspring_clock"
# Arguments of the marker that only a loop with virtual time has.
OF_VIRTUAL_TIME = ("seed", "real_io", "shuffle_ready")

# The parameter of a test that anyio runs with several seeds.
SEED = "_mainspring_seed"


@dataclasses.dataclass(frozen=True)
class Settings:
    """The loop of a test."""

    virtual_time: bool = False
    seed: int | None = None
    real_io: RealIO = "allow"
    shuffle_ready: bool = False

    def with_seed(self, seed: int) -> Settings:
        return dataclasses.replace(self, seed=seed)


class Options:
    """The options of the run."""

    def __init__(self, config: pytest.Config) -> None:
        seeds: int | None = config.getoption("mainspring_seeds")
        if seeds is not None and seeds < 1:
            raise pytest.UsageError(f"--mainspring-seeds needs a positive number, not {seeds}")
        self.seeds = seeds
        self.virtual_time: bool = seeds is not None or config.getoption("mainspring_virtual_time")
        self.mainspring: bool = self.virtual_time or config.getoption("mainspring")

    def settings(self, item: pytest.Function) -> Settings | None:
        """``None`` if the test does not ask for a mainspring loop."""
        marked = _marker_arguments(item)
        uses_clock = CLOCK in item.fixturenames
        if marked is None and not uses_clock and not self.mainspring:
            return None
        arguments = marked or {}
        needs = [name for name in OF_VIRTUAL_TIME if name in arguments] + [CLOCK] * uses_clock
        virtual_time = arguments.setdefault("virtual_time", self.virtual_time or bool(needs))
        if needs and not virtual_time:
            _fail(item, f"{needs[0]} needs virtual time, but the marker says virtual_time=False")
        return Settings(**arguments)

    def seeds_of(self, item: pytest.Function) -> Sequence[int]:
        """The seeds with which the test is repeated.  Empty if it runs once."""
        settings = self.settings(item)
        if self.seeds is None or settings is None or not settings.virtual_time:
            return ()
        # A seed in the marker, even None, is the test's own choice.
        is_fixed = any("seed" in mark.kwargs for mark in item.iter_markers(MARKER))
        return () if is_fixed else range(self.seeds)


def _marker_arguments(item: pytest.Function) -> dict[str, Any] | None:
    """The arguments of all mainspring markers of the test; those nearest to it win."""
    marks = list(item.iter_markers(MARKER))
    if not marks:
        return None
    arguments: dict[str, Any] = {}
    for mark in reversed(marks):
        if mark.args:
            _fail(item, "the mainspring marker takes keyword arguments only")
        for name, value in mark.kwargs.items():
            _check_argument(item, name, value)
        arguments.update(mark.kwargs)
    return arguments


def _check_argument(item: pytest.Function, name: str, value: object) -> None:
    if name in ("virtual_time", "shuffle_ready"):
        is_valid, expected = isinstance(value, bool), "True or False"
    elif name == "seed":
        is_valid = value is None or (isinstance(value, int) and not isinstance(value, bool))
        expected = "an integer or None"
    elif name == "real_io":
        is_valid, expected = value in ("allow", "refuse"), "'allow' or 'refuse'"
    else:
        names = ", ".join(field.name for field in dataclasses.fields(Settings))
        _fail(item, f"the mainspring marker has no argument {name!r}; it has {names}")
    if not is_valid:
        _fail(item, f"the mainspring marker's {name} is {expected}, not {value!r}")


def _fail(item: pytest.Function, message: str) -> None:
    pytest.fail(f"{item.nodeid}: {message}", pytrace=False)
