"""Helpers of the hostile programs: declaring a case, printing its results, and connections.

A case is a function in a file of ``cases/``.  It runs in a separate process, on asyncio's loop and on mainspring's, and
must print the same on both.  So it prints nothing that depends on time, addresses or sizes of segments.  A coroutine
function runs on a new loop that is closed afterwards; any other function creates its own loops with ``new_loop``.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import functools
import gc
import importlib
import inspect
import os
import pathlib
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import weakref
from collections import Counter
from collections.abc import Callable
from typing import Any

HERE = pathlib.Path(__file__).parent

# Timeout of a wait inside a case, in seconds.
LIMIT = 10

# By name, in the order of declaration.
cases: dict[str, Callable[..., Any]] = {}


# Cases that leak on purpose.
keeping: set[str] = set()


def case(
    function: Callable[..., Any] | None = None, *, since: tuple[int, int] = (3, 10), keeps: bool = False
) -> Any:
    """Declares a case, named after its file and its function.

    ``since`` is the first Python version that it applies to; ``keeps`` means that it leaks fds and objects on purpose.
    """
    if function is None:
        return functools.partial(case, since=since, keeps=keeps)
    name = f"{function.__module__.rpartition('.')[2]}/{function.__name__}"
    assert name not in cases, f"there are two cases {name}"
    if sys.version_info >= since:
        cases[name] = function
    if keeps:
        keeping.add(name)
    return function


def subjects() -> list[str]:
    return sorted(path.stem for path in (HERE / "cases").glob("*.py") if path.stem != "__init__")


def load(subject: str) -> None:
    """Declares the cases of one file."""
    importlib.import_module(f"cases.{subject}")


# --- output of a case


class Boom(Exception):
    """Raised by hostile callbacks."""


class Thunder(BaseException):
    """Raised by hostile callbacks; not an ``Exception``."""


def describe(error: BaseException | None) -> str:
    """An exception as it is compared."""
    if isinstance(error, OSError) and error.errno is not None:
        return f"{type(error).__name__}({errno.errorcode.get(error.errno, error.errno)})"
    return type(error).__name__


def show(*words: Any) -> None:
    """Prints a line of the result, flushed so that it is not lost if the process dies."""
    line = " ".join(describe(word) if isinstance(word, BaseException) else str(word) for word in words)
    os.write(1, line.encode() + b"\n")


def attempt(function: Callable[..., Any], *arguments: Any, **options: Any) -> str:
    """The outcome of a call: "fine", or the exception."""
    try:
        function(*arguments, **options)
    except BaseException as error:
        return describe(error)
    return "fine"


async def outcome(awaitable: Any) -> str:
    """The outcome of an awaitable, with a timeout: "fine", or the exception."""
    try:
        await asyncio.wait_for(awaitable, LIMIT)
    except BaseException as error:
        return describe(error)
    return "fine"


def quiet(loop: asyncio.AbstractEventLoop) -> None:
    """Ignores reports to the loop's exception handler."""
    loop.set_exception_handler(lambda loop, context: None)


def reporting(loop: asyncio.AbstractEventLoop, words: bool = True) -> None:
    """Prints reports to the loop's exception handler, with or without the message."""

    def report(loop: Any, context: dict[str, Any]) -> None:
        # The names of a loop's internal callbacks differ between loops.
        message = [context["message"].partition(" in callback ")[0]] if words else []
        show("reported", *message, describe(context.get("exception")))

    loop.set_exception_handler(report)


# --- loops

_kind = "asyncio"


def choose(kind: str) -> None:
    """Sets the kind of loop that ``new_loop`` creates."""
    global _kind
    _kind = kind


def loop_class() -> type[asyncio.AbstractEventLoop]:
    if _kind == "asyncio":
        return asyncio.SelectorEventLoop
    import mainspring

    return mainspring.Loop


def new_loop() -> asyncio.AbstractEventLoop:
    return loop_class()()


def run(awaitable: Any, loop: asyncio.AbstractEventLoop | None = None) -> Any:
    """Runs an awaitable with a timeout, on a new loop unless one is given."""
    if loop is not None:
        return loop.run_until_complete(_limited(awaitable))
    loop = new_loop()
    try:
        return loop.run_until_complete(_limited(awaitable))
    finally:
        finish(loop)


async def _limited(awaitable: Any) -> Any:
    return await asyncio.wait_for(awaitable, LIMIT)


def finish(loop: asyncio.AbstractEventLoop) -> None:
    """Cancels the remaining tasks of a loop, as ``asyncio.run()`` does, and closes it."""
    for task in asyncio.all_tasks(loop):
        task.cancel()
        with contextlib.suppress(BaseException):
            loop.run_until_complete(task)
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()


async def iterations(count: int = 5) -> None:
    """Lets the loop run ``count`` iterations."""
    for _ in range(count):
        await asyncio.sleep(0)


async def settle() -> None:
    """Lets the loop handle everything that is ready: it polls at least once during each of these sleeps."""
    for _ in range(10):
        await asyncio.sleep(0.001)


# --- connections


class Recorder(asyncio.Protocol):
    """Records its callbacks, and calls the function that ``script`` has for a callback."""

    def __init__(self, script: dict[str, Callable[..., Any]] | None = None) -> None:
        self.script = script or {}
        self.events: list[str] = []
        self.received = bytearray()
        self.transport: Any = None
        self.lost = asyncio.get_running_loop().create_future()
        self.arrived = asyncio.Event()

    def play(self, name: str, *arguments: Any) -> Any:
        # The kernel determines the number of pieces in which data arrives.
        if name != "data_received" or name not in self.events:
            self.events.append(name)
        action = self.script.get(name)
        return None if action is None else action(self, *arguments)

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.play("connection_made")

    def data_received(self, data: bytes) -> None:
        self.received += data
        self.arrived.set()
        self.play("data_received")

    def eof_received(self) -> Any:
        return self.play("eof_received")

    def pause_writing(self) -> None:
        self.play("pause_writing")

    def resume_writing(self) -> None:
        self.play("resume_writing")

    def connection_lost(self, error: Exception | None) -> None:
        if not self.lost.done():
            self.lost.set_result(error)
        self.play("connection_lost")

    async def end(self) -> str:
        """Waits for ``connection_lost`` and returns its argument as text."""
        return describe(await asyncio.wait_for(asyncio.shield(self.lost), LIMIT))

    async def has(self, count: int) -> bytes:
        """Waits for that much data."""
        async with _timeout():
            while len(self.received) < count:
                self.arrived.clear()
                await self.arrived.wait()
        return bytes(self.received[:count])


@contextlib.asynccontextmanager
async def _timeout():
    task = asyncio.current_task()
    timer = asyncio.get_running_loop().call_later(LIMIT, task.cancel)
    try:
        yield
    finally:
        timer.cancel()


def tcp_pair() -> tuple[socket.socket, socket.socket]:
    """Two connected TCP sockets."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = socket.create_connection(listener.getsockname())
        client.settimeout(LIMIT)
        server = listener.accept()[0]
    server.settimeout(LIMIT)
    return server, client


def unix_pair() -> tuple[socket.socket, socket.socket]:
    ours, theirs = socket.socketpair()
    theirs.settimeout(LIMIT)
    return ours, theirs


async def connected(
    script: dict[str, Callable[..., Any]] | None = None, pair: Callable[[], Any] = unix_pair, **options: Any
) -> tuple[Any, Recorder, socket.socket]:
    """A transport and its recorder at one end, a plain blocking socket at the other."""
    ours, theirs = pair()
    ours.setblocking(False)
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.create_connection(lambda: Recorder(script), sock=ours, **options)
    return transport, protocol, theirs


async def taken(peer: socket.socket, count: int) -> int:
    """Receives up to ``count`` bytes or until EOF, on the loop's own thread."""
    peer.setblocking(False)
    missing = count
    while missing > 0:
        try:
            data = peer.recv(min(missing, 1 << 16))
        except BlockingIOError:
            await asyncio.sleep(0)
        except OSError:
            break
        else:
            if not data:
                break
            missing -= len(data)
    return count - missing


def drained(peer: socket.socket) -> Any:
    """A future, run in a thread: the number of bytes that a peer receives until the end, and how the stream ended."""

    def drain() -> tuple[int, str]:
        count = 0
        try:
            while data := peer.recv(1 << 16):
                count += len(data)
        except OSError as error:
            return count, describe(error)
        return count, "eof"

    return asyncio.get_running_loop().run_in_executor(None, drain)


@functools.lru_cache
def certificate() -> tuple[str, str]:
    """The files of a self-signed certificate for localhost and of its key."""
    folder = tempfile.mkdtemp(prefix="hostile-")
    weakref.finalize(certificate, shutil.rmtree, folder, ignore_errors=True)
    paths = os.path.join(folder, "cert.pem"), os.path.join(folder, "key.pem")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
         "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-days", "2",
         "-out", paths[0], "-keyout", paths[1]],
        check=True, capture_output=True,
    )  # fmt: skip
    return paths


def contexts() -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """A server context and a client context that trusts it."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(*certificate())
    client = ssl.create_default_context(cafile=certificate()[0])
    return server, client


# --- one case, in this process


def open_fds() -> dict[int, str]:
    found = {}
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # the fd that lists the folder
            found[int(name)] = os.readlink(f"/proc/self/fd/{name}")
    return found


KINDS = {
    "loop": asyncio.AbstractEventLoop,
    "transport": asyncio.BaseTransport,
    "handle": asyncio.Handle,
    "protocol": asyncio.BaseProtocol,
    "server": asyncio.AbstractServer,
    "future": asyncio.Future,
}


def collect() -> None:
    # The second collects objects released by finalisers of the first.
    gc.collect()
    gc.collect()


def live_objects() -> Counter[str]:
    """The number of live loop objects, by type."""
    collect()
    types = Counter(map(type, gc.get_objects()))
    found: Counter[str] = Counter()
    for kind, base in KINDS.items():
        found[kind] = sum(count for type_, count in types.items() if issubclass(type_, base))
    return found


def run_case(name: str, kind: str) -> dict[str, Any]:
    """Runs a case in this process. Returns its leaks."""
    choose(kind)
    load(name.partition("/")[0])
    if name not in cases:
        raise SystemExit(f"there is no case {name} on this version of Python")
    function = cases[name]
    new_loop().close()  # permanent objects created by the first loop of a process are not leaks of the case
    if name.startswith("tls/"):
        certificate()
    before = open_fds()
    objects = live_objects()
    if inspect.iscoroutinefunction(function):
        run(function())
    else:
        function()
    if name in keeping:
        return {"fds": [], "objects": {}}
    left_objects = live_objects() - objects
    after = open_fds()
    return {
        "fds": sorted(target.partition(":")[0] for fd, target in after.items() if before.get(fd) != target),
        "objects": {kind: count for kind, count in sorted(left_objects.items()) if count},
    }
