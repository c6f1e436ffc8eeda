"""httpx, and anyio below it, against servers on the same loop."""

from __future__ import annotations

import asyncio
import contextlib

import pytest
from helpers import needed

httpx = needed("httpx")
h11 = needed("h11")

LIMIT = 30


async def talk(reader, writer, answer):
    """One connection of a small HTTP/1.1 server: ``answer(path, body)`` returns the response body, or None for no
    response."""
    http = h11.Connection(h11.SERVER)

    async def event():
        while (found := http.next_event()) is h11.NEED_DATA:
            http.receive_data(await reader.read(65536))
        return found

    while isinstance(request := await event(), h11.Request):
        body = b""
        while isinstance(part := await event(), h11.Data):
            body += part.data
        content = answer(request.target.decode(), body)
        if content is None:
            await reader.read()
            break
        head = h11.Response(status_code=200, headers=[("Content-Length", str(len(content)))])
        for part in (head, h11.Data(data=content), h11.EndOfMessage()):
            writer.write(http.send(part))
            await writer.drain()
        if http.our_state is h11.MUST_CLOSE:
            break
        http.start_next_cycle()


@contextlib.asynccontextmanager
async def serving(answer, authority=None):
    connections = set()

    async def serve(reader, writer):
        connections.add(asyncio.current_task())
        try:
            await talk(reader, writer, answer)
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    tls = authority.server_context() if authority else None
    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    try:
        port = server.sockets[0].getsockname()[1]
        yield f"{'https' if authority else 'http'}://localhost:{port}"
    finally:
        server.close()
        await asyncio.gather(*connections)
        await server.wait_closed()


def echo(path, body):
    return path.encode() + b" " + body


@pytest.mark.parametrize("encrypted", [False, True])
def test_many_requests_share_few_connections(run, authority, encrypted):
    async def main():
        limits = httpx.Limits(max_connections=5)
        verify = authority.client_context() if encrypted else True
        async with (
            serving(echo, authority if encrypted else None) as base,
            httpx.AsyncClient(base_url=base, limits=limits, verify=verify, timeout=LIMIT) as client,
        ):
            answers = await asyncio.gather(
                *(client.post(f"/{n}", content=b"body %d" % n) for n in range(100))
            )
            assert [answer.text for answer in answers] == [f"/{n} body {n}" for n in range(100)]

    run(main())


@pytest.mark.parametrize("encrypted", [False, True])
def test_large_bodies_stream_both_ways(run, authority, encrypted):
    parts = [bytes([n]) * 100_000 for n in range(50)]

    async def body():
        for part in parts:
            yield part

    async def main():
        verify = authority.client_context() if encrypted else True
        async with (
            serving(echo, authority if encrypted else None) as base,
            httpx.AsyncClient(base_url=base, verify=verify, timeout=LIMIT) as client,
        ):
            async with client.stream("POST", "/", content=body()) as answer:
                received = b"".join([part async for part in answer.aiter_bytes()])
            assert received == b"/ " + b"".join(parts)

    run(main())


def test_an_unknown_authority_is_refused(run, authority, reported):
    async def main():
        async with serving(echo, authority) as base, httpx.AsyncClient(timeout=LIMIT) as client:
            with pytest.raises(httpx.ConnectError, match="certificate verify failed"):
                await client.get(base)

    run(main())


def test_a_silent_server_times_out(run):
    async def main():
        # A busy machine may connect slowly.
        timeout = httpx.Timeout(LIMIT, read=0.05)
        async with serving(lambda *_: None) as base, httpx.AsyncClient(timeout=timeout) as client:
            with pytest.raises(httpx.ReadTimeout):
                await client.get(base)

    run(main())


def test_a_cancelled_request_releases_its_connection(run):
    async def main():
        asked = asyncio.Event()

        def answer(path, body):
            if path == "/":
                return b"here"
            asked.set()
            return None

        limits = httpx.Limits(max_connections=1)
        async with (
            serving(answer) as base,
            httpx.AsyncClient(base_url=base, limits=limits, timeout=LIMIT) as client,
        ):
            waiting = asyncio.ensure_future(client.get("/never"))
            await asked.wait()
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            assert (await client.get("/")).text == "here"

    run(main())


def test_a_refused_connection_raises_connect_error(run):
    async def main():
        async with httpx.AsyncClient(timeout=LIMIT) as client:
            with pytest.raises(httpx.ConnectError):
                await client.get("http://127.0.0.1:1/")

    run(main())
