"""What a loop executes, as seen from another thread: frames, coroutines, callbacks."""

from __future__ import annotations

import asyncio
import inspect
import sys

from ._internals import format_handle

TYPE_CHECKING = False
if TYPE_CHECKING:
    import traceback
    from collections.abc import Iterator
    from types import FrameType
    from typing import Any

    from ._loop import Loop

__all__ = ("format_call", "format_frame", "format_stack", "frames_of", "is_coroutine_frame")

COROUTINE_FLAGS = inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR | inspect.CO_ITERABLE_COROUTINE


def frames_of(loop: Loop) -> Iterator[FrameType]:
    """The frames of the loop's thread above run_forever(), outermost first; none if the loop does not run."""
    frame = sys._current_frames().get(loop._thread_id)
    frames: list[FrameType] = []
    while frame is not None and not _runs_a_loop(frame):
        frames.append(frame)
        frame = frame.f_back
    return reversed(frames)


def _runs_a_loop(frame: FrameType) -> bool:
    return frame.f_code.co_name == "run_forever" and frame.f_globals.get("__name__") == "mainspring._loop"


def is_coroutine_frame(frame: FrameType) -> bool:
    """Whether the frame belongs to a coroutine or an asynchronous generator."""
    return bool(frame.f_code.co_flags & COROUTINE_FLAGS)


def format_frame(frame: FrameType) -> str:
    """The function, file and line of a frame."""
    code = frame.f_code
    name = getattr(code, "co_qualname", code.co_name)  # new in Python 3.11
    return f"{name} ({code.co_filename}:{frame.f_lineno})"


def format_stack(stack: traceback.StackSummary) -> str:
    """The frames of a stack as a traceback shows them.

    Not by ``stack.format()``, which loads a module from Python 3.15 on: a dump has to work when no fd is free.
    """
    lines = []
    for frame in stack:
        lines.append(f'  File "{frame.filename}", line {frame.lineno}, in {frame.name}\n')
        if frame.line:
            lines.append(f"    {frame.line}\n")
    return "".join(lines)


def format_call(call: Any) -> str:
    """A handle as asyncio's messages show it, or the transport that is served.  Empty for None."""
    if call is None:
        return ""
    try:
        return format_handle(call) if isinstance(call, asyncio.Handle) else f"the I/O of {call!r}"
    except Exception as error:
        return f"<{type(call).__name__}, whose repr() raised {type(error).__name__}>"
