"""``loop.metrics()``: what the loop has done so far, and what it has to do."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import TYPE_CHECKING, Any

from ._priorities import Lane
from ._transports import buffered_bytes

if TYPE_CHECKING:
    from ._loop import Loop

__all__ = ("LagHistogram", "Metrics", "read_metrics")


@dataclasses.dataclass(frozen=True)
class LagHistogram:
    """How late timers were: the time from a timer's deadline until the loop took notice of it."""

    bounds: tuple[float, ...]
    """The upper bounds of the buckets in seconds.  The last bucket has none."""
    counts: tuple[int, ...]
    """The number of timers in each bucket; one more than there are bounds."""
    sum: float
    """The sum of all delays in seconds."""


@dataclasses.dataclass(frozen=True)
class Metrics:
    """A snapshot of a loop.  Counters begin at zero when the loop is created and never decrease."""

    iterations: int
    """Counter: iterations of the loop."""
    callbacks: int
    """Counter: callbacks, steps of tasks and I/O events that were begun."""
    busy_seconds: float
    """Counter: the time for which the loop ran and did not wait, by the loop's clock."""
    idle_seconds: float
    """Counter: the time for which the loop waited for events, by the loop's clock."""
    timer_lag: LagHistogram
    """Counter: how late timers were."""
    received_bytes: int
    """Counter: bytes that transports and the ``sock_*`` methods have received."""
    sent_bytes: int
    """Counter: bytes that transports, the ``sock_*`` methods and ``sendfile()`` have sent."""
    stalls: int
    """Counter: callbacks that took longer than the limit of ``watch_stalls()``."""
    ready: dict[Lane, int]
    """Ready callbacks of each lane that have not run yet."""
    timers: int
    """Pending timers."""
    tasks: int
    """Tasks that are not done."""
    transports: int
    """Transports that have a file descriptor.  TLS is counted once, with its connection."""
    buffered_bytes: int
    """Bytes that transports could not send yet."""
    executor_threads: int
    """Threads of the default executor."""
    executor_queued: int
    """Calls that wait for a thread of the default executor."""


def read_metrics(loop: Loop) -> Metrics:
    """What a loop has done so far, and what it has to do."""
    counters = loop._counters()
    lag = LagHistogram(
        tuple(counters.pop("lag_bounds")), tuple(counters.pop("lag_counts")), counters.pop("lag_sum")
    )
    ready = {Lane(name): length for name, length in counters.pop("ready").items()}
    transports = loop._open_transports()
    threads, queued = _executor_use(loop)
    return Metrics(
        timer_lag=lag,
        ready=ready,
        tasks=0 if loop.is_closed() else len(asyncio.all_tasks(loop)),
        transports=len(transports),
        buffered_bytes=sum(map(buffered_bytes, transports)),
        executor_threads=threads,
        executor_queued=queued,
        **counters,
    )


def _executor_use(loop: Any) -> tuple[int, int]:
    """Threads and queued calls of the default executor.  It has no public way to ask for them."""
    executor = getattr(loop, "_default_executor", None)
    threads = getattr(executor, "_threads", ())
    queue = getattr(executor, "_work_queue", None)
    return len(threads), 0 if queue is None else queue.qsize()
