"""Servers: closed while they accept, with factories that raise, with invalid arguments."""

from __future__ import annotations

import asyncio
import gc
import socket

from hostile import (
    Boom,
    Recorder,
    attempt,
    case,
    describe,
    finish,
    iterations,
    new_loop,
    outcome,
    quiet,
    run,
    settle,
    show,
)


async def serving(factory=Recorder, **options):
    server = await asyncio.get_running_loop().create_server(factory, "127.0.0.1", 0, **options)
    return server, server.sockets[0].getsockname()


@case
async def bad_arguments():
    loop = asyncio.get_running_loop()
    for arguments, options in (
        ((Recorder,), {}), ((Recorder, "127.0.0.1", 70000), {}), ((Recorder, "127.0.0.1", -1), {}),
        ((Recorder, 5, 5), {}), ((Recorder, "256.1.1.1", 0), {}), ((Recorder, "127.0.0.1", 0), {"sock": 5}),
        ((Recorder,), {"sock": 5}), ((Recorder, "127.0.0.1", 0), {"backlog": "x"}),
        ((Recorder, "127.0.0.1", 0), {"nonsense": 1}), ((Recorder, ["127.0.0.1", "256.1.1.1"], 0), {}),
        ((Recorder, [], 0), {}), ((Recorder, "127.0.0.1", "no-such-service"), {}),
    ):  # fmt: skip
        try:
            server = await loop.create_server(*arguments, **options)
        except Exception as error:
            show(
                arguments[1:],
                sorted(options),
                "gaierror" if isinstance(error, socket.gaierror) else describe(error),
            )
        else:
            show(arguments[1:], sorted(options), "made")
            server.close()


@case
async def every_method_in_every_state():
    server, address = await serving(start_serving=False)
    show(server.is_serving(), len(server.sockets), attempt(server.get_loop))
    await server.start_serving()
    await server.start_serving()
    show(server.is_serving(), await outcome(socket_connect(address)))
    server.close()
    show(server.is_serving(), server.sockets, attempt(server.close), attempt(repr, server))
    show(await outcome(server.start_serving()), await outcome(server.serve_forever()))
    show(await outcome(server.wait_closed()))
    await settle()


async def socket_connect(address):
    transport, protocol = await asyncio.get_running_loop().create_connection(Recorder, *address)
    transport.close()
    await protocol.end()


@case
async def serve_forever_is_cancelled_and_raced():
    server, address = await serving()
    task = asyncio.ensure_future(server.serve_forever())
    await iterations()
    show(await outcome(server.serve_forever()))
    task.cancel()
    show(await outcome(task), server.is_serving())
    await settle()


@case
async def close_inside_every_callback():
    for where in ("connection_made", "data_received", "connection_lost"):
        made = []
        servers = []

        def close(protocol, servers=servers):
            servers[0].close()

        def factory(where=where, close=close, made=made):
            made.append(Recorder({where: close}))
            return made[-1]

        server, address = await serving(factory)
        servers.append(server)
        peer = socket.create_connection(address)
        peer.sendall(b"x")
        peer.close()
        while not made:
            await asyncio.sleep(0)
        await made[0].end()
        show(where, server.is_serving(), made[0].events)
        await settle()


@case
def factories_of_servers_that_raise():
    for error in (Boom, KeyboardInterrupt, SystemExit, asyncio.CancelledError):
        loop = new_loop()
        quiet(loop)
        kept = []

        def factory(error=error):
            raise error

        async def main(factory=factory, kept=kept):
            server, address = await serving(factory)
            kept.append(server)
            with socket.create_connection(address):
                await settle()

        show(error.__name__, attempt(loop.run_until_complete, main()))
        for server in kept:
            server.close()
        run(settle(), loop)
        del kept
        gc.collect()
        finish(loop)


@case
async def many_connections_that_disconnect():
    server, address = await serving()
    for _ in range(80):
        socket.create_connection(address).close()
    await settle()
    await socket_connect(address)
    show("served")
    server.close()
    await settle()


@case
async def the_listening_socket_is_closed_from_outside():
    loop = asyncio.get_running_loop()
    quiet(loop)
    listener = socket.create_server(("127.0.0.1", 0))
    server = await loop.create_server(Recorder, sock=listener)
    show(attempt(server.sockets[0].getsockname), attempt(server.close))
    await settle()
    show(listener.fileno())


@case
async def two_servers_on_one_socket():
    loop = asyncio.get_running_loop()
    quiet(loop)
    listener = socket.create_server(("127.0.0.1", 0))
    second = socket.socket(fileno=socket.dup(listener.fileno()))
    servers = [await loop.create_server(Recorder, sock=sock) for sock in (listener, second)]
    servers[0].close()
    await socket_connect(second.getsockname())
    show("served")
    servers[1].close()
    await settle()


@case
async def a_socket_that_cannot_listen():
    loop = asyncio.get_running_loop()
    quiet(loop)
    connected, other = socket.socketpair()
    for sock in (connected, socket.socket(type=socket.SOCK_DGRAM)):
        try:
            server = await loop.create_server(Recorder, sock=sock)
            show("made")
            server.close()
        except Exception as error:
            show(error)
        sock.close()
    other.close()
    await settle()


@case
async def an_address_that_is_taken():
    server, address = await serving()
    loop = asyncio.get_running_loop()
    show(await outcome(loop.create_server(Recorder, *address)))
    server.close()
    await iterations()
    server = await loop.create_server(Recorder, *address)
    server.close()
    show("free again")
    await iterations()


@case
async def wait_closed_before_during_and_after():
    server, address = await serving()
    _, protocol = await asyncio.get_running_loop().create_connection(Recorder, *address)
    await settle()
    server.close()
    protocol.transport.close()
    await protocol.end()
    show(await outcome(server.wait_closed()), await outcome(server.wait_closed()))


@case
def unreferenced_servers():
    loop = new_loop()

    async def main():
        server, address = await serving()
        del server
        gc.collect()
        await socket_connect(address)
        show("still served")

    run(main(), loop)
    loop.close()
    gc.collect()


@case
def a_blocking_factory_and_a_stop():
    loop = new_loop()
    quiet(loop)
    kept = []

    async def main():
        made = loop.create_future()

        def factory():
            loop.stop()
            if not made.done():
                made.set_result(None)
            return asyncio.Protocol()

        server, address = await serving(factory)
        kept.append(server)
        client = socket.create_connection(address)
        client.close()
        await made
        await asyncio.sleep(100)

    task = loop.create_task(main())
    loop.run_forever()
    task.cancel()
    kept[0].close()
    show(run(outcome(asyncio.wait_for(kept[0].wait_closed(), 5)), loop))
    show(run(outcome(task), loop))
    kept.clear()
    finish(loop)


@case(since=(3, 13))
async def close_clients_and_abort_clients():
    for method in ("close_clients", "abort_clients"):
        made = []
        server, address = await serving(lambda made=made: made.append(Recorder()) or made[-1])
        clients = [
            (await asyncio.get_running_loop().create_connection(Recorder, *address))[1] for _ in range(3)
        ]
        await settle()
        server.close()
        getattr(server, method)()
        show([await protocol.end() for protocol in made])
        for client in clients:
            await client.end()
        show(await outcome(server.wait_closed()))
