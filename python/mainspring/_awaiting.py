"""Where a task waits, and what it waits for."""

from __future__ import annotations

import asyncio
import os
import traceback

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType
    from typing import Any

__all__ = ("WaitingTask", "caller", "describe", "waiting_tasks")

# The folders of asyncio and of this package.
_LIBRARY_FOLDERS = tuple(os.path.dirname(file) + os.sep for file in (asyncio.__file__, __file__))


class WaitingTask:
    """A task that has not ended."""

    # Not a NamedTuple: to create one takes as long as to import three modules of this package.
    __slots__ = ("coroutine", "name", "stack", "waits_for")

    name: str
    coroutine: str
    """The name of its coroutine function."""
    stack: tuple[traceback.FrameSummary, ...]
    """The lines at which it waits: of its coroutine, of the coroutine that this one awaits, and so on."""
    waits_for: str

    def __init__(
        self, name: str, coroutine: str, stack: tuple[traceback.FrameSummary, ...], waits_for: str
    ) -> None:
        self.name = name
        self.coroutine = coroutine
        self.stack = stack
        self.waits_for = waits_for

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}, {self.coroutine}, waits for {self.waits_for}>"

    def __str__(self) -> str:
        lines = [f"{self.name} ({self.coroutine})"]
        lines += [_format_line(frame) for frame in self.stack]
        lines += [f"waits for {self.waits_for}"]
        return "\n    ".join(lines)


def waiting_tasks(loop: asyncio.AbstractEventLoop) -> tuple[WaitingTask, ...]:
    """All tasks of the loop that have not ended."""
    tasks = [describe(task) for task in asyncio.all_tasks(loop)]
    return tuple(sorted(tasks, key=lambda task: (len(task.name), task.name)))


def describe(task: asyncio.Task[Any]) -> WaitingTask:
    """Where ``task`` waits, and what it waits for."""
    coroutine = task.get_coro()
    awaited = list(_await_chain(coroutine))
    all_frames = [frame for frame, _ in awaited]
    frames = [frame for frame in all_frames if not is_library_frame(frame)] or all_frames
    stack = tuple(traceback.FrameSummary(f.f_code.co_filename, f.f_lineno, f.f_code.co_name) for f in frames)
    name = getattr(coroutine, "__qualname__", None) or repr(coroutine)
    return WaitingTask(task.get_name(), name, stack, _waits_for(task, awaited))


def caller() -> str:
    """The line outside of asyncio and this package that is being executed."""
    for frame, line in traceback.walk_stack(None):
        if not is_library_frame(frame):
            return _format_line(traceback.FrameSummary(frame.f_code.co_filename, line, frame.f_code.co_name))
    return "an unknown line"


def is_library_frame(frame: FrameType) -> bool:
    """Whether the code of a frame belongs to asyncio or to this package."""
    return frame.f_code.co_filename.startswith(_LIBRARY_FOLDERS)


def _format_line(frame: traceback.FrameSummary) -> str:
    source = f": {frame.line}" if frame.line else ""
    return f"{frame.filename}:{frame.lineno}, in {frame.name}{source}"


def _await_chain(awaitable: Any) -> Iterator[tuple[FrameType, Any]]:
    """The frames of a suspended coroutine and of everything that it awaits, from the outside in."""
    while awaitable is not None:
        for prefix, inner in (("cr", "await"), ("gi", "yieldfrom"), ("ag", "await")):
            frame: FrameType | None = getattr(awaitable, f"{prefix}_frame", None)
            if frame is not None:
                yield frame, awaitable
                awaitable = getattr(awaitable, f"{prefix}_{inner}", None)
                break
        else:
            return


def _waits_for(task: asyncio.Task[Any], awaited: list[tuple[FrameType, Any]]) -> str:
    future = task._fut_waiter  # type: ignore[attr-defined]
    if future is None:
        return "its next step"
    if isinstance(future, asyncio.Task):
        return f"the task {future.get_name()}"
    if children := getattr(future, "_children", None):
        names = [_label(child) for child in children if not child.done()]
        return f"gather() of {', '.join(names)}"
    # A method of a lock, an event, a queue, a stream...
    for frame, coroutine in reversed(awaited):
        if is_library_frame(frame) and (instance := frame.f_locals.get("self")) is not None:
            return f"{coroutine.__qualname__}() of {instance!r}"
    return repr(future)


def _label(future: asyncio.Future[Any]) -> str:
    return future.get_name() if isinstance(future, asyncio.Task) else repr(future)
