"""``explore()`` finds races in small programs that look right.

Each example has a correct version, which passes under every seed, and a simpler one with a race.  The simpler one passes
in asyncio's own order too: an ordinary test does not find the race.
"""

from __future__ import annotations

import asyncio
import re

import pytest
from cron import Scheduler, SimpleScheduler
from expiring_cache import ExpiringCache, SimpleExpiringCache
from outbox import Outbox, SimpleOutbox
from rate_limiter import RateLimiter, SimpleRateLimiter

import mainspring.testing

pytestmark = pytest.mark.mainspring_only


async def deliver_while_the_server_comes_up(outbox_class):
    """The server answers after a second, and is down in the first two seconds."""
    delivered = []

    async def send(batch):
        started = asyncio.get_running_loop().time()
        await asyncio.sleep(1)
        if started < 2:
            raise ConnectionError
        delivered.extend(batch)

    outbox = outbox_class(send)
    for number in range(3):
        outbox.add(number)
        await asyncio.sleep(1)
    await outbox.drain()
    assert delivered == [0, 1, 2]


async def remove_a_job_when_its_run_ends(scheduler_class):
    runs = []

    async def back_up():
        runs.append(asyncio.get_running_loop().time())
        await asyncio.sleep(5)

    scheduler = scheduler_class()
    scheduler.add("backup", 10, back_up)
    await asyncio.sleep(12)
    assert runs == [10]
    await asyncio.sleep(3)
    scheduler.remove("backup")
    await asyncio.sleep(100)
    assert runs == [10], "a removed job runs again"
    await scheduler.close()


async def refresh_an_entry_when_it_expires(cache_class):
    async def write_back(key, value):
        await asyncio.sleep(1)

    cache = cache_class(10, write_back, sweep_interval=10)
    cache.set("answer", 41)
    await asyncio.sleep(10.5)
    await asyncio.sleep(0.5)
    cache.set("answer", 42)
    await asyncio.sleep(1)
    value = cache.get("answer")
    assert value == 42, "the new entry is lost"
    await cache.close()


async def start_when_a_slot_becomes_free(limiter_class):
    limit, period = 2, 1
    limiter = limiter_class(limit, period)
    loop = asyncio.get_running_loop()
    starts = []

    async def operate(delay):
        await asyncio.sleep(delay)
        await limiter.acquire()
        starts.append(loop.time())

    early = [loop.create_task(operate(0)) for _ in range(3)]
    await asyncio.sleep(0.5)
    late = [loop.create_task(operate(0.5)) for _ in range(2)]
    await asyncio.gather(*early, *late)
    assert len(starts) == 5
    for first, last in zip(starts, starts[limit:], strict=False):
        assert last - first >= period, f"more than {limit} operations in {period} s: {starts}"


EXAMPLES = [
    pytest.param(deliver_while_the_server_comes_up, Outbox, SimpleOutbox, id="outbox"),
    pytest.param(remove_a_job_when_its_run_ends, Scheduler, SimpleScheduler, id="cron"),
    pytest.param(refresh_an_entry_when_it_expires, ExpiringCache, SimpleExpiringCache, id="cache"),
    pytest.param(start_when_a_slot_becomes_free, RateLimiter, SimpleRateLimiter, id="limiter"),
]


@pytest.mark.parametrize("shuffle_ready", [False, True], ids=["timers", "ready-tasks"])
@pytest.mark.parametrize("scenario, correct, _", EXAMPLES)
def test_the_correct_version_passes_under_every_seed(scenario, correct, _, shuffle_ready):
    count = mainspring.testing.explore(
        lambda: scenario(correct), seeds=range(1000), shuffle_ready=shuffle_ready, progress=False
    )
    assert count == 1000


@pytest.mark.parametrize("scenario, _, simple", EXAMPLES)
def test_an_ordinary_test_does_not_find_the_race(scenario, _, simple):
    mainspring.testing.run(scenario(simple))


@pytest.mark.parametrize("shuffle_ready", [False, True], ids=["timers", "ready-tasks"])
@pytest.mark.parametrize("scenario, _, simple", EXAMPLES)
def test_explore_finds_the_race_and_its_seed_repeats_it(scenario, _, simple, shuffle_ready):
    with pytest.raises(AssertionError) as found:
        mainspring.testing.explore(
            lambda: scenario(simple), seeds=range(1000), shuffle_ready=shuffle_ready, progress=False
        )
    (seed,) = re.findall(r"seed (\d+)", "".join(found.value.__notes__))
    for _ in range(3):
        with pytest.raises(AssertionError) as again:
            mainspring.testing.run(scenario(simple), seed=int(seed), shuffle_ready=shuffle_ready)
        assert str(again.value) == str(found.value)
