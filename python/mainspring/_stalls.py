"""Stall detection: reports a callback that blocks the loop, while it does.

The engine shows the progress of the loop to a native watch (``stalls.rs``), which a daemon thread waits for.  The thread
takes the interpreter lock only when a callback has taken too long.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import traceback
import weakref
from typing import TYPE_CHECKING, Any

from ._frames import format_call, format_frame, format_stack, frames_of, is_coroutine_frame

if TYPE_CHECKING:
    from ._loop import Loop
    from ._mainspring import StallWatch

__all__ = ("Stall", "report_stalls")

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
            lines += ["Stack (most recent call last):", format_stack(self.stack).rstrip()]
        return "\n".join(lines)


def report_stalls(loop_reference: weakref.ref[Loop], watch: StallWatch) -> None:
    """Reports the stalls of a loop until they are not watched any more: the function of the watching thread."""
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
