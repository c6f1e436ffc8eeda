"""Ten thousand connections at once, in two processes: one serves, the other connects."""

from __future__ import annotations

import resource
import textwrap

import pytest
from peers import run_script

CONNECTIONS = 10_000
# Fds that are not connections: the loop's, the interpreter's, pipes to the other process.
SPARE = 100

CLIENT = """
    import asyncio, mainspring, resource, sys

    port, count, loop_class = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    loop = mainspring.Loop() if loop_class == "mainspring" else asyncio.SelectorEventLoop()

    class Client(asyncio.Protocol):
        def __init__(self):
            self.received = b""
            self.answered = loop.create_future()
            self.lost = loop.create_future()

        def connection_made(self, transport):
            self.transport = transport

        def data_received(self, data):
            self.received += data
            if len(self.received) == 8:
                self.answered.set_result(None)

        def connection_lost(self, error):
            self.lost.set_result(error)

    async def main():
        places = asyncio.Semaphore(200)

        async def connect():
            async with places:
                return (await loop.create_connection(Client, "127.0.0.1", port))[1]

        clients = await asyncio.gather(*(connect() for _ in range(count)))
        for number, client in enumerate(clients):
            client.transport.write(b"%08d" % number)
        for number, client in enumerate(clients):
            await client.answered
            assert client.received == b"%08d" % number
        print("answered", flush=True)
        assert await loop.run_in_executor(None, sys.stdin.readline) == "close\\n"
        for client in clients:
            client.transport.close()
        for client in clients:
            assert await client.lost is None

    loop.run_until_complete(main())
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()
"""

SERVER = """
    import gc, os, resource, subprocess

    count, loop_class, client = int(sys.argv[1]), sys.argv[2], sys.argv[3]
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    loop = new_loop()
    reports = []
    loop.set_exception_handler(lambda loop, context: reports.append(context))

    def fds():
        return len(os.listdir("/proc/self/fd"))

    def resident():
        with open("/proc/self/statm") as statm:
            return int(statm.read().split()[1]) * resource.getpagesize()

    class Echo(asyncio.Protocol):
        live = 0
        ended = []

        def connection_made(self, transport):
            Echo.live += 1
            self.transport = transport

        def data_received(self, data):
            self.transport.write(data)

        def connection_lost(self, error):
            Echo.live -= 1
            Echo.ended.append(error)
            if not Echo.live and everybody_gone is not None:
                everybody_gone.set_result(None)

    everybody_gone = None

    async def one_round(port, count):
        global everybody_gone
        everybody_gone = None
        Echo.ended.clear()
        command = [sys.executable, "-c", client, str(port), str(count), loop_class]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        with process:
            line = await loop.run_in_executor(None, process.stdout.readline)
            assert line == "answered\\n", line
            assert Echo.live == count, Echo.live
            assert fds() > count
            everybody_gone = loop.create_future()
            process.stdin.write("close\\n")
            process.stdin.flush()
            await everybody_gone
            assert await loop.run_in_executor(None, process.wait) == 0
        assert Echo.ended == [None] * count
        for _ in range(3):
            await asyncio.sleep(0)

    async def main():
        server = await loop.create_server(Echo, "127.0.0.1", 0, backlog=1000)
        port = server.sockets[0].getsockname()[1]
        # A small run first, so that objects created on first use exist.
        await one_round(port, 50)
        gc.collect()
        before = fds()
        sizes = []
        for _ in range(2):
            await one_round(port, count)
            gc.collect()
            assert fds() == before, (fds(), before)
            assert not [thing for thing in gc.get_objects() if isinstance(thing, asyncio.Transport)]
            sizes.append(resident())
        # The memory of ten thousand connections is freed, or reused by the next ten thousand.
        assert sizes[1] - sizes[0] < 8 << 20, sizes
        server.close()
        await server.wait_closed()

    loop.run_until_complete(main())
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()
    assert not reports, reports
    print("well")
"""


@pytest.mark.timeout(120)
def test_ten_thousand_connections_are_served_at_once_and_leak_nothing(loop_name):
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if hard != resource.RLIM_INFINITY and hard < CONNECTIONS + SPARE:
        pytest.skip(f"the limit is {hard} fds per process; this test needs {CONNECTIONS + SPARE}")
    arguments = (str(CONNECTIONS), loop_name, textwrap.dedent(CLIENT))
    assert run_script(SERVER, loop_name, *arguments) == "well\n"
