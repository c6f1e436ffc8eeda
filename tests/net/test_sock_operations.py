"""The ``sock_*`` coroutines: results."""

from __future__ import annotations

import array
import asyncio
import contextlib
import contextvars
import errno
import socket
import sys

import pytest
from peers import Recorder, in_thread, pattern, read_exactly, read_to_end, reset
from socks import finish, pair, registered_fds, waiting

datagrams = pytest.mark.skipif(sys.version_info < (3, 11), reason="new in Python 3.11")


def test_operations_that_need_not_wait_complete_without_the_loop(loop):
    with pair() as (ours, theirs), socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        theirs.sendall(b"abcdef")
        assert finish(loop.sock_recv(ours, 4)) == b"abcd"
        buffer = bytearray(8)
        assert finish(loop.sock_recv_into(ours, buffer)) == 2
        assert buffer == b"ef\0\0\0\0\0\0"
        assert finish(loop.sock_sendall(ours, b"answer")) is None
        assert theirs.recv(100) == b"answer"
        with socket.create_connection(listener.getsockname()) as client:
            conn, address = finish(loop.sock_accept(listener))
            with conn:
                assert address == client.getsockname()
                assert conn.gettimeout() == 0
        assert registered_fds(loop) == 0


def test_receiving_waits_for_data(run, loop):
    async def main():
        with pair() as (ours, theirs):
            receiving = await waiting(loop.sock_recv(ours, 100))
            theirs.sendall(b"hello")
            assert await receiving == b"hello"
            buffer = bytearray(3)
            receiving = await waiting(loop.sock_recv_into(ours, memoryview(buffer)[1:]))
            theirs.sendall(b"hello")
            assert await receiving == 2
            assert buffer == b"\0he"
            assert await loop.sock_recv(ours, 100) == b"llo"
            receiving = await waiting(loop.sock_recv(ours, 100))
            theirs.close()
            assert await receiving == b""
            assert registered_fds(loop) == 0

    run(main())


@pytest.mark.parametrize("size", [1, 65535, 65536, 65537, 1 << 20])
def test_one_call_receives_at_most_the_requested_size(run, loop, size):
    async def main():
        with pair() as (ours, theirs):
            for sock in (ours, theirs):
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 22)
            data = pattern(size + 10)
            sending = loop.run_in_executor(None, theirs.sendall, data)
            received = b""
            while len(received) < len(data):
                part = await loop.sock_recv(ours, size)
                assert 0 < len(part) <= size
                received += part
            assert received == data
            await sending

    run(main())


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_a_long_message_is_sent_completely(run, loop, kind):
    async def main():
        with pair() as (ours, theirs):
            data = pattern(5_000_000)
            reading = loop.run_in_executor(None, read_to_end, theirs)
            assert await loop.sock_sendall(ours, kind(data)) is None
            ours.shutdown(socket.SHUT_WR)
            assert await reading == data
            assert registered_fds(loop) == 0

    run(main())


def test_a_buffer_with_large_items_is_sent_completely(run, loop, loop_name):
    if loop_name == "asyncio":
        pytest.skip("asyncio counts items instead of bytes")

    async def main():
        with pair() as (ours, theirs):
            data = array.array("I", range(500_000))
            reading = loop.run_in_executor(None, read_to_end, theirs)
            await loop.sock_sendall(ours, data)
            ours.shutdown(socket.SHUT_WR)
            assert await reading == data.tobytes()

    run(main())


def test_a_buffer_cannot_be_resized_while_it_is_sent_and_can_after(run, loop):
    async def main():
        with pair() as (ours, theirs):
            data = bytearray(pattern(5_000_000))
            sending = await waiting(loop.sock_sendall(ours, data))
            with pytest.raises(BufferError):
                data.clear()
            assert await in_thread(read_exactly, theirs, len(data)) == data
            await sending
            del sending
            data.clear()

    run(main())


def test_both_directions_of_a_socket_wait_at_once(run, loop):
    async def main():
        with pair() as (ours, theirs):
            data = pattern(3_000_000)
            receiving = await waiting(loop.sock_recv(ours, 100))
            sending = await waiting(loop.sock_sendall(ours, data))
            theirs.sendall(b"early")
            assert await receiving == b"early"
            assert not sending.done()
            receiving = await waiting(loop.sock_recv(ours, 100))
            assert await in_thread(read_exactly, theirs, len(data)) == data
            await sending
            theirs.sendall(b"late")
            assert await receiving == b"late"
            assert registered_fds(loop) == 0

    run(main())


@datagrams
def test_datagrams(run, loop):
    async def main():
        with socket.socket(type=socket.SOCK_DGRAM) as one, socket.socket(type=socket.SOCK_DGRAM) as two:
            for sock in (one, two):
                sock.setblocking(False)
                sock.bind(("127.0.0.1", 0))
            receiving = await waiting(loop.sock_recvfrom(two, 100))
            assert await loop.sock_sendto(one, b"hello", two.getsockname()) == 5
            assert await receiving == (b"hello", one.getsockname())
            buffer = bytearray(4)
            receiving = await waiting(loop.sock_recvfrom_into(two, buffer))
            await loop.sock_sendto(one, b"hello", two.getsockname())
            assert await receiving == (4, one.getsockname())
            assert buffer == b"hell"
            await loop.sock_sendto(one, b"hello", two.getsockname())
            assert (await loop.sock_recvfrom_into(two, buffer, 1))[0] == 1
            assert registered_fds(loop) == 0

    run(main())


@datagrams
def test_a_datagram_waits_for_buffer_space(run, loop):
    async def main():
        with pair(socket.SOCK_DGRAM) as (ours, theirs):
            sent = 0
            with contextlib.suppress(BlockingIOError):
                while True:
                    ours.send(b"%d" % sent)
                    sent += 1
            address = None

            class Connected(socket.socket):
                def sendto(self, data, *address):
                    return self.send(data)

            with Connected(fileno=ours.detach()) as same:
                same.setblocking(False)
                sending = await waiting(loop.sock_sendto(same, b"last", address))
                for number in range(sent):
                    assert theirs.recv(100) == b"%d" % number
                assert await sending == 4
                assert theirs.recv(100) == b"last"
            assert registered_fds(loop) == 0

    run(main())


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost"])
def test_connecting_and_accepting(run, loop, host):
    async def main():
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        with socket.create_server((host, 0), family=family) as listener, socket.socket(family) as client:
            listener.setblocking(False)
            client.setblocking(False)
            accepting = await waiting(loop.sock_accept(listener))
            assert await loop.sock_connect(client, (host, listener.getsockname()[1])) is None
            conn, address = await accepting
            with conn:
                assert address == client.getsockname()
                assert conn.gettimeout() == 0
                assert not conn.get_inheritable()
                await loop.sock_sendall(client, b"hello")
                assert await loop.sock_recv(conn, 100) == b"hello"
            assert registered_fds(loop) == 0

    run(main())


def test_a_refused_connection_names_its_address(run, loop):
    async def main():
        with socket.socket() as bound, socket.socket() as client:
            bound.bind(("127.0.0.1", 0))
            client.setblocking(False)
            with pytest.raises(ConnectionRefusedError, match="Connect call failed") as failure:
                await loop.sock_connect(client, bound.getsockname())
            assert failure.value.errno == errno.ECONNREFUSED
            assert str(bound.getsockname()) in str(failure.value)
            assert registered_fds(loop) == 0

    run(main())


def test_a_connection_to_a_path(run, loop, tmp_path):
    async def main():
        path = str(tmp_path / "socket")
        with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as client:
            listener.setblocking(False)
            client.setblocking(False)
            with pytest.raises(FileNotFoundError):
                await loop.sock_connect(client, path)
            listener.bind(path)
            listener.listen()
            await loop.sock_connect(client, path)
            conn, address = await loop.sock_accept(listener)
            with conn:
                assert address == ""
            assert registered_fds(loop) == 0

    run(main())


def test_a_connection_to_a_path_waits_for_space_in_the_backlog(run, loop, loop_name, tmp_path):
    if loop_name == "asyncio":
        pytest.skip("asyncio reports success although the socket is not connected")

    async def main():
        path = str(tmp_path / "socket")
        with contextlib.ExitStack() as stack:
            listener = stack.enter_context(socket.socket(socket.AF_UNIX))
            listener.setblocking(False)
            listener.bind(path)
            listener.listen(0)
            clients = [stack.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(5)]
            for client in clients:
                client.setblocking(False)
            connecting = asyncio.gather(*(loop.sock_connect(client, path) for client in clients))
            for _ in clients:
                conn, _ = await loop.sock_accept(listener)
                stack.enter_context(conn)
            await connecting
            for client in clients:
                client.getpeername()

    run(main())


def test_an_error_from_the_peer_is_raised(run, loop):
    async def main():
        with socket.create_server(("127.0.0.1", 0)) as listener:
            with socket.create_connection(listener.getsockname()) as ours:
                ours.setblocking(False)
                theirs, _ = listener.accept()
                receiving = await waiting(loop.sock_recv(ours, 100))
                reset(theirs)
                with pytest.raises(ConnectionResetError):
                    await receiving
                with pytest.raises(BrokenPipeError):
                    await loop.sock_sendall(ours, b"anybody there?")
        with pair() as (ours, theirs):
            sending = await waiting(loop.sock_sendall(ours, bytes(5_000_000)))
            theirs.close()
            with pytest.raises(ConnectionError):
                await sending
        assert registered_fds(loop) == 0

    run(main())


def test_overridden_socket_methods_are_used(run, loop):
    class Rotated(socket.socket):
        def recv(self, count):
            return super().recv(count)[::-1]

        def recv_into(self, buffer):
            count = super().recv_into(buffer)
            buffer[:count] = bytes(buffer[:count])[::-1]
            return count

        def send(self, data):
            return super().send(bytes(data[:100]))

        def accept(self):
            conn, address = super().accept()
            return conn, ("accepted", address)

    async def main():
        ours, theirs = socket.socketpair()
        with Rotated(fileno=ours.detach()) as special, theirs:
            special.setblocking(False)
            receiving = await waiting(loop.sock_recv(special, 10))
            theirs.sendall(b"abc")
            assert await receiving == b"cba"
            buffer = bytearray(3)
            receiving = await waiting(loop.sock_recv_into(special, buffer))
            theirs.sendall(b"def")
            assert await receiving == 3
            assert buffer == b"fed"
            data = pattern(1_000_000)
            reading = loop.run_in_executor(None, read_exactly, theirs, len(data))
            await loop.sock_sendall(special, data)
            assert await reading == data
        with Rotated() as listener, socket.socket() as client:
            listener.bind(("127.0.0.1", 0))
            listener.listen()
            listener.setblocking(False)
            client.connect(listener.getsockname())
            conn, address = await loop.sock_accept(listener)
            conn.close()
            assert address == ("accepted", client.getsockname())
        assert registered_fds(loop) == 0

    run(main())


def test_the_socket_of_a_transport_cannot_be_awaited(run, loop):
    async def main():
        ours, theirs = socket.socketpair()
        with theirs:
            transport, protocol = await loop.create_connection(Recorder, sock=ours)
            await protocol.until(lambda: protocol.transport is not None)
            await asyncio.sleep(0)
            with pytest.raises(RuntimeError, match="is used by transport"):
                await loop.sock_recv(ours, 10)
            transport.pause_reading()
            with pytest.raises(RuntimeError, match="is used by transport"):
                await loop.sock_recv(ours, 10)
            transport.resume_reading()
            theirs.sendall(b"for the transport")
            assert await protocol.until_received(17) == b"for the transport"
            transport.close()
            await protocol.until_lost()

    run(main())


def test_a_second_receive_on_a_socket_replaces_the_first(run, loop):
    async def main():
        with pair() as (ours, theirs):
            first = await waiting(loop.sock_recv(ours, 10))
            second = await waiting(loop.sock_recv(ours, 10))
            theirs.sendall(b"data")
            assert await second == b"data"
            assert not first.done()
            called = asyncio.Event()
            loop.add_reader(ours, called.set)
            first.cancel()
            with pytest.raises(asyncio.CancelledError):
                await first
            theirs.sendall(b"more")
            await called.wait()
            assert loop.remove_reader(ours)
            assert registered_fds(loop) == 0

    run(main())


def test_a_task_keeps_its_context_across_a_wait(run, loop):
    variable = contextvars.ContextVar("variable", default="outside")

    async def receive(sock, value):
        variable.set(value)
        await loop.sock_recv(sock, 10)
        return variable.get()

    async def main():
        with pair() as (ours, theirs):
            receiving = await waiting(receive(ours, "inside"))
            theirs.sendall(b"data")
            assert await receiving == "inside"
            assert variable.get() == "outside"

    run(main())


def test_it_works_in_debug_mode(run, loop):
    loop.set_debug(True)
    loop.slow_callback_duration = 1000

    async def main():
        with pair() as (ours, theirs):
            receiving = await waiting(loop.sock_recv(ours, 10))
            theirs.sendall(b"data")
            assert await receiving == b"data"
            data = pattern(3_000_000)
            reading = loop.run_in_executor(None, read_exactly, theirs, len(data))
            await loop.sock_sendall(ours, data)
            assert await reading == data

    run(main())


def test_unrequested_data_stays_in_the_kernel(run, loop):
    """Data beyond the requested size stays in the kernel for the next reader of the fd, even in another process."""

    async def main():
        with pair() as (ours, theirs):
            receiving = await waiting(loop.sock_recv(ours, 3))
            theirs.sendall(b"abcdef")
            assert await receiving == b"abc"
            await asyncio.sleep(0)
            assert ours.recv(100) == b"def"

    run(main())
