"""What becomes of loops in a child process that ``os.fork()`` made, or ``multiprocessing`` by way of it.

The child has copies of all the loops.  Their descriptors would still be the parent's epoll sets, wake-ups and signal
pipes, so each copy is given its own before anything else runs in the child: it may be used there, closed, or collected
as garbage, and the parent hears nothing of it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import weakref
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._loop import Loop

__all__ = ("part_after_fork",)

_loops: weakref.WeakSet[Loop] = weakref.WeakSet()

part_after_fork = _loops.add


def _after_in_child() -> None:
    loops = [loop for loop in _loops if not loop.is_closed()]
    _take_signals_from(loops)
    for loop in loops:
        try:
            loop._after_fork()
        except OSError:
            # No descriptors are left for a loop that most likely nobody wants here.
            loop._close_native()


def _take_signals_from(loops: list[Loop]) -> None:
    """The child's signals are not the parent's.  From Python 3.12 on asyncio sees to it."""
    with contextlib.suppress(ValueError, OSError):  # not the main thread of the main interpreter
        wakes = signal.set_wakeup_fd(-1)
        if wakes != -1 and wakes not in [loop._signal_fd() for loop in loops]:
            signal.set_wakeup_fd(wakes)


os.register_at_fork(after_in_child=_after_in_child)
