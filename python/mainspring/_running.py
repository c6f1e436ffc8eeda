"""Functions that run a program on the loop."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import sys
import warnings

from ._internals import HAS_POLICIES
from ._loop import Loop

TYPE_CHECKING = False
if TYPE_CHECKING:
    from asyncio import Future
    from collections.abc import Callable, Coroutine, Iterable
    from typing import Any, TypeVar

    T = TypeVar("T")

__all__ = ("cancel_remaining", "install", "new_event_loop", "run")


def new_event_loop(*, io_first: bool = False, nested: bool = False, stalls: float | None = None) -> Loop:
    """A new loop.  Can be passed as ``loop_factory``.

    With ``io_first`` the loop serves I/O before each ready callback, not once per iteration.  With ``nested`` its
    callbacks and tasks can run it again.  With ``stalls=0.1`` it reports callbacks that take longer than that; see
    ``Loop.watch_stalls()``.
    """
    return Loop(io_first=io_first, nested=nested, stalls=stalls)


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

    Inside a running loop that allows nested runs, the coroutine runs on that loop.
    """
    running = asyncio._get_running_loop()
    if running is not None:
        if not isinstance(running, Loop) or not running._allows_nested():
            raise RuntimeError("mainspring.run() cannot be called from a running event loop")
        return _run_nested(running, main, debug)
    return run_on(functools.partial(new_event_loop, stalls=stalls), main, debug=debug)


def run_on(loop_factory: Callable[[], Loop], main: Coroutine[Any, Any, T], *, debug: bool | None) -> T:
    """``asyncio.run()`` on a loop that ``loop_factory`` creates."""
    if sys.version_info >= (3, 11):
        with asyncio.Runner(debug=debug, loop_factory=loop_factory) as runner:
            return runner.run(main)
    return _run_on_310(loop_factory, main, debug)


def _run_nested(loop: Loop, main: Coroutine[Any, Any, T], debug: bool | None) -> T:
    if not asyncio.iscoroutine(main):
        raise ValueError(f"a coroutine was expected, got {main!r}")
    outer_debug = loop.get_debug()
    if debug is not None:
        loop.set_debug(debug)
    task: asyncio.Task[T] = loop.create_task(main)
    try:
        return loop.run_until_complete(task)
    finally:
        try:
            if not task.done():
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    loop.run_until_complete(task)
        finally:
            if debug is not None:
                loop.set_debug(outer_debug)


async def shut_down(loop: Loop) -> None:
    """The end of ``asyncio.run()``, in the last task of a loop."""
    tasks = asyncio.all_tasks(loop) - {asyncio.current_task(loop)}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    _report_failures(loop, "mainspring.run()", tasks)
    await loop.shutdown_asyncgens()
    await loop.shutdown_default_executor()


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
    _report_failures(loop, caller, tasks)


def _report_failures(loop: Loop, caller: str, tasks: Iterable[asyncio.Task[Any] | None]) -> None:
    for task in tasks:
        if task is not None and not task.cancelled() and (error := task.exception()) is not None:
            loop.call_exception_handler(
                {
                    "message": f"unhandled exception during {caller} shutdown",
                    "exception": error,
                    "task": task,
                }
            )
