"""Running a program in virtual time, once or under many seeds."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Sized
from typing import TYPE_CHECKING, Any, TypeVar

from .._running import run_on
from ._loop import Unhandled, VirtualTimeLoop, add_note, new_event_loop

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable

    from ._loop import RealIO

__all__ = ("explore", "run")

T = TypeVar("T")

PROGRESS_INTERVAL = 0.1
BAR_WIDTH = 30


def run(
    main: Coroutine[Any, Any, T],
    *,
    seed: int | None = None,
    start: float = 0.0,
    real_io: RealIO = "allow",
    shuffle_ready: bool = False,
    debug: bool | None = None,
) -> T:
    """``mainspring.run()`` in virtual time.

    The clock shows ``start`` seconds and jumps to the next deadline when nothing can run.  Threads and sockets are
    waited for in real time; ``real_io="refuse"`` raises ``RealIOError`` instead.  If nothing can ever run again,
    ``Deadlock`` is raised.

    A ``seed`` orders timers with equal deadlines and the I/O events of one poll; with ``shuffle_ready`` also the tasks
    that are ready at the same time.  The same seed gives the same order.

    An exception that would only be logged also fails the run: of a callback, or of a task that nothing awaits.  A
    program that sets an exception handler handles these itself.
    """
    if asyncio._get_running_loop() is not None:
        raise RuntimeError("mainspring.testing.run() cannot be called from a running event loop")
    unhandled: Unhandled | None = None

    def make_loop() -> VirtualTimeLoop:
        nonlocal unhandled
        loop = new_event_loop(seed=seed, start=start, real_io=real_io, shuffle_ready=shuffle_ready)
        unhandled = Unhandled(loop)
        return loop

    try:
        result = run_on(make_loop, main, debug=debug)
        if unhandled is not None and (failure := unhandled.take()) is not None:
            raise failure
    except BaseException as error:
        if seed is not None:
            options = ", shuffle_ready=True" if shuffle_ready else ""
            add_note(
                error,
                f"mainspring: seed {seed}; replay with mainspring.testing.run(..., seed={seed}{options})",
            )
        raise
    return result


def explore(
    main: Callable[[], Coroutine[Any, Any, Any]],
    seeds: Iterable[int] = range(1000),
    *,
    start: float = 0.0,
    real_io: RealIO = "allow",
    shuffle_ready: bool = False,
    debug: bool | None = None,
    progress: bool | None = None,
) -> int:
    """Runs ``main()`` once for each seed.  The first exception ends the search, and a note names its seed.

    Returns the number of runs.  The other arguments are those of ``run()``.  ``progress`` shows a progress bar on
    stderr; ``None``: if that is a terminal.
    """
    if not callable(main):
        if asyncio.iscoroutine(main):
            main.close()
        raise TypeError("explore() calls the function once for each seed: pass main, not main()")
    bar = ProgressBar(seeds) if (sys.stderr.isatty() if progress is None else progress) else None
    count = 0
    try:
        for seed in seeds:
            run(
                main(),
                seed=seed,
                start=start,
                real_io=real_io,
                shuffle_ready=shuffle_ready,
                debug=debug,
            )
            count += 1
            if bar is not None:
                bar.show(count)
    finally:
        if bar is not None:
            bar.close()
    return count


class ProgressBar:
    """A line on stderr that shows how many runs are done."""

    def __init__(self, seeds: Iterable[int]) -> None:
        self._total = len(seeds) if isinstance(seeds, Sized) else None
        self._shown_at = 0.0
        self._seeds_done = 0

    def show(self, count: int) -> None:
        self._seeds_done = count
        now = time.monotonic()
        if now - self._shown_at >= PROGRESS_INTERVAL:
            self._shown_at = now
            self._draw()

    def _draw(self) -> None:
        if self._total is None:
            text = f"{self._seeds_done} seeds"
        else:
            filled = BAR_WIDTH * self._seeds_done // max(self._total, 1)
            bar = "#" * filled + "-" * (BAR_WIDTH - filled)
            text = f"[{bar}] {self._seeds_done} of {self._total} seeds"
        print(f"\rmainspring: {text}", end="", file=sys.stderr, flush=True)

    def close(self) -> None:
        self._draw()
        print(file=sys.stderr)
