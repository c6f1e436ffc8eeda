"""The result of work on a loop that runs on another thread.

Functions that are chained to a result run on the thread that settles it, one after the other.  A function that becomes
ready while another runs is queued per thread, so a chain of any length uses the stack of one function.
"""

from __future__ import annotations

import asyncio
import collections
import concurrent.futures
import threading
import weakref
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from ._runtime import Runtime

__all__ = ("ConcurrentFuture",)

T = TypeVar("T")
U = TypeVar("U")


class ConcurrentFuture(concurrent.futures.Future[T]):
    """A ``concurrent.futures.Future`` that can be composed, and awaited on any loop.

    Created by the methods of a ``Runtime``.  Functions that are passed to ``map()`` and its relatives run on the thread
    that settles this future, or at once if it is settled.  They should be short, because they may block a loop.

    An exception that is never retrieved is reported to the exception handler of the runtime's loop.
    """

    # True from set_exception() until result() or exception().
    _is_unretrieved = False

    def __init__(self, runtime: Runtime) -> None:
        super().__init__()
        self._runtime = runtime
        # The thread that removes the item may settle the future: pop() is atomic.
        self._unclaimed = [True]

    def map(self, func: Callable[[T], U]) -> ConcurrentFuture[U]:
        """The result of ``func(result)``.  An exception is unchanged, and so is a cancellation."""

        def settle(composed: ConcurrentFuture[U], source: concurrent.futures.Future[T]) -> None:
            if not composed._take_failure(source):
                composed._settle_by(func, source.result())

        return self._compose(settle)

    def and_then(self, func: Callable[[T], concurrent.futures.Future[U]]) -> ConcurrentFuture[U]:
        """Continues with the future that ``func(result)`` returns.  An exception is unchanged."""

        def settle(composed: ConcurrentFuture[U], source: concurrent.futures.Future[T]) -> None:
            if not composed._take_failure(source):
                composed._continue_with("and_then", func, source.result())

        return self._compose(settle)

    def or_else(self, func: Callable[[BaseException], concurrent.futures.Future[T]]) -> ConcurrentFuture[T]:
        """Continues with the future that ``func(exception)`` returns.  A result and a cancellation are unchanged."""

        def settle(composed: ConcurrentFuture[T], source: concurrent.futures.Future[T]) -> None:
            if composed.done():
                return
            error = None if source.cancelled() else source.exception()
            if error is None:
                composed._take(source)
            else:
                composed._continue_with("or_else", func, error)

        return self._compose(settle)

    def timeout(self, seconds: float) -> ConcurrentFuture[T]:
        """The same result if there is one in time, else a ``TimeoutError``; then this future is cancelled."""
        if self.done():
            return self._compose(ConcurrentFuture._take)
        limit: ConcurrentFuture[None] = self._runtime.delay(seconds)
        composed: ConcurrentFuture[T] = self._compose(ConcurrentFuture._take)

        def end(limit: concurrent.futures.Future[None]) -> None:
            if not limit.cancelled():
                composed._fail(limit.exception() or TimeoutError(f"no result after {seconds} seconds"))
                self.cancel()

        limit.add_done_callback(end)
        cancel_limit = _weak_cancel(limit)
        composed.add_done_callback(lambda _: cancel_limit())
        return composed

    def cancel(self) -> bool:
        """Cancels the future, the work behind it, and the futures that it is composed of.

        Waiters get a ``CancelledError`` at once.  Returns False if there is a result, or if a ``call()`` is running.
        """
        is_cancelled = super().cancel()
        if is_cancelled:
            self._claim()
        return is_cancelled

    def result(self, timeout: float | None = None) -> T:
        """Waits for the result.  On the thread of the runtime's loop, which would wait for itself: RuntimeError."""
        self._prepare_wait(timeout)
        try:
            return super().result(timeout)
        finally:
            self._mark_retrieved()
            # The traceback of the exception refers to this frame, and the future to the exception.
            del self

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Waits for the exception; None if there is a result.  See ``result()``."""
        self._prepare_wait(timeout)
        try:
            return super().exception(timeout)
        finally:
            self._mark_retrieved()

    def set_exception(self, exception: BaseException | None) -> None:
        """For the runtime only."""
        self._is_unretrieved = exception is not None
        super().set_exception(exception)

    def _get_snapshot(self) -> Any:
        # From Python 3.14 on asyncio.wrap_future() takes the outcome by this method.
        self._mark_retrieved()
        return super()._get_snapshot()  # type: ignore[misc]

    def __await__(self) -> Generator[Any, None, T]:
        return asyncio.wrap_future(self).__await__()

    def __del__(self) -> None:
        if self._is_unretrieved:
            context = {
                "message": f"{type(self).__name__} exception was never retrieved",
                "exception": super().exception(),
                "future": self,
            }
            self._runtime._report(context)

    def _prepare_wait(self, timeout: float | None) -> None:
        if not self.done():
            # The result may come from a function in this thread's queue.
            _run_queue(getattr(_this_thread, "queue", ()))
        if timeout is None and not self.done():
            self._runtime._check_can_wait("result()", "await the future instead")

    def _mark_retrieved(self) -> None:
        if self.done():
            self._is_unretrieved = False

    def _claim(self) -> bool:
        """Whether the caller must set the result.  It is False if the future is cancelled, or claimed already."""
        try:
            self._unclaimed.pop()
        except IndexError:
            return False
        return self.set_running_or_notify_cancel()

    def _succeed(self, result: T) -> None:
        if self._claim():
            self.set_result(result)

    def _fail(self, error: BaseException) -> None:
        if self._claim():
            self.set_exception(error)

    def _take(self, source: concurrent.futures.Future[T]) -> None:
        """Settles this future as ``source``, which is done."""
        if not self._take_failure(source):
            self._succeed(source.result())

    def _take_failure(self, source: concurrent.futures.Future[Any]) -> bool:
        """Settles this future as ``source``, unless that has a result.  Returns whether this future is settled."""
        if self.done():
            return True
        if source.cancelled():
            self.cancel()
            return True
        error = source.exception()
        if error is not None:
            self._fail(error)
        return error is not None

    def _settle_by(self, func: Callable[[U], T], argument: U) -> None:
        try:
            result = func(argument)
        except BaseException as error:
            self._fail(error)
        else:
            self._succeed(result)

    def _continue_with(
        self, method: str, func: Callable[[U], concurrent.futures.Future[T]], argument: U
    ) -> None:
        try:
            source = func(argument)
            if not isinstance(source, concurrent.futures.Future):
                raise TypeError(_no_future(method, source))
        except BaseException as error:
            self._fail(error)
        else:
            self._cancel_together_with(source)
            source.add_done_callback(lambda source: _run_chained(lambda: self._take(source)))

    def _compose(
        self, settle: Callable[[ConcurrentFuture[U], concurrent.futures.Future[T]], None]
    ) -> ConcurrentFuture[U]:
        """A future that ``settle(future, self)`` settles when this one is done."""
        composed: ConcurrentFuture[U] = ConcurrentFuture(self._runtime)
        composed._cancel_together_with(self)
        self.add_done_callback(lambda source: _run_chained(lambda: settle(composed, source)))
        return composed

    def _cancel_together_with(self, source: concurrent.futures.Future[Any]) -> None:
        cancel = _weak_cancel(source)
        self.add_done_callback(lambda future: _run_chained(cancel) if future.cancelled() else None)


def _weak_cancel(future: concurrent.futures.Future[Any]) -> Callable[[], object]:
    """``future.cancel`` without a reference to the future, whose producer keeps it alive.

    A future refers to its callbacks, so a strong reference to what a future is composed of would be a cycle.
    """
    reference = weakref.ref(future)

    def cancel() -> None:
        future = reference()
        if future is not None:
            future.cancel()

    return cancel


def _no_future(method: str, value: Any) -> str:
    message = f"the function passed to {method}() must return a future, not {type(value).__name__}"
    if asyncio.iscoroutine(value):
        value.close()
        message += ": return runtime.submit(coroutine)"
    return message


_this_thread = threading.local()


def _run_chained(func: Callable[[], object]) -> None:
    """Calls ``func()`` now, or after the function that is running on this thread."""
    queue: collections.deque[Callable[[], object]] | None = getattr(_this_thread, "queue", None)
    if queue is not None:
        queue.append(func)
        return
    _this_thread.queue = queue = collections.deque([func])
    try:
        _run_queue(queue)
    finally:
        _this_thread.queue = None


def _run_queue(queue: Any) -> None:
    try:
        while queue:
            queue.popleft()()
    finally:
        if queue:  # a signal handler has raised an exception
            _run_queue(queue)
