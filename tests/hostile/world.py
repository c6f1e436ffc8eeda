"""The fuzzer's programs: one loop, objects of every kind on it, and random calls with random arguments.

A program is a list of steps that depends only on a seed, so it is the same on every loop.  A step picks an object by
number, among those that earlier steps created.  After each step the loop runs a fixed number of iterations.  All
connections are Unix pairs and pipes, whose data has arrived when the send returns.  So the trace depends on the loop
alone.

The trace contains, for each step, whether it returned or which exception it raised, and for each object its callbacks
in order.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import math
import os
import random
import socket
import sys
from typing import Any

# Iterations after a step, enough to finish everything that it started.
ROUNDS = 6
STEPS = 60

NUMBERS = [0, 1, -1, 0.001, 1e9, math.inf, -math.inf, 2**70, True, None, "1", b"1", [], object()]
CALLABLES = ["note", "act", "act", "raise", None, 5]
DATA = [
    b"",
    b"x",
    b"y" * 5000,
    b"large" * 100_000,
    bytearray(b"z" * 100),
    memoryview(b"view"),
    "text",
    None,
    5,
    [b"x"],
]

# The kinds of steps and their weights.
WEIGHTS = {
    "call_soon": 4, "call_later": 3, "call_soon_threadsafe": 2, "handle": 4, "connect": 4, "write": 6, "transport": 6,
    "abort": 1, "limits": 2, "peer": 10, "sock": 5, "cancel": 2, "reader": 4, "stream": 6, "server": 4, "loop": 3,
}  # fmt: skip
NAMES = [name for name, weight in WEIGHTS.items() for _ in range(weight)]


class Boom(Exception):
    pass


def outcome(error: BaseException) -> str:
    return type(error).__name__


class Fuzzed(asyncio.Protocol):
    """Records its callbacks under its name, and may misbehave once in one of them."""

    def __init__(self, world: World, name: str, misbehaves: tuple[str, Any] | None) -> None:
        self.world, self.name, self.misbehaves = world, name, misbehaves
        self.transport: Any = None
        self.count = 0

    def called(self, callback: str, *details: Any) -> Any:
        self.world.note(self.name, callback, *details)
        if self.misbehaves and self.misbehaves[0] == callback:
            action, self.misbehaves = self.misbehaves[1], None
            if action == "raise":
                raise Boom
            if action == "keep":
                return True
            if isinstance(action, list):
                return self.world.nested(*action)
            with contextlib.suppress(Exception):
                getattr(self.transport, action)()

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.called("connection_made")

    def data_received(self, data: bytes) -> None:
        self.count += len(data)
        self.called("data_received", self.count)

    def eof_received(self) -> Any:
        return self.called("eof_received")

    def pause_writing(self) -> None:
        self.called("pause_writing")

    def resume_writing(self) -> None:
        self.called("resume_writing")

    def connection_lost(self, error: Exception | None) -> None:
        self.called("connection_lost", outcome(error) if error else None)


class World:
    def __init__(self, loop: asyncio.AbstractEventLoop, seed: int) -> None:
        self.loop = loop
        self.random = random.Random(seed)
        self.trace: dict[str, list[Any]] = {"steps": [], "callbacks": [], "reports": []}
        self.objects: dict[str, list[Any]] = {
            kind: []
            for kind in ("handle", "timer", "transport", "peer", "socket", "future", "stream", "server")
        }
        # The sockets that a task waits for, and the task's name.
        self.watched: list[tuple[Any, str]] = []
        self.made = 0
        self.depth = 0
        loop.set_exception_handler(self.report)

    # --- trace

    def note(self, name: str, *details: Any) -> None:
        self.trace.setdefault(name, []).append(list(details))

    def report(self, loop: Any, context: dict[str, Any]) -> None:
        error = context.get("exception")
        self.trace["reports"].append(outcome(error) if error else None)

    # --- random choices

    def pick(self, kind: str) -> Any:
        """One of the objects of a kind, or None. Always draws the same amount of randomness."""
        number = self.random.randrange(1 << 30)
        return self.objects[kind][number % len(self.objects[kind])] if self.objects[kind] else None

    def draw(self, values: list[Any]) -> Any:
        return values[self.random.randrange(len(values))]

    def callback(self) -> Any:
        kind = self.draw(CALLABLES)
        name, step = self.name("callback"), self.step()
        if kind == "note":
            return lambda *arguments: self.trace["callbacks"].append(name)
        if kind == "act":
            return lambda *arguments: (self.trace["callbacks"].append(name), self.nested(*step))
        if kind == "raise":

            def fails(*arguments: Any) -> None:
                self.trace["callbacks"].append(name)
                raise Boom

            return fails
        return kind

    def name(self, kind: str) -> str:
        self.made += 1
        return f"{kind}-{self.made}"

    def protocol(self) -> Any:
        misbehaves = None
        if self.random.random() < 0.3:
            misbehaves = (
                self.draw(
                    ["connection_made", "data_received", "eof_received", "pause_writing", "connection_lost"]
                ),
                self.draw(["raise", "keep", "close", "abort", "pause_reading", *[self.step()] * 5]),
            )
            if misbehaves == ("connection_made", "pause_reading") and sys.version_info < (3, 11):
                misbehaves = None  # asyncio 3.10 forgets it
        name = self.name("protocol")
        return lambda: Fuzzed(self, name, misbehaves)

    def step(self) -> list[Any]:
        """The name of a step, and the seed of its random choices."""
        return [self.draw(NAMES), self.random.randrange(1 << 60)]

    # --- steps

    def nested(self, name: str, seed: int) -> None:
        """A step inside a callback."""
        if self.depth >= 3:
            return
        outer = self.random, self.made
        self.depth += 1
        try:
            self.take(self.made, name, seed)
        finally:
            self.depth -= 1
            self.random, self.made = outer[0], self.made + 100

    def take(self, number: int, name: str, seed: int) -> None:
        # Each step has its own random generator, so that skipping one does not change the others.
        self.random = random.Random(seed)
        try:
            getattr(self, "step_" + name)()
        except Exception as error:
            self.note("steps", number, name, outcome(error))
        else:
            self.note("steps", number, name, "fine")

    def step_call_soon(self) -> None:
        self.objects["handle"].append(self.loop.call_soon(self.callback(), *range(self.random.randrange(3))))

    def step_call_later(self) -> None:
        # Only deadlines that are due at once or never: nothing depends on the clock.
        delay, callback = self.draw([-1, math.inf, 1e6, None, "1", []]), self.callback()
        self.objects["timer"].append(self.loop.call_later(delay, callback))

    def step_call_soon_threadsafe(self) -> None:
        self.objects["handle"].append(self.loop.call_soon_threadsafe(self.callback()))

    def step_handle(self) -> None:
        method = self.draw(["cancel", "cancelled", "__hash__", "__repr__"])
        handle = self.pick(self.draw(["handle", "timer"]))
        if handle is not None:
            result = getattr(handle, method)()
            if method == "cancelled":
                self.note("steps", "cancelled", result)

    def step_connect(self) -> None:
        factory = self.protocol()
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        theirs.setblocking(False)
        self.objects["peer"].append(theirs)

        async def connect() -> None:
            try:
                transport, _ = await self.loop.create_connection(factory, sock=ours)
            except Boom:
                ours.close()
                raise
            self.objects["transport"].append(transport)

        self.objects["future"].append(self.loop.create_task(connect()))

    def step_write(self) -> None:
        data = self.draw(DATA)
        if (transport := self.pick("transport")) is not None:
            transport.write(data)

    def step_transport(self) -> None:
        method = self.draw(
            ["close", "pause_reading", "resume_reading", "write_eof", "is_closing", "is_reading", "can_write_eof",
             "get_write_buffer_limits", "__repr__"]
        )  # fmt: skip
        if (transport := self.pick("transport")) is not None:
            result = getattr(transport, method)()
            if method.startswith(("is_", "can_")):
                self.note("steps", method, result)

    def step_abort(self) -> None:
        transport = self.pick("transport")
        # asyncio fails if abort() is called on a finished transport.
        if transport is not None and not transport.is_closing():
            transport.abort()

    def step_limits(self) -> None:
        high, low = self.draw([*NUMBERS[:4], None, "1"]), self.draw([None, 0, 1, -1])
        if (transport := self.pick("transport")) is not None:
            transport.set_write_buffer_limits(high, low)

    def step_peer(self) -> None:
        what, size = (
            self.draw(["send", "send", "recv", "recv", "shutdown", "close"]),
            self.draw([1, 100, 100_000]),
        )
        peer = self.pick("peer")
        if peer is None:
            return
        with contextlib.suppress(OSError):
            if what == "send":
                peer.send(b"p" * min(size, 1000))
            elif what == "recv":
                peer.recv(size)
            elif what == "shutdown":
                peer.shutdown(socket.SHUT_WR)
            else:
                peer.close()

    def step_sock(self) -> None:
        """A ``sock_*`` coroutine on a plain socket, which may be cancelled later."""
        what, size, data = (
            self.draw(["recv", "recv_into", "sendall", "accept"]),
            self.draw([1, 10, -1, "x"]),
            self.draw(DATA),
        )
        if self.random.random() < 0.4 or not self.objects["socket"]:
            ours, theirs = socket.socketpair()
            ours.setblocking(False)
            theirs.setblocking(False)
            self.objects["socket"].append(ours)
            self.objects["peer"].append(theirs)
        sock = self.pick("socket")
        if any(sock is used for used, _ in self.watched):
            return  # asyncio lets the second replace the first
        argument = {"recv": size, "recv_into": bytearray(10), "sendall": data}.get(what)
        arguments = () if what == "accept" else (argument,)
        name = self.name("sock")

        async def operate() -> None:
            self.note(name, what)
            try:
                await getattr(self.loop, "sock_" + what)(sock, *arguments)
            except BaseException as error:
                self.note(name, outcome(error))
                raise
            else:
                self.note(name, "done")
            finally:
                self.watched.remove((sock, name))

        self.watched.append((sock, name))
        self.objects["future"].append(self.loop.create_task(operate()))

    def step_cancel(self) -> None:
        if (future := self.pick("future")) is not None:
            self.note("steps", "cancel", future.cancel())

    def step_reader(self) -> None:
        what = self.draw(["add_reader", "add_writer", "remove_reader", "remove_writer"])
        callback, bad = self.callback(), self.draw([False, False, False, -1, 10**7, "x", None])
        sock = self.pick("socket")
        if bad is not False:
            sock = bad
        elif sock is None or any(sock is used for used, _ in self.watched):
            return
        if what.startswith("add"):
            # Called in every iteration while the fd is ready, so it removes itself.
            name = self.name("watch")
            remove = getattr(self.loop, what.replace("add", "remove"))
            getattr(self.loop, what)(
                sock, lambda: (self.note(name, "ready"), remove(sock)) if callback else None
            )
        else:
            self.note("steps", what, getattr(self.loop, what)(sock))

    def step_stream(self) -> None:
        what = self.draw(["open", "read", "readline", "readexactly", "write", "drain", "close", "at_eof"])
        count, limit = self.draw([0, 1, 10, -1]), self.draw([1, 100, 65536, 0])
        name = self.name("stream")
        if what == "open" or not self.objects["stream"]:
            ours, theirs = socket.socketpair()
            theirs.setblocking(False)
            self.objects["peer"].append(theirs)

            async def open_stream() -> None:
                try:
                    self.objects["stream"].append(await asyncio.open_connection(sock=ours, limit=limit))
                except ValueError as error:
                    self.note(name, outcome(error))
                    ours.close()

            self.objects["future"].append(self.loop.create_task(open_stream()))
            return
        reader, writer = self.pick("stream")

        async def use() -> None:
            self.note(name, what)
            try:
                if what == "at_eof":
                    result = reader.at_eof()
                elif what in ("write", "close"):
                    result = getattr(writer, what)(*([b"w" * 100] if what == "write" else []))
                elif what == "drain":
                    result = await writer.drain()
                else:
                    result = await getattr(reader, what)(*([] if what == "readline" else [count]))
                self.note(name, len(result) if isinstance(result, bytes) else result)
            except BaseException as error:
                self.note(name, outcome(error))
                raise

        self.objects["future"].append(self.loop.create_task(use()))

    def step_server(self) -> None:
        what, factory = self.draw(["make", "connect", "close", "is_serving", "sockets"]), self.protocol()
        path = f"server-{len(self.objects['server'])}"
        if what == "make":

            async def make() -> None:
                self.objects["server"].append((await self.loop.create_unix_server(factory, path), path))

            self.objects["future"].append(self.loop.create_task(make()))
        elif (found := self.pick("server")) is not None:
            server, path = found
            if what == "connect":
                peer = socket.socket(socket.AF_UNIX)
                peer.setblocking(False)
                self.objects["peer"].append(peer)
                peer.connect(path)
            elif what == "close":
                server.close()
            else:
                result = getattr(server, what)
                self.note("steps", what, result() if callable(result) else len(result))

    def step_loop(self) -> None:
        """Calls of loop methods with mostly wrong arguments."""
        method = self.draw(
            ["set_debug", "get_debug", "is_running", "is_closed", "set_exception_handler", "set_task_factory", "call_at",
             "run_in_executor", "add_signal_handler", "remove_signal_handler", "create_task", "create_future",
             "call_exception_handler", "run_until_complete"]
        )  # fmt: skip
        bad = self.draw([5, "x", b"", 1.5])
        arguments = {
            "get_debug": (), "is_running": (), "is_closed": (), "create_future": (), "set_debug": (self.draw([True, False]),),
            "call_exception_handler": ({"message": "fuzz"},), "call_at": ("x", self.callback()),
            "add_signal_handler": (bad, self.callback()),
        }.get(method, (bad,))  # fmt: skip
        if method == "call_at":
            arguments = (-1e9, arguments[1])
        result = getattr(self.loop, method)(*arguments)
        if method in ("is_running", "is_closed"):
            self.note("steps", method, result)

    def go_round(self) -> None:
        for _ in range(ROUNDS):
            self.loop.stop()
            self.loop.run_forever()

    def play(self, skip: frozenset[int] = frozenset()) -> dict[str, list[Any]]:
        """Runs the program without the steps in ``skip`` and returns the trace."""
        program = [self.step() for _ in range(STEPS)]
        for number, (name, seed) in enumerate(program):
            if number in skip:
                continue
            self.made = number * 10_000
            self.take(number, name, seed)
            self.go_round()
        self.finish()
        return self.trace

    def finish(self) -> None:
        """Ends everything; the resulting callbacks are in the trace, too."""
        for kind in ("handle", "timer"):
            for handle in self.objects[kind]:
                handle.cancel()
        for future in self.objects["future"]:
            future.cancel()
        self.go_round()
        for sock in self.objects["socket"]:
            self.loop.remove_reader(sock)
            self.loop.remove_writer(sock)
        for server, path in self.objects["server"]:
            server.close()
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
        for _, writer in self.objects["stream"]:
            writer.close()
        for peer in (*self.objects["peer"], *self.objects["socket"]):
            peer.close()
        self.go_round()
        for transport in self.objects["transport"]:
            transport.close()
        self.go_round()
        for future in self.objects["future"]:
            if future.done() and not future.cancelled():
                future.exception()
        self.loop.set_task_factory(None)
        self.loop.close()
        for objects in self.objects.values():
            objects.clear()
        gc.collect()
