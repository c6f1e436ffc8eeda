"""The thread of a ``Runtime``: accepts work, runs the loop, ends it.

The thread runs the loop until an end is requested, in one of three ways (``End``).  A stricter one replaces another.

Accepted work is in ``pending`` from before the loop knows of it until its future is settled.  The thread ends the loop
only after it has found ``pending`` empty and has set ``is_sealed`` under the same lock.  So work is either refused, or
settled before the loop ends.  On the loop's own thread work is accepted until then: it is part of work that was accepted
before.

No user code runs under the lock.  It is reentrant because the garbage collector may run a finalizer anywhere.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import contextvars
import enum
import functools
import os
import threading
from typing import TYPE_CHECKING, Any, TypeVar

from ._running import cancel_remaining

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from ._concurrent import ConcurrentFuture
    from ._loop import Loop

__all__ = ("End", "LoopThread", "open_threads")

T = TypeVar("T")


class End(enum.IntEnum):
    """How the thread ends the loop.  A greater value is stricter."""

    NOT_REQUESTED = 0
    WHEN_IDLE = 1
    """When nothing is pending.  New work is accepted until then."""
    DRAINED = 2
    """When accepted work is done.  New work is refused."""
    NOW = 3
    """Accepted work is cancelled."""


# The threads that have not ended.
open_threads: set[LoopThread] = set()


class LoopThread:
    """A thread that runs ``loop``."""

    def __init__(self, loop: Loop, name: str) -> None:
        self.loop = loop
        self.name = name
        self.end = End.NOT_REQUESTED
        self.is_sealed = False
        # Accepted work, by its future; the task, if it has begun.
        self.pending: dict[ConcurrentFuture[Any], asyncio.Task[Any] | None] = {}
        self.waits_for_executor = True
        self._is_closing = False
        self._lock = threading.RLock()
        self._process = os.getpid()
        # Released by the thread.  Neither Thread.join() nor an Event can be interrupted by Ctrl-C at every moment: before
        # Python 3.13 join() then takes the thread for ended, and the lock of the event may stay locked.
        self._end_lock = threading.Lock()
        self._end_lock.acquire()
        self._has_ended = False
        self._thread = threading.Thread(target=self._main, name=name, daemon=True)
        open_threads.add(self)
        try:
            self._thread.start()
        except BaseException:
            open_threads.discard(self)
            raise

    # --- from any thread

    def is_own_process(self) -> bool:
        """False in a forked child, where the thread does not exist."""
        return os.getpid() == self._process

    def is_own_thread(self) -> bool:
        """Whether this is the thread."""
        return threading.current_thread() is self._thread

    def has_ended(self) -> bool:
        """Whether the loop is closed."""
        return self._has_ended

    def wait(self, timeout: float | None = None) -> bool:
        """Waits for the end of the thread.  Returns False after ``timeout`` seconds."""
        limit = -1 if timeout is None else min(max(timeout, 0), threading.TIMEOUT_MAX)
        if not self._has_ended and self._end_lock.acquire(timeout=limit):
            self._end_lock.release()
        if self._has_ended:
            self._thread.join()
        return self._has_ended

    def accept(self, future: ConcurrentFuture[Any], start: Callable[..., object], *args: object) -> None:
        """Has the loop call ``start(future, *args)``; that, or the task which it starts, calls ``finish(future)``.

        If this raises an exception, the future will be cancelled.
        """
        try:
            with self._lock:
                if self.is_sealed and not self.is_own_thread():
                    raise RuntimeError(
                        f"the runtime {self.name!r} was shut down, and accepts no more work: "
                        "create a new mainspring.Runtime"
                    )
                self.pending[future] = None
            self.loop.call_soon_threadsafe(start, future, *args, context=contextvars.copy_context())
        except RuntimeError:
            future.cancel()
            self.finish(future)
            raise
        except BaseException:
            # A signal handler has raised this, and the loop may have the work already.
            self.call_loop(self.cancel_work, future)
            raise

    def finish(self, future: ConcurrentFuture[Any]) -> None:
        """The future is settled, and all that was chained to it has run."""
        with self._lock:
            self.pending.pop(future, None)
            is_last = not self.pending and self.end is not End.NOT_REQUESTED
        if is_last:
            self.call_loop(self.loop.stop)

    def call_loop(self, callback: Callable[..., object], *args: object) -> None:
        """``call_soon_threadsafe()`` for what a closed loop, or the copy in a forked child, does not need."""
        if self.is_own_process():
            with contextlib.suppress(RuntimeError):
                self.loop.call_soon_threadsafe(callback, *args)

    def request(self, end: End) -> None:
        """Requests the end of the loop."""
        with self._lock:
            self.end = max(self.end, end)
            self.is_sealed |= self.end >= End.DRAINED
        # The thread reads the request when the run of the loop ends.
        self.call_loop(self._cancel_tasks if end is End.NOW else self.loop.stop)

    # --- on the thread, in callbacks of the loop

    def start_task(self, future: ConcurrentFuture[T], coro: Coroutine[Any, Any, T]) -> None:
        """Starts a task whose outcome the future gets."""
        task: asyncio.Task[T] | None = None
        try:
            if self.end is End.NOW:
                future.cancel()
            if future.cancelled():
                coro.close()
            else:
                task = self.loop.create_task(coro)
        except BaseException as error:  # of a task factory
            if not future._claim():
                raise
            future.set_exception(error)
        finally:
            if task is None:
                self.finish(future)
            else:
                self.pending[future] = task
                task.add_done_callback(functools.partial(self._task_done, future))
                future.add_done_callback(functools.partial(self._future_done, task))

    def make_call(self, future: ConcurrentFuture[T], func: Callable[..., T], args: tuple[Any, ...]) -> None:
        """Calls a function whose outcome the future gets."""
        if self.end is End.NOW:
            future.cancel()
        try:
            if not future._claim():
                return
            try:
                result = func(*args)
                if asyncio.iscoroutine(result):
                    result.close()
                    raise TypeError(
                        f"call() takes a plain function, but {func!r} is asynchronous: use submit()"
                    )
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(result)
        finally:
            self.finish(future)
            # It refers to the exception, whose traceback refers to this frame.
            del future

    def cancel_work(self, future: ConcurrentFuture[Any]) -> None:
        """Cancels the task, so that the future is settled when the task ends.  Without a task, cancels the future."""
        task = self.pending.get(future)
        if task is not None:
            task.cancel()
        else:
            future.cancel()
            self.finish(future)

    def _task_done(self, future: ConcurrentFuture[T], task: asyncio.Task[T]) -> None:
        try:
            if task.cancelled():
                future.cancel()
                return
            error = task.exception()
            if future._claim():
                if error is None:
                    future.set_result(task.result())
                else:
                    future.set_exception(error)
            elif error is not None:
                message = "A task has failed after its future was cancelled"
                self.loop.call_exception_handler({"message": message, "exception": error, "task": task})
        finally:
            self.finish(future)

    def _future_done(self, task: asyncio.Task[T], future: concurrent.futures.Future[T]) -> None:
        # Called on any thread.
        if future.cancelled() and not task.done():
            self.call_loop(task.cancel)

    def _cancel_tasks(self) -> None:
        if self._is_closing:
            return
        for task in asyncio.all_tasks(self.loop):
            task.cancel()
        self.loop.stop()

    # --- the thread

    def _main(self) -> None:
        try:
            self._run()
        finally:
            try:
                self._end_loop()
            finally:
                open_threads.discard(self)
                self._has_ended = True
                self._end_lock.release()

    def _run(self) -> None:
        is_idle = False
        while not self._seal_if_over(is_idle):
            if self.end is End.WHEN_IDLE:
                is_idle = self._run_until_idle()
            else:
                self._run_forever()
                is_idle = False

    def _seal_if_over(self, is_idle: bool) -> bool:
        with self._lock:
            is_over = not self.pending and (self.end >= End.DRAINED or is_idle)
            self.is_sealed |= is_over
            return is_over

    def _run_until_idle(self) -> bool:
        with contextlib.suppress(KeyboardInterrupt, SystemExit):
            if self.loop._run_until_idle():
                return self._wait_for_a_task()
        return False

    def _wait_for_a_task(self) -> bool:
        """If there are tasks, waits for the end of one.  Returns whether there is none."""
        tasks = asyncio.all_tasks(self.loop)
        if not tasks:
            return True
        # Only other threads can wake these tasks, and the loop does not know of them.
        for task in tasks:
            task.add_done_callback(self._stop)
        self._run_forever()
        for task in tasks:
            task.remove_done_callback(self._stop)
        return False

    def _stop(self, _: object) -> None:
        self.loop.stop()

    def _end_loop(self) -> None:
        with self._lock:
            # Work that the remaining tasks submit is cancelled.  After a failure of the loop, all work is.
            self.end = End.NOW
            self.is_sealed = self._is_closing = True
        try:
            cancel_remaining(self.loop, "mainspring.Runtime", self._complete)
            while self.pending:
                self._run_forever()
            self._complete(self.loop.shutdown_asyncgens())
            if self.waits_for_executor:
                self._complete(self.loop.shutdown_default_executor())
        finally:
            self.loop.close()
            for future in list(self.pending):
                future.cancel()

    def _complete(self, awaitable: Coroutine[Any, Any, Any] | asyncio.Future[Any]) -> None:
        """``run_until_complete()`` that stop() does not interrupt."""
        future = asyncio.ensure_future(awaitable, loop=self.loop)
        future.add_done_callback(self._stop)
        while not future.done():
            self._run_forever()
        future.result()

    def _run_forever(self) -> None:
        # A task that raises one of these ends the run of the loop; its future has the exception too.
        with contextlib.suppress(KeyboardInterrupt, SystemExit):
            self.loop.run_forever()
