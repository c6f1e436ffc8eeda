"""TLS: aborted handshakes, EOF without close_notify, upgrades with data in transit."""

from __future__ import annotations

import asyncio
import functools
import gc
import socket
import ssl
import struct
import threading

from hostile import (
    LIMIT,
    Boom,
    Recorder,
    attempt,
    contexts,
    describe,
    finish,
    iterations,
    new_loop,
    outcome,
    quiet,
    run,
    settle,
    show,
    tcp_pair,
)  # fmt: skip
from hostile import case as declared

# asyncio 3.10 has an older TLS implementation; mainspring uses its successor on every version.
case = functools.partial(declared, since=(3, 11))

NAME = {"server_hostname": "localhost"}


async def secured(script=None, client_script=None):
    """Both ends of a TLS connection: (server's protocol, client's protocol)."""
    loop = asyncio.get_running_loop()
    server_context, client_context = contexts()
    ours, theirs = tcp_pair()
    ours.setblocking(False), theirs.setblocking(False)
    (_, server), (_, client) = await asyncio.gather(
        loop.connect_accepted_socket(lambda: Recorder(script), ours, ssl=server_context),
        loop.create_connection(lambda: Recorder(client_script), sock=theirs, ssl=client_context, **NAME),
    )
    return server, client


async def ended(*protocols):
    """Aborts the connections that are still open, and waits for their end."""
    for protocol in protocols:
        if not protocol.lost.done():
            protocol.transport.abort()
        await protocol.end()


@case
async def garbage_instead_of_a_handshake():
    loop = asyncio.get_running_loop()
    quiet(loop)
    server_context, client_context = contexts()
    for garbage in (
        b"GET / HTTP/1.0\r\n\r\n",
        b"\x16\x03\x01" + b"\0" * 50,
        b"\0" * 10_000,
        b"\x15\x03\x01\0\2\2\x28",
    ):
        ours, theirs = tcp_pair()
        ours.setblocking(False)
        theirs.sendall(garbage)
        show("server", await outcome(loop.connect_accepted_socket(Recorder, ours, ssl=server_context)))
        theirs.close()
        ours, theirs = tcp_pair()
        ours.setblocking(False)
        theirs.sendall(garbage)
        show("client", await outcome(loop.create_connection(Recorder, sock=ours, ssl=client_context, **NAME)))
        theirs.close()


@case
async def handshakes_that_the_peer_ends():
    loop = asyncio.get_running_loop()
    quiet(loop)
    _, client_context = contexts()
    for linger in (False, True):
        ours, theirs = tcp_pair()
        ours.setblocking(False)
        if linger:
            theirs.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        theirs.close()
        show(await outcome(loop.create_connection(Recorder, sock=ours, ssl=client_context, **NAME)) != "fine")


@case
async def handshakes_that_are_cancelled_at_every_moment():
    loop = asyncio.get_running_loop()
    quiet(loop)
    server_context, client_context = contexts()
    for moment in range(12):
        ours, theirs = tcp_pair()
        ours.setblocking(False), theirs.setblocking(False)
        tasks = [
            loop.create_task(loop.connect_accepted_socket(Recorder, ours, ssl=server_context)),
            loop.create_task(loop.create_connection(Recorder, sock=theirs, ssl=client_context, **NAME)),
        ]
        await iterations(moment)
        tasks[moment % 2].cancel()
        for task in tasks:
            if await outcome(task) == "fine":
                task.result()[0].abort()
        await iterations()
        ours.close(), theirs.close()
    server, client = await secured()
    show("connected")
    await ended(server, client)


@case
async def a_certificate_that_is_not_trusted():
    loop = asyncio.get_running_loop()
    quiet(loop)
    server_context, _ = contexts()
    server = await loop.create_server(Recorder, "127.0.0.1", 0, ssl=server_context)
    address = server.sockets[0].getsockname()
    for context, name in (
        (ssl.create_default_context(), "localhost"),
        (contexts()[1], "other"),
        (contexts()[1], ""),
    ):
        try:
            await loop.create_connection(Recorder, *address, ssl=context, server_hostname=name)
        except Exception as error:
            show(name, type(error).__name__)
        else:
            show(name, "connected")
    server.close()
    await settle()


@case
async def writes_in_every_state():
    server, client = await secured()
    show(
        attempt(client.transport.write, "text"),
        attempt(client.transport.write, b""),
        client.transport.can_write_eof(),
    )
    show(attempt(client.transport.write_eof))
    client.transport.write(b"data")
    show(await server.has(4))
    client.transport.close()
    show(attempt(client.transport.write, b"late"), client.transport.is_closing())
    show(await server.end(), await client.end())
    show(attempt(client.transport.close), attempt(client.transport.is_closing))


@case
async def an_eof_without_close_notify():
    server, client = await secured()
    client.transport.abort()
    await client.end()
    show(await server.end(), server.events)


@case
async def the_socket_dies_under_tls():
    server, client = await secured()
    client.transport.get_extra_info("socket").shutdown(socket.SHUT_RDWR)
    await client.end()
    await server.end()
    show(client.events[-1], server.events[-1])


@case
async def close_during_a_large_transfer():
    server, client = await secured()
    client.transport.write(b"x" * (1 << 22))
    await server.has(1)
    server.transport.close()
    await server.end()
    await client.end()
    show("ended")


def exceptions_in(callback):
    for error in (Boom, asyncio.CancelledError):

        def fail(protocol, error=error):
            raise error

        async def main(fail=fail):
            quiet(asyncio.get_running_loop())
            server, client = await secured({callback: fail})
            client.transport.write(b"x")
            await iterations()
            client.transport.close()
            await server.end()
            await client.end()
            show(server.events)

        show(callback, error.__name__)
        run(main())


@case
def protocols_that_raise_in_data_received():
    exceptions_in("data_received")


@case
def protocols_that_raise_at_the_end():
    exceptions_in("eof_received")
    exceptions_in("connection_lost")


@case
def protocols_that_end_in_every_callback():
    for callback in ("connection_made", "data_received", "eof_received"):
        for method in ("close", "abort"):

            async def main(callback=callback, method=method):
                quiet(asyncio.get_running_loop())
                try:
                    server, client = await secured(
                        {callback: lambda protocol: getattr(protocol.transport, method)()}
                    )
                except ConnectionError as error:
                    show(callback, method, type(error).__name__)
                    return
                client.transport.write(b"x")
                await settle()
                client.transport.close()
                await client.end()
                await server.end()
                show(
                    callback,
                    method,
                    server.events[0],
                    server.events[-1],
                    server.events.count("connection_lost"),
                )

            run(main())


@case
def protocols_that_end_the_run():
    for error in (KeyboardInterrupt, SystemExit):
        loop = new_loop()
        quiet(loop)
        kept = []

        def fail(protocol, error=error):
            raise error

        async def main(fail=fail, kept=kept):
            kept.extend(await secured({"data_received": fail}))
            kept[1].transport.write(b"x")
            await settle()

        show(error.__name__, attempt(loop.run_until_complete, main()))
        run(ended(*kept), loop)
        kept.clear()
        gc.collect()
        finish(loop)


@case
async def start_tls_with_the_hello_in_the_same_segment():
    loop = asyncio.get_running_loop()
    server_context, client_context = contexts()
    ours, theirs = tcp_pair()
    ours.setblocking(False)

    def client():
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        session = client_context.wrap_bio(incoming, outgoing, server_hostname="localhost")
        first = b"PROXY\n"
        while True:
            try:
                session.do_handshake()
                break
            except ssl.SSLWantReadError:
                theirs.sendall(first + outgoing.read())
                first = b""
                incoming.write(theirs.recv(1 << 16))
        session.write(b"secret")
        theirs.sendall(outgoing.read())

    thread = threading.Thread(target=client)
    upgraded = loop.create_future()

    class Upgrades(asyncio.BufferedProtocol):
        def connection_made(self, transport):
            self.transport = transport
            self.buffer = bytearray(6)
            self.filled = 0

        def get_buffer(self, hint):
            return memoryview(self.buffer)[self.filled :]

        def buffer_updated(self, count):
            self.filled += count
            if self.filled == 6:
                self.transport.pause_reading()
                upgraded.set_result(bytes(self.buffer))

    transport, protocol = await loop.connect_accepted_socket(Upgrades, ours)
    thread.start()
    show(await upgraded)
    recorder = Recorder()
    secure = await loop.start_tls(transport, recorder, server_context, server_side=True)
    recorder.transport = secure
    show(await recorder.has(6))
    secure.abort()
    await recorder.end()
    thread.join()
    theirs.close()


@case
async def start_tls_with_bad_arguments():
    loop = asyncio.get_running_loop()
    server_context, client_context = contexts()
    ours, theirs = tcp_pair()
    ours.setblocking(False)
    transport, protocol = await loop.create_connection(Recorder, sock=ours)
    for arguments, options in (
        ((5, protocol, client_context), {}),
        ((transport, protocol, None), {}),
        ((transport, protocol, 5), {}),
        ((transport, protocol, client_context), {"ssl_handshake_timeout": 0}),
        ((transport, protocol, client_context), {"ssl_handshake_timeout": -1}),
        ((None, protocol, client_context), {}),
    ):
        show(await outcome(loop.start_tls(*arguments, **options)))
    transport.abort()
    await settle()
    theirs.close()


@case
async def start_tls_on_a_connection_that_is_closed():
    loop = asyncio.get_running_loop()
    quiet(loop)
    _, client_context = contexts()
    ours, theirs = tcp_pair()
    ours.setblocking(False)
    transport, protocol = await loop.create_connection(Recorder, sock=ours)
    transport.close()
    await protocol.end()
    task = loop.create_task(
        loop.start_tls(transport, Recorder(), client_context, ssl_handshake_timeout=0.05, **NAME)
    )
    show(await outcome(task) != "fine")
    theirs.close()


@case
async def a_handshake_that_times_out():
    loop = asyncio.get_running_loop()
    quiet(loop)
    server_context, client_context = contexts()
    for side in ("server", "client"):
        ours, theirs = tcp_pair()
        ours.setblocking(False)
        if side == "server":
            made = loop.connect_accepted_socket(
                Recorder, ours, ssl=server_context, ssl_handshake_timeout=0.02
            )
        else:
            made = loop.create_connection(
                Recorder, sock=ours, ssl=client_context, ssl_handshake_timeout=0.02, **NAME
            )
        try:
            await made
        except Exception as error:
            show(side, isinstance(error, ConnectionAbortedError), describe(error))
        theirs.close()


@case
async def flow_control_and_limits():
    server, client = await secured()
    for limits in ({"high": -1}, {"low": 5, "high": 1}, {"high": 100, "low": 10}):
        show(limits, attempt(client.transport.set_write_buffer_limits, **limits))
    server.transport.pause_reading()
    client.transport.write(b"x" * (1 << 23))
    show("pause_writing" in client.events, client.transport.get_write_buffer_size() > 0)
    server.transport.resume_reading()
    await server.has(1 << 23)
    await settle()
    show("resume_writing" in client.events, len(server.received))
    await ended(server, client)


@case
async def limits_that_change_while_something_waits():
    server, client = await secured()
    server.transport.pause_reading()
    transport = client.transport
    while "pause_writing" not in client.events:
        transport.write(b"x" * (1 << 16))
    waits = transport.get_write_buffer_size()
    transport.set_write_buffer_limits(waits + 2048, waits + 1)
    transport.set_write_buffer_limits(max(waits - 2048, 0), 0)
    show(client.events)
    await ended(server, client)


@case
async def extra_info_and_protocols_over_tls():
    server, client = await secured()
    transport = client.transport
    for name in (
        "ssl_object",
        "sslcontext",
        "cipher",
        "peercert",
        "socket",
        "peername",
        "compression",
        "nonsense",
    ):
        show(name, transport.get_extra_info(name) is not None)
    show(transport.get_protocol() is client, attempt(transport.set_protocol, Recorder()))
    transport.set_protocol(client)
    show(transport.is_reading(), attempt(transport.pause_reading), transport.is_reading())
    await ended(server, client)


@case
async def an_invalid_ssl_context():
    loop = asyncio.get_running_loop()
    server_context, client_context = contexts()
    for context in (5, "x", object()):
        show(await outcome(loop.create_server(Recorder, "127.0.0.1", 0, ssl=context)))
    ours, theirs = tcp_pair()
    ours.setblocking(False)
    show(await outcome(loop.create_connection(Recorder, sock=ours, ssl=client_context)))
    show(await outcome(loop.connect_accepted_socket(Recorder, ours, ssl_handshake_timeout=1)))
    ours.close(), theirs.close()


@case
async def many_handshakes_at_once_are_dropped():
    loop = asyncio.get_running_loop()
    quiet(loop)
    server_context, client_context = contexts()
    server = await loop.create_server(
        Recorder, "127.0.0.1", 0, ssl=server_context, ssl_handshake_timeout=LIMIT
    )
    address = server.sockets[0].getsockname()
    for _ in range(50):
        sock = socket.create_connection(address)
        sock.sendall(b"\x16\x03\x01\x02")
        sock.close()
    await settle()
    transport, protocol = await loop.create_connection(Recorder, *address, ssl=client_context, **NAME)
    show("served")
    transport.abort()
    await protocol.end()
    server.close()
    await settle()


@case
async def streams_over_tls_that_end_early():
    server_context, client_context = contexts()
    results = []

    async def serve(reader, writer):
        results.append(await outcome(reader.readexactly(100)))
        writer.write(b"x" * 1000)
        results.append(await outcome(writer.drain()) in ("fine", "ConnectionResetError"))
        writer.close()
        done.set()

    done = asyncio.Event()
    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=server_context)
    reader, writer = await asyncio.open_connection(
        *server.sockets[0].getsockname(), ssl=client_context, **NAME
    )
    writer.write(b"short")
    writer.close()
    await outcome(writer.wait_closed())
    await done.wait()
    show(results)
    server.close()
    await settle()
