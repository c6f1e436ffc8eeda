"""What a case is, and the table of them."""

from collections.abc import Callable
from dataclasses import dataclass, field

CASES = {}


@dataclass(frozen=True)
class Metric:
    """One number a case yields; `key` is its name in the case's result."""

    key: str
    unit: str
    higher_is_better: bool = True


@dataclass(frozen=True)
class Case:
    """One workload.

    An in-process case (`load` None) is a function that returns its result. A server case is a
    coroutine function that starts the server and returns where it listens; `load` is then the load
    generator's arguments, or "wrk" and its options.
    """

    name: str
    function: Callable
    metrics: tuple
    params: dict = field(default_factory=dict)
    load: tuple | None = None
    pinned: bool = True
    quick: bool = False
    limits: bool = False  # also run on the bare servers
    collects: bool = False  # the server itself measures something and tells it when stopped
    needs: tuple = ()  # packages beside the loop's


def add(case):
    assert case.name not in CASES, case.name
    CASES[case.name] = case


def in_process(name, unit, *, metrics=None, params=None, pinned=True, quick=False):
    """Registers the decorated function as an in-process case; it stays callable under other names."""

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
