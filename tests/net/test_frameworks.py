"""What people run on a loop: aiohttp, uvicorn and httpx, unchanged."""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import re
import signal
import socket
import subprocess
import sys
import textwrap

import pytest
from peers import TIMEOUT

# What the frameworks themselves think of this Python is not asked here.
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::PendingDeprecationWarning"),
]


def needed(name: str):
    return pytest.importorskip(name, reason=f"{name} has no wheel for this Python", exc_type=ImportError)


# aiohttp


def test_aiohttp_serves_and_asks(run):
    aiohttp = needed("aiohttp")
    web = aiohttp.web if hasattr(aiohttp, "web") else needed("aiohttp.web")

    async def hello(request):
        return web.json_response(
            {"path": request.path, "peer": request.transport.get_extra_info("peername")[0]}
        )

    async def count(request):
        total = 0
        async for part in request.content.iter_chunked(10_000):
            total += len(part)
        return web.Response(text=str(total))

    async def stream(request):
        response = web.StreamResponse()
        await response.prepare(request)
        for number in range(200):
            await response.write(bytes([number]) * 10_000)
        await response.write_eof()
        return response

    async def chat(request):
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        async for message in socket:
            await socket.send_str(message.data.upper())
        return socket

    async def main():
        app = web.Application(client_max_size=1 << 26)
        app.router.add_get("/hello", hello)
        app.router.add_post("/count", count)
        app.router.add_get("/stream", stream)
        app.router.add_get("/chat", chat)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        base = f"http://127.0.0.1:{runner.addresses[0][1]}"
        async with aiohttp.ClientSession() as session:

            async def ask():
                async with session.get(base + "/hello") as response:
                    assert response.status == 200
                    assert await response.json() == {"path": "/hello", "peer": "127.0.0.1"}

            await asyncio.gather(*(ask() for _ in range(100)))
            async with session.post(base + "/count", data=io.BytesIO(bytes(10 << 20))) as response:
                assert await response.text() == str(10 << 20)
            async with session.get(base + "/stream") as response:
                expected = b"".join(bytes([number]) * 10_000 for number in range(200))
                assert await response.read() == expected
            async with session.ws_connect(base + "/chat") as chatting:
                for number in range(50):
                    await chatting.send_str(f"line {number}")
                    assert (await chatting.receive(timeout=TIMEOUT)).data == f"LINE {number}"
        await runner.cleanup()

    run(main())


# uvicorn


async def app(scope, receive, send):
    """Answers with the request's body, in pieces; /where tells the loop."""
    if scope["type"] == "lifespan":
        while True:
            message = await receive()
            await send({"type": message["type"] + ".complete"})
            if message["type"] == "lifespan.shutdown":
                return
    body = b""
    more = True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    if scope["path"] == "/where":
        body = type(asyncio.get_running_loop()).__module__.encode()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]})
    for place in range(0, len(body), 50_000):
        await send({"type": "http.response.body", "body": body[place : place + 50_000], "more_body": True})
    await send({"type": "http.response.body"})


@contextlib.asynccontextmanager
async def uvicorn_serving(http):
    uvicorn = needed("uvicorn")
    if http == "httptools":
        needed("httptools")
    config = uvicorn.Config(app, http=http, ws="none", log_level="warning", lifespan="on")
    server = uvicorn.Server(config)
    # Whoever connects before it accepts waits in the backlog.
    with socket.create_server(("127.0.0.1", 0)) as listening:
        serving = asyncio.ensure_future(server.serve(sockets=[listening]))
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            await asyncio.wait_for(serving, TIMEOUT)


@pytest.mark.parametrize("http", ["httptools", "h11"])
def test_uvicorn_serves_on_the_loop_it_is_given(run, loop_name, http):
    httpx = needed("httpx")

    async def main():
        async with uvicorn_serving(http) as base, httpx.AsyncClient(timeout=TIMEOUT) as client:
            answer = await client.get(base + "/where")
            assert answer.text.startswith("mainspring" if loop_name == "mainspring" else "asyncio")
            for size in (0, 1, 70_000, 3 << 20):
                answer = await client.post(base + "/echo", content=b"x" * size)
                assert answer.status_code == 200
                assert answer.content == b"x" * size
            answers = await asyncio.gather(
                *(client.post(base + "/echo", content=b"%d" % number) for number in range(100))
            )
            assert [answer.content for answer in answers] == [b"%d" % number for number in range(100)]

    run(main())


@pytest.mark.parametrize("http", ["httptools", "h11"])
def test_uvicorn_runs_through_the_command_without_a_change(tmp_path, http):
    needed("uvicorn")
    httpx = needed("httpx")
    if http == "httptools":
        needed("httptools")
    source = textwrap.dedent("""
        import asyncio

        async def app(scope, receive, send):
            assert scope["type"] == "http"
            await receive()
            body = type(asyncio.get_running_loop()).__module__.encode()
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": body})
    """)
    (tmp_path / "served.py").write_text(source)
    command = [sys.executable, "-m", "mainspring", "-m", "uvicorn", "served:app", "--app-dir", str(tmp_path)]
    options = ["--port", "0", "--http", http, "--lifespan", "off", "--ws", "none"]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command + options, stderr=subprocess.PIPE, text=True, env=environment) as process:
        try:
            said = []
            port = None
            while port is None:
                line = process.stderr.readline()
                said.append(line)
                assert line, f"it ended: {said}"
                port = re.search(r"running on http://127\.0\.0\.1:(\d+)", line)
            answer = httpx.get(f"http://127.0.0.1:{port[1]}/", timeout=TIMEOUT)
            assert answer.text.startswith("mainspring")
        finally:
            process.send_signal(signal.SIGINT)
            _, rest = process.communicate(timeout=TIMEOUT)
        assert "Finished server process" in rest
