"""Functions that run a program on the loop."""

from __future__ import annotations

import asyncio
import functools
import sys
import warnings
from typing import TYPE_CHECKING, Any, TypeVar

from ._internals import HAS_POLICIES
from ._loop import Loop

if TYPE_CHECKING:
    from asyncio import Future
    from collections.abc import Callable, Coroutine

__all__ = ("cancel_remaining", "install", "new_event_loop", "run")

T = TypeVar("T")


def new_event_loop(*, io_first: bool = False, stalls: float | None = None) -> Loop:
    """A new loop.  Can be passed as ``loop_factory``.

    With ``io_first`` the loop serves I/O before each ready callback, not once per iteration.  With ``stalls=0.1`` it
    reports callbacks that take longer than that; see ``Loop.watch_stalls()``.
    """
    return Loop(io_first=io_first, stalls=stalls)


def install() -> None:
    """Makes this the loop of every later ``asyncio.run()`` and ``asyncio.new_event_loop()`` in the process.

    Sets an event loop policy, which is not possible from Python 3.16 on; ``mainspring.run()`` and loop factories work
    everywhere.
    """
    if not HAS_POLICIES:
        raise RuntimeError(
            "asyncio has no event loop policies on this Python: use mainspring.run(), "
            "asyncio.run(..., loop_factory=mainspring.new_event_loop) or python -m mainspring"
        )
    from ._policy import EventLoopPolicy

    with warnings.catch_warnings():
        # The caller requested a policy, so asyncio's deprecation warning would not help.
        warnings.simplefilter("ignore", DeprecationWarning)
        asyncio.set_event_loop_policy(EventLoopPolicy())


def run(main: Coroutine[Any, Any, T], *, debug: bool | None = None, stalls: float | None = None) -> T:
    """``asyncio.run()`` on this loop: runs the coroutine, cleans up after it, closes the loop.

    With ``stalls=0.1`` callbacks that take longer than that are reported; see ``Loop.watch_stalls()``.
    """
    if asyncio._get_running_loop() is not None:
        raise RuntimeError("mainspring.run() cannot be called from a running event loop")
    return run_on(functools.partial(new_event_loop, stalls=stalls), main, debug=debug)


def run_on(loop_factory: Callable[[], Loop], main: Coroutine[Any, Any, T], *, debug: bool | None) -> T:
    """``asyncio.run()`` on a loop that ``loop_factory`` creates."""
    if sys.version_info >= (3, 11):
        with asyncio.Runner(debug=debug, loop_factory=loop_factory) as runner:
            return runner.run(main)
    return _run_on_310(loop_factory, main, debug)


def _run_on_310(loop_factory: Callable[[], Loop], main: Coroutine[Any, Any, T], debug: bool | None) -> T:
    """``asyncio.run()`` of Python 3.10, which has no loop factory."""
    if not asyncio.iscoroutine(main):
        raise ValueError(f"a coroutine was expected, got {main!r}")
    loop = loop_factory()
    try:
        asyncio.set_event_loop(loop)
        if debug is not None:
            loop.set_debug(debug)
        return loop.run_until_complete(main)
    finally:
        try:
            cancel_remaining(loop, "mainspring.run()", loop.run_until_complete)
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.run_until_complete(loop.shutdown_default_executor())
        finally:
            asyncio.set_event_loop(None)
            loop.close()


def cancel_remaining(loop: Loop, caller: str, complete: Callable[[Future[Any]], Any]) -> None:
    """Cancels all tasks of the loop and waits for their ends with ``complete()``, as ``asyncio.run()`` does."""
    tasks = asyncio.all_tasks(loop)
    if not tasks:
        return
    for task in tasks:
        task.cancel()
    complete(asyncio.gather(*tasks, return_exceptions=True))
    for task in tasks:
        if not task.cancelled() and (error := task.exception()) is not None:
            loop.call_exception_handler(
                {
                    "message": f"unhandled exception during {caller} shutdown",
                    "exception": error,
                    "task": task,
                }
            )
