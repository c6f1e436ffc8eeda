"""The definition of a case, and the table of all cases."""

from collections.abc import Callable
from dataclasses import dataclass, field

CASES = {}


@dataclass(frozen=True)
class Metric:
    """One figure of a case; `key` is its name in the result."""

    key: str
    unit: str
    higher_is_better: bool = True


@dataclass(frozen=True)
class Case:
    """One workload.

    An in-process case (`load` is None) is a function that returns its result. A server case is a coroutine function that
    starts the server and returns its address; `load` is then the arguments of the load generator, or "wrk" and its
    options.
    """

    name: str
    function: Callable
    metrics: tuple
    params: dict = field(default_factory=dict)
    load: tuple | None = None
    pinned: bool = True
    quick: bool = False
    limits: bool = False  # also run on the bare servers
    collects: bool = False  # the server also measures, and returns the result when it is stopped
    needs: tuple = ()  # packages in addition to the loop's


def add(case):
    assert case.name not in CASES, case.name
    CASES[case.name] = case


def in_process(name, unit, *, metrics=None, params=None, pinned=True, quick=False):
    """Registers the decorated function as an in-process case. Returns it unchanged, so it can be registered again."""

    def register(function):
        add(
            Case(
                name,
                function,
                metrics or (Metric("rate", unit),),
                params or {},
                pinned=pinned,
                quick=quick,
            )
        )
        return function

    return register
