"""Runs one case once on one loop, in fresh processes; server and client each have their own core."""

import json
import os
import re
import select
import subprocess
import tempfile
import time
import urllib.request
from contextlib import contextmanager
from pathlib import Path

from . import native
from .proc import Gone, rss_kib, scheduled, user_and_system

CHILD = str(Path(__file__).with_name("child.py"))
FLOOR = str(Path(__file__).with_name("floor.py"))
SERVER_CORE, CLIENT_CORE = "0", "1"
WARMUP = 0.3
START_LIMIT = 30


class Failed(Exception):
    """The case has no valid result; the text gives the reason."""


class Runner:
    def __init__(self, python, seconds, priority):
        self.python = python
        self.seconds = seconds
        self.priority = priority
        self.certificate = native.certificate()
        # A normal user environment: byte code is cached, output is buffered.
        dropped = ("PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED")
        self.environment = {key: value for key, value in os.environ.items() if key not in dropped}

    def run(self, case, loop):
        """The metrics of one run; `waited` is the share of time that the measured process waited for its core."""
        return self.in_process(case, loop) if case.load is None else self.served(case, loop)

    # The measured process --------------------------------------------------------------------------

    def command(self, case, loop):
        if loop == "limit:python-floor":
            return [self.python, FLOOR, native.python_floor(self.python)]
        if loop.startswith("limit:"):
            return [native.tool("limit"), loop.partition(":")[2]]
        return [self.python, CHILD, loop, case.name, str(self.seconds), self.certificate]

    def spawn(self, command, core, **options):
        if core is not None:
            command = ["taskset", "-c", core] + command
        if self.priority:
            command = ["chrt", "--fifo", "1"] + command
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=self.environment, **options)

    @contextmanager
    def measured(self, case, loop):
        """Runs the measured process. If it fails, the last line of its stderr becomes part of the reason."""
        with tempfile.TemporaryFile("w+") as errors:
            core = SERVER_CORE if case.pinned else None
            process = self.spawn(self.command(case, loop), core, stdin=subprocess.PIPE, stderr=errors)
            try:
                yield process
                if case.load is not None:
                    errors.seek(0)
                    text = errors.read()
                    if "Traceback" in text or "Exception" in text:
                        raise Failed(f"the server reported: {last_line(text)}")
            except Failed as failure:
                errors.seek(0)
                text = errors.read()
                if text.strip() and last_line(text) not in str(failure):
                    raise Failed(f"{failure} [{last_line(text)}]") from None
                raise
            finally:
                process.kill()
                process.wait()
                process.stdin.close()
                process.stdout.close()

    def in_process(self, case, loop):
        with self.measured(case, loop) as process:
            return answer(process, "RESULT", self.seconds + 120)

    def served(self, case, loop):
        with self.measured(case, loop) as process:
            ready = answer(process, "READY", START_LIMIT)
            mode = case.load[0]
            drive = {"wrk": self.wrk, "idle": self.idle}.get(mode, self.loadgen)
            try:
                metrics = drive(case, process, ready)
            except Gone:
                raise Failed(f"the server died with code {process.wait()}") from None
            if process.poll() is not None:
                raise Failed(f"the server died with code {process.returncode}")
            if case.collects:
                process.stdin.write("stop\n")
                process.stdin.flush()
                metrics.update(answer(process, "RESULT", START_LIMIT))
            return metrics

    # The load --------------------------------------------------------------------------------------

    def load_command(self, case, ready):
        if "unix" in ready:
            address = ["--unix", ready["unix"]]
        elif "udp" in ready:
            address = ["--udp", f"127.0.0.1:{ready['udp']}"]
        else:
            address = ["--tcp", f"127.0.0.1:{ready['port']}"]
        timing = ["--duration", str(self.seconds), "--warmup", str(WARMUP)]
        return [native.tool("loadgen"), *case.load, *address, *timing]

    def loadgen(self, case, server, ready):
        before, started = scheduled(server.pid), time.perf_counter()
        user, system = user_and_system(server.pid)
        client = self.spawn(self.load_command(case, ready), CLIENT_CORE, stderr=subprocess.PIPE)
        try:
            output, errors = client.communicate(timeout=self.seconds + 20)
        except subprocess.TimeoutExpired:
            client.kill()
            client.communicate()
            raise Failed("the load generator did not finish: the server stalled") from None
        elapsed, after = time.perf_counter() - started, scheduled(server.pid)
        used, waited = after[0] - before[0], after[1] - before[1]
        user, system = (
            now - then for now, then in zip(user_and_system(server.pid), (user, system), strict=True)
        )
        if client.returncode != 0:
            raise Failed(last_line(errors) or f"the load generator ended with {client.returncode}")
        metrics = json.loads(output)
        metrics["server_cpu"] = round(used / elapsed, 3)
        metrics["waited"] = round(waited / elapsed, 3)
        metrics["cpu_us"] = round(used / metrics["replies"] * 1e6, 3)
        metrics["user_us"] = round(metrics["cpu_us"] * user / max(1, user + system), 3)
        metrics["rss_mib"] = round(rss_kib(server.pid) / 1024, 1)
        return metrics

    def wrk(self, case, server, ready):
        from cases.realistic import BODY

        url = f"http://127.0.0.1:{ready['port']}/"

        def check():
            with urllib.request.urlopen(url, timeout=10) as response:
                if response.read() != BODY:
                    raise Failed("VALIDATION: unexpected body")

        check()
        cpu, _ = scheduled(server.pid)
        command = [
            "wrk",
            "-t",
            "1",
            *case.load[1:],
            "-d",
            f"{max(1, round(self.seconds))}s",
            "--latency",
            url,
        ]
        client = self.spawn(command, CLIENT_CORE, stderr=subprocess.PIPE)
        output, errors = client.communicate(timeout=self.seconds + 60)
        used = scheduled(server.pid)[0] - cpu
        check()
        if client.returncode != 0 or "Socket errors" in output or "Non-2xx" in output:
            raise Failed(f"wrk: {last_line(errors) or output}")
        replies = int(re.search(r"(\d+) requests in", output).group(1))
        scale = {"us": 1, "ms": 1e3, "s": 1e6}
        quantiles = re.findall(r"(50|99)%\s+([\d.]+)(us|ms|s)", output)
        latency = {f"p{share}_us": float(value) * scale[unit] for share, value, unit in quantiles}
        rate = float(re.search(r"Requests/sec:\s+([\d.]+)", output).group(1))
        return {"rate": rate, "replies": replies, "cpu_us": round(used / replies * 1e6, 3), **latency}

    def idle(self, case, server, ready):
        """Memory per open connection, then CPU while each connection sends one message per second."""
        connections = int(case.load[case.load.index("--conns") + 1])
        empty = rss_kib(server.pid)
        client = self.spawn(
            self.load_command(case, ready), CLIENT_CORE, stdin=subprocess.PIPE, stderr=subprocess.PIPE
        )
        try:
            readable, _, _ = select.select([client.stdout], [], [], 60)
            if not readable or client.stdout.readline() != "OPEN\n":
                client.kill()
                raise Failed(last_line(client.communicate()[1]) or "the connections did not open")
            time.sleep(0.3)
            full = rss_kib(server.pid)
            cpu, started = scheduled(server.pid)[0], time.perf_counter()
            output, errors = client.communicate("go\n", timeout=self.seconds + 60)
            used, elapsed = scheduled(server.pid)[0] - cpu, time.perf_counter() - started
        except subprocess.TimeoutExpired:
            raise Failed("the load generator did not finish: the server stalled") from None
        finally:
            client.kill()
        if client.returncode != 0:
            raise Failed(last_line(errors))
        metrics = json.loads(output)
        metrics["rss_kib_per_conn"] = round((full - empty) / connections, 3)
        metrics["idle_cpu_percent"] = round(used / elapsed * 100, 2)
        return metrics


def answer(process, word, limit):
    """The JSON value of the next output line that starts with `word`."""
    deadline = time.monotonic() + limit
    while True:
        readable, _, _ = select.select([process.stdout], [], [], max(0, deadline - time.monotonic()))
        if not readable:
            raise Failed(f"no {word} within {limit:.0f} s")
        line = process.stdout.readline()
        if not line:
            raise Failed(f"exited with code {process.wait()} before {word}")
        if line.startswith(word):
            return json.loads(line[len(word) :])


def last_line(text):
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1].strip() if lines else ""
