"""Metrics of a loop for Prometheus: ``pip install mainspring[prometheus]``.

REGISTRY.register(mainspring.prometheus.LoopCollector(loop))
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prometheus_client.core import Metric

    from ._loop import Loop
    from ._metrics import LagHistogram

__all__ = ("LoopCollector",)

COUNTERS = {
    "iterations": "Iterations of the loop",
    "callbacks": "Callbacks, steps of tasks and I/O events that were begun",
    "busy_seconds": "Time for which the loop ran and did not wait",
    "idle_seconds": "Time for which the loop waited for events",
    "received_bytes": "Bytes that were received",
    "sent_bytes": "Bytes that were sent",
    "stalls": "Callbacks that took longer than the limit of watch_stalls()",
}
GAUGES = {
    "timers": "Pending timers",
    "tasks": "Tasks that are not done",
    "transports": "Transports that have a file descriptor",
    "buffered_bytes": "Bytes that transports could not send yet",
    "executor_threads": "Threads of the default executor",
    "executor_queued": "Calls that wait for a thread of the default executor",
}


class LoopCollector(Collector):
    """Reads ``loop.metrics()`` for each scrape.  It does not keep the loop alive, and shows nothing once it is closed.

    The metrics have a label ``loop``.  It is a name of ``names``, or the position of the loop: 0 and so on.
    """

    def __init__(self, *loops: Loop, names: Iterable[str] | None = None) -> None:
        chosen = [str(number) for number in range(len(loops))] if names is None else list(names)
        if len(chosen) != len(loops):
            raise ValueError(f"{len(loops)} loops need as many names, not {len(chosen)}")
        self._loops = [(name, weakref.ref(loop)) for name, loop in zip(chosen, loops, strict=True)]

    def describe(self) -> Iterable[Metric]:
        """Nothing: a registry then does not collect at the time of registration."""
        return []

    def collect(self) -> Iterable[Metric]:
        """The metrics of the open loops."""
        counters = {
            name: CounterMetricFamily(f"mainspring_{name}", text, labels=["loop"])
            for name, text in COUNTERS.items()
        }
        gauges = {
            name: GaugeMetricFamily(f"mainspring_{name}", text, labels=["loop"])
            for name, text in GAUGES.items()
        }
        ready = GaugeMetricFamily("mainspring_ready", "Ready callbacks of each lane", labels=["loop", "lane"])
        lag = HistogramMetricFamily("mainspring_timer_lag_seconds", "How late timers were", labels=["loop"])
        for name, reference in self._loops:
            loop = reference()
            if loop is None or loop.is_closed():
                continue
            metrics = loop.metrics()
            for field, counter in counters.items():
                counter.add_metric([name], getattr(metrics, field))
            for field, gauge in gauges.items():
                gauge.add_metric([name], getattr(metrics, field))
            for lane, length in metrics.ready.items():
                ready.add_metric([name, lane.value], length)
            lag.add_metric([name], _cumulative(metrics.timer_lag), sum_value=metrics.timer_lag.sum)
        return [*counters.values(), *gauges.values(), ready, lag]


def _cumulative(lag: LagHistogram) -> list[tuple[str, float]]:
    """Buckets as Prometheus counts them: each contains the ones before."""
    total = 0
    buckets = []
    for bound, count in zip((*lag.bounds, float("inf")), lag.counts, strict=True):
        total += count
        buckets.append(("+Inf" if bound == float("inf") else str(bound), float(total)))
    return buckets
