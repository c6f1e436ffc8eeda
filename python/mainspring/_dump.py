"""``mainspring.dump()``: the tasks, transports and timers of the loops, in a readable form.

Reads only what exists, and runs nothing in the loop.  So a loop can be shown from another thread while it is blocked.
"""

from __future__ import annotations

import asyncio
import select
import signal
import sys
import threading
import traceback
import weakref

from ._awaiting import describe
from ._fork import open_loops
from ._frames import format_call, format_frame, format_stack, frames_of, is_coroutine_frame
from ._internals import LoopParts
from ._mainspring import SignalWatch
from ._transports import buffered_bytes
from ._watching import WatchingThread

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, TextIO

    from ._loop import Loop

__all__ = ("Dumps", "dump")


def dump(file: TextIO | None = None, *, loop: Loop | None = None) -> None:
    """Writes the tasks with their await chains, the transports and the timers of a loop, or of all open loops.

    ``file`` is a text file, by default ``sys.stderr``.  May be called from every thread, also while the loop is blocked.
    """
    file = sys.stderr if file is None else file
    loops = open_loops() if loop is None else [loop]
    text = "".join(f"{line}\n" for loop in loops for line in _describe(loop))
    if file is not None:  # sys.stderr of a program without one
        file.write(text)
        file.flush()


def _describe(loop: Loop) -> Iterator[str]:
    yield _repr(loop)
    current, frames = None, list(frames_of(loop))
    call = loop._running_call()
    if loop._is_awake():
        # A loop that was not watched does not know its callback, but the stack shows it.
        yield f"  running: {'a callback' if call is None else format_call(call)}"
        current = asyncio.current_task(loop)
        stack = traceback.StackSummary.extract((frame, frame.f_lineno) for frame in frames)
        yield from _indented("    ", format_stack(stack))
    tasks = sorted(asyncio.all_tasks(loop), key=lambda task: task.get_name())
    yield f"  tasks: {len(tasks)}"
    for task in tasks:
        if task is not current:
            yield from _indented("    ", _describe_task(task))
            continue
        yield f"    {task.get_name()} runs"
        yield from (f"        {format_frame(frame)}" for frame in frames if is_coroutine_frame(frame))
    transports = loop._open_transports()
    yield f"  transports: {len(transports)}"
    for transport in transports:
        yield f"    {_repr(transport)}, {buffered_bytes(transport)} bytes to send"
    timers = sorted(loop._timer_handles(), key=lambda timer: timer.when())
    yield f"  timers: {len(timers)}"
    now = loop.time()
    for timer in timers:
        yield f"    in {timer.when() - now:.3f} s: {format_call(timer)}"


def _indented(margin: str, text: str) -> Iterator[str]:
    return (margin + line for line in text.splitlines())


def _describe_task(task: asyncio.Task[Any]) -> str:
    try:
        return str(describe(task))
    except Exception as error:
        return f"{task.get_name()}, whose description raised {type(error).__name__}"


def _repr(value: object) -> str:
    try:
        return repr(value)
    except Exception as error:
        return f"<{type(value).__name__}, whose repr() raised {type(error).__name__}>"


class Dumps(LoopParts):
    """The part of the loop that writes a dump on a signal."""

    def _init_dumps(self) -> None:
        self._dump_watches: dict[int, tuple[SignalWatch, threading.Thread]] = {}

    def dump_on_signal(self, sig: int = signal.SIGUSR1, file: TextIO | None = None) -> None:
        """Write the tasks, transports and timers of this loop whenever the signal arrives, until the loop is closed.

        ``file`` is a text file, by default ``sys.stderr``.  A thread writes, so this works while the loop is blocked.
        Replaces the signal's handler.  A forked child does not inherit it.
        """
        self._check_closed()
        self._show_running_calls()
        watch = SignalWatch(sig)
        thread = WatchingThread("mainspring-dump", _dump_on_signal, weakref.ref(self), watch, file)
        try:
            thread.start()
        except BaseException:
            watch.close()
            raise
        # A loop that is garbage collected ends the thread too.
        weakref.finalize(self, watch.close).atexit = False
        former = self._dump_watches.pop(sig, None)
        if former is not None:
            former[0].close()
        self._dump_watches[sig] = watch, thread

    def _close_dumps(self) -> None:
        for watch, _ in self._dump_watches.values():
            watch.close()
        self._dump_watches.clear()


def _dump_on_signal(reference: weakref.ref[Loop], watch: SignalWatch, file: TextIO | None) -> None:
    poll = select.poll()
    poll.register(watch.fileno(), select.POLLIN)
    while True:
        poll.poll()
        count = watch.take()
        loop = reference()
        if count is None or loop is None or loop.is_closed():
            return
        if count:
            try:
                dump(file, loop=loop)
            except BaseException as error:
                loop._report_from_thread("The dump of the loop failed", error)
        del loop
