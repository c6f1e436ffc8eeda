"""D. Scale and cost: idle connections, timer precision under load, cost per timer by the number of timers."""

import random
from time import monotonic, perf_counter

from .networking import serve_protocol
from .registry import Case, Metric, add, in_process

IDLE_METRICS = (
    Metric("rss_kib_per_conn", "KiB/conn", higher_is_better=False),
    Metric("idle_cpu_percent", "% CPU", higher_is_better=False),
    Metric("p99_us", "us p99", higher_is_better=False),
)
add(Case("D.idle.10k", serve_protocol, IDLE_METRICS, {}, ("idle", "--conns", "10000", "--size", "128")))

ERROR_METRICS = (
    Metric("error_p50_us", "us off p50", higher_is_better=False),
    Metric("error_p99_us", "us off p99", higher_is_better=False),
)


async def serve_with_ticker(run):
    """The echo server with a 1 ms timer that records its error, late or early."""
    loop, errors, early = run.loop, [], 0
    due = monotonic() + 0.001

    def tick():
        nonlocal due, early
        now = monotonic()
        early += now < due
        errors.append(abs(now - due))
        due = now + 0.001
        loop.call_later(0.001, tick)

    def collect():
        ordered = sorted(errors)

        def quantile(share):
            return ordered[int(share * (len(ordered) - 1))] * 1e6

        return {
            "error_p50_us": quantile(0.5),
            "error_p99_us": quantile(0.99),
            "error_max_us": quantile(1),
            "early_share": early / len(errors),
        }

    run.collect = collect
    loop.call_later(0.001, tick)
    return await serve_protocol(run)


for connections in (1, 100):
    add(
        Case(
            f"D.timer.error.c{connections}",
            serve_with_ticker,
            ERROR_METRICS,
            {},
            ("echo", "--conns", str(connections), "--size", "1024"),
            quick=connections == 100,
            collects=True,
        )
    )

COUNTS = {"1k": 1_000, "10k": 10_000, "100k": 100_000, "1m": 1_000_000}


@in_process(
    "D.timer.cost",
    "",
    metrics=tuple(Metric(f"ns_at_{name}", f"ns/timer at {name}", higher_is_better=False) for name in COUNTS),
)
def timer_cost(run):
    """Sets and cancels a timer while N others are pending: nanoseconds per timer, for growing N."""
    loop = run.loop
    source = random.Random(1)
    result, resident = {}, []

    def never():
        raise AssertionError("a pending timer fired")

    async def probe(operations=50_000):
        delays = [60 + source.random() * 3600 for _ in range(operations)]
        started = perf_counter()
        for start in range(0, operations, 500):
            for delay in delays[start : start + 500]:
                loop.call_later(delay, never).cancel()
            future = loop.create_future()
            loop.call_soon(future.set_result, None)
            await future
        return (perf_counter() - started) / operations * 1e9

    for name, count in COUNTS.items():
        while len(resident) < count:
            resident.append(loop.call_later(60 + source.random() * 3600, never))
        result[f"ns_at_{name}"] = loop.run_until_complete(probe())
    return result
