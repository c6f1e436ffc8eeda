"""The event loop policy, for the Python versions that still have policies."""

from __future__ import annotations

import asyncio
import warnings

from ._loop import Loop

__all__ = ("EventLoopPolicy",)

with warnings.catch_warnings():
    # Deprecated since Python 3.14; whoever sets a policy is told so by asyncio then.
    warnings.simplefilter("ignore", DeprecationWarning)
    _DefaultPolicy = asyncio.DefaultEventLoopPolicy


class EventLoopPolicy(_DefaultPolicy):
    """asyncio's default policy, but new loops are :class:`mainspring.Loop`."""

    _loop_factory = Loop

    def new_event_loop(self) -> asyncio.AbstractEventLoop:
        return Loop()
