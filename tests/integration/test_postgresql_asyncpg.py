"""asyncpg: a PostgreSQL client on the loop's transports."""

from __future__ import annotations

import asyncio
import contextlib
import io

import pytest
from helpers import needed, until

asyncpg = needed("asyncpg")

WAITS_FOR_LOCK = "select exists (select from pg_locks where locktype = 'advisory' and not granted)"


@contextlib.asynccontextmanager
async def connection(postgres):
    connected = await asyncpg.connect(postgres.url)
    try:
        yield connected
    finally:
        await connected.close()


def test_a_pool_serves_more_queries_than_it_has_connections(run, postgres):
    async def main():
        async with asyncpg.create_pool(postgres.url, min_size=2, max_size=5) as pool:
            answers = await asyncio.gather(*(pool.fetchval("select $1::int * 2", n) for n in range(200)))
            assert answers == [2 * n for n in range(200)]
            backends = {await pool.fetchval("select pg_backend_pid()") for _ in range(20)}
            assert len(backends) <= 5

    run(main())


def test_a_failed_transaction_is_rolled_back(run, postgres):
    async def main():
        async with connection(postgres) as db:
            await db.execute("create temporary table marbles (colour text primary key)")
            async with db.transaction():
                await db.execute("insert into marbles values ('red')")
                with pytest.raises(asyncpg.UniqueViolationError):
                    async with db.transaction():  # a savepoint
                        await db.execute("insert into marbles values ('blue')")
                        await db.execute("insert into marbles values ('red')")
            with pytest.raises(ZeroDivisionError):
                async with db.transaction():
                    await db.execute("insert into marbles values ('green')")
                    raise ZeroDivisionError
            assert await db.fetch("select colour from marbles") == [("red",)]

    run(main())


def test_copy_moves_many_rows_in_both_directions(run, postgres):
    rows = [(n, f"row {n} " + "x" * 100) for n in range(20_000)]

    async def main():
        async with connection(postgres) as db:
            await db.execute("create temporary table many (n int, words text)")
            await db.copy_records_to_table("many", records=rows)
            assert await db.fetchval("select count(*) from many") == len(rows)
            out = io.BytesIO()
            await db.copy_from_query("select n, words from many order by n", output=out, format="csv")
            assert out.getvalue().decode().splitlines() == [f"{n},{words}" for n, words in rows]

    run(main())


def test_a_cursor_fetches_a_large_answer_in_parts(run, postgres):
    async def main():
        async with connection(postgres) as db, db.transaction():
            query = "select n, repeat('y', 1000) from generate_series(1, 5000) n"
            seen = [row[0] async for row in db.cursor(query, prefetch=100)]
            assert seen == list(range(1, 5001))
            value = await db.fetchval("select repeat('z', 5000000)")
            assert len(value) == 5_000_000

    run(main())


def test_a_notification_reaches_the_listener(run, postgres):
    async def main():
        heard = asyncio.Queue()
        async with connection(postgres) as listener, connection(postgres) as speaker:
            await listener.add_listener("news", lambda *said: heard.put_nowait(said[2:]))
            for n in range(100):
                await speaker.execute(f"notify news, 'number {n}'")
            for n in range(100):
                assert await heard.get() == ("news", f"number {n}")
            await listener.reset()

    run(main())


def test_a_cancelled_query_frees_its_connection(run, postgres):
    async def main():
        async with connection(postgres) as holder, connection(postgres) as db:
            await holder.execute("select pg_advisory_lock(1)")
            waiting = asyncio.ensure_future(db.execute("select pg_advisory_lock(1)"))
            await until(lambda: holder.fetchval(WAITS_FOR_LOCK))
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            assert await db.fetchval("select 'still here'") == "still here"
            await until(lambda: holder.fetchval("select not (" + WAITS_FOR_LOCK[7:] + ")"))

    run(main())


def test_a_query_that_takes_too_long_times_out(run, postgres):
    async def main():
        async with connection(postgres) as holder, connection(postgres) as db:
            await holder.execute("select pg_advisory_lock(2)")
            with pytest.raises(asyncio.TimeoutError):
                await db.execute("select pg_advisory_lock(2)", timeout=0.05)
            assert await db.fetchval("select 1") == 1

    run(main())


def test_the_server_may_end_a_connection(run, postgres):
    async def main():
        async with connection(postgres) as killer:
            db = await asyncpg.connect(postgres.url)
            gone = asyncio.get_running_loop().create_future()
            db.add_termination_listener(lambda _: gone.set_result(None))
            await killer.execute("select pg_terminate_backend($1)", db.get_server_pid())
            await gone
            assert db.is_closed()
            with pytest.raises(asyncpg.InterfaceError):
                await db.fetchval("select 1")

    run(main())


def test_tls_begins_on_the_open_connection(run, postgres, authority):
    async def main():
        db = await asyncpg.connect(
            host="localhost", port=postgres.port, user=postgres.user, database="postgres",
            ssl=authority.client_context(),
        )  # fmt: skip
        try:
            assert await db.fetchval("select ssl from pg_stat_ssl where pid = pg_backend_pid()") is True
            assert len(await db.fetchval("select repeat('s', 3000000)")) == 3_000_000
            with pytest.raises(asyncpg.UndefinedTableError):
                await db.execute("select * from nowhere")
        finally:
            await db.close()

    run(main())


def test_it_works_over_a_unix_socket(run, postgres):
    async def main():
        options = {"port": postgres.port, "user": postgres.user, "database": "postgres"}
        db = await asyncpg.connect(host=postgres.folder, **options)
        try:
            assert await db.fetchval("select inet_client_addr()") is None
            assert len(await db.fetchval("select repeat('u', 3000000)")) == 3_000_000
        finally:
            await db.close()

    run(main())
