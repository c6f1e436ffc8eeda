"""Nested runs: ``run_until_complete()`` in a callback or a task of a running loop.

The engine keeps one stop flag per run.  This module does what concerns Python: the current task, the running loop, and
which run a future ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading

from ._internals import LoopParts, enter_task, leave_task

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Generator, Iterator
    from typing import Any, TypeVar

    T = TypeVar("T")

__all__ = ("Nesting", "allow_nested")


_names_of_asyncio = vars(asyncio)


class Nesting(LoopParts):
    """The part of the loop for runs and nested runs."""

    # nest_asyncio and nest-asyncio2 replace _run_once() of the class by one that uses the selector of asyncio's loop.
    # They skip a class that has this attribute.  Nested runs work without that.
    _nest_patched = True

    _nested = False
    # Tasks whose current step waits for the end of a nested run, from the outside in.
    _suspended_tasks: list[asyncio.Task[Any] | None]

    def _allows_nested(self) -> bool:
        # nest_asyncio and nest-asyncio2 set this attribute when they patch asyncio.
        # Not hasattr(), which builds an exception, and calls asyncio's __getattr__() from Python 3.14 on.
        return self._nested or "_nest_patched" in _names_of_asyncio

    def _check_running(self) -> None:
        if not self._allows_nested():
            super()._check_running()
        self._check_other_threads()

    def _check_other_threads(self) -> None:
        if self._thread_id not in (None, threading.get_ident()):
            raise RuntimeError("This event loop is already running")

    def run_until_complete(self, future: Generator[Any, None, T] | Awaitable[T]) -> T:
        """Run until the future is done, and return its result or raise its exception."""
        self._check_closed()
        self._check_running()
        is_new_task = not asyncio.isfuture(future)
        awaitable: Any = future
        task: Any = asyncio.ensure_future(awaitable, loop=self)
        if not is_new_task and self._waits_for_this_run(task):
            raise RuntimeError(
                f"{task!r} waits for this nested run, which cannot wait for it: await it instead"
            )
        if is_new_task:
            # If the task does not complete, the caller gets an exception.
            task._log_destroy_pending = False
        stop = _stop_when_done(self, self._run_depth() + 1)
        task.add_done_callback(stop)
        try:
            self.run_forever()
        except BaseException:
            if is_new_task and task.done() and not task.cancelled():
                # This may be the exception of the task.  It counts as retrieved.
                task.exception()
            raise
        finally:
            task.remove_done_callback(stop)
        if not task.done():
            raise RuntimeError("Event loop stopped before Future completed.")
        result: T = task.result()
        return result

    def _waits_for_this_run(self, task: asyncio.Future[Any]) -> bool:
        """Whether a nested run that begins now is in a step of the task."""
        outer_loop = asyncio._get_running_loop()
        if outer_loop is None:
            return False
        return task is asyncio.current_task(outer_loop) or task in self._suspended_tasks

    @contextlib.contextmanager
    def _as_running_loop(self) -> Iterator[None]:
        """Makes this the running loop.  Suspends the running loop and its current task, if there are any."""
        outer_loop = asyncio._get_running_loop()
        outer_task = None if outer_loop is None else asyncio.current_task(outer_loop)
        outer_thread, outer_hooks = self._thread_id, sys.get_asyncgen_hooks()
        if outer_task is not None:
            leave_task(outer_loop, outer_task)
        self._suspended_tasks.append(outer_task)
        try:
            if outer_loop is not self:
                self._set_coroutine_origin_tracking(self._debug)
                self._thread_id = threading.get_ident()
                sys.set_asyncgen_hooks(
                    firstiter=self._asyncgen_firstiter_hook, finalizer=self._asyncgen_finalizer_hook
                )
                asyncio._set_running_loop(self)
            yield
        finally:
            if outer_loop is not self:
                asyncio._set_running_loop(outer_loop)
                sys.set_asyncgen_hooks(*outer_hooks)
                self._thread_id = outer_thread
                if outer_thread is None:
                    self._set_coroutine_origin_tracking(False)
            self._suspended_tasks.pop()
            if outer_task is not None:
                enter_task(outer_loop, outer_task)

    def _run_nested(self) -> None:
        """``run_forever()`` inside a run of this loop or of another one."""
        is_first_run = self._thread_id is None
        with (
            self._as_running_loop(),
            self._wakeup_fd_installed() if is_first_run else contextlib.nullcontext(),
        ):
            self._run_native()


def _stop_when_done(loop: Nesting, depth: int) -> Any:
    def _run_until_complete_cb(future: asyncio.Future[Any]) -> None:
        if not future.cancelled() and isinstance(future.exception(), (KeyboardInterrupt, SystemExit)):
            return  # This exception ends the run by itself.
        if loop._run_depth() == depth:
            loop.stop()
        else:
            # The future of an outer run.
            loop._stop_run(depth)

    # In the repr() of tasks.
    _run_until_complete_cb.__qualname__ = "_run_until_complete_cb"
    return _run_until_complete_cb


def allow_nested(loop: asyncio.AbstractEventLoop | None = None) -> None:
    """Allows nested runs on a loop that exists: by default, on the running loop.

    Afterwards its callbacks and tasks can call ``loop.run_until_complete()``, ``loop.run_forever()`` and
    ``mainspring.run()``.
    """
    if loop is None:
        loop = asyncio.get_running_loop()
    if not isinstance(loop, Nesting):
        raise TypeError(f"mainspring.allow_nested() needs a mainspring loop, not {type(loop).__name__}")
    loop._nested = True
