"""Servers: listening, accepting, closing."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import gc
import socket
import sys
import warnings

import pytest
from peers import TIMEOUT, Echo, Recorder, end_of, in_thread, read_exactly, reset, run_script


class Serving:
    """A server and the protocols of its connections."""

    def __init__(self, loop, factory=Echo):
        self.loop = loop
        self.factory = factory
        self.accepted = []
        self._arrived = asyncio.Event()

    def make(self):
        protocol = self.factory()
        self.accepted.append(protocol)
        self._arrived.set()
        return protocol

    async def until_accepted(self, count):
        while len(self.accepted) < count:
            self._arrived.clear()
            await asyncio.wait_for(self._arrived.wait(), TIMEOUT)
        for protocol in self.accepted[:count]:
            await protocol.until(lambda protocol=protocol: protocol.transport is not None)

    async def end(self):
        for protocol in self.accepted:
            await end_of(protocol)


@contextlib.asynccontextmanager
async def serving(factory=Echo, host="127.0.0.1", **options):
    loop = asyncio.get_running_loop()
    serving = Serving(loop, factory)
    serving.server = server = await loop.create_server(serving.make, host, 0, **options)
    serving.address = server.sockets[0].getsockname()[:2]
    try:
        yield serving
    finally:
        server.close()
        await serving.end()
        await asyncio.wait_for(server.wait_closed(), TIMEOUT)


def ask(address, question=b"anybody there?"):
    """One request to an echo server, from a plain socket."""
    with socket.create_connection(address, timeout=TIMEOUT) as sock:
        sock.sendall(question)
        assert read_exactly(sock, len(question)) == question


def refuses(address):
    with socket.socket() as sock:
        sock.settimeout(TIMEOUT)
        return sock.connect_ex(address) == errno.ECONNREFUSED


def test_a_server_listens_on_every_given_address(run):
    async def main():
        async with serving(host=["127.0.0.1", "::1"]) as it:
            addresses = [sock.getsockname()[:2] for sock in it.server.sockets]
            assert {host for host, _ in addresses} == {"127.0.0.1", "::1"}
            for address in addresses:
                await in_thread(ask, address)

    run(main())


def test_a_server_serves_many_clients_at_once(run):
    async def main():
        async with serving() as it:
            await asyncio.gather(*(in_thread(ask, it.address) for _ in range(50)))
            assert len(it.accepted) == 50

    run(main())


def test_connections_that_arrive_while_the_loop_is_busy_are_all_accepted(run):
    async def main():
        async with serving(backlog=50) as it:
            clients = [socket.create_connection(it.address, timeout=TIMEOUT) for _ in range(40)]
            await it.until_accepted(40)
            for client in clients:
                client.close()

    run(main())


def test_a_server_that_has_not_started_refuses_connections(run):
    async def main():
        async with serving(start_serving=False) as it:
            assert not it.server.is_serving()
            assert refuses(it.address)
            await it.server.start_serving()
            assert it.server.is_serving()
            await it.server.start_serving()
            await in_thread(ask, it.address)

    run(main())


def test_serve_forever_serves_until_cancelled_and_then_closes(run):
    async def main():
        async with serving(start_serving=False) as it:
            task = asyncio.ensure_future(it.server.serve_forever())
            await asyncio.sleep(0)
            await in_thread(ask, it.address)
            assert not task.done()
            # From 3.12 on a cancelled serve_forever() waits for the connections to end.
            await it.until_accepted(1)
            await it.end()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert not it.server.is_serving()
            assert refuses(it.address)

    run(main())


def test_serve_forever_cannot_be_called_twice_nor_after_close(run):
    async def main():
        async with serving() as it:
            task = asyncio.ensure_future(it.server.serve_forever())
            await asyncio.sleep(0)
            with pytest.raises(RuntimeError, match="is already being awaited on serve_forever"):
                await it.server.serve_forever()
            it.server.close()
            with pytest.raises(asyncio.CancelledError):
                await task
            with pytest.raises(RuntimeError, match="is closed"):
                await it.server.serve_forever()

    run(main())


def test_close_stops_listening_and_keeps_connections(run):
    async def main():
        async with serving() as it:
            client = socket.create_connection(it.address, timeout=TIMEOUT)
            await it.until_accepted(1)
            it.server.close()
            it.server.close()
            assert refuses(it.address)
            assert it.server.sockets == ()
            assert not it.server.is_serving()
            client.sendall(b"still there?")
            assert await in_thread(read_exactly, client, 12) == b"still there?"
            client.close()

    run(main())


def test_connections_in_the_backlog_are_reset_when_the_server_closes(run):
    async def main():
        async with serving() as it:
            client = socket.create_connection(it.address, timeout=TIMEOUT)
            # No iteration has run that could accept it.
            it.server.close()
            with pytest.raises(ConnectionResetError):
                await in_thread(client.recv, 1)
            client.close()
            assert it.accepted == []

    run(main())


def test_wait_closed_waits_for_connections_as_in_this_python_version(run):
    async def main():
        async with serving() as it:
            client = socket.create_connection(it.address, timeout=TIMEOUT)
            await it.until_accepted(1)
            it.server.close()
            waiting = asyncio.ensure_future(it.server.wait_closed())
            await asyncio.sleep(0)
            # Before 3.12 wait_closed() of a closed server returned at once.
            assert waiting.done() == (sys.version_info < (3, 12))
            client.close()
            await it.accepted[0].until_lost()
            await asyncio.wait_for(waiting, TIMEOUT)

    run(main())


def test_a_connection_whose_acceptance_is_cancelled_is_closed(loop, run):
    happened = []

    class Held(asyncio.Protocol):
        """Does not close its transport."""

        def connection_made(self, transport):
            happened.append("made")

        def eof_received(self):
            return True

        def connection_lost(self, error):
            happened.append("lost")

    def cancel_and_stop():
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.stop()

    def factory():
        # Runs before connection_made(), which is scheduled after the factory returns.
        loop.call_soon(cancel_and_stop)
        return Held()

    server = run(loop.create_server(factory, "127.0.0.1", 0))
    with socket.create_connection(server.sockets[0].getsockname(), timeout=TIMEOUT) as client:
        client.shutdown(socket.SHUT_WR)
        loop.run_forever()
        server.close()
        run(server.wait_closed())
        run(asyncio.sleep(0))
        assert client.recv(1) == b""
    assert happened == ["made", "lost"]


def test_the_accept_task_ends_after_connection_made(loop, run):
    seen = []

    class Counting(asyncio.Protocol):
        def connection_made(self, transport):
            seen.append(len(asyncio.all_tasks(loop)))
            loop.call_soon(loop.call_soon, self.count)

        def count(self):
            seen.append(len(asyncio.all_tasks(loop)))
            loop.stop()

    server = run(loop.create_server(Counting, "127.0.0.1", 0))
    with socket.create_connection(server.sockets[0].getsockname(), timeout=TIMEOUT):
        loop.run_forever()
    assert seen == [1, 0]
    server.close()
    run(asyncio.sleep(0))


def test_wait_closed_of_an_open_server_waits_for_close(run):
    async def main():
        async with serving() as it:
            waiting = asyncio.ensure_future(it.server.wait_closed())
            await in_thread(ask, it.address)
            assert not waiting.done()
            it.server.close()
            await it.end()
            await asyncio.wait_for(waiting, TIMEOUT)

    run(main())


def test_a_connection_that_fails_is_not_waited_for(run):
    async def main():
        async with serving() as it:
            client = socket.create_connection(it.address, timeout=TIMEOUT)
            await it.until_accepted(1)
            reset(client)
            assert isinstance(await it.accepted[0].until_lost(), ConnectionResetError)
            it.server.close()
            await asyncio.wait_for(it.server.wait_closed(), TIMEOUT)

    run(main())


@pytest.mark.skipif(sys.version_info < (3, 13), reason="Server.close_clients() is new in Python 3.13")
@pytest.mark.parametrize("how", ["close_clients", "abort_clients"])
def test_a_server_can_end_all_its_connections(run, how):
    async def main():
        async with serving() as it:
            clients = [socket.create_connection(it.address, timeout=TIMEOUT) for _ in range(3)]
            await it.until_accepted(3)
            it.server.close()
            getattr(it.server, how)()
            await asyncio.wait_for(it.server.wait_closed(), TIMEOUT)
            for client in clients:
                assert await in_thread(client.recv, 1) == b""
                client.close()

    run(main())


def test_a_server_exposes_its_loop_and_its_sockets(run, loop):
    async def main():
        async with serving() as it:
            assert isinstance(it.server, asyncio.AbstractServer)
            assert it.server.get_loop() is loop
            (sock,) = it.server.sockets
            assert sock.getsockname() == it.address
            assert sock.type == socket.SOCK_STREAM
            assert sock.fileno() >= 0
            assert "Server" in repr(it.server)

    run(main())


def test_a_server_is_a_context_manager(run, loop):
    async def main():
        async with await loop.create_server(Recorder, "127.0.0.1", 0) as server:
            address = server.sockets[0].getsockname()
            assert server.is_serving()
        assert not server.is_serving()
        assert refuses(address)

    run(main())


def test_a_server_takes_a_socket_and_closes_it(run, loop):
    async def main():
        sock = socket.create_server(("127.0.0.1", 0))
        server = await loop.create_server(Recorder, sock=sock)
        assert server.sockets[0].getsockname() == sock.getsockname()
        server.close()
        assert sock.fileno() == -1

    run(main())


def test_an_address_in_use_raises_an_os_error_that_names_it(run, loop):
    async def main():
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            with pytest.raises(OSError, match="error while attempting to bind on address") as caught:
                await loop.create_server(Recorder, "127.0.0.1", port)
            assert caught.value.errno == errno.EADDRINUSE
            assert str(port) in str(caught.value)

    run(main())


def test_a_port_can_be_reused_at_once(run, loop):
    async def main():
        for _ in range(3):
            async with serving() as it:
                # The server's end closes first, so it is the one in TIME_WAIT.
                client = socket.create_connection(it.address, timeout=TIMEOUT)
                await it.until_accepted(1)
                await it.end()
                client.close()
                port = it.address[1]
            server = await loop.create_server(Echo, "127.0.0.1", port)
            server.close()
            await server.wait_closed()

    run(main())


def test_reuse_port_lets_two_servers_share_a_port(run, loop):
    async def main():
        async with serving(reuse_port=True) as it:
            server = await loop.create_server(Echo, *it.address, reuse_port=True)
            with pytest.raises(OSError):
                await loop.create_server(Echo, *it.address)
            server.close()
            await server.wait_closed()

    run(main())


@pytest.mark.parametrize("debug", [False, True])
def test_a_protocol_factory_that_raises_loses_only_its_connection(run, loop, loop_name, debug):
    loop.set_debug(debug)
    failures = [ValueError("no protocol today")]

    def factory():
        if failures:
            raise failures.pop()
        return Echo()

    async def main():
        with warnings.catch_warnings():
            # asyncio leaves the socket to the garbage collector.
            warnings.simplefilter("ignore", ResourceWarning)
            async with serving(factory) as it:
                with socket.create_connection(it.address, timeout=TIMEOUT) as client:
                    while failures:
                        await asyncio.sleep(0)
                    for _ in range(3):
                        await asyncio.sleep(0)
                    # mainspring always reports it; asyncio only in debug mode.
                    if debug or loop_name == "mainspring":
                        message, error = (
                            "Error on transport creation for incoming connection",
                            "no protocol today",
                        )
                        (report,) = loop.reports
                        assert (report["message"], str(report["exception"])) == (message, error)
                    # The traceback references asyncio's socket.
                    report = loop.reports.clear()
                    gc.collect()
                    assert await in_thread(client.recv, 1) == b""
                await in_thread(ask, it.address)

    run(main())


def test_a_server_may_be_closed_from_connection_made(run):
    class Last(Echo):
        def connection_made(self, transport):
            super().connection_made(transport)
            it.server.close()

    it = None

    async def main():
        nonlocal it
        async with serving(Last) as it:
            await in_thread(ask, it.address)
            assert refuses(it.address)
            await it.accepted[0].until_lost()

    run(main())


def test_a_server_closed_by_its_protocol_factory_accepts_no_more(run, loop, loop_name):
    if loop_name == "asyncio":
        pytest.skip("asyncio loses the connection, and in 3.13 its destructor fails")

    def factory():
        it.server.close()
        return Recorder()

    it = None

    async def main():
        nonlocal it
        loop_reports = loop.reports
        async with serving(factory) as it:
            clients = [socket.create_connection(it.address, timeout=TIMEOUT) for _ in range(5)]
            while it.server.is_serving():
                await asyncio.sleep(0)
            for _ in range(5):
                await asyncio.sleep(0)
            gc.collect()
            for client in clients:
                with contextlib.suppress(ConnectionResetError):
                    assert await in_thread(client.recv, 1) == b""
                client.close()
            it.accepted.clear()
        # The server is closed before the connection could join it: asyncio's own assertion fails.
        (report,) = loop_reports
        assert isinstance(report["exception"], AssertionError)
        loop_reports.clear()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        run(main())
        gc.collect()


def test_keyboard_interrupt_in_a_protocol_factory_ends_the_run(loop):
    def factory():
        raise KeyboardInterrupt

    async def start():
        return await loop.create_server(factory, "127.0.0.1", 0)

    server = loop.run_until_complete(start())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        with socket.create_connection(server.sockets[0].getsockname(), timeout=TIMEOUT):
            loop.call_later(TIMEOUT, loop.stop)
            with pytest.raises(KeyboardInterrupt):
                loop.run_forever()
            server.close()
            loop.run_until_complete(asyncio.wait_for(server.wait_closed(), TIMEOUT))
        gc.collect()
    # asyncio's task for the connection failed, which is reported.
    loop.reports.clear()


def test_a_loop_may_be_closed_while_its_server_still_listens(loop):
    async def start():
        return await loop.create_server(Recorder, "127.0.0.1", 0)

    server = loop.run_until_complete(start())
    loop.close()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        del server
        gc.collect()


EXHAUSTED = """
    import gc, os, resource, socket

    resource.setrlimit(resource.RLIMIT_NOFILE, (60, 60))
    loop = new_loop()
    reports, accepted, hoard = [], [], []
    all_accepted = loop.create_future()
    loop.set_exception_handler(lambda loop, context: reports.append(context))

    class Counts(asyncio.Protocol):
        def connection_made(self, transport):
            accepted.append(transport)
            if len(accepted) == 5:
                all_accepted.set_result(None)

    async def main():
        server = await loop.create_server(Counts, "127.0.0.1", 0)
        await asyncio.sleep(0)
        clients = [socket.create_connection(server.sockets[0].getsockname()) for _ in range(5)]
        try:
            while True:
                hoard.append(os.dup(0))
        except OSError:
            pass
        while not reports:
            await asyncio.sleep(0.01)
        # A loop that does not pause would try thousands of times in this time.
        await asyncio.sleep(0.3)
        first = len(reports)
        for fd in hoard:
            os.close(fd)
        await asyncio.wait_for(all_accepted, 20)
        print(first, len(accepted), reports[0]["message"], reports[0]["exception"].errno, sep="|")
        assert reports[0]["socket"].getsockname() == server.sockets[0].getsockname()
        # The server still works.
        clients.append(socket.create_connection(server.sockets[0].getsockname()))
        while len(accepted) < 6:
            await asyncio.sleep(0.01)
        server.close()
        for client in clients:
            client.close()
        for transport in accepted:
            transport.abort()
        await asyncio.sleep(0)

    loop.run_until_complete(main())
    loop.close()
"""


def test_a_server_out_of_fds_pauses_accepting_and_recovers(loop_name):
    reports, accepted, message, number = run_script(EXHAUSTED, loop_name).split("|")
    assert int(accepted) == 5
    assert message == "socket.accept() out of system resource"
    assert int(number) == errno.EMFILE
    # asyncio calls accept() once per backlog entry before it pauses.
    assert int(reports) <= (101 if loop_name == "asyncio" else 3)
