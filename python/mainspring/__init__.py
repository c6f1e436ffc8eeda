"""asyncio's event loop, built in Rust.

Three ways to use it, from the least change to the most:

- ``python -m mainspring app.py`` runs a program that uses asyncio on this loop, unchanged;
- ``mainspring.run(main())`` instead of ``asyncio.run(main())``;
- ``asyncio.Runner(loop_factory=mainspring.new_event_loop)``, and everything else that accepts a loop factory.

``mainspring.Runtime`` is a loop on its own thread, for programs that are not asynchronous themselves.

PYTEST_DONT_REWRITE (for pytest: ``python -m mainspring -m pytest`` imports this module before pytest can rewrite it).
"""

from __future__ import annotations

import sys as _sys
from typing import TYPE_CHECKING, Any

from ._concurrent import ConcurrentFuture
from ._dump import dump
from ._guest import GuestHost, GuestRun, start_guest_run
from ._internals import HAS_POLICIES as _HAS_POLICIES
from ._loop import Loop
from ._mainspring import __version__
from ._metrics import LagHistogram, Metrics
from ._nesting import allow_nested
from ._priorities import Lane, after, background, current_lane, normal, urgent
from ._running import install, new_event_loop, run
from ._runtime import Runtime
from ._stalls import Stall

if TYPE_CHECKING and _sys.version_info < (3, 16):
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

if _HAS_POLICIES:
    # Python 3.16 removes event loop policies; loop factories replace them.
    __all__ += ["EventLoopPolicy"]


def __getattr__(name: str) -> Any:
    # Loaded on demand: where policies are deprecated, only programs that use one get the warning.
    if name == "EventLoopPolicy" and name in __all__:
        from ._policy import EventLoopPolicy

        return EventLoopPolicy
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
