"""Unix sockets: messages with fds and credentials, and unusual paths."""

from __future__ import annotations

import array
import asyncio
import os
import socket
import struct

from hostile import LIMIT, Recorder, attempt, case, connected, iterations, outcome, quiet, settle, show


def send_with_fd(sock, data):
    reader, writer = os.pipe()
    sock.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [reader]))])
    os.close(reader), os.close(writer)


@case
async def messages_with_fds_do_not_stall_a_transport():
    transport, protocol, peer = await connected()
    for _ in range(3):
        peer.sendall(b"one ")
        send_with_fd(peer, b"two ")
        peer.sendall(b"three ")
    show(await protocol.has(42))
    transport.abort()
    await protocol.end()
    peer.close()


@case
async def messages_with_fds_to_a_stream_reader():
    ours, theirs = socket.socketpair()
    reader, writer = await asyncio.open_connection(sock=ours)
    theirs.sendall(b"one ")
    send_with_fd(theirs, b"two ")
    theirs.sendall(b"three")
    show(await asyncio.wait_for(reader.readexactly(13), LIMIT))
    theirs.close()
    show(await reader.read())
    writer.close()


@case
async def credentials_of_two_writers():
    transport, protocol, peer = await connected()
    transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    peer.sendall(b"parent ")
    pid = os.fork()
    if not pid:
        peer.sendall(b"child  ")
        os._exit(0)
    os.waitpid(pid, 0)
    peer.sendall(b"parent ")
    show(await protocol.has(21))
    transport.abort()
    await protocol.end()
    peer.close()


@case
async def credentials_and_fds_to_sock_recv():
    loop = asyncio.get_running_loop()
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    theirs.sendall(b"one ")
    send_with_fd(theirs, b"two ")
    theirs.sendall(b"three")
    data = b""
    while len(data) < 13:
        data += await asyncio.wait_for(loop.sock_recv(ours, 100), LIMIT)
    show(data)
    ours.close(), theirs.close()


@case
async def a_reader_callback_with_pending_fds():
    loop = asyncio.get_running_loop()
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    received = bytearray()
    done = loop.create_future()

    def ready():
        received.extend(ours.recv(3))
        if len(received) >= 13 and not done.done():
            done.set_result(None)

    loop.add_reader(ours, ready)
    theirs.sendall(b"one ")
    send_with_fd(theirs, b"two ")
    theirs.sendall(b"three")
    await asyncio.wait_for(done, LIMIT)
    show(bytes(received))
    loop.remove_reader(ours)
    ours.close(), theirs.close()


@case
async def paths_that_are_strange():
    loop = asyncio.get_running_loop()
    for path in (
        "",
        "x" * 200,
        "no/such/folder/socket",
        b"bytes.socket",
        f"\0abstract-{os.getpid()}",
        5,
        None,
        "nul\0in",
    ):
        try:
            server = await loop.create_unix_server(asyncio.Protocol, path)
        except Exception as error:
            show(repr(path)[:9], error)
        else:
            show(repr(path)[:9], "made")
            server.close()
        show(await outcome(loop.create_unix_connection(asyncio.Protocol, path)))
        await iterations()


@case
async def a_path_that_is_something_else():
    loop = asyncio.get_running_loop()
    with open("file", "w"):
        pass
    os.mkdir("folder")
    os.mkfifo("fifo")
    for path in ("file", "folder", "fifo", "/dev/null"):
        show(path, await outcome(loop.create_unix_connection(asyncio.Protocol, path)))
        try:
            await loop.create_unix_server(asyncio.Protocol, path)
        except Exception as error:
            show(path, error)


@case
async def the_file_is_removed_or_replaced_under_the_server():
    loop = asyncio.get_running_loop()
    first = await loop.create_unix_server(asyncio.Protocol, "socket")
    os.unlink("socket")
    show(attempt(first.close))
    await iterations()
    first = await loop.create_unix_server(asyncio.Protocol, "socket")
    second = await loop.create_unix_server(asyncio.Protocol, "socket")
    first.close()
    await iterations()
    show(os.path.exists("socket"))
    show(
        await outcome(loop.create_unix_connection(asyncio.Protocol, "socket"))
        in ("fine", "FileNotFoundError(ENOENT)")
    )
    second.close()
    await settle()


@case
async def sockets_of_the_wrong_kind():
    loop = asyncio.get_running_loop()
    for sock in (socket.socket(), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM), 5):
        show(await outcome(loop.create_unix_server(asyncio.Protocol, sock=sock)))
        show(await outcome(loop.create_unix_connection(asyncio.Protocol, sock=sock)))
        if sock != 5:
            sock.close()
    show(await outcome(loop.create_unix_connection(asyncio.Protocol)))
    show(await outcome(loop.create_unix_server(asyncio.Protocol)))
    show(await outcome(loop.create_unix_server(asyncio.Protocol, "a", sock=5)))


@case
async def packets_in_sequence():
    loop = asyncio.get_running_loop()
    quiet(loop)
    ours, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
    show(await outcome(loop.create_unix_connection(asyncio.Protocol, sock=ours)))
    show(await outcome(loop.connect_accepted_socket(asyncio.Protocol, ours)))
    ours.close(), theirs.close()


@case
async def the_peer_of_a_unix_connection():
    loop = asyncio.get_running_loop()
    made = loop.create_future()
    server = await loop.create_unix_server(lambda: Recorder({"connection_made": made.set_result}), "socket")
    transport, protocol = await loop.create_unix_connection(Recorder, "socket")
    other = (await made).transport
    show(transport.get_extra_info("peername"), repr(other.get_extra_info("peername")))
    credentials = other.get_extra_info("socket").getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    show(struct.unpack("3i", credentials)[0] == os.getpid())
    transport.abort()
    await protocol.end()
    server.close()
    await settle()
