"""Threads that watch a loop, and the part of the loop that starts the one for stalls.

What that thread does is in ``_stalls.py``, which is loaded when a program watches for stalls.
"""

from __future__ import annotations

import logging
import os
import threading
import weakref

from ._internals import LoopParts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ._stalls import Stall

__all__ = ("StallReports", "WatchingThread")

DEFAULT_LIMIT = 0.1

logger = logging.getLogger("mainspring.stalls")


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
        # Before there is a stall: with all file descriptors in use, a module cannot be loaded.
        from ._stalls import report_stalls

        watch = self._new_stall_watch(self._stall_limit)
        self._stall_thread = WatchingThread("mainspring-stalls", report_stalls, weakref.ref(self), watch)
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
