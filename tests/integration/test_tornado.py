"""tornado: its IOLoop wraps the running loop and uses add_reader() and add_writer()."""

from __future__ import annotations

import asyncio
import contextlib

import pytest
from helpers import needed

needed("tornado")
httpclient = needed("tornado.httpclient")
httpserver = needed("tornado.httpserver")
ioloop = needed("tornado.ioloop")
netutil = needed("tornado.netutil")
simple_httpclient = needed("tornado.simple_httpclient")
web = needed("tornado.web")
websocket = needed("tornado.websocket")


BINARY = {"Content-Type": "application/octet-stream"}


class Echo(web.RequestHandler):
    def get(self, name):
        self.write({"name": name, "loop": type(asyncio.get_running_loop()).__module__})

    def post(self, name):
        self.write(self.request.body)


class Stream(web.RequestHandler):
    async def get(self):
        for number in range(100):
            self.write(bytes([number]) * 50_000)
            await self.flush()


class Chat(websocket.WebSocketHandler):
    def on_message(self, message):
        if message == "leave":
            self.close(4321, "as asked")
        else:
            self.write_message(message.upper())


@contextlib.asynccontextmanager
async def serving(authority=None):
    routes = [("/stream", Stream), ("/chat", Chat), ("/(.*)", Echo)]
    app = web.Application(routes, log_function=lambda handler: None)
    server = httpserver.HTTPServer(app, ssl_options=authority.server_context() if authority else None)
    (listening,) = netutil.bind_sockets(0, "127.0.0.1")
    server.add_socket(listening)
    client = simple_httpclient.SimpleAsyncHTTPClient(force_instance=True, max_clients=10)
    try:
        yield client, f"localhost:{listening.getsockname()[1]}"
    finally:
        client.close()
        server.stop()
        await server.close_all_connections()


def test_many_requests_are_answered(run, loop_kind):
    async def main():
        async with serving() as (client, address):
            answers = await asyncio.gather(*(client.fetch(f"http://{address}/{n}") for n in range(100)))
            for number, answer in enumerate(answers):
                assert f'"name": "{number}"' in answer.body.decode()
                assert f'"loop": "{loop_kind}' in answer.body.decode()

    run(main())


@pytest.mark.parametrize("encrypted", [False, True])
def test_large_bodies_go_both_ways(run, authority, encrypted):
    body = bytes(range(256)) * 10_000

    async def main():
        async with serving(authority if encrypted else None) as (client, address):
            base = f"{'https' if encrypted else 'http'}://{address}"
            options = {"ca_certs": str(authority.folder / "ca.pem")} if encrypted else {}
            answer = await client.fetch(f"{base}/x", method="POST", body=body, headers=BINARY, **options)
            assert answer.body == body
            parts = []
            await client.fetch(f"{base}/stream", streaming_callback=parts.append, **options)
            assert b"".join(parts) == b"".join(bytes([n]) * 50_000 for n in range(100))

    run(main())


def test_a_web_socket_talks_both_ways(run):
    async def main():
        async with serving() as (_, address):
            connection = await websocket.websocket_connect(f"ws://{address}/chat")
            for number in range(50):
                await connection.write_message(f"line {number}")
                assert await connection.read_message() == f"LINE {number}"
            await connection.write_message("leave")
            assert await connection.read_message() is None
            assert (connection.close_code, connection.close_reason) == (4321, "as asked")
            connection.close()

    run(main())


def test_its_ioloop_wraps_the_running_loop(run):
    async def main():
        current = ioloop.IOLoop.current()
        assert current.asyncio_loop is asyncio.get_running_loop()
        ticks = asyncio.Queue()
        periodic = ioloop.PeriodicCallback(lambda: ticks.put_nowait(None), 1)
        periodic.start()
        for _ in range(5):
            await ticks.get()
        periodic.stop()
        assert await current.run_in_executor(None, sum, range(10)) == 45
        called = asyncio.Event()
        current.add_callback(called.set)
        await called.wait()

    run(main())
