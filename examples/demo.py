"""Compares a TCP server on mainspring with the same server on asyncio, under the same load.

Two server processes run for the whole demo, one on each loop; this process is the client. A round drives each server
once, for a fraction of a second. The next round starts with the other server, so that other load on the machine
affects both. The figures are medians over the rounds.

The client is also Python and takes a large part of every round trip. This reduces the difference between the loops in
requests per second; CPU per request counts only the server. `bench/` uses a native load generator instead.
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
# The API of the server, the message size in bytes, and the number of connections.
ROWS = (
    ("streams", 64, 1),
    ("streams", 1024, 10),
    ("streams", 1024, 100),
    ("protocol", 1024, 10),
    ("protocol", 1024, 100),
    ("protocol", 65536, 10),
)


# --- the server: one process, one loop, one port per API


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
    """Prints its ports on stdout and serves until stdin is closed."""
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
    """A server process on the named loop."""

    def __init__(self, loop_name):
        command = [sys.executable, __file__, "--serve", loop_name]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        ports = self.process.stdout.readline()
        if not ports:
            raise SystemExit(f"demo: the server on {loop_name} did not start; see above")
        self.ports = json.loads(ports)

    def cpu_ns(self):
        """The CPU time of the server's main thread, from the kernel."""
        with open(f"/proc/{self.process.pid}/schedstat") as file:
            return int(file.read().split()[0])

    def stop(self):
        self.process.stdin.close()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


# --- the client: one request in flight per connection


class Link:
    """A connection with one request in flight."""

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
        """Receives available data; returns True when the reply is complete."""
        data = self.socket.recv(65536)
        if not data:
            raise SystemExit("demo: the server closed a connection")
        self.received = self.received + data if self.received else data
        if len(self.received) < len(self.message):
            return False
        if self.received != self.message:
            raise SystemExit("demo: the reply differs from the message")
        return True


def drive(port, size, connections, seconds):
    """Sends requests for `seconds`; returns their latencies in ns."""
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
        # Then waits for the replies in flight: closing earlier would reset the connections.
        while links:
            ready = poller.poll(10)
            if not ready:
                raise SystemExit("demo: no reply for ten seconds")
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
    """Measures one row on one server for one round."""
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


# --- output


def progress(text, *, milestone=False):
    """Prints a status line that the next one overwrites; if stderr is no terminal, prints only milestones."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)
    elif milestone:
        print(text, file=sys.stderr, flush=True)


def label(row):
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
        yield f"{label(row)}{cells} | {ratio:7.2f}"


def main():
    parser = argparse.ArgumentParser(description="Compares mainspring with asyncio under load.")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.18, help="load per server and round")
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
        for number in range(given.rounds):
            order = LOOPS if number % 2 == 0 else LOOPS[::-1]
            progress(f"round {number + 1} of {given.rounds}", milestone=True)
            for row in ROWS:
                progress(f"round {number + 1} of {given.rounds}: {label(row)} connections")
                for name in order:
                    results[row, name].append(measure(servers[name], row, given.seconds))
        progress("")
    finally:
        for server in servers.values():
            server.stop()
    print("\n".join(table(results)))
    print(
        "p50, p99: latency at the client. CPU: server CPU time per request. For precise figures use bench/run."
    )


if __name__ == "__main__":
    main()
