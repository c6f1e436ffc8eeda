"""C. Realistic: HTTP, WebSocket, short connections, bulk transfer, lines, subprocesses, DNS, start-up."""

import asyncio
import atexit
import os
import statistics
import subprocess
import sys
import tempfile
import zlib
from pathlib import Path

from harness import loops

from .networking import Echo, serve_protocol, serve_streams, tcp_socket, where
from .registry import Case, Metric, add, in_process
from .scheduling import measure

REQUESTS = (Metric("rate", "req/s"),)
BODY = b"Hello, World!"

# HTTP ---------------------------------------------------------------------------------------------


class HttpProtocol(asyncio.Protocol):
    """A minimal keep-alive HTTP/1.1 server that uses httptools as a framework does."""

    RESPONSE = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n%s" % (
        len(BODY),
        BODY,
    )

    def connection_made(self, transport):
        import httptools

        self.transport = transport
        self.parser = httptools.HttpRequestParser(self)
        self.headers = []

    def data_received(self, data):
        self.parser.feed_data(data)

    def on_header(self, name, value):
        self.headers.append((name, value))

    def on_message_complete(self):
        self.headers.clear()
        self.transport.write(self.RESPONSE)


async def serve_uvicorn(run):
    import uvicorn

    async def app(scope, receive, send):
        headers = [(b"content-type", b"text/plain"), (b"content-length", b"%d" % len(BODY))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": BODY})

    listener = tcp_socket()
    config = uvicorn.Config(
        app, http="httptools", loop="none", lifespan="off", access_log=False, log_level="warning"
    )
    address = where(listener)
    run.server = run.loop.create_task(uvicorn.Server(config).serve(sockets=[listener]))
    await asyncio.sleep(0.2)
    return address


async def serve_aiohttp(run):
    from aiohttp import web

    async def hello(request):
        return web.Response(body=BODY, content_type="text/plain")

    app = web.Application()
    app.router.add_get("/", hello)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    listener = tcp_socket()
    address = where(listener)
    run.server = web.SockSite(runner, listener)
    await run.server.start()
    return address


async def serve_websockets(run):
    from websockets.asyncio.server import serve
    from websockets.exceptions import ConnectionClosed

    async def echo(connection):
        try:
            async for message in connection:
                await connection.send(message)
        except ConnectionClosed:
            pass  # the load generator disconnects without a closing handshake

    listener = tcp_socket()
    address = where(listener)
    run.server = await serve(echo, sock=listener, compression=None, ping_interval=None, server_header=None)
    return address


HTTP_LOAD = ("echo", "--kind", "http", "--conns", "100", "--body", BODY.decode())
WEBSOCKET_LOAD = ("echo", "--kind", "ws", "--conns", "10", "--size", "1024")

add(
    Case(
        "C.http.httptools",
        serve_protocol,
        REQUESTS,
        {"protocol": HttpProtocol},
        HTTP_LOAD,
        quick=True,
        needs=("httptools",),
    )
)
add(
    Case("C.http.uvicorn", serve_uvicorn, REQUESTS, {}, HTTP_LOAD, quick=True, needs=("uvicorn", "httptools"))
)
add(
    Case(
        "C.http.uvicorn.wrk",
        serve_uvicorn,
        REQUESTS,
        {},
        ("wrk", "-c", "100"),
        needs=("uvicorn", "httptools"),
    )
)
add(Case("C.http.aiohttp", serve_aiohttp, REQUESTS, {}, HTTP_LOAD, needs=("aiohttp",)))
add(Case("C.websockets", serve_websockets, REQUESTS, {}, WEBSOCKET_LOAD, needs=("websockets",)))

# Connections and bulk data ------------------------------------------------------------------------


class EchoOnce(Echo):
    """Echoes one message and closes."""

    def data_received(self, data):
        self.transport.write(data)
        self.transport.close()


CHUNK = bytes(((index * 7) ^ (index >> 8)) & 0xFF for index in range(65536))


class Bulk(asyncio.Protocol):
    """Receives an upload or sends a download, as requested by the load generator's bulk.rs."""

    def connection_made(self, transport):
        self.transport = transport
        self.kind = None
        self.count = self.crc = self.left = 0

    def data_received(self, data):
        if self.kind is None:
            self.kind, data = data[:1], data[1:]
            if self.kind == b"D":
                self.left = int(data)
                self.resume_writing()
                return
        self.count += len(data)
        if self.kind == b"V":
            self.crc = zlib.crc32(data, self.crc)

    def eof_received(self):
        self.transport.write(b"%d %d\n" % (self.count, self.crc))

    def pause_writing(self):
        self.paused = True

    def resume_writing(self):
        self.paused = False
        while self.left and not self.paused:
            chunk = CHUNK[: self.left]
            self.left -= len(chunk)
            self.transport.write(chunk)
        if not self.left and self.kind == b"D":
            # Deferred: asyncio 3.13.0 fails if a transport is closed in resume_writing().
            asyncio.get_running_loop().call_soon(self.transport.close)


async def bulk_streams(reader, writer):
    kind, count, crc = await reader.readexactly(1), 0, 0
    if kind == b"D":
        left = int(await reader.readline())
        while left:
            chunk = CHUNK[:left]
            left -= len(chunk)
            writer.write(chunk)
            await writer.drain()
    else:
        while data := await reader.read(65536):
            count += len(data)
            if kind == b"V":
                crc = zlib.crc32(data, crc)
        writer.write(b"%d %d\n" % (count, crc))
    writer.close()


async def file_in_blocks(reader, writer):
    """Sends a file in blocks of 256 KiB, read on the loop's thread."""
    with await requested_file(reader) as file:
        while block := file.read(256 * 1024):
            writer.write(block)
            await writer.drain()
    writer.close()


async def file_by_sendfile(reader, writer):
    """The same with loop.sendfile(); if the loop lacks it, reads blocks in the executor, as aiohttp does."""
    loop = asyncio.get_running_loop()
    with await requested_file(reader) as file:
        try:
            await loop.sendfile(writer.transport, file)
        except NotImplementedError:
            while block := await loop.run_in_executor(None, file.read, 256 * 1024):
                writer.write(block)
                await writer.drain()
    writer.close()


async def requested_file(reader):
    """A file of the size that the load generator requests."""
    left = int((await reader.readline())[1:])
    path = Path(tempfile.gettempdir()) / f"mainspring-bench-{os.getpid()}-{left}"
    if not path.exists():
        whole, rest = divmod(left, len(CHUNK))
        path.write_bytes(CHUNK * whole + CHUNK[:rest])
        atexit.register(path.unlink)
    return path.open("rb")


async def count_lines(reader, writer):
    """Reads short lines one by one until EOF and replies with their number."""
    check = await reader.readline() == b"V\n"
    count = crc = 0
    while line := await reader.readline():
        count += 1
        if check:
            crc = zlib.crc32(line, crc)
    writer.write(b"%d %d\n" % (count, crc))
    writer.close()


MIB = (Metric("rate", "MiB/s"),)
CHURN_LOAD = ("churn", "--conns", "10", "--size", "1024")

add(
    Case(
        "C.churn",
        serve_protocol,
        (Metric("rate", "conns/s"),),
        {"protocol": EchoOnce},
        CHURN_LOAD,
        quick=True,
    )
)
for direction in ("upload", "download"):
    add(Case(f"C.bulk.{direction}.protocol", serve_protocol, MIB, {"protocol": Bulk}, (direction,)))
    add(Case(f"C.bulk.{direction}.streams", serve_streams, MIB, {"handler": bulk_streams}, (direction,)))
for name, handler in (("blocks", file_in_blocks), ("sendfile", file_by_sendfile)):
    params = {"handler": handler, "tls": True}
    add(Case(f"C.file.tls.{name}", serve_streams, MIB, params, ("download", "--tls")))
add(
    Case(
        "C.readline",
        serve_streams,
        (Metric("rate", "lines/s"),),
        {"handler": count_lines},
        ("lines",),
        quick=True,
    )
)

# Processes, names, start-up -----------------------------------------------------------------------


@in_process("C.subprocess", "processes/s", pinned=False)
def spawn_and_communicate(run, count=5):
    pipe = asyncio.subprocess.PIPE

    async def batch():
        for _ in range(count):
            process = await asyncio.create_subprocess_exec("cat", stdin=pipe, stdout=pipe)
            output, _ = await process.communicate(b"hello")
            assert output == b"hello" and process.returncode == 0

    return measure(run, batch, count)


@in_process("C.getaddrinfo", "look-ups/s", pinned=False)
def getaddrinfo(run, count=100):
    async def batch():
        for _ in range(count):
            assert await run.loop.getaddrinfo("localhost", 80)

    return measure(run, batch, count)


@in_process("C.run_noop", "runs/s", quick=True)
def run_noop(run):
    """Creates a loop, runs an empty coroutine, shuts down and closes the loop, as asyncio.run() does."""
    from time import perf_counter

    async def noop():
        return 7

    factory = run.factory
    count, started = 0, perf_counter()
    while perf_counter() - started < run.seconds:
        with asyncio.Runner(loop_factory=factory) as runner:
            assert runner.run(noop()) == 7
        count += 1
    return {"rate": count / (perf_counter() - started)}


@in_process("C.import", "", metrics=(Metric("import_ms", "ms", higher_is_better=False),))
def import_time(run, samples=9):
    """The first import of the loop's package in a new interpreter, including the import of asyncio."""
    module, _, folder = loops.split(run.spec)
    path = f"import sys; sys.path.insert(0, {folder!r}); " if folder else ""
    code = f"{path}from time import perf_counter as t; s = t(); import {module}; print(t() - s)"
    times = [float(subprocess.check_output([sys.executable, "-c", code])) for _ in range(samples)]
    return {"import_ms": statistics.median(times) * 1e3}
