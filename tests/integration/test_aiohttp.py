"""aiohttp: server and client in one loop."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import io

import pytest
from helpers import needed

aiohttp = needed("aiohttp")
web = needed("aiohttp.web")


def application(*routes):
    app = web.Application()
    app.add_routes(list(routes))
    return app


@contextlib.asynccontextmanager
async def serving(*routes, authority=None, path=None):
    """A server with these routes: its address, and a client session."""
    runner = web.AppRunner(application(*routes))
    await runner.setup()
    tls = authority.server_context() if authority else None
    if path is None:
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
        connector = aiohttp.TCPConnector(ssl=authority.client_context() if authority else True)
    else:
        site = web.UnixSite(runner, path)
        connector = aiohttp.UnixConnector(path)
    try:
        await site.start()
        base = "http://here"
        if path is None:
            scheme = "https" if authority else "http"
            base = f"{scheme}://localhost:{runner.addresses[0][1]}"
        async with aiohttp.ClientSession(base, connector=connector) as session:
            yield session
    finally:
        await connector.close()
        await runner.cleanup()


async def hello(request):
    return web.json_response({"path": request.path, "peer": request.transport.get_extra_info("peername")})


async def digest(request):
    seen = hashlib.sha256()
    async for part in request.content.iter_chunked(10_000):
        seen.update(part)
    return web.Response(text=seen.hexdigest())


async def ask(session, path):
    async with session.get(path) as response:
        assert response.status == 200
        return (await response.json())["path"]


def test_many_requests_at_once_are_answered(run):
    async def main():
        async with serving(web.get("/{name}", hello)) as session:
            answers = await asyncio.gather(*(ask(session, f"/{n}") for n in range(200)))
            assert answers == [f"/{n}" for n in range(200)]

    run(main())


def test_a_connection_is_used_again(run):
    async def main():
        async with serving(web.get("/", hello)) as session:
            peers = set()
            for _ in range(20):
                async with session.get("/") as response:
                    peers.add(tuple((await response.json())["peer"]))
            assert len(peers) == 1

    run(main())


def test_an_upload_streams(run):
    parts = [bytes([n]) * 100_000 for n in range(100)]

    async def body():
        for part in parts:
            yield part

    async def main():
        async with serving(web.post("/digest", digest)) as session:
            async with session.post("/digest", data=body()) as response:
                assert await response.text() == hashlib.sha256(b"".join(parts)).hexdigest()

    run(main())


def test_a_download_streams(run):
    parts = [bytes([n]) * 100_000 for n in range(100)]

    async def stream(request):
        response = web.StreamResponse()
        await response.prepare(request)
        for part in parts:
            await response.write(part)
        await response.write_eof()
        return response

    async def main():
        seen = hashlib.sha256()
        async with serving(web.get("/stream", stream)) as session, session.get("/stream") as response:
            async for part in response.content.iter_any():
                seen.update(part)
        assert seen.hexdigest() == hashlib.sha256(b"".join(parts)).hexdigest()

    run(main())


@pytest.mark.parametrize("encrypted", [False, True])
def test_a_file_is_sent(run, tmp_path, authority, encrypted):
    content = bytes(range(256)) * 20_000
    (tmp_path / "file").write_bytes(content)

    async def main():
        route = web.get("/file", lambda request: web.FileResponse(tmp_path / "file"))
        async with serving(route, authority=authority if encrypted else None) as session:
            async with session.get("/file") as response:
                assert await response.read() == content
            async with session.get("/file", headers={"Range": "bytes=1000-1999"}) as response:
                assert response.status == 206
                assert await response.read() == content[1000:2000]

    run(main())


async def converse(session):
    async with session.ws_connect("/chat", max_msg_size=0) as chatting:
        for number in range(50):
            await chatting.send_str(f"line {number}")
            assert (await chatting.receive()).data == f"LINE {number}"
        await chatting.send_str("long " * 500_000)
        assert (await chatting.receive()).data == "LONG " * 500_000
        await chatting.ping()
        await chatting.send_str("leave")
        left = await chatting.receive()
        assert (left.type, left.data, left.extra) == (aiohttp.WSMsgType.CLOSE, 4321, "as asked")
    assert chatting.close_code == 4321


async def chat(request):
    response = web.WebSocketResponse(max_msg_size=0)
    await response.prepare(request)
    async for message in response:
        if message.data == "leave":
            await response.close(code=4321, message=b"as asked")
        else:
            await response.send_str(message.data.upper())
    return response


def test_a_web_socket_talks_both_ways(run):
    async def main():
        async with serving(web.get("/chat", chat)) as session:
            await asyncio.gather(*(converse(session) for _ in range(5)))

    run(main())


def test_it_works_over_tls(run, authority):
    body = b"secret" * 500_000

    async def main():
        routes = [web.get("/chat", chat), web.get("/{name}", hello), web.post("/digest", digest)]
        async with serving(*routes, authority=authority) as session:
            answers = await asyncio.gather(*(ask(session, f"/{n}") for n in range(30)))
            assert answers == [f"/{n}" for n in range(30)]
            async with session.post("/digest", data=io.BytesIO(body)) as response:
                assert await response.text() == hashlib.sha256(body).hexdigest()
            await converse(session)

    run(main())


def test_it_works_over_a_unix_socket(run, tmp_path):
    async def main():
        async with serving(web.get("/{name}", hello), path=str(tmp_path / "socket")) as session:
            answers = await asyncio.gather(*(ask(session, f"/{n}") for n in range(30)))
            assert answers == [f"/{n}" for n in range(30)]

    run(main())


def test_the_server_notices_a_client_that_disconnects(run):
    async def main():
        asked, noticed = asyncio.Event(), asyncio.Event()

        async def never(request):
            asked.set()
            try:
                while not request.transport.is_closing():
                    await request.content.read(1)
                    await asyncio.sleep(0.001)
            finally:
                noticed.set()
            return web.Response()

        async with serving(web.get("/never", never)) as session:
            waiting = asyncio.ensure_future(session.get("/never"))
            await asked.wait()
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            await noticed.wait()

    run(main())


def test_a_request_that_takes_too_long_times_out(run):
    async def main():
        released = asyncio.Event()

        async def late(request):
            await released.wait()
            return web.Response()

        async with serving(web.get("/late", late), web.get("/{name}", hello)) as session:
            with pytest.raises(asyncio.TimeoutError):
                await session.get("/late", timeout=aiohttp.ClientTimeout(total=0.05))
            released.set()
            assert await ask(session, "/soon") == "/soon"

    run(main())
