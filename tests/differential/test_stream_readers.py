"""Random reads and writes with asyncio's streams, with limits, on connections of either loop."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any

from compare import program_of, programs, same_on_both
from connections import FLOOD, INBOUND, OUTBOUND, Connection, describe_loss, pattern
from hypothesis import given
from hypothesis import strategies as st

# Small, so that reads exceed once and twice the limit, and the transport is paused.
LIMIT = 64


class Streams(Connection):
    """A StreamReader and a StreamWriter; each read and each drain is a separate task."""

    def __init__(self, stage: Any) -> None:
        self.tasks: dict[int, asyncio.Task[Any]] = {}
        self.started = 0
        super().__init__(stage)

    def pair(self) -> tuple[socket.socket, socket.socket]:
        ours, peer = socket.socketpair()
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, OUTBOUND)
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, INBOUND)
        return ours, peer

    def begin(self) -> None:
        self.reader, self.writer = self.stage.run(asyncio.open_connection(sock=self.ours, limit=LIMIT))
        self.transport = self.writer.transport

    def arrive(self) -> None:
        pass  # data of a Unix socket has arrived when send() returns

    # Tasks.

    def start(self, what: str, begin: Callable[[], Any]) -> None:
        self.started += 1
        number = self.started

        async def outcome() -> None:
            try:
                result = await begin()
            except asyncio.CancelledError:
                self.note("task", number, what, "cancelled")
                raise
            except asyncio.IncompleteReadError as error:
                self.note("task", number, what, "incomplete", error.partial, error.expected)
            except Exception as error:
                self.note("task", number, what, "raised", describe_loss(error))
            else:
                self.note("task", number, what, "gave", result)

        self.tasks[number] = self.loop.create_task(outcome())

    def do_read(self, size: int) -> None:
        self.start("read", lambda: self.reader.read(size))

    def do_readexactly(self, size: int) -> None:
        self.start("readexactly", lambda: self.reader.readexactly(size))

    def do_readline(self) -> None:
        self.start("readline", lambda: self.reader.readline())

    def do_readuntil(self, separator: bytes) -> None:
        self.start("readuntil", lambda: self.reader.readuntil(separator))

    def do_drain(self) -> None:
        self.start("drain", lambda: self.writer.drain())

    def do_wait_closed(self) -> None:
        self.start("wait_closed", lambda: self.writer.wait_closed())

    def do_cancel(self) -> None:
        """Cancels the newest pending task."""
        for number in sorted(self.tasks, reverse=True):
            if not self.tasks[number].done():
                self.tasks[number].cancel()
                return

    def do_write(self, size: int, kind: str = "bytes") -> None:
        with self.writing(size) as data:
            self.writer.write(data)

    def do_write_eof(self) -> None:
        self.writer.write_eof()

    def do_close(self) -> None:
        self.writer.close()

    def do_ask(self, what: str) -> Any:
        if what == "at_eof":
            return what, self.reader.at_eof()
        if what == "exception":
            return what, describe_loss(self.reader.exception())
        return super().do_ask(what)

    # The peer's.

    def do_peer_says(self, data: bytes) -> None:
        if not self.peer_is_gone and not self.peer_shut_down:
            try:
                self.peer_sent += self.peer.send(data)
            except OSError as error:
                self.note("the peer could not send", error.errno)

    def do_peer_sends(self, size: int) -> None:
        self.do_peer_says(pattern(self.peer_sent, size))

    def finish(self) -> None:
        for task in self.tasks.values():
            task.cancel()
        self.settle()
        super().finish()
        self.start("wait_closed", lambda: self.writer.wait_closed())
        self.settle()
        for task in self.tasks.values():
            task.cancel()
        self.settle()


sizes = st.sampled_from([0, 1, 10, LIMIT, 2 * LIMIT, 2 * LIMIT + 1, 5 * LIMIT, 1000])
reads = st.one_of(
    st.tuples(st.just("read"), st.one_of(sizes, st.just(-1))),
    st.tuples(st.just("readexactly"), st.one_of(sizes, st.just(-1))),
    st.just(("readline",)),
    st.tuples(st.just("readuntil"), st.sampled_from([b"\n", b"\r\n", b"ab", b"aaab", b""])),
)
others = st.one_of(
    st.tuples(st.just("write"), st.sampled_from([1, 1000, FLOOD])),
    st.sampled_from(
        [
            ("drain",),
            ("cancel",),
            ("write_eof",),
            ("close",),
            ("abort",),
            ("wait_closed",),
            ("ask", "at_eof"),
            ("ask", "exception"),
            ("ask", "is_reading"),
            ("limits", 0, 0),
        ]
    ),
)
said = st.one_of(
    st.lists(
        st.sampled_from([b"a", b"ab", b"aaab", b"\n", b"\r", b"\r\n", b"x" * 50]), min_size=1, max_size=6
    ).map(b"".join),
    st.sampled_from([b"y" * LIMIT, b"y" * (2 * LIMIT) + b"\n", b"z" * 1000]),
)
peers = st.one_of(
    st.tuples(st.just("peer_says"), said),
    st.sampled_from([("peer_reads",), ("peer_ends",), ("peer_closes",)]),
)
steps = st.one_of(
    reads.map(lambda one: [one]),
    st.tuples(st.just("peer_says"), said).map(lambda one: [one]),
    others.map(lambda one: [one]),
    peers.map(lambda one: [one]),
)


@programs(400)
@given(program_of(steps, most=14))
def test_streams_behave_as_on_asyncio(program):
    same_on_both(Streams, program)
