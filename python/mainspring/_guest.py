"""Guest mode: another loop, the host, drives this one on its own thread.

The host waits for ``loop.fileno()`` and ``loop.next_timeout()`` beside its own events.  ``start_guest_run()`` does this
for hosts that have asyncio's methods ``add_reader()``, ``remove_reader()`` and ``call_later()``.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from ._loop import Loop
from ._running import shut_down

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

__all__ = ("GuestHost", "GuestRun", "start_guest_run")

T = TypeVar("T")


class GuestTimer(Protocol):
    """A timer of a host."""

    def cancel(self) -> object:
        """The callback is no longer called."""


class GuestHost(Protocol):
    """What a guest run needs of its host.  asyncio's loops are hosts."""

    def add_reader(self, fd: int, callback: Callable[[], object], /) -> object:
        """Calls ``callback()`` whenever the fd is readable."""

    def remove_reader(self, fd: int, /) -> object:
        """Stops that."""

    def call_later(self, delay: float, callback: Callable[[], object], /) -> GuestTimer:
        """Calls ``callback()`` once, after ``delay`` seconds."""
        raise NotImplementedError


class GuestRun(Generic[T]):
    """A coroutine that runs on a loop inside another loop."""

    def __init__(
        self,
        main: Coroutine[Any, Any, T],
        host: GuestHost,
        loop: Loop | None,
        done_callback: Callable[[GuestRun[T]], object] | None,
    ) -> None:
        self._host = host
        self._owns_loop = loop is None
        self._loop = Loop() if loop is None else loop
        self._when_done = done_callback
        self._timer: GuestTimer | None = None
        self._is_over = False
        self._fd = self._loop.fileno()
        self._main_task: asyncio.Task[T] = self._loop.create_task(main)
        self._cleanup: asyncio.Task[None] | None = None
        host.add_reader(self._fd, self._turn)
        self._wait()

    @property
    def loop(self) -> Loop:
        """The loop that the coroutine runs on."""
        return self._loop

    @property
    def task(self) -> asyncio.Task[T]:
        """The task of the coroutine."""
        return self._main_task

    def done(self) -> bool:
        """Whether the run has ended."""
        return self._is_over

    def cancel(self) -> bool:
        """Cancels the task.  The run ends when the task has ended."""
        return self._main_task.cancel()

    def result(self) -> T:
        """The result of the coroutine, or its exception."""
        if self._is_over and not self._main_task.done():
            raise RuntimeError("Event loop stopped before Future completed.")
        return self._main_task.result()

    def _is_complete(self) -> bool:
        """Whether nothing is left to run.  Begins to clean up when the coroutine has ended."""
        if not self._main_task.done():
            return False
        if not self._owns_loop:
            return True
        if self._cleanup is None:
            self._cleanup = self._loop.create_task(shut_down(self._loop))
        return self._cleanup.done()

    def _turn(self) -> None:
        """One iteration of the loop, without waiting."""
        if self._is_over:
            return
        goes_on = True
        try:
            self._loop.process_events(self._loop.poll_events(0))
            goes_on = self._loop.process_ready()
        finally:
            # A nested turn may have ended the run.
            if not self._is_over:
                if goes_on and not self._is_complete():
                    self._wait()
                else:
                    self._end()

    def _wait(self) -> None:
        """Lets the host wait for the loop."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        timeout = self._loop.next_timeout()
        if timeout is not None:
            self._timer = self._host.call_later(timeout, self._turn)

    def _end(self) -> None:
        self._is_over = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._host.remove_reader(self._fd)
        # In a nested turn the loop is still running, and its outer turn closes it.
        if self._owns_loop and not self._loop.is_running():
            self._loop.close()
        if self._when_done is not None:
            self._when_done(self)


def start_guest_run(
    main: Coroutine[Any, Any, T],
    host: GuestHost,
    *,
    loop: Loop | None = None,
    done_callback: Callable[[GuestRun[T]], object] | None = None,
) -> GuestRun[T]:
    """Runs a coroutine on a loop that ``host`` drives, without a thread.  Returns at once.

    ``host`` has the methods ``add_reader(fd, callback)``, ``remove_reader(fd)`` and ``call_later(delay, callback)``, as
    asyncio's loops have.  By default the coroutine gets a new loop, which is cleaned up and closed at the end as by
    ``asyncio.run()``.  ``done_callback(run)`` is called at the end.
    """
    return GuestRun(main, host, loop, done_callback)
