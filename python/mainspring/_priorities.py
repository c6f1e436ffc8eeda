"""Priorities: which of the ready callbacks run first.

The lane is a context variable.  Its value decides where the native code queues a handle, so tasks and callbacks inherit
it as they inherit every context variable.
"""

from __future__ import annotations

import asyncio
import contextvars
import enum

from ._internals import LoopParts
from ._mainspring import LaneSetting, lane_variable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from types import TracebackType
    from typing import Any, TypeVar

    from typing_extensions import Self, Unpack

    from ._internals import Ts

    T = TypeVar("T")
    AnyTask = TypeVar("AnyTask", bound="asyncio.Task[Any]")

__all__ = ("Lane", "Priorities", "after", "background", "current_lane", "normal", "urgent")

DEFAULT_MAX_OVERDUE = 0.5

_variable: contextvars.ContextVar[LaneSetting] = lane_variable()


class Lane(enum.Enum):
    """The queue of a ready callback."""

    URGENT = "urgent"
    """Runs before the callbacks of the other lanes."""
    NORMAL = "normal"
    """asyncio's ready queue."""
    BACKGROUND = "background"
    """Runs when nothing else is ready, or when it has waited too long."""


class LaneScope:
    """Sets the lane of the current context from ``with`` to the end of its block."""

    __slots__ = ("_setting", "_tokens")

    def __init__(self, setting: LaneSetting) -> None:
        self._setting = setting
        self._tokens: list[contextvars.Token[LaneSetting]] = []

    def __enter__(self) -> Self:
        self._tokens.append(_variable.set(self._setting))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        _variable.reset(self._tokens.pop())


def background(*, max_overdue: float | None = DEFAULT_MAX_OVERDUE) -> LaneScope:
    """Tasks and callbacks that are created in this block run when nothing else is ready.

    A callback that has waited for more than ``max_overdue`` seconds runs before the next normal one; with ``None`` it
    waits as long as the loop is busy.  Cancellation and timeouts are not delayed.

        with mainspring.background():
            task = asyncio.create_task(rebuild_index())
    """
    return LaneScope(LaneSetting("background", max_overdue))


def urgent() -> LaneScope:
    """Tasks and callbacks that are created in this block run before all others of an iteration."""
    return LaneScope(LaneSetting("urgent"))


def normal() -> LaneScope:
    """Tasks and callbacks that are created in this block do not inherit the lane of the current context."""
    return LaneScope(LaneSetting("normal"))


def current_lane() -> Lane:
    """The lane of tasks and callbacks that are created now, without a context of their own."""
    setting = _variable.get(None)
    return Lane.NORMAL if setting is None else Lane(setting.lane)


async def after(delay: float, result: T = None) -> T:  # type: ignore[assignment]  # the default of a TypeVar
    """Like ``asyncio.sleep()``, but continues when nothing else is ready, or is overdue (see ``background()``)."""
    loop = asyncio.get_running_loop()
    if not isinstance(loop, Priorities):
        raise TypeError(f"mainspring.after() needs a mainspring loop, not {type(loop).__name__}")
    future: asyncio.Future[T] = loop.create_future()
    handle = loop.call_after(delay, _set_result, future, result)
    try:
        return await future
    finally:
        handle.cancel()


def _set_result(future: asyncio.Future[T], result: T) -> None:
    if not future.done():
        future.set_result(result)


class Priorities(LoopParts):
    """The part of the loop that concerns priorities."""

    def call_after(
        self,
        delay: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: Unpack[Ts],
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        """Like call_later(), but the callback runs when nothing else is ready, or is overdue.

        It inherits the limit of the current background() block.
        """
        context = contextvars.copy_context() if context is None else context.copy()
        setting = context.get(_variable)
        if setting is None or setting.lane != "background":
            context.run(_variable.set, LaneSetting("background", DEFAULT_MAX_OVERDUE))
        return self.call_later(delay, callback, *args, context=context)


if TYPE_CHECKING:
    Task = asyncio.Task[Any]
else:
    Task = asyncio.Task


class BackgroundTask(Task):
    """A task in the background lane.  Its cancellation is not delayed."""

    _must_cancel: bool

    def cancel(self, msg: Any = None) -> bool:
        is_cancelled = super().cancel(msg)
        if is_cancelled and self._must_cancel:
            # The next step is in a queue already, and delivers the exception.
            loop = self.get_loop()
            if isinstance(loop, Priorities):
                loop._recheck_background()
        return is_cancelled

    def __repr__(self) -> str:
        return f"{super().__repr__()[:-1]} lane=background>"


# In reprs.
BackgroundTask.__name__ = BackgroundTask.__qualname__ = "Task"


def create_background_task(loop: LoopParts, coro: Coroutine[Any, Any, Any], **kwargs: Any) -> BackgroundTask:
    """``create_task()`` in the background lane."""
    return create_task_of(BackgroundTask, loop, coro, **kwargs)


def create_task_of(
    task_class: type[AnyTask], loop: LoopParts, coro: Coroutine[Any, Any, Any], **kwargs: Any
) -> AnyTask:
    """``create_task()`` with another class than ``asyncio.Task``."""
    loop._check_closed()
    task = task_class(coro, loop=loop, **kwargs)
    traceback: list[Any] | None = getattr(task, "_source_traceback", None)
    if traceback:
        del traceback[-1]
    return task
