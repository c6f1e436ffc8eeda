"""``add_reader`` and related methods: reused, removed and invalid fds."""

from __future__ import annotations

import asyncio
import os
import socket
import tempfile

from hostile import (
    Boom,
    attempt,
    case,
    connected,
    finish,
    iterations,
    new_loop,
    quiet,
    reporting,
    run,
    settle,
    show,
)


@case
async def invalid_fds_and_objects():
    loop = asyncio.get_running_loop()
    with tempfile.TemporaryFile() as file:
        for thing in (-1, 10**6, 2**31, 2**63, "0", None, 1.0, object(), b"", file, True + 10**6):
            for method in (loop.add_reader, loop.add_writer):
                show(type(thing).__name__, method.__name__, attempt(method, thing, print))
            for method in (loop.remove_reader, loop.remove_writer):
                show(type(thing).__name__, method.__name__, attempt(method, thing))


@case
async def readers_and_writers_that_are_removed_while_they_wait_to_run():
    loop = asyncio.get_running_loop()
    pairs = [socket.socketpair() for _ in range(4)]
    for _, theirs in pairs:
        theirs.send(b"x")

    def first(index):
        show("runs once")
        for ours, _ in pairs:
            loop.remove_reader(ours)

    for index, (ours, _) in enumerate(pairs):
        loop.add_reader(ours, first, index)
    await settle()
    show([loop.remove_reader(ours) for ours, _ in pairs])
    for ours, theirs in pairs:
        ours.close(), theirs.close()


@case
async def an_fd_is_reused_in_a_callback():
    loop = asyncio.get_running_loop()
    ours, theirs = socket.socketpair()
    theirs.send(b"old")

    def replace():
        loop.remove_reader(ours.fileno())
        number = ours.fileno()
        other, end = socket.socketpair()
        os.dup2(other.fileno(), number)
        other.close()
        end.send(b"new")
        loop.add_reader(number, lambda: (show(os.read(number, 10)), loop.remove_reader(number)))
        kept.append(end)

    kept = []
    loop.add_reader(ours, replace)
    await settle()
    for sock in (ours, theirs, *kept):
        sock.close()


@case
async def closed_and_reopened_a_hundred_times():
    loop = asyncio.get_running_loop()
    seen = []
    for number in range(100):
        reader, writer = os.pipe()
        loop.add_reader(reader, lambda reader=reader: seen.append(os.read(reader, 1)))
        os.write(writer, b"%d" % (number % 10))
        while len(seen) <= number:
            await asyncio.sleep(0)
        loop.remove_reader(reader)
        os.close(reader), os.close(writer)
    show(b"".join(seen))


@case
async def closed_socket_objects_are_removed():
    loop = asyncio.get_running_loop()
    reads, writes = socket.socketpair()
    loop.add_reader(reads, print)
    loop.add_writer(writes, int)
    reads.close(), writes.close()
    show(attempt(loop.remove_reader, reads), attempt(loop.remove_writer, writes))
    show(attempt(loop.remove_reader, reads), attempt(loop.remove_writer, writes))
    show(attempt(loop.add_reader, reads, print), attempt(loop.add_writer, writes, print))


@case
def callbacks_that_raise():
    for error in (Boom, KeyboardInterrupt, SystemExit, asyncio.CancelledError, GeneratorExit):
        loop = new_loop()
        reporting(loop)
        ours, theirs = socket.socketpair()
        count = []

        def fail(error=error, loop=loop, ours=ours, count=count):
            count.append(1)
            if len(count) == 2:
                loop.remove_reader(ours)
            raise error

        loop.add_reader(ours, fail)
        theirs.send(b"x")
        show(error.__name__, attempt(loop.run_until_complete, settle()))
        show(attempt(loop.run_until_complete, settle()), len(count))
        ours.close(), theirs.close()
        finish(loop)


@case
async def the_same_fd_in_both_directions():
    loop = asyncio.get_running_loop()
    ours, theirs = socket.socketpair()
    seen = []
    loop.add_writer(ours, lambda: seen.append("w") or loop.remove_writer(ours))
    loop.add_reader(ours, lambda: seen.append("r") or loop.remove_reader(ours))
    theirs.send(b"x")
    await settle()
    show(sorted(seen), loop.remove_reader(ours), loop.remove_writer(ours))
    loop.add_reader(ours, lambda: seen.append("r2") or loop.remove_reader(ours))
    loop.add_reader(ours, lambda: seen.append("r3") or loop.remove_reader(ours))
    await settle()
    show(seen[2:])
    ours.close(), theirs.close()


@case
async def unread_data_is_reported_in_every_iteration():
    loop = asyncio.get_running_loop()
    ours, theirs = socket.socketpair()
    theirs.send(b"xyz")
    count = []
    loop.add_reader(ours, count.append, 1)
    await settle()
    show(len(count) >= 10)
    show(ours.recv(10))
    count.clear()
    await settle()
    show(len(count))
    theirs.close()
    await settle()
    show(len(count) >= 10)
    loop.remove_reader(ours)
    ours.close()


@case
async def fds_of_transports_are_refused():
    loop = asyncio.get_running_loop()
    transport, protocol, peer = await connected()
    sock = transport.get_extra_info("socket")
    for method in (loop.add_reader, loop.add_writer):
        show(method.__name__, attempt(method, sock, print), attempt(method, sock.fileno(), print))
    for method in (loop.remove_reader, loop.remove_writer):
        show(method.__name__, attempt(method, sock), attempt(method, sock.fileno()))
    for coroutine in (loop.sock_recv(sock, 1), loop.sock_sendall(sock, b"x")):
        try:
            await coroutine
        except Exception as error:
            show(error)
    peer.send(b"x")
    show(await protocol.has(1))
    transport.abort()
    await protocol.end()
    peer.close()


@case
async def the_dup_of_a_registered_fd_outlives_it():
    loop = asyncio.get_running_loop()
    reader, writer = os.pipe()
    copy = os.dup(reader)
    seen = []
    loop.add_reader(reader, lambda: seen.append(os.read(reader, 10)))
    loop.remove_reader(reader)
    os.close(reader)
    loop.add_reader(copy, lambda: seen.append(os.read(copy, 10)))
    os.write(writer, b"x")
    await settle()
    show(seen)
    loop.remove_reader(copy)
    os.close(copy), os.close(writer)


@case
def a_loop_that_is_closed_with_registered_fds():
    loop = new_loop()
    ours, theirs = socket.socketpair()
    loop.add_reader(ours, print)
    loop.add_writer(theirs, print)
    loop.close()
    show(
        attempt(loop.add_reader, ours, print),
        attempt(loop.remove_reader, ours),
        attempt(loop.remove_writer, theirs),
    )
    ours.close(), theirs.close()


@case
async def files_that_cannot_be_registered():
    loop = asyncio.get_running_loop()
    quiet(loop)
    with tempfile.TemporaryFile() as file, open("/dev/null", "rb") as null:
        for thing in (file, null, file.fileno()):
            show(attempt(loop.add_reader, thing, print), attempt(loop.remove_reader, thing))
    folder = os.open("/", os.O_RDONLY)
    show(attempt(loop.add_reader, folder, print))
    os.close(folder)


@case
async def out_of_fds():
    import resource

    loop = asyncio.get_running_loop()
    quiet(loop)
    server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)
    address = server.sockets[0].getsockname()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
    filler = []
    try:
        while True:
            filler.append(os.open("/dev/null", os.O_RDONLY))
    except OSError as error:
        show(error)
    try:
        await loop.create_connection(asyncio.Protocol, *address)
    except OSError as error:
        show(error)
    show(attempt(new_loop))
    for fd in filler:
        os.close(fd)
    reader, writer = await asyncio.open_connection(*address)
    show(await reader.read())
    writer.close()
    server.close()
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    await iterations()


@case
def many_readers_at_once():
    loop = new_loop()
    pairs = [socket.socketpair() for _ in range(300)]
    seen = set()

    async def main():
        for index, (ours, theirs) in enumerate(pairs):
            loop.add_reader(ours, lambda index=index, ours=ours: (seen.add(index), loop.remove_reader(ours)))
            theirs.send(b"x")
        while len(seen) < len(pairs):
            await asyncio.sleep(0)

    run(main(), loop)
    show(len(seen))
    for ours, theirs in pairs:
        ours.close(), theirs.close()
    finish(loop)
