"""Connections: closed, paused, reset and misused in every state."""

from __future__ import annotations

import asyncio
import gc
import socket
import struct
import tempfile

from hostile import (
    LIMIT,
    Boom,
    Recorder,
    attempt,
    case,
    connected,
    describe,
    drained,
    finish,
    iterations,
    new_loop,
    outcome,
    quiet,
    reporting,
    run,
    settle,
    show,
    taken,
    tcp_pair,
    unix_pair,
)  # fmt: skip

RESET = struct.pack("ii", 1, 0)


def reset(sock):
    """Closes a TCP connection with a reset."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    sock.close()


@case
async def every_method_after_the_end():
    transport, protocol, peer = await connected(pair=tcp_pair)
    transport.close()
    await protocol.end()
    show(transport.is_closing(), attempt(transport.close), attempt(transport.pause_reading))
    show(
        attempt(transport.resume_reading),
        attempt(transport.write, b"x"),
        attempt(transport.get_write_buffer_size),
    )
    show(attempt(repr, transport), attempt(transport.get_extra_info, "peername"), transport.is_reading())
    show(attempt(transport.set_write_buffer_limits), attempt(transport.get_protocol))
    peer.close()


@case
async def bad_arguments_to_every_method():
    transport, protocol, peer = await connected(pair=tcp_pair)
    for data in ("text", None, 5, [b"x"], object()):
        show(type(data).__name__, attempt(transport.write, data))
    show(attempt(transport.writelines, 5))
    for limits in (
        {"high": -1},
        {"low": 5, "high": 1},
        {"high": "x"},
        {"low": -5},
        {"high": 1.5},
        {"high": 2**80},
    ):
        show(limits, attempt(transport.set_write_buffer_limits, **limits))
    show(attempt(transport.write), attempt(transport.close, 1), attempt(transport.get_extra_info))
    show(
        transport.get_extra_info("nonsense"),
        transport.get_extra_info("nonsense", 5),
        transport.get_extra_info(None),
    )
    show(transport.is_closing())
    transport.abort()
    await protocol.end()
    peer.close()


@case
async def a_reset_at_every_moment():
    loop = asyncio.get_running_loop()
    quiet(loop)
    for moment in range(6):
        transport, protocol, peer = await connected(pair=tcp_pair)
        await iterations(moment % 3)
        if moment > 2:
            transport.pause_reading()
        reset(peer)
        await iterations(2)
        if moment > 2:
            transport.resume_reading()
        show(await protocol.end(), protocol.events)


@case
async def a_reset_while_data_is_queued():
    transport, protocol, peer = await connected(pair=tcp_pair)
    transport.write(b"x" * (1 << 24))
    reset(peer)
    show(await protocol.end() in ("ConnectionResetError(ECONNRESET)", "BrokenPipeError(EPIPE)"))
    show(transport.get_write_buffer_size(), protocol.events)


@case
async def close_sends_queued_data():
    transport, protocol, peer = await connected(pair=tcp_pair)
    transport.write(b"x" * (1 << 22))
    transport.close()
    transport.write(b"dropped")
    show(await drained(peer), await protocol.end())
    peer.close()


@case
async def abort_drops_queued_data():
    transport, protocol, peer = await connected(pair=unix_pair)
    transport.write(b"x" * (1 << 22))
    transport.abort()
    show(await protocol.end(), transport.get_write_buffer_size())
    count, _ = await drained(peer)
    show(count < 1 << 22)
    peer.close()


@case
async def write_eof_in_every_order():
    transport, protocol, peer = await connected({"eof_received": lambda protocol: True}, tcp_pair)
    show(transport.can_write_eof())
    transport.write(b"last")
    transport.write_eof()
    show(attempt(transport.write_eof), attempt(transport.write, b"x"), attempt(transport.writelines, [b"x"]))
    show(await drained(peer))
    peer.sendall(b"answer")
    show(await protocol.has(6))
    peer.close()
    await settle()
    show(protocol.events, transport.is_closing())
    transport.close()
    show(await protocol.end(), attempt(transport.write_eof))


@case
async def repeated_pause_and_resume():
    transport, protocol, peer = await connected(pair=tcp_pair)
    show(
        attempt(transport.resume_reading), attempt(transport.pause_reading), attempt(transport.pause_reading)
    )
    peer.sendall(b"x")
    await settle()
    show(bytes(protocol.received), transport.is_reading())
    show(attempt(transport.resume_reading), attempt(transport.resume_reading))
    show(await protocol.has(1))
    transport.pause_reading()
    peer.close()
    await settle()
    show(protocol.events)
    transport.resume_reading()
    show(await protocol.end())


@case
async def the_socket_object_is_misused_under_its_transport():
    transport, protocol, peer = await connected(pair=tcp_pair)
    sock = transport.get_extra_info("socket")
    show(sock.gettimeout(), sock.family == socket.AF_INET, sock.fileno() >= 0)
    for name in ("send", "recv", "accept", "close_nothing"):
        show(name, hasattr(sock, name))
    sock.shutdown(socket.SHUT_RDWR)
    show(await protocol.end())
    peer.close()


@case
async def extra_info_that_is_asked_for_in_every_callback():
    server_side = []

    def ask(protocol):
        sock = protocol.transport.get_extra_info("socket")
        protocol.transport.write(b"x")
        show(sock is not None, protocol.transport.get_extra_info("peername") is not None)

    def factory():
        server_side.append(
            Recorder(dict.fromkeys(("connection_made", "data_received", "connection_lost"), ask))
        )
        return server_side[-1]

    loop = asyncio.get_running_loop()
    server = await loop.create_server(factory, "127.0.0.1", 0)
    _, client = await loop.create_connection(Recorder, *server.sockets[0].getsockname())
    client.transport.write(b"data")
    await client.has(2)
    client.transport.abort()
    await server_side[0].end()
    server.close()
    await iterations()


@case
async def unreferenced_connections():
    loop = asyncio.get_running_loop()
    quiet(loop)
    transport, protocol, peer = await connected(pair=tcp_pair)
    del transport
    protocol.transport = None
    gc.collect()
    peer.sendall(b"kept by the loop")
    show(await protocol.has(4))
    peer.close()
    show(await protocol.end())


@case
async def an_unreferenced_paused_connection():
    quiet(asyncio.get_running_loop())
    transport, protocol, peer = await connected(pair=tcp_pair)
    transport.pause_reading()
    protocol.transport = None
    del transport, protocol
    gc.collect()
    await iterations()
    gc.collect()
    show(await drained(peer))
    peer.close()


@case
async def create_connection_with_bad_arguments():
    loop = asyncio.get_running_loop()
    ours, theirs = tcp_pair()
    for arguments, options in (
        ((Recorder,), {}),
        ((Recorder, "127.0.0.1", 1), {"sock": ours}),
        ((Recorder,), {"sock": 5}),
        ((Recorder,), {"sock": socket.socket(type=socket.SOCK_DGRAM)}),
        ((Recorder, "127.0.0.1", "http-nonsense"), {}),
        ((Recorder, "127.0.0.1", 70000), {}),
        ((Recorder, "127.0.0.1", -1), {}),
        ((Recorder, 5, 5), {}),
        ((Recorder, "127.0.0.1", 1), {"server_hostname": "x"}),
        ((Recorder, "127.0.0.1", 1), {"ssl": 5}),
        ((Recorder, "127.0.0.1", 1), {"ssl_handshake_timeout": 5}),
        ((Recorder, "127.0.0.1", 1), {"local_addr": ("256.256.256.256", 1)}),
        ((Recorder, "127.0.0.1", 1), {"nonsense": 1}),
        ((Recorder, "a" * 300, 1), {}),
        ((Recorder, "\ud800", 1), {}),
        ((None, "127.0.0.1", 1), {}),
    ):
        try:
            await loop.create_connection(*arguments, **options)
            show("connected")
        except Exception as error:
            show([type(argument).__name__ for argument in arguments], sorted(options), "gaierror"
                 if isinstance(error, socket.gaierror) else describe(error))  # fmt: skip
        if isinstance(options.get("sock"), socket.socket):
            options["sock"].close()
    theirs.close()


@case
async def connecting_is_cancelled_at_every_moment():
    loop = asyncio.get_running_loop()
    quiet(loop)
    server = await loop.create_server(asyncio.Protocol, "127.0.0.1", 0)
    address = server.sockets[0].getsockname()
    for moment in range(12):
        task = loop.create_task(loop.create_connection(asyncio.Protocol, *address))
        await iterations(moment)
        task.cancel()
        if await outcome(task) == "fine":
            task.result()[0].abort()
    await settle()
    transport, _ = await loop.create_connection(asyncio.Protocol, *address)
    show("connected")
    transport.abort()
    server.close()
    await settle()


@case
async def connect_accepted_socket_with_odd_sockets():
    loop = asyncio.get_running_loop()
    listener = socket.socket()
    for sock in (None, 5, socket.socket(type=socket.SOCK_DGRAM), listener):
        try:
            transport, _ = await loop.connect_accepted_socket(asyncio.Protocol, sock)
            show("connected")
            transport.abort()
            await iterations()
        except Exception as error:
            show(type(sock).__name__, error)
        if isinstance(sock, socket.socket):
            sock.close()


@case
async def two_transports_on_one_connection():
    loop = asyncio.get_running_loop()
    transport, protocol, peer = await connected(pair=tcp_pair)
    duplicate = socket.socket(fileno=socket.dup(transport.get_extra_info("socket").fileno()))
    duplicate.setblocking(False)
    second, _ = await loop.create_connection(Recorder, sock=duplicate)
    second.abort()
    await settle()
    show(transport.is_closing())
    transport.abort()
    await protocol.end()
    peer.close()


@case
async def urgent_data_does_not_stall_the_rest():
    transport, protocol, peer = await connected(pair=tcp_pair)
    for number in range(5):
        peer.sendall(b"before")
        peer.send(b"!", socket.MSG_OOB)
        peer.sendall(b"after")
        await protocol.has(11 * (number + 1))
    show(bytes(protocol.received))
    transport.abort()
    await protocol.end()
    peer.close()


@case
async def urgent_data_kept_in_line():
    transport, protocol, peer = await connected(pair=tcp_pair)
    transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_OOBINLINE, 1)
    for number in range(5):
        peer.sendall(b"before")
        peer.send(b"!", socket.MSG_OOB)
        peer.sendall(b"after")
        await protocol.has(12 * (number + 1))
    show(bytes(protocol.received))
    transport.abort()
    await protocol.end()
    peer.close()


@case
async def urgent_data_to_a_stream_reader():
    ours, theirs = tcp_pair()
    ours.setblocking(False)
    reader, writer = await asyncio.open_connection(sock=ours)
    theirs.sendall(b"one ")
    theirs.send(b"!", socket.MSG_OOB)
    theirs.sendall(b"two")
    show(await asyncio.wait_for(reader.readexactly(7), LIMIT))
    theirs.close()
    show(await reader.read())
    writer.close()


@case
def the_loop_is_closed_under_open_connections():
    loop = new_loop()
    quiet(loop)
    transport, protocol, peer = run(connected(pair=tcp_pair), loop)
    loop.close()
    show(attempt(transport.close), attempt(transport.is_closing))
    show(attempt(transport.pause_reading), attempt(transport.get_write_buffer_size))
    peer.close()
    del transport, protocol


@case
def exceptions_from_the_exception_handler():
    for error in (Boom, KeyboardInterrupt, SystemExit, asyncio.CancelledError):
        loop = new_loop()

        def handler(loop, context, error=error):
            raise error

        def fail(protocol):
            raise Boom

        async def main(fail=fail):
            _, protocol, peer = await connected({"data_received": fail}, tcp_pair)
            with peer:
                peer.sendall(b"x")
                await protocol.end()

        loop.set_exception_handler(handler)
        show(error.__name__, attempt(loop.run_until_complete, main()))
        loop.set_exception_handler(None)
        gc.collect()
        finish(loop)


@case
async def sendfile_over_a_connection_in_odd_states():
    loop = asyncio.get_running_loop()
    reporting(loop)
    transport, protocol, peer = await connected(pair=tcp_pair)
    with tempfile.TemporaryFile() as file:
        file.write(b"0123456789" * 1000), file.flush()
        transport.write(b"first")
        show(await outcome(loop.sendfile(transport, file, 0, 10)))
        show(await outcome(loop.sendfile(transport, None)), await outcome(loop.sendfile(5, file)))
        task = loop.create_task(loop.sendfile(transport, file))
        await iterations(1)
        show(attempt(transport.write, b"x"), await outcome(task))
        transport.write(b"last")
        transport.close()
        show(await drained(peer), await protocol.end())
        show(await outcome(loop.sendfile(transport, file)))
    peer.close()


@case
async def flow_control_with_odd_limits():
    for high, low in ((0, 0), (1, 0), (1 << 16, 0), (5, 5), (1, 1)):
        transport, protocol, peer = await connected()
        transport.set_write_buffer_limits(high, low)
        transport.write(b"x" * (1 << 20))
        await taken(peer, 1 << 20)
        await settle()
        show(
            high, low, protocol.events, transport.get_write_buffer_size(), transport.get_write_buffer_limits()
        )
        transport.abort()
        await protocol.end()
        peer.close()
