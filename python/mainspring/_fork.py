"""Loops in a child process after ``os.fork()``, which ``multiprocessing`` uses too.

The child has copies of all loops, whose file descriptors refer to the parent's epoll instances, eventfds and signal
pipes.  Each copy gets new ones before other code runs in the child.  So the child can use, close or collect its loops
without an effect on the parent.
"""

from __future__ import annotations

import contextlib
import os
import signal
import weakref

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._loop import Loop

__all__ = ("open_loops", "register_for_fork")

_loops: weakref.WeakSet[Loop] = weakref.WeakSet()

register_for_fork = _loops.add


def open_loops() -> list[Loop]:
    """The loops of this process that are not closed."""
    while True:
        try:
            return [loop for loop in _loops if not loop.is_closed()]
        except RuntimeError:  # another thread has created a loop during the iteration
            pass


def _after_in_child() -> None:
    loops = open_loops()
    _detach_signals(loops)
    for loop in loops:
        try:
            loop._after_fork()
        except OSError:
            # Out of file descriptors.  The child will probably not use this loop.
            loop._close_native()
        else:
            loop._restart_stalls_after_fork()


def _detach_signals(loops: list[Loop]) -> None:
    """Keeps signals of the child from waking the parent's loop.  From Python 3.12 on asyncio does this."""
    with contextlib.suppress(ValueError, OSError):  # not the main thread of the main interpreter
        wakeup_fd = signal.set_wakeup_fd(-1)
        if wakeup_fd != -1 and wakeup_fd not in [loop._signal_fd() for loop in loops]:
            signal.set_wakeup_fd(wakeup_fd)


os.register_at_fork(after_in_child=_after_in_child)
