"""PostgreSQL and Redis for a test run: private instances on loopback, in temporary folders.

Each runs in the foreground as a child of the tests, so its process id is known.  It is ended by that id, or by the
kernel if the tests die first.
"""

from __future__ import annotations

import contextlib
import glob
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

# Timeout of starting and stopping a server, in seconds.
LIMIT = 60


def missing(what: str, package: str) -> None:
    pytest.skip(f"{what} is not installed (on Debian: apt-get install {package})")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return listening.getsockname()[1]


class Service:
    """A server program that prints a line when it is ready."""

    def __init__(self, command: list[str], ready: str, stop: signal.Signals, user: str | None = None) -> None:
        self.stop_signal = stop
        self.lines: list[str] = []
        self.ready = threading.Event()
        become = ["setpriv", "--pdeathsig", stop.name.removeprefix("SIG")]
        if user is not None:
            become += ["--reuid", user, "--regid", user, "--init-groups"]
        self.process = subprocess.Popen(
            [*become, "--", *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.reader = threading.Thread(target=self._read, args=(ready,), daemon=True)
        self.reader.start()

    def _read(self, ready: str) -> None:
        for line in self.process.stdout:
            self.lines.append(line)
            if ready in line:
                self.ready.set()
        self.ready.set()  # or the server has ended

    def wait_until_ready(self) -> bool:
        """Whether the server started. Its port may have been taken."""
        assert self.ready.wait(LIMIT), f"not ready after {LIMIT} s: {''.join(self.lines)}"
        return self.process.poll() is None

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(self.stop_signal)
        try:
            self.process.wait(LIMIT)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(LIMIT)
        self.reader.join(LIMIT)
        self.process.stdout.close()


@contextlib.contextmanager
def serving(command_for_port, ready: str, stop: signal.Signals, user: str | None = None) -> Iterator[int]:
    """Runs the command from ``command_for_port`` on a free port; tries another port if that one was taken meanwhile."""
    said = []
    for _ in range(3):
        port = free_port()
        service = Service(command_for_port(port), ready, stop, user)
        try:
            if service.wait_until_ready():
                yield port
                return
        finally:
            service.stop()
        said += service.lines
    raise RuntimeError(f"it ended at once, three times: {''.join(said)}")


@dataclass
class Postgres:
    port: int
    folder: str
    user: str = "mainspring"

    @property
    def url(self) -> str:
        return f"postgresql://{self.user}@127.0.0.1:{self.port}/postgres?sslmode=disable"


def postgres_program(name: str) -> str:
    """Finds a server program; Debian keeps them out of PATH."""
    found = shutil.which(name)
    if found is None:
        versions = glob.glob(f"/usr/lib/postgresql/*/bin/{name}")
        found = max(versions, key=lambda path: float(path.split("/")[4]), default=None)
    return found or missing("PostgreSQL", "postgresql")


@contextlib.contextmanager
def postgres(certificates: Path) -> Iterator[Postgres]:
    """A PostgreSQL server with TLS, using the leaf certificate of the authority in ``certificates``."""
    initdb, server = postgres_program("initdb"), postgres_program("postgres")
    # It refuses to run as root; Debian's package creates a user for it.
    user = "postgres" if os.getuid() == 0 else None
    folder = tempfile.mkdtemp(prefix="mainspring-pg-")
    try:
        become = []
        if user is not None:
            try:
                entry = pwd.getpwnam(user)
            except KeyError:
                pytest.skip("PostgreSQL does not run as root, and there is no user postgres")
            os.chown(folder, entry.pw_uid, entry.pw_gid)
            become = ["setpriv", "--reuid", user, "--regid", user, "--init-groups", "--"]
        data = f"{folder}/data"
        making = ["-D", data, "-U", Postgres.user, "--auth", "trust", "--no-sync", "--encoding", "UTF8"]
        done = subprocess.run(
            [*become, initdb, *making, "--locale", "C"],
            capture_output=True, text=True, timeout=LIMIT, cwd=folder,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        for name in ("leaf.pem", "leaf.key"):
            shutil.copy(certificates / name, f"{data}/{name}")
            os.chmod(f"{data}/{name}", 0o600)
            if user is not None:
                os.chown(f"{data}/{name}", entry.pw_uid, entry.pw_gid)
        settings = {
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": folder,
            "fsync": "off",
            "ssl": "on",
            "ssl_cert_file": "leaf.pem",
            "ssl_key_file": "leaf.key",
            "log_min_messages": "log",
        }
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        with serving(
            lambda port: [server, "-D", data, "-p", str(port), *options],
            "ready to accept connections",
            signal.SIGINT,
            user,
        ) as port:
            yield Postgres(port, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@dataclass
class Redis:
    port: int
    path: str


@contextlib.contextmanager
def redis() -> Iterator[Redis]:
    server = shutil.which("redis-server") or missing("Redis", "redis-server")
    with tempfile.TemporaryDirectory(prefix="mainspring-redis-") as folder:
        path = f"{folder}/redis.sock"
        options = ["--bind", "127.0.0.1", "--unixsocket", path, "--dir", folder, "--save", ""]
        with serving(
            lambda port: [server, *options, "--port", str(port)],
            "eady to accept connections",
            signal.SIGTERM,
        ) as port:
            yield Redis(port, path)
