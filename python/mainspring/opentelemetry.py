"""Metrics of a loop for OpenTelemetry: ``pip install mainspring[opentelemetry]``.

mainspring.opentelemetry.observe(loop)
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from opentelemetry.metrics import Observation, get_meter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from opentelemetry.metrics import CallbackOptions, Meter

    from ._loop import Loop
    from ._metrics import Metrics

__all__ = ("observe",)

# Name, unit, description.
COUNTERS = {
    "iterations": ("mainspring.iterations", "{iteration}", "Iterations of the loop"),
    "callbacks": (
        "mainspring.callbacks",
        "{callback}",
        "Callbacks, steps of tasks and I/O events that were begun",
    ),
    "busy_seconds": ("mainspring.busy", "s", "Time for which the loop ran and did not wait"),
    "idle_seconds": ("mainspring.idle", "s", "Time for which the loop waited for events"),
    "received_bytes": ("mainspring.received", "By", "Bytes that were received"),
    "sent_bytes": ("mainspring.sent", "By", "Bytes that were sent"),
    "stalls": ("mainspring.stalls", "{stall}", "Callbacks that took longer than the limit of watch_stalls()"),
}
GAUGES = {
    "timers": ("mainspring.timers", "{timer}", "Pending timers"),
    "tasks": ("mainspring.tasks", "{task}", "Tasks that are not done"),
    "transports": ("mainspring.transports", "{transport}", "Transports that have a file descriptor"),
    "buffered_bytes": ("mainspring.buffered", "By", "Bytes that transports could not send yet"),
    "executor_threads": ("mainspring.executor.threads", "{thread}", "Threads of the default executor"),
    "executor_queued": (
        "mainspring.executor.queued",
        "{call}",
        "Calls that wait for a thread of the default executor",
    ),
}


def observe(loop: Loop, meter: Meter | None = None, attributes: Mapping[str, str] | None = None) -> None:
    """Creates observable instruments for ``loop.metrics()`` on ``meter``; by default the global one of ``mainspring``.

    ``attributes`` tell several loops of a process apart.  The instruments do not keep the loop alive, and show nothing
    once it is closed.  OpenTelemetry has no observable histogram: the timers' delays are counters by upper bound
    (attribute ``le``), each of which contains the ones before, and a counter of their sum.
    """
    meter = get_meter("mainspring") if meter is None else meter
    reference = weakref.ref(loop)
    common = dict(attributes or {})

    def instrument(
        create: Callable[..., Any],
        description: tuple[str, str, str],
        read: Callable[[Metrics], Iterable[tuple[float, dict[str, str]]]],
    ) -> None:
        def observations(options: CallbackOptions) -> Iterable[Observation]:
            loop = reference()
            if loop is None or loop.is_closed():
                return []
            return [Observation(value, {**common, **extra}) for value, extra in read(loop.metrics())]

        name, unit, text = description
        create(name, callbacks=[observations], unit=unit, description=text)

    def field(name: str) -> Callable[[Metrics], Iterable[tuple[float, dict[str, str]]]]:
        return lambda metrics: [(getattr(metrics, name), {})]

    for name, description in COUNTERS.items():
        instrument(meter.create_observable_counter, description, field(name))
    for name, description in GAUGES.items():
        instrument(meter.create_observable_up_down_counter, description, field(name))
    instrument(
        meter.create_observable_up_down_counter,
        ("mainspring.ready", "{callback}", "Ready callbacks of each lane"),
        lambda metrics: [(length, {"lane": lane.value}) for lane, length in metrics.ready.items()],
    )
    instrument(
        meter.create_observable_counter,
        ("mainspring.timer.lag.bucket", "{timer}", "Timers that were at most as late as the bound"),
        _buckets,
    )
    instrument(
        meter.create_observable_counter,
        ("mainspring.timer.lag.sum", "s", "Sum of the delays of all timers"),
        lambda metrics: [(metrics.timer_lag.sum, {})],
    )


def _buckets(metrics: Metrics) -> Iterable[tuple[float, dict[str, str]]]:
    total = 0
    for bound, count in zip((*metrics.timer_lag.bounds, float("inf")), metrics.timer_lag.counts, strict=True):
        total += count
        yield total, {"le": "+Inf" if bound == float("inf") else str(bound)}
