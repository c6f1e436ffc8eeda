"""psycopg 3: a PostgreSQL client on libpq's socket, with add_reader() and add_writer()."""

from __future__ import annotations

import asyncio

import pytest
from helpers import needed, until

psycopg = needed("psycopg")

WAITS_FOR_LOCK = "select count(*) from pg_locks where locktype = 'advisory' and not granted"


async def connect(postgres, **options):
    return await psycopg.AsyncConnection.connect(postgres.url, autocommit=True, **options)


async def value(connection, query):
    cursor = await connection.execute(query)
    return (await cursor.fetchone())[0]


def test_connections_work_concurrently(run, postgres):
    async def one(number):
        async with await connect(postgres) as db:
            for step in range(20):
                cursor = await db.execute("select %s::int + %s::int", (number, step))
                assert await cursor.fetchone() == (number + step,)
        return number

    async def main():
        assert await asyncio.gather(*(one(n) for n in range(8))) == list(range(8))

    run(main())


def test_a_transaction_is_atomic(run, postgres):
    async def main():
        async with await connect(postgres) as db:
            await db.execute("create temporary table marbles (colour text primary key)")
            async with db.transaction():
                await db.execute("insert into marbles values ('red')")
            with pytest.raises(psycopg.errors.UniqueViolation):
                async with db.transaction():
                    await db.execute("insert into marbles values ('blue')")
                    await db.execute("insert into marbles values ('red')")
            assert await value(db, "select array_agg(colour) from marbles") == ["red"]

    run(main())


def test_copy_waits_until_the_server_can_take_more(run, postgres):
    rows = [(n, "x" * 200) for n in range(20_000)]

    async def main():
        async with await connect(postgres) as db, db.cursor() as cursor:
            await cursor.execute("create temporary table many (n int, words text)")
            async with cursor.copy("copy many from stdin") as copy:
                for row in rows:
                    await copy.write_row(row)
            async with cursor.copy("copy many to stdout") as copy:
                copy.set_types(["int4", "text"])
                assert [row async for row in copy.rows()] == rows

    run(main())


def test_a_pipeline_sends_without_waiting_for_answers(run, postgres):
    async def main():
        async with await connect(postgres) as db, db.pipeline():
            cursors = [await db.execute("select %s::int", (n,)) for n in range(500)]
            assert [(await cursor.fetchone())[0] for cursor in cursors] == list(range(500))

    run(main())


def test_a_notification_reaches_the_listener(run, postgres):
    async def main():
        async with await connect(postgres) as listener, await connect(postgres) as speaker:
            await listener.execute("listen news")
            for n in range(50):
                await speaker.execute(f"notify news, 'number {n}'")
            heard = [said.payload async for said in listener.notifies(stop_after=50)]
            assert heard == [f"number {n}" for n in range(50)]

    run(main())


def test_a_cancelled_query_is_cancelled_on_the_server(run, postgres):
    async def main():
        async with await connect(postgres) as holder, await connect(postgres) as db:
            await holder.execute("select pg_advisory_lock(3)")
            waiting = asyncio.ensure_future(db.execute("select pg_advisory_lock(3)"))
            await until(lambda: value(holder, WAITS_FOR_LOCK))
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            assert await value(holder, WAITS_FOR_LOCK) == 0
            assert await value(db, "select 'still here'") == "still here"

    run(main())


def test_a_query_can_be_cancelled_from_another_task(run, postgres):
    async def main():
        async with await connect(postgres) as holder, await connect(postgres) as db:
            await holder.execute("select pg_advisory_lock(4)")
            waiting = asyncio.ensure_future(db.execute("select pg_advisory_lock(4)"))
            await until(lambda: value(holder, WAITS_FOR_LOCK))
            await db.cancel_safe()
            with pytest.raises(psycopg.errors.QueryCanceled):
                await waiting

    run(main())
