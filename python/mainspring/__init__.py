"""asyncio's event loop, built in Rust.

Three ways to use it, from the least change to the most:

- ``python -m mainspring app.py`` runs a program that uses asyncio on this loop, unchanged;
- ``mainspring.run(main())`` instead of ``asyncio.run(main())``;
- ``asyncio.Runner(loop_factory=mainspring.new_event_loop)``, and wherever else a loop factory is taken.
"""

from __future__ import annotations

import sys as _sys
from typing import TYPE_CHECKING, Any

from ._internals import HAS_POLICIES as _HAS_POLICIES
from ._loop import Loop
from ._mainspring import __version__
from ._running import install, new_event_loop, run

if TYPE_CHECKING and _sys.version_info < (3, 16):
    from ._policy import EventLoopPolicy as EventLoopPolicy

__all__ = ["Loop", "__version__", "install", "new_event_loop", "run"]

if _HAS_POLICIES:
    # Later versions of asyncio have no event loop policies; loop factories have taken their place.
    __all__ += ["EventLoopPolicy"]


def __getattr__(name: str) -> Any:
    # Loaded on demand: where policies are deprecated, only those who ask for one hear of it.
    if name == "EventLoopPolicy" and name in __all__:
        from ._policy import EventLoopPolicy

        return EventLoopPolicy
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
