"""Servers: accepting connections, and protocol factories."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import gc
import socket
import warnings

import pytest
from peers import TIMEOUT, Echo, Recorder, in_thread, run_script
from tcp_server import ask, refuses, serving


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
