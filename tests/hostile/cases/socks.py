"""The ``sock_*`` coroutines: cancelled, concurrent, with invalid sockets."""

from __future__ import annotations

import asyncio
import gc
import io
import socket
import tempfile

from hostile import attempt, case, describe, iterations, outcome, settle, show, tcp_pair


def pair():
    ours, theirs = socket.socketpair()
    ours.setblocking(False), theirs.setblocking(False)
    return ours, theirs


async def try_each(*coroutines):
    for coroutine in coroutines:
        show(coroutine.__name__, await outcome(coroutine))


@case
async def closed_sockets():
    loop = asyncio.get_running_loop()
    ours, theirs = pair()
    ours.close()
    await try_each(
        loop.sock_recv(ours, 1), loop.sock_recv_into(ours, bytearray(1)), loop.sock_sendall(ours, b"x"),
        loop.sock_connect(ours, ("127.0.0.1", 1)), loop.sock_accept(ours),
    )  # fmt: skip
    theirs.close()


@case
async def invalid_sockets():
    loop = asyncio.get_running_loop()
    for thing in (None, 5, "x", object()):
        show(type(thing).__name__)
        await try_each(
            loop.sock_recv(thing, 1), loop.sock_recv_into(thing, bytearray(1)), loop.sock_sendall(thing, b"x"),
            loop.sock_accept(thing),
        )  # fmt: skip


@case
async def invalid_sizes_and_buffers():
    loop = asyncio.get_running_loop()
    ours, theirs = pair()
    for size in (-1, "x", None, 1.5):
        show(repr(size), await outcome(loop.sock_recv(ours, size)))
    for buffer in (b"read only", 5, None, "x", memoryview(b"read only")):
        show(repr(buffer)[:10], await outcome(loop.sock_recv_into(ours, buffer)))
    for data in ("text", None, 5, [b"x"]):
        show(repr(data), await outcome(loop.sock_sendall(ours, data)))
    show(await outcome(loop.sock_recv(ours, 0)), await outcome(loop.sock_sendall(ours, b"")))
    ours.close(), theirs.close()


@case
async def cancelled_receives_leave_the_data():
    loop = asyncio.get_running_loop()
    ours, theirs = pair()
    for number in range(20):
        task = loop.create_task(loop.sock_recv(ours, 10))
        await iterations(number % 4)
        task.cancel()
        show(await outcome(task))
    theirs.send(b"data")
    show(await loop.sock_recv(ours, 10))
    ours.close(), theirs.close()


@case
async def a_socket_closed_during_a_receive():
    loop = asyncio.get_running_loop()
    ours, theirs = pair()
    task = loop.create_task(loop.sock_recv(ours, 10))
    await iterations()
    ours.close()
    theirs.close()
    await iterations()
    task.cancel()
    show(await outcome(task))
    gc.collect()
    again, other = pair()
    other.send(b"x")
    show(await outcome(asyncio.wait_for(loop.sock_recv(again, 1), 5)))
    again.close(), other.close()


@case
async def connects_without_a_listener():
    loop = asyncio.get_running_loop()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = listener.getsockname()
    for target in (
        address,
        ("127.0.0.1", 0),
        ("127.0.0.1", 70000),
        ("not an address", 1),
        None,
        5,
        ("::1", 1),
    ):
        sock = socket.socket()
        sock.setblocking(False)
        try:
            await asyncio.wait_for(loop.sock_connect(sock, target), 5)
            show("connected")
        except Exception as error:
            show(type(target).__name__, "gaierror" if isinstance(error, socket.gaierror) else describe(error))
        sock.close()


@case
async def a_connect_that_is_cancelled_and_tried_again():
    loop = asyncio.get_running_loop()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        for number in range(4):
            sock = socket.socket()
            sock.setblocking(False)
            task = loop.create_task(loop.sock_connect(sock, listener.getsockname()))
            await iterations(number)
            task.cancel()
            await outcome(task)
            sock.close()
        sock = socket.socket()
        sock.setblocking(False)
        show(await outcome(loop.sock_connect(sock, listener.getsockname())))
        sock.close()


@case
async def accepts_that_are_cancelled_lose_no_connection():
    loop = asyncio.get_running_loop()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        for number in range(3):
            task = loop.create_task(loop.sock_accept(listener))
            await iterations(number)
            task.cancel()
            show(await outcome(task))
        client = socket.create_connection(listener.getsockname())
        connection, address = await loop.sock_accept(listener)
        show(address == client.getsockname(), connection.gettimeout())
        client.close(), connection.close()


@case
async def sendall_to_a_peer_that_disconnects():
    loop = asyncio.get_running_loop()
    ours, theirs = pair()
    task = loop.create_task(loop.sock_sendall(ours, b"x" * (1 << 22)))
    await iterations()
    theirs.close()
    show(await outcome(task))
    ours.close()


@case
async def sendall_of_a_buffer_that_is_resized():
    loop = asyncio.get_running_loop()
    ours, theirs = pair()
    data = bytearray(b"x" * (1 << 22))
    task = loop.create_task(loop.sock_sendall(ours, data))
    await iterations()
    show(attempt(data.clear))
    task.cancel()
    show(await outcome(task))
    gc.collect()
    show(attempt(data.clear))
    ours.close(), theirs.close()


@case
async def recv_into_a_buffer_that_is_resized_or_empty():
    loop = asyncio.get_running_loop()
    ours, theirs = pair()
    data = bytearray(10)
    task = loop.create_task(loop.sock_recv_into(ours, data))
    await iterations()
    grown = attempt(data.extend, b"x" * 100_000)
    theirs.send(b"hello")
    result = await task
    show(grown in ("fine", "BufferError"), result == 5 and bytes(data[:5]))
    theirs.send(b"x")
    show(await outcome(loop.sock_recv_into(ours, bytearray())))
    ours.close(), theirs.close()


@case
async def two_tasks_on_one_socket():
    loop = asyncio.get_running_loop()
    ours, theirs = pair()
    first = loop.create_task(loop.sock_recv(ours, 10))
    await iterations()
    second = loop.create_task(loop.sock_recv(ours, 10))
    await iterations()
    theirs.send(b"data")
    done, pending = await asyncio.wait([first, second], timeout=5, return_when=asyncio.FIRST_COMPLETED)
    show(len(done), [task.exception() or task.result() for task in done])
    for task in pending:
        task.cancel()
        await outcome(task)
    ours.close(), theirs.close()


@case
async def sendfile_of_odd_files():
    loop = asyncio.get_running_loop()
    ours, theirs = tcp_pair()
    ours.setblocking(False)
    with tempfile.TemporaryFile() as file, tempfile.TemporaryFile("w+") as text:
        file.write(b"0123456789"), file.flush()
        for arguments in (
            (file, 5, 3),
            (file, 0, None),
            (file, 100),
            (file, -1),
            (file, 0, 0),
            (file, 0, -1),
            (text,),
            (None,),
        ):
            show(arguments[1:], await outcome(loop.sock_sendfile(ours, *arguments)))
        show(await outcome(loop.sock_sendfile(ours, io.BytesIO(b"abc"))))
        show(await outcome(loop.sock_sendfile(ours, io.BytesIO(b"abc"), fallback=False)))
        show(await outcome(loop.sock_sendfile(ours, file, 2, 2, fallback=False)))
    ours.close()
    data = b""
    while piece := theirs.recv(1000):
        data += piece
    show(data)
    theirs.close()


@case(since=(3, 11))
async def datagrams_by_hand():
    loop = asyncio.get_running_loop()
    first, second = socket.socket(type=socket.SOCK_DGRAM), socket.socket(type=socket.SOCK_DGRAM)
    for sock in (first, second):
        sock.setblocking(False)
        sock.bind(("127.0.0.1", 0))
    show(await loop.sock_sendto(first, b"x" * 100, second.getsockname()))
    data, address = await loop.sock_recvfrom(second, 10)
    show(len(data), address == first.getsockname())
    show(await outcome(loop.sock_sendto(first, b"x" * 100_000, second.getsockname())))
    show(
        await outcome(loop.sock_sendto(first, b"x", ("127.0.0.1", 0))),
        await outcome(loop.sock_sendto(first, b"x", 5)),
    )
    task = loop.create_task(loop.sock_recvfrom_into(second, bytearray(10), 5))
    await iterations()
    await loop.sock_sendto(first, b"hello world", second.getsockname())
    show((await task)[0])
    await settle()
    first.close(), second.close()


@case
async def arbitrary_objects_as_sockets():
    loop = asyncio.get_running_loop()
    for make in (io.BytesIO, io.StringIO, object, lambda: None, lambda: 5, lambda: "text"):
        show(type(make()).__name__)
        await try_each(
            loop.sock_accept(make()),
            loop.sock_recv(make(), 10),
            loop.sock_recv_into(make(), bytearray(10)),
            loop.sock_sendall(make(), b"data"),
            loop.sock_sendall(make(), "text"),
            loop.sock_connect(make(), ("127.0.0.1", 1)),
        )


@case(since=(3, 11))
async def datagrams_with_arbitrary_objects_as_sockets():
    loop = asyncio.get_running_loop()
    for make in (io.BytesIO, object, lambda: None):
        show(type(make()).__name__)
        await try_each(
            loop.sock_recvfrom(make(), 10),
            loop.sock_recvfrom_into(make(), bytearray(10)),
            loop.sock_recvfrom_into(make(), 5),
            loop.sock_sendto(make(), b"data", ("127.0.0.1", 1)),
        )
