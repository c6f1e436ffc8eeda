"""dask.distributed: scheduler, workers and client; it uses tornado, its own threads and, with processes, pipes."""

from __future__ import annotations

import asyncio
import multiprocessing.resource_tracker
import sys

import pytest
from helpers import needed

dask = needed("dask")
distributed = needed("distributed")

pytestmark = pytest.mark.timeout(180)

QUIET = {"dashboard_address": None, "silence_logs": 50}


async def where():
    return type(asyncio.get_running_loop()).__module__


def square(number):
    return number * number


async def work(client):
    """Uses every API of the client once."""
    futures = client.map(square, range(100))
    assert await client.gather(futures) == [number * number for number in range(100)]
    total = client.submit(sum, futures)
    assert await total == sum(number * number for number in range(100))
    data = await client.scatter(list(range(1000)))
    assert await client.submit(len, data) == 1000
    failing = client.submit(lambda: 1 / 0, pure=False)
    with pytest.raises(ZeroDivisionError):
        await failing
    del futures, total, data, failing


def test_workers_in_threads_of_the_loops_own_process(run, loop_kind):
    async def main():
        async with distributed.LocalCluster(
            n_workers=2, threads_per_worker=2, processes=False, asynchronous=True, protocol="tcp", **QUIET
        ) as cluster:
            async with distributed.Client(cluster, asynchronous=True) as client:
                await work(client)
                assert all(name.startswith(loop_kind) for name in (await client.run(where)).values())

    run(main())


@pytest.fixture
def use_loop_in_every_process(loop_kind, tmp_path, monkeypatch):
    """dask can be configured to use uvloop. A module of that name provides the loop under test, also in the workers'
    processes: a spawned process inherits ``sys.path``."""
    # Otherwise the first spawned process starts it, and its pipe stays open.
    multiprocessing.resource_tracker.ensure_running()
    source = {"asyncio": "from asyncio import SelectorEventLoop as new_event_loop"}
    source["mainspring"] = "from mainspring import new_event_loop"
    (tmp_path / "uvloop.py").write_text(source[loop_kind])
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "uvloop", raising=False)
    with dask.config.set({"distributed.admin.event-loop": "uvloop"}):
        yield
    sys.modules.pop("uvloop", None)


@pytest.mark.usefixtures("use_loop_in_every_process")
def test_workers_in_processes(loop_kind, run):
    async def main():
        async with distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, asynchronous=True, **QUIET
        ) as cluster:
            async with distributed.Client(cluster, asynchronous=True) as client:
                await work(client)
                assert all(name.startswith(loop_kind) for name in (await client.run(where)).values())

    run(main())


@pytest.mark.usefixtures("use_loop_in_every_process")
def test_a_loop_in_a_thread_serves_a_blocking_caller(loop_kind):
    with distributed.LocalCluster(n_workers=1, processes=False, protocol="tcp", **QUIET) as cluster:
        with distributed.Client(cluster) as client:
            assert client.gather(client.map(square, range(50))) == [number * number for number in range(50)]
            assert all(name.startswith(loop_kind) for name in client.run(where).values())
