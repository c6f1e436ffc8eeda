"""The event loop policy, for Python versions before 3.16."""

from __future__ import annotations

import asyncio
import warnings

from ._loop import Loop

__all__ = ("EventLoopPolicy",)

with warnings.catch_warnings():
    # Deprecated since Python 3.14.  asyncio warns when a program sets a policy.
    warnings.simplefilter("ignore", DeprecationWarning)
    _DefaultPolicy = asyncio.DefaultEventLoopPolicy


class EventLoopPolicy(_DefaultPolicy):
    """asyncio's default policy, but new loops are :class:`mainspring.Loop`."""

    _loop_factory = Loop

    def new_event_loop(self) -> asyncio.AbstractEventLoop:
        return Loop()
