"""asyncio's event loop, built in Rust.

Three ways to use it, from the least change to the most:

- ``python -m mainspring app.py`` runs a program that uses asyncio on this loop, unchanged;
- ``mainspring.run(main())`` instead of ``asyncio.run(main())``;
- ``asyncio.Runner(loop_factory=mainspring.new_event_loop)``, and everything else that accepts a loop factory.

``mainspring.Runtime`` is a loop on its own thread, for programs that are not asynchronous themselves.

PYTEST_DONT_REWRITE (for pytest: ``python -m mainspring -m pytest`` imports this module before pytest can rewrite it).
"""

from __future__ import annotations

import atexit as _atexit
import sys as _sys
from importlib import import_module as _import_module

from ._dump import dump
from ._internals import HAS_POLICIES as _HAS_POLICIES
from ._loop import Loop
from ._mainspring import __version__
from ._nesting import allow_nested
from ._priorities import Lane, after, background, current_lane, normal, urgent
from ._running import install, new_event_loop, run

# Not typing.TYPE_CHECKING: from Python 3.14 on asyncio does not load typing, which takes as long as 20 modules of this
# package.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ._concurrent import ConcurrentFuture
    from ._guest import GuestHost, GuestRun, start_guest_run
    from ._metrics import LagHistogram, Metrics
    from ._runtime import Runtime
    from ._stalls import Stall

    if _sys.version_info < (3, 16):
        from ._policy import EventLoopPolicy as EventLoopPolicy

__all__ = [
    "ConcurrentFuture",
    "GuestHost",
    "GuestRun",
    "LagHistogram",
    "Lane",
    "Loop",
    "Metrics",
    "Runtime",
    "Stall",
    "__version__",
    "after",
    "allow_nested",
    "background",
    "current_lane",
    "dump",
    "install",
    "new_event_loop",
    "normal",
    "run",
    "start_guest_run",
    "urgent",
]

# Names that few programs use, by the module that is loaded when one of them is used first.
_ON_DEMAND = {
    "ConcurrentFuture": "_concurrent",
    "GuestHost": "_guest",
    "GuestRun": "_guest",
    "LagHistogram": "_metrics",
    "Metrics": "_metrics",
    "Runtime": "_runtime",
    "Stall": "_stalls",
    "start_guest_run": "_guest",
}

if _HAS_POLICIES:
    # Python 3.16 removes event loop policies; loop factories replace them.
    __all__ += ["EventLoopPolicy"]
    # Where policies are deprecated, only programs that use one get the warning.
    _ON_DEMAND["EventLoopPolicy"] = "_policy"


def __getattr__(name: str) -> Any:
    module_name = _ON_DEMAND.get(name)
    if module_name is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(_import_module(f".{module_name}", __name__), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


@_atexit.register
def _end_runtimes() -> None:
    """Registered here, so that functions that a program registers after it has imported this module run first."""
    runtime: Any = _sys.modules.get(f"{__name__}._runtime")
    if runtime is not None:
        runtime.end_all_at_exit()
