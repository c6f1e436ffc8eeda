"""redis-py's asyncio client, on asyncio's streams."""

from __future__ import annotations

import asyncio
import contextlib

import pytest
from helpers import needed, until

redis = needed("redis.asyncio")


@contextlib.asynccontextmanager
async def client_of(server, **options):
    client = redis.Redis(host="127.0.0.1", port=server.port, decode_responses=True, **options)
    try:
        await client.flushall()
        yield client
    finally:
        await client.aclose()


def test_a_pipeline_uses_one_round_trip(run, redis_server):
    async def main():
        async with client_of(redis_server) as client:
            async with client.pipeline(transaction=True) as pipeline:
                for n in range(1000):
                    pipeline.set(f"key {n}", n).incr(f"key {n}")
                answers = await pipeline.execute()
            assert answers[1::2] == list(range(1, 1001))
            assert await client.mget("key 7", "key 999") == ["8", "1000"]

    run(main())


def test_a_watched_key_that_changes_stops_the_transaction(run, redis_server):
    async def main():
        async with client_of(redis_server) as client, client.pipeline() as pipeline:
            await pipeline.watch("key")
            await client.set("key", "changed")
            pipeline.multi()
            pipeline.set("key", "mine")
            with pytest.raises(redis.WatchError):
                await pipeline.execute()
            assert await client.get("key") == "changed"

    run(main())


def test_many_tasks_share_a_pool(run, redis_server):
    async def main():
        pool = redis.BlockingConnectionPool(host="127.0.0.1", port=redis_server.port, max_connections=5)
        client = redis.Redis(connection_pool=pool)
        await client.delete("count")
        try:
            answers = await asyncio.gather(*(client.incr("count") for _ in range(300)))
            assert sorted(answers) == list(range(1, 301))
        finally:
            await client.aclose()
            await pool.disconnect()

    run(main())


def test_a_value_of_many_megabytes_is_returned_complete(run, redis_server):
    async def main():
        async with client_of(redis_server) as client:
            value = "0123456789abcdef" * (1 << 19)
            await client.set("large", value)
            assert await client.get("large") == value

    run(main())


def test_subscribers_get_published_messages(run, redis_server):
    async def main():
        async with client_of(redis_server) as client, client.pubsub() as listening:
            await listening.subscribe("news")
            await listening.psubscribe("weather.*")
            kinds = [(await listening.get_message(timeout=None))["type"] for _ in range(2)]
            assert kinds == ["subscribe", "psubscribe"]
            for n in range(100):
                assert await client.publish("news", f"number {n}") == 1
                assert (await listening.get_message(timeout=None))["data"] == f"number {n}"
            await client.publish("weather.oslo", "snow")
            assert (await listening.get_message(timeout=None))["channel"] == "weather.oslo"

    run(main())


def test_a_cancelled_blocking_pop_removes_nothing(run, redis_server):
    async def main():
        async with client_of(redis_server) as client:

            async def blocked():
                return (await client.info("clients"))["blocked_clients"]

            async def none_blocked():
                return not await blocked()

            waiting = asyncio.ensure_future(client.blpop("queue", timeout=0))
            await until(blocked)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            await until(none_blocked)
            await client.rpush("queue", "first")
            assert await client.blpop("queue", timeout=0) == ("queue", "first")

    run(main())


def test_a_blocking_pop_wakes_up_for_a_push(run, redis_server):
    async def main():
        async with client_of(redis_server) as client:
            waiting = [asyncio.ensure_future(client.blpop("queue", timeout=0)) for _ in range(10)]
            for n in range(10):
                await client.rpush("queue", n)
            values = [value for _, value in await asyncio.gather(*waiting)]
            assert sorted(values, key=int) == [str(n) for n in range(10)]

    run(main())


def test_it_works_over_a_unix_socket(run, redis_server):
    async def main():
        async with redis.Redis(unix_socket_path=redis_server.path) as client:
            await client.set("path", b"u" * 1_000_000)
            assert await client.get("path") == b"u" * 1_000_000

    run(main())
