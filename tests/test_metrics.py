"""Metrics: loop.metrics(), and its exporters."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import dataclasses
import gc
import socket
import threading

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from prometheus_client import CollectorRegistry, generate_latest

import mainspring
import mainspring.opentelemetry
import mainspring.prometheus

pytestmark = pytest.mark.mainspring_only

LIMIT = 30


def test_a_new_loop_has_done_nothing(loop):
    metrics = loop.metrics()
    values = dataclasses.asdict(metrics)
    assert set(values.pop("timer_lag")["counts"]) == {0}
    assert set(values.pop("ready").values()) == {0}
    assert set(values.values()) == {0}
    with pytest.raises(dataclasses.FrozenInstanceError):
        metrics.tasks = 1


def test_iterations_and_callbacks_are_counted(loop):
    seen = []

    def call(left):
        seen.append(loop.metrics())
        if left:
            loop.call_soon(call, left - 1)
        else:
            loop.stop()

    loop.call_soon(call, 4)
    loop.run_forever()
    assert [metrics.callbacks for metrics in seen] == [1, 2, 3, 4, 5]
    assert [metrics.iterations for metrics in seen] == [1, 2, 3, 4, 5]
    assert loop.metrics().callbacks == 5


class FakeTime(mainspring.Loop):
    """A loop whose time is set by the test."""

    now = 1000.0

    def time(self):
        return self.now


def test_busy_time_is_the_time_of_the_callbacks():
    with contextlib.closing(FakeTime()) as loop:

        def work():
            loop.now += 5
            busy.append(loop.metrics().busy_seconds)

        busy = []
        loop.call_soon(work)
        loop.call_soon(work)
        loop.call_soon(loop.stop)
        loop.run_forever()
        loop.now += 100  # the loop does not run
        assert busy == [5, 10]
        assert loop.metrics().busy_seconds == 10
        assert loop.metrics().idle_seconds == 0


def test_idle_time_is_the_time_of_the_waits():
    with contextlib.closing(FakeTime()) as loop:

        def pass_time():
            loop.now += 7
            loop.call_soon_threadsafe(loop.stop)

        # The time passes while the loop waits.
        thread = threading.Timer(0.05, pass_time)
        thread.start()
        loop.run_forever()
        thread.join()
        assert (loop.metrics().idle_seconds, loop.metrics().busy_seconds) == (7, 0)


def test_the_lag_of_timers_is_counted_by_size():
    with contextlib.closing(FakeTime()) as loop:
        loop.call_at(999.9997, int)
        loop.call_at(999.98, int)
        loop.call_at(990, int)
        loop.call_soon(loop.stop)
        loop.run_forever()
        lag = loop.metrics().timer_lag
    found = {bound: count for bound, count in zip((*lag.bounds, None), lag.counts, strict=True) if count}
    assert found == {0.0005: 1, 0.05: 1, None: 1}
    assert lag.sum == pytest.approx(10.0203)


def test_a_cancelled_timer_has_no_lag(loop):
    loop.call_later(0, int).cancel()
    loop.call_soon(loop.stop)
    loop.run_forever()
    assert sum(loop.metrics().timer_lag.counts) == 0


def test_ready_callbacks_are_counted_by_lane_and_timers_too(loop):
    with mainspring.urgent():
        loop.call_soon(int)
    with mainspring.background():
        loop.call_soon(int)
        loop.call_soon(int)
    for _ in range(3):
        loop.call_soon(int)
    timer = loop.call_later(1000, int)
    metrics = loop.metrics()
    assert metrics.ready == {
        mainspring.Lane.URGENT: 1,
        mainspring.Lane.NORMAL: 3,
        mainspring.Lane.BACKGROUND: 2,
    }
    assert metrics.timers == 1
    timer.cancel()


def test_tasks_are_counted_until_they_are_done(loop):
    async def main():
        other = asyncio.create_task(asyncio.sleep(1000))
        await asyncio.sleep(0)
        before = loop.metrics().tasks
        other.cancel()
        await asyncio.wait([other])
        return before, loop.metrics().tasks

    assert loop.run_until_complete(main()) == (2, 1)


def test_transports_and_their_bytes_are_counted(loop):
    async def main():
        near, far = socket.socketpair()
        with far:
            far.setblocking(False)
            received = loop.create_future()

            class Receiver(asyncio.Protocol):
                def data_received(self, data):
                    received.set_result(len(data))

            transport, _ = await loop.create_connection(Receiver, sock=near)
            far.send(b"12345")
            assert await received == 5
            transport.write(b"123")
            small = loop.metrics()
            # More than the kernel takes.
            size = 64 * 1024 * 1024
            transport.write(bytes(size))
            large = loop.metrics()
            transport.pause_reading()
            paused = loop.metrics()
            transport.abort()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        return small, large, paused, loop.metrics(), size

    small, large, paused, closed, size = loop.run_until_complete(main())
    assert (small.transports, small.received_bytes, small.sent_bytes, small.buffered_bytes) == (1, 5, 3, 0)
    assert 0 < large.buffered_bytes < size
    assert large.sent_bytes + large.buffered_bytes == size + 3
    assert paused.transports == 1
    assert (closed.transports, closed.buffered_bytes) == (0, 0)


def test_datagrams_pipes_and_sock_methods_are_counted(loop):
    async def main():
        received = loop.create_future()

        class Receiver(asyncio.DatagramProtocol):
            def datagram_received(self, data, addr):
                received.set_result(data)

        first, _ = await loop.create_datagram_endpoint(Receiver, local_addr=("127.0.0.1", 0))
        address = first.get_extra_info("sockname")
        second, _ = await loop.create_datagram_endpoint(asyncio.DatagramProtocol, remote_addr=address)
        second.sendto(b"1234")
        await received
        datagrams = loop.metrics()
        first.close()
        second.close()
        await asyncio.sleep(0)
        near, far = socket.socketpair()
        with near, far:
            near.setblocking(False)
            far.setblocking(False)
            await loop.sock_sendall(near, b"12")
            await loop.sock_recv(far, 10)
        return datagrams, loop.metrics()

    datagrams, sockets = loop.run_until_complete(main())
    assert (datagrams.sent_bytes, datagrams.received_bytes, datagrams.transports) == (4, 4, 2)
    assert (sockets.sent_bytes, sockets.received_bytes, sockets.transports) == (6, 6, 0)


def test_the_default_executor_is_counted(loop):
    leave = threading.Event()

    async def main():
        loop.set_default_executor(concurrent.futures.ThreadPoolExecutor(1))
        calls = [loop.run_in_executor(None, leave.wait, LIMIT) for _ in range(3)]
        entered = loop.metrics()
        leave.set()
        await asyncio.gather(*calls)
        return entered, loop.metrics()

    entered, left = loop.run_until_complete(main())
    assert entered.executor_threads == 1 and entered.executor_queued >= 2
    assert (left.executor_threads, left.executor_queued) == (1, 0)
    loop.run_until_complete(loop.shutdown_default_executor())


def test_stalls_are_counted_however_often_the_limit_changes(loop):
    reported = threading.Event()

    def block():
        assert reported.wait(LIMIT)
        reported.clear()

    for limit in (0.01, 0.02):
        loop.watch_stalls(limit, lambda stall: stall.total is None and reported.set())
        loop.call_soon(block)
        loop.call_soon(loop.stop)
        loop.run_forever()
        loop.watch_stalls(None)
    assert loop.metrics().stalls == 2


def test_metrics_can_be_read_from_other_threads(loop):
    async def main():
        return await loop.run_in_executor(None, loop.metrics)

    assert loop.run_until_complete(main()).tasks == 1
    loop.run_until_complete(loop.shutdown_default_executor())


def test_a_closed_loop_keeps_its_counters():
    loop = mainspring.Loop()
    loop.call_soon(loop.stop)
    loop.run_forever()
    loop.close()
    assert (loop.metrics().callbacks, loop.metrics().tasks) == (1, 0)


def test_the_exporter_for_prometheus(loop):
    loop.call_at(loop.time() - 0.03, int)
    loop.call_soon(loop.stop)
    loop.run_forever()
    with mainspring.urgent():
        loop.call_soon(int)
    registry = CollectorRegistry()
    registry.register(mainspring.prometheus.LoopCollector(loop, names=["main"]))
    value = registry.get_sample_value
    assert value("mainspring_callbacks_total", {"loop": "main"}) == 2
    assert value("mainspring_ready", {"loop": "main", "lane": "urgent"}) == 1
    assert value("mainspring_tasks", {"loop": "main"}) == 0
    bucket = "mainspring_timer_lag_seconds_bucket"
    assert value(bucket, {"loop": "main", "le": "0.01"}) == 0
    assert value(bucket, {"loop": "main", "le": "+Inf"}) == 1
    assert value("mainspring_timer_lag_seconds_sum", {"loop": "main"}) >= 0.03
    text = generate_latest(registry).decode()
    fields = {field.name for field in dataclasses.fields(mainspring.Metrics)}
    assert all(f"mainspring_{field}" in text for field in fields)


def test_a_collector_shows_several_loops_while_they_are_open():
    loops = [mainspring.Loop(), mainspring.Loop()]
    registry = CollectorRegistry()
    registry.register(mainspring.prometheus.LoopCollector(*loops))
    shown = [registry.get_sample_value("mainspring_tasks", {"loop": name}) for name in "01"]
    assert shown == [0, 0]
    loops.pop().close()
    gc.collect()
    shown = [registry.get_sample_value("mainspring_tasks", {"loop": name}) for name in "01"]
    assert shown == [0, None]
    loops.pop().close()
    with pytest.raises(ValueError, match="names"):
        mainspring.prometheus.LoopCollector(names=["main"])


def test_the_exporter_for_opentelemetry(loop):
    reader = InMemoryMetricReader()
    provider = MeterProvider(metric_readers=[reader])
    mainspring.opentelemetry.observe(loop, provider.get_meter("test"), {"loop": "main"})
    loop.call_at(loop.time() - 0.03, int)
    loop.call_soon(loop.stop)
    loop.run_forever()

    def read():
        data = reader.get_metrics_data()
        metrics = data.resource_metrics[0].scope_metrics[0].metrics if data else []
        return {
            metric.name: {
                tuple(sorted(point.attributes.items())): point.value for point in metric.data.data_points
            }
            for metric in metrics
        }

    found = read()
    main = (("loop", "main"),)
    assert found["mainspring.callbacks"] == {main: 2}
    assert found["mainspring.busy"][main] > 0
    assert found["mainspring.ready"][(("lane", "urgent"), *main)] == 0
    buckets = found["mainspring.timer.lag.bucket"]
    assert (buckets[(("le", "0.01"), *main)], buckets[(("le", "+Inf"), *main)]) == (0, 1)
    assert found["mainspring.timer.lag.sum"][main] >= 0.03
    loop.close()
    assert all(points == {} for points in read().values())
    provider.shutdown()
