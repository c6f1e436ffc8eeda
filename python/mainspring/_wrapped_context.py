"""An asynchronous context manager in a ``with`` block of a synchronous program."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from typing import TYPE_CHECKING, Any, TypeVar

from ._concurrent import ConcurrentFuture

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager
    from types import TracebackType

    from ._runtime import Runtime

__all__ = ("WrappedContextManager",)

T = TypeVar("T")


class WrappedContextManager(contextlib.AbstractContextManager[T]):
    """Enters and leaves ``manager`` in one task on the loop of ``runtime``."""

    _on_entry: ConcurrentFuture[T]
    _work: ConcurrentFuture[bool | None]
    _leaving: asyncio.Future[BaseException | None]

    def __init__(self, runtime: Runtime, manager: AbstractAsyncContextManager[T]) -> None:
        self._runtime = runtime
        self._manager: Any = manager

    def __enter__(self) -> T:
        self._runtime._check_can_wait("wrap_async_context_manager()", "use `async with` instead")
        self._on_entry = ConcurrentFuture(self._runtime)
        self._work = ConcurrentFuture(self._runtime)
        self._work.add_done_callback(self._pass_failure)
        self._runtime._wait(self._on_entry, self._work, self._runtime._submit, self._work, self._hold())
        return self._on_entry.result()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        self._runtime._check_can_wait("wrap_async_context_manager()", "use `async with` instead")
        self._runtime._wait(self._work, self._work, self._runtime._thread.call_loop, self._leave, error)
        return self._work.result()

    def _pass_failure(self, work: Any) -> None:
        if not self._on_entry.done():
            self._on_entry._take(work)

    def _leave(self, error: BaseException | None) -> None:
        if not self._leaving.done():
            self._leaving.set_result(error)

    async def _hold(self) -> bool | None:
        """The task: enters, waits for the end of the block, leaves."""
        self._leaving = asyncio.get_running_loop().create_future()
        kind = type(self._manager)
        self._on_entry._succeed(await kind.__aenter__(self._manager))
        try:
            error = await self._leaving
        except BaseException:  # the runtime ends, and cancels this task
            if not await kind.__aexit__(self._manager, *sys.exc_info()):
                raise
            return False
        if error is None:
            return bool(await kind.__aexit__(self._manager, None, None, None))
        return bool(await kind.__aexit__(self._manager, type(error), error, error.__traceback__))
