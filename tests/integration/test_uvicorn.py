"""uvicorn: in a task of the loop, as a program with signals, and through ``python -m mainspring``."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import textwrap

import pytest
from helpers import needed

uvicorn = needed("uvicorn")
httpx = needed("httpx")
needed("httptools")

LIMIT = 30


class App:
    """Sends the request's body back in pieces; /where returns the loop's class; echoes WebSocket messages."""

    def __init__(self):
        self.life = []

    async def __call__(self, scope, receive, send):
        await getattr(self, scope["type"])(scope, receive, send)

    async def lifespan(self, scope, receive, send):
        for _ in range(2):
            message = await receive()
            self.life.append(message["type"])
            await send({"type": message["type"] + ".complete"})

    async def http(self, scope, receive, send):
        body, more = b"", True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        if scope["path"] == "/where":
            body = type(asyncio.get_running_loop()).__module__.encode()
        if scope["path"] == "/peer":
            body = str(scope["client"][1]).encode()
        headers = [(b"content-type", b"text/plain")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        for place in range(0, len(body), 50_000):
            part = body[place : place + 50_000]
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body"})

    async def websocket(self, scope, receive, send):
        assert (await receive())["type"] == "websocket.connect"
        await send({"type": "websocket.accept"})
        while (message := await receive())["type"] == "websocket.receive":
            if message.get("text") == "leave":
                await send({"type": "websocket.close", "code": 4001, "reason": "as asked"})
            else:
                await send({"type": "websocket.send", "text": message["text"].upper()})
        self.life.append(message["type"])


@contextlib.asynccontextmanager
async def serving(app, **options):
    options = {"log_level": "warning", "lifespan": "on", **options}
    server = uvicorn.Server(uvicorn.Config(app, **options))
    # Early connections wait in the backlog.
    with socket.create_server(("127.0.0.1", 0)) as listening:
        running = asyncio.ensure_future(server.serve(sockets=[listening]))
        try:
            yield f"127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            await running


@pytest.mark.parametrize("http", ["httptools", "h11"])
def test_it_serves_on_the_loop_it_is_given(run, loop_kind, http):
    async def main():
        app = App()
        async with serving(app, http=http) as address, httpx.AsyncClient(timeout=LIMIT) as client:
            base = f"http://{address}"
            answer = await client.get(base + "/where")
            assert answer.text.startswith(loop_kind)
            for size in (0, 1, 70_000, 3 << 20):
                answer = await client.post(base + "/echo", content=b"x" * size)
                assert answer.status_code == 200
                assert answer.content == b"x" * size
            answers = await asyncio.gather(
                *(client.post(base + "/echo", content=b"%d" % number) for number in range(100))
            )
            assert [answer.content for answer in answers] == [b"%d" % number for number in range(100)]
        assert app.life == ["lifespan.startup", "lifespan.shutdown"]

    run(main())


@pytest.mark.parametrize("http", ["httptools", "h11"])
def test_a_connection_is_kept_for_the_next_request(run, http):
    async def main():
        async with serving(App(), http=http) as address, httpx.AsyncClient(timeout=LIMIT) as client:
            peers = {(await client.get(f"http://{address}/peer")).text for _ in range(20)}
            assert len(peers) == 1

    run(main())


@pytest.mark.filterwarnings("ignore:The `websockets` implementation is deprecated")
@pytest.mark.parametrize("ws", ["websockets", "websockets-sansio"])
def test_a_web_socket_talks_both_ways(run, ws):
    websockets = needed("websockets")
    connect = needed("websockets.asyncio.client").connect

    async def main():
        app = App()
        options = {"ws": ws, "ws_max_size": 1 << 26}
        async with serving(app, **options) as address:
            async with connect(f"ws://{address}/", max_size=None) as connection:
                for number in range(50):
                    await connection.send(f"line {number}")
                    assert await connection.recv() == f"LINE {number}"
                await connection.send("long " * 200_000)
                assert await connection.recv() == "LONG " * 200_000
                await connection.send("leave")
                with pytest.raises(websockets.ConnectionClosed) as caught:
                    await connection.recv()
            assert (caught.value.rcvd.code, caught.value.rcvd.reason) == (4001, "as asked")
        assert app.life == ["lifespan.startup", "websocket.disconnect", "lifespan.shutdown"]

    run(main())


@contextlib.contextmanager
def program(arguments, **options):
    """A server in a new process: the process, its port, and a function that reads its output up to a word."""
    options = {"env": {**os.environ, "PYTHONUNBUFFERED": "1"}, **options}
    process = subprocess.Popen(
        [sys.executable, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options
    )
    said = []

    def until(words):
        for line in process.stdout:
            said.append(line)
            if found := re.search(words, line):
                return found
        pytest.fail(f"it ended without {words!r}: {''.join(said)}")

    try:
        yield process, int(until(r"running on http://127\.0\.0\.1:(\d+)")[1]), until
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_the_request_in_progress_end(write_program, loop_kind, number):
    source = """
        import asyncio, uvicorn

        async def app(scope, receive, send):
            if scope["type"] == "lifespan":
                for _ in range(2):
                    message = await receive()
                    print("received", message["type"])
                    await send({"type": message["type"] + ".complete"})
                return
            body = (await receive())["body"]
            print("has begun")
            body += (await receive())["body"]
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": type(asyncio.get_running_loop()).__module__.encode()})

        config = uvicorn.Config(app, port=0)
        loop = new_loop()
        try:
            loop.run_until_complete(uvicorn.Server(config).serve())
        except KeyboardInterrupt:
            print("was interrupted")
        loop.close()
    """
    with program([write_program(source)]) as (process, port, until):
        with socket.create_connection(("127.0.0.1", port), timeout=LIMIT) as client:
            client.sendall(b"POST / HTTP/1.1\r\nHost: here\r\nContent-Length: 4\r\n\r\nab")
            until("has begun")
            process.send_signal(number)
            until("Shutting down")
            client.sendall(b"cd")
            answer = b"".join(iter(lambda: client.recv(65536), b""))
        assert answer.startswith(b"HTTP/1.1 200 OK") and loop_kind.encode() in answer
        until("received lifespan.shutdown")
        until("Finished server process")
        # uvicorn raises the signal again after its cleanup.
        assert process.wait(LIMIT) == (0 if number == signal.SIGINT else -signal.SIGTERM)
        if number == signal.SIGINT:
            until("was interrupted")


@pytest.mark.mainspring_only
@pytest.mark.parametrize("http", ["httptools", "h11"])
def test_it_runs_unchanged_through_the_command(tmp_path, loop_kind, http):
    source = """
        import asyncio

        async def app(scope, receive, send):
            assert scope["type"] == "http"
            await receive()
            body = type(asyncio.get_running_loop()).__module__.encode()
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": body})
    """
    (tmp_path / "served.py").write_text(textwrap.dedent(source))
    command = ["-m", "mainspring", "-m", "uvicorn", "served:app", "--app-dir", tmp_path]
    options = ["--port", "0", "--http", http, "--lifespan", "off", "--ws", "none"]
    with program(command + options) as (process, port, until):
        answer = httpx.get(f"http://127.0.0.1:{port}/", timeout=LIMIT)
        assert answer.text.startswith(loop_kind)
        process.send_signal(signal.SIGINT)
        until("Finished server process")
