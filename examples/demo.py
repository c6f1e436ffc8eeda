"""A TCP server on mainspring and the same server on asyncio, under the same load, side by side.

Two server processes run for the whole demonstration, one on each loop; this process is the client. A round drives
each of them once, for a fraction of a second, and the next begins with the other one, so that whatever else the
machine does meets both. The figures are the medians over the rounds.

The client is Python as well and answers for a good part of every round trip. That narrows the gap between the loops
in requests per second; CPU per request is the server's alone. `bench/` measures with a load generator of its own.
"""

import argparse
import asyncio
import json
import os
import select
import socket
import subprocess
import sys
from statistics import median, quantiles
from time import monotonic, perf_counter_ns

import mainspring

LOOPS = ("asyncio", "mainspring")
# The interface that the server is written on, the size of a message, and how many connections send one at a time.
ROWS = (
    ("streams", 64, 1),
    ("streams", 1024, 10),
    ("streams", 1024, 100),
    ("protocol", 1024, 10),
    ("protocol", 1024, 100),
    ("protocol", 65536, 10),
)


# --- the server: one process, one loop, one port for each interface


class Echo(asyncio.Protocol):
    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        self.transport.write(data)


async def echo_lines(reader, writer):
    while line := await reader.readline():
        writer.write(line)
        await writer.drain()
    writer.close()


async def serve():
    """Tells its ports on stdout and serves until stdin ends."""
    loop = asyncio.get_running_loop()
    servers = {
        "protocol": await loop.create_server(Echo, "127.0.0.1", 0),
        "streams": await asyncio.start_server(echo_lines, "127.0.0.1", 0),
    }
    print(
        json.dumps({name: server.sockets[0].getsockname()[1] for name, server in servers.items()}), flush=True
    )
    ended = asyncio.Event()
    loop.add_reader(sys.stdin.fileno(), ended.set)
    await ended.wait()
    loop.remove_reader(sys.stdin.fileno())
    for server in servers.values():
        server.close()


class ServerProcess:
    """A server on the named loop, and what it has cost so far."""

    def __init__(self, loop_name):
        command = [sys.executable, __file__, "--serve", loop_name]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        told = self.process.stdout.readline()
        if not told:
            raise SystemExit(f"demo: the server on {loop_name} did not start; its reason stands above")
        self.ports = json.loads(told)

    def cpu_ns(self):
        """How long the server's thread has run, as the kernel counts it."""
        with open(f"/proc/{self.process.pid}/schedstat") as file:
            return int(file.read().split()[0])

    def stop(self):
        self.process.stdin.close()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


# --- the client: one request under way on each connection


class Link:
    """A connection with one request under way."""

    def __init__(self, port, message):
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.settimeout(10)
        self.message = message
        self.received = b""
        self.sent_at = 0

    def send(self):
        self.received = b""
        self.sent_at = perf_counter_ns()
        self.socket.sendall(self.message)

    def receive(self):
        """Takes what has come; True when the reply is whole."""
        data = self.socket.recv(65536)
        if not data:
            raise SystemExit("demo: the server closed a connection")
        self.received = self.received + data if self.received else data
        if len(self.received) < len(self.message):
            return False
        if self.received != self.message:
            raise SystemExit("demo: the server answered with something else than it was sent")
        return True


def drive(port, size, connections, seconds):
    """The latencies in ns of the requests sent within `seconds`."""
    message = bytes(97 + i % 26 for i in range(size - 1)) + b"\n"
    links = {}
    latencies = []
    with select.epoll() as poller:
        for _ in range(connections):
            link = Link(port, message)
            links[link.socket.fileno()] = link
            poller.register(link.socket, select.EPOLLIN)
            link.send()
        end = monotonic() + seconds
        # After the end the answers under way still come home: closing before would reset the connections.
        while links:
            ready = poller.poll(10)
            if not ready:
                raise SystemExit("demo: no answer for ten seconds")
            for fd, _ in ready:
                link = links[fd]
                if not link.receive():
                    continue
                latencies.append(perf_counter_ns() - link.sent_at)
                if monotonic() < end:
                    link.send()
                else:
                    links.pop(fd).socket.close()
    return latencies


def measure(server, row, seconds):
    """One round of one row on one server."""
    interface, size, connections = row
    cpu, started = server.cpu_ns(), monotonic()
    latencies = drive(server.ports[interface], size, connections, seconds)
    cpu, elapsed = server.cpu_ns() - cpu, monotonic() - started
    return {
        "rate": len(latencies) / elapsed,
        "p50": median(latencies) / 1e3,
        "p99": quantiles(latencies, n=100)[-1] / 1e3,
        "cpu": cpu / len(latencies) / 1e3,
    }


# --- what the reader sees


def progress(text, *, milestone=False):
    """A line that is overwritten by the next; where that is not possible, the milestones alone."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)
    elif milestone:
        print(text, file=sys.stderr, flush=True)


def named(row):
    interface, size, connections = row
    amount = f"{size} B" if size < 1024 else f"{size // 1024} KiB"
    return f"{interface:9}{amount:>8}{connections:6}"


def table(results):
    columns = f"{'req/s':>9}{'p50 µs':>9}{'p99 µs':>9}{'CPU µs':>8}"
    yield " " * 23 + "".join(f" | {name:^35}" for name in LOOPS) + " |  times"
    yield f"{'server':9}{'message':>8}{'conns':>6}" + f" | {columns}" * len(LOOPS) + " | as fast"
    yield "-" * 23 + ("-+-" + "-" * 35) * len(LOOPS) + "-+--------"
    for row in ROWS:
        cells, rates = "", {}
        for name in LOOPS:
            rounds = results[row, name]
            rate, p50, p99, cpu = (
                median(one[key] for one in rounds) for key in ("rate", "p50", "p99", "cpu")
            )
            cells += f" | {rate:9,.0f}{p50:9,.0f}{p99:9,.0f}{cpu:8.1f}"
            rates[name] = [one["rate"] for one in rounds]
        ratio = median(ours / theirs for theirs, ours in zip(*(rates[name] for name in LOOPS), strict=True))
        yield f"{named(row)}{cells} | {ratio:7.2f}"


def main():
    parser = argparse.ArgumentParser(description="mainspring beside asyncio, under load")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.18, help="of load for each server in each round")
    parser.add_argument("--serve", choices=LOOPS, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        runner = {"asyncio": asyncio, "mainspring": mainspring}[given.serve]
        runner.run(serve())
        return
    version = ".".join(map(str, sys.version_info[:3]))
    print(
        f"echo servers on Python {version}, {os.cpu_count()} cores: {given.rounds} rounds of {given.seconds} s"
    )
    servers = {}
    try:
        for name in LOOPS:
            servers[name] = ServerProcess(name)
        results = {(row, name): [] for row in ROWS for name in LOOPS}
        for turn in range(given.rounds):
            order = LOOPS if turn % 2 == 0 else LOOPS[::-1]
            progress(f"round {turn + 1} of {given.rounds}", milestone=True)
            for row in ROWS:
                progress(f"round {turn + 1} of {given.rounds}: {named(row)} connections")
                for name in order:
                    results[row, name].append(measure(servers[name], row, given.seconds))
        progress("")
    finally:
        for server in servers.values():
            server.stop()
    print("\n".join(table(results)))
    print(
        "p50, p99: latency as the client sees it. CPU: of the server, for each request. Figures to trust: bench/run"
    )


if __name__ == "__main__":
    main()
