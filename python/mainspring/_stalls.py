"""Stall detection: reports a callback that blocks the loop, while it does.

The engine shows the progress of the loop to a native watch (``stalls.rs``), which a daemon thread waits for.  The thread
takes the interpreter lock only when a callback has taken too long.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import os
import threading
import traceback
import weakref
from typing import TYPE_CHECKING, Any

from ._frames import format_call, format_frame, frames_of, is_coroutine_frame
from ._internals import LoopParts

if TYPE_CHECKING:
    from collections.abc import Callable

    from ._loop import Loop
    from ._mainspring import StallWatch

__all__ = ("Stall", "StallReports", "WatchingThread")

DEFAULT_LIMIT = 0.1

logger = logging.getLogger("mainspring.stalls")


@dataclasses.dataclass(frozen=True)
class Stall:
    """A callback that blocks the loop for longer than the limit of ``watch_stalls()``."""

    loop: asyncio.AbstractEventLoop
    """The loop that is blocked."""
    callback: str
    """The callback, task or transport that the loop runs.  Empty if it returned before it could be read: code that holds
    the interpreter lock is seen only when it lets go."""
    task: asyncio.Task[Any] | None
    """The task whose step blocks, if it is one."""
    await_chain: tuple[str, ...]
    """The coroutines of the task that are being executed, from the task's own one inwards."""
    stack: traceback.StackSummary
    """The Python stack of the loop's thread, from the callback on."""
    elapsed: float
    """For how many seconds the loop was blocked when the stall was found."""
    total: float | None = None
    """For how many seconds the loop was blocked altogether; None while it still is."""

    def __str__(self) -> str:
        callback = self.callback or "a callback that has returned"
        if self.total is not None:
            return f"The event loop was blocked for {self.total:.3f} seconds by {callback}"
        lines = [f"The event loop has been blocked for {self.elapsed:.3f} seconds by {callback}"]
        if self.task is not None:
            lines.append(f"Task: {self.task.get_name()}")
        if self.await_chain:
            lines.append("Await chain: " + " -> ".join(self.await_chain))
        if self.stack:
            lines += ["Stack (most recent call last):", "".join(self.stack.format()).rstrip()]
        return "\n".join(lines)


class WatchingThread(threading.Thread):
    """A thread that watches a loop, and schedules nothing in it.  It does not keep the program from exiting."""

    def __init__(self, name: str, target: Callable[..., None], *args: Any) -> None:
        super().__init__(name=name, target=target, args=args, daemon=True)


class StallReports(LoopParts):
    """The part of the loop that reports stalls."""

    _stall_limit: float | None
    _stall_report: Callable[[Stall], object] | None
    _stall_thread: threading.Thread | None

    def watch_stalls(
        self, limit: float | None = DEFAULT_LIMIT, report: Callable[[Stall], object] | None = None
    ) -> None:
        """Report callbacks that block the loop for longer than ``limit`` seconds.  None ends the reports.

        Each is reported while it blocks, and again when it has returned: then ``stall.total`` is set.  ``report(stall)``
        runs in a thread of its own.  The default logs a warning to the logger ``mainspring.stalls``.
        """
        self._check_closed()
        if limit is not None and not 0 < limit < float("inf"):
            raise ValueError(f"limit must be a positive number of seconds or None, not {limit!r}")
        if report is not None and not callable(report):
            raise TypeError(f"report must be callable, not {report!r}")
        self._end_stall_watch()
        self._stall_limit = limit
        self._stall_report = report
        self._stall_thread = None
        if self.is_running():
            self._start_stall_thread()

    def _init_stalls(self, limit: float | None) -> None:
        self._stall_limit = self._stall_report = self._stall_thread = None
        try:
            limit = limit_of_environment() if limit is None else limit
            if limit is not None:
                self.watch_stalls(limit)
        except BaseException:
            self.close()
            raise

    def _start_stall_thread(self) -> None:
        """Starts the thread, if there is something to watch and no thread: in a forked child there is none."""
        if self._stall_limit is None or (self._stall_thread is not None and self._stall_thread.is_alive()):
            return
        watch = self._new_stall_watch(self._stall_limit)
        self._stall_thread = WatchingThread("mainspring-stalls", _watch, weakref.ref(self), watch)
        try:
            self._stall_thread.start()
        except RuntimeError as error:  # no more threads, or the interpreter exits
            self._end_stall_watch()
            logger.warning("Stalls are not watched: %s", error)

    def _report_from_thread(self, message: str, error: BaseException) -> None:
        """Passes an exception to the exception handler, which runs in the loop."""
        context = {"message": message, "exception": error, "loop": self}
        try:
            self.call_soon_threadsafe(self.call_exception_handler, context)
        except RuntimeError:  # closed
            logger.error(message, exc_info=error)

    def _restart_stalls_after_fork(self) -> None:
        """If the child goes on with a run of its parent, the next iteration starts a thread."""
        if self._stall_limit is not None and self.is_running():
            self.call_soon(self._start_stall_thread)


def limit_of_environment() -> float | None:
    """The limit that ``MAINSPRING_STALLS`` sets for all loops."""
    text = os.environ.get("MAINSPRING_STALLS", "")
    if text in ("", "0"):
        return None
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"MAINSPRING_STALLS must be a number of seconds, not {text!r}") from None


def _watch(loop_reference: weakref.ref[Loop], watch: StallWatch) -> None:
    stall = None
    while (event := watch.wait()) is not None:
        loop = loop_reference()
        if loop is None:
            return
        has_ended, seconds = event
        former, stall = stall, None
        try:
            if not has_ended:
                stall = describe(loop, watch, seconds)
                _report(loop, stall)
            elif former is not None:
                _report(loop, dataclasses.replace(former, total=seconds))
        except BaseException as error:
            # Also SystemExit: it would end only this thread.
            loop._report_from_thread("The report of a stall failed", error)
        del loop, former


def _report(loop: Loop, stall: Stall) -> None:
    report = loop._stall_report
    if report is None:
        logger.warning("%s", stall)
    else:
        report(stall)


def describe(loop: Loop, watch: StallWatch, elapsed: float) -> Stall:
    """What blocks the loop."""
    call = loop._running_call()
    frames = [*frames_of(loop)]
    stall = Stall(
        loop=loop,
        callback=format_call(call),
        task=asyncio.current_task(loop),
        await_chain=tuple(format_frame(frame) for frame in frames if is_coroutine_frame(frame)),
        stack=traceback.StackSummary.extract((frame, frame.f_lineno) for frame in frames),
        elapsed=elapsed,
    )
    if watch.is_blocked():
        return stall
    # The loop went on before or while this was read.
    return Stall(loop, "", None, (), traceback.StackSummary(), elapsed)
