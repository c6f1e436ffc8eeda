"""A recv() that returns less than the buffer size although more data is queued.

Linux returns short at the urgent mark of TCP, after a Unix message with fds, and between two senders with SO_PASSCRED.
A loop that takes a short recv() as "drained" never delivers the rest.
"""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys

import pytest

SENT = b"abcdefgh\n"


def urgent_mark():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        theirs = socket.create_connection(listener.getsockname())
        ours, _ = listener.accept()
    theirs.sendall(SENT[:4])
    theirs.send(b"!", socket.MSG_OOB)
    theirs.sendall(SENT[4:])
    return ours, theirs


def unix_fds():
    ours, theirs = socket.socketpair()
    theirs.sendall(SENT[:2])
    socket.send_fds(theirs, [SENT[2:4]], [theirs.fileno()])
    theirs.sendall(SENT[4:6])
    socket.send_fds(theirs, [SENT[6:]], [theirs.fileno()])
    return ours, theirs


def two_senders():
    ours, theirs = socket.socketpair()
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    theirs.sendall(SENT[:4])
    # Another process, because the kernel distinguishes senders by process.
    send = "import socket, sys; socket.socket(fileno=int(sys.argv[1])).send(sys.argv[2].encode())"
    command = [sys.executable, "-c", send, str(theirs.fileno()), SENT[4:].decode()]
    subprocess.run(command, pass_fds=[theirs.fileno()], check=True)
    return ours, theirs


@pytest.fixture(params=[urgent_mark, unix_fds, two_senders])
def connected(request):
    ours, theirs = request.param()
    ours.setblocking(False)
    with ours, theirs:
        yield ours


class Receiver(asyncio.Protocol):
    def __init__(self):
        self.received = b""
        self.all = asyncio.get_running_loop().create_future()

    def data_received(self, data):
        self.received += data
        if len(self.received) >= len(SENT):
            self.all.set_result(self.received)


class BufferedReceiver(asyncio.BufferedProtocol):
    def __init__(self):
        self.buffer = bytearray(100)
        self.received = b""
        self.all = asyncio.get_running_loop().create_future()

    def get_buffer(self, sizehint):
        return self.buffer

    def buffer_updated(self, nbytes):
        self.received += self.buffer[:nbytes]
        if len(self.received) >= len(SENT):
            self.all.set_result(self.received)


@pytest.mark.parametrize("protocol_class", [Receiver, BufferedReceiver])
def test_a_protocol_receives_all_of_it(loop, run, connected, protocol_class):
    async def main():
        transport, protocol = await loop.create_connection(protocol_class, sock=connected)
        received = await protocol.all
        transport.close()
        await asyncio.sleep(0)
        return received

    assert run(main()) == SENT


def test_a_stream_reader_receives_all_of_it(run, connected):
    async def main():
        reader, writer = await asyncio.open_connection(sock=connected)
        line = await reader.readline()
        writer.close()
        await writer.wait_closed()
        return line

    assert run(main()) == SENT


def test_sock_recv_receives_all_of_it(loop, run, connected):
    async def main():
        received = b""
        while len(received) < len(SENT):
            received += await loop.sock_recv(connected, 100)
        return received

    assert run(main()) == SENT


def test_a_reader_is_called_until_all_of_it_is_received(loop, run, connected):
    async def main():
        received = bytearray()
        done = loop.create_future()

        def receive():
            received.extend(connected.recv(100))
            if len(received) >= len(SENT):
                loop.remove_reader(connected)
                done.set_result(bytes(received))

        loop.add_reader(connected, receive)
        return await done

    assert run(main()) == SENT


def test_a_read_pipe_receives_all_of_it(loop, run, connected):
    async def main():
        transport, protocol = await loop.connect_read_pipe(Receiver, connected)
        received = await protocol.all
        transport.close()
        await asyncio.sleep(0)
        return received

    assert run(main()) == SENT
