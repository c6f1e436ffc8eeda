"""Random operations on pipe transports: reading ones, and writing ones whose reader may close."""

from __future__ import annotations

import os
import sys
from typing import Any

from compare import NO_MEASURE, program_of, programs, same_on_both, without_handles
from connections import FLOOD, Connection, RecordingProtocol, raising, steps_of
from hypothesis import given
from hypothesis import strategies as st


class PipeEnd:
    """One end of a pipe, with the socket methods that are used here."""

    def __init__(self, fd: int, mode: str) -> None:
        self.file = open(fd, mode, buffering=0)

    def fileno(self) -> int:
        return -1 if self.file.closed else self.file.fileno()

    def setblocking(self, flag: bool) -> None:
        os.set_blocking(self.file.fileno(), flag)

    def recv(self, size: int) -> bytes:
        return os.read(self.fileno(), size)

    def send(self, data: bytes) -> int:
        return os.write(self.fileno(), data)

    def close(self) -> None:
        self.file.close()


class Pipe(Connection):
    """A pipe: data and EOF arrive at once."""

    def pair(self) -> Any:
        reading, writing = os.pipe()
        return self.ends(PipeEnd(reading, "rb"), PipeEnd(writing, "wb"))

    @staticmethod
    def arranged(trace: Any) -> Any:
        return [without_handles(trace)]

    def arrive(self) -> None:
        pass

    def do_peer_closes(self) -> None:
        self.gone()

    def do_set_protocol(self, kind: str) -> None:
        if self.transport.is_closing():
            # At EOF asyncio has already chosen the protocol, and calls the previous one.
            self.note(NO_MEASURE)
        super().do_set_protocol(kind)

    def called(self, *entry: Any) -> None:
        if entry[0] == "connection_lost" and entry[2] is not None:
            # asyncio creates the exception for a closed reader itself, without errno.
            entry = (*entry[:2], entry[2][0])
        super().called(*entry)

    def do_ask(self, what: str) -> Any:
        if what == "extra":
            pipe = self.transport.get_extra_info("pipe")
            return what, pipe is not None, pipe is not None and pipe.closed
        return super().do_ask(what)


class Reading(Pipe):
    def ends(self, reading: PipeEnd, writing: PipeEnd) -> Any:
        return reading, writing

    def begin(self) -> None:
        self.stage.run(self.loop.connect_read_pipe(lambda: RecordingProtocol(self, "first"), self.ours.file))

    def do_abort(self) -> None:
        self.transport.close()

    def finish(self) -> None:
        self.note("closing", self.transport.is_closing(), self.ours.file.closed)
        self.armed.clear()
        self.do(("close",))
        self.settle()
        self.note("the fd is closed", self.ours.file.closed)


class Writing(Pipe):
    def ends(self, reading: PipeEnd, writing: PipeEnd) -> Any:
        return writing, reading

    def begin(self) -> None:
        self.stage.run(self.loop.connect_write_pipe(lambda: RecordingProtocol(self, "first"), self.ours.file))
        # asyncio resumes the protocol of a pipe only when the queue is empty, whatever the low-water mark.
        self.transport.set_write_buffer_limits(low=0)

    def finish(self) -> None:
        self.note("closing", self.transport.is_closing(), self.ours.file.closed)
        self.do_peer_reads()
        self.settle()
        self.armed.clear()
        if not self.peer_is_gone:
            self.note("the peer sees", self.read_once(), self.peer_received)
        if not self.ours.file.closed:
            self.do(("abort",))
            self.settle()
        self.note("the fd is closed", self.ours.file.closed)


# Written to pipes whose kernel buffer is 64 KiB.
sizes = st.sampled_from([0, 1, 1000, 3 * FLOOD])
both = st.sampled_from(
    [
        ("close",),
        ("abort",),
        ("set_protocol", "plain"),
        *(("ask", what) for what in ("is_closing", "extra", "protocol")),
    ]
)
reading_ours = st.one_of(
    both,
    st.sampled_from(
        [
            ("pause_reading",),
            ("resume_reading",),
            # asyncio's own pipes lack it before Python 3.11.
            *([("ask", "is_reading")] if sys.version_info >= (3, 11) else []),
        ]
    ),
)
reading_peers = st.one_of(
    st.tuples(st.just("peer_sends"), st.sampled_from([1, 10, 4000])), st.just(("peer_closes",))
)
READING_CAUSES = {
    "data_received": [("peer_sends", 10)],
    "eof_received": [("peer_closes",)],
    "connection_lost": [("close",)],
}
writing_ours = st.one_of(
    both,
    st.tuples(st.just("write"), sizes),
    st.tuples(st.just("write"), st.just(100), st.sampled_from(["bytearray", "memoryview"])),
    st.lists(sizes, max_size=3).map(lambda some: ("writelines", *some)),
    st.sampled_from([("write_eof",), ("ask", "waiting"), ("ask", "can_write_eof")]),
    st.tuples(st.just("limits"), st.sampled_from([None, 0, 500, 1 << 24, -1]), st.just(0)),
)
writing_peers = st.sampled_from([("peer_reads",), ("peer_closes",)])
WRITING_CAUSES = {
    "connection_lost": [("close",)],
    "pause_writing": [("write", 3 * FLOOD)],
    "resume_writing": [("write", 3 * FLOOD), ("peer_reads",)],
}


@programs(200)
@given(
    program_of(
        steps_of(st.one_of(reading_ours, reading_peers), st.one_of(reading_ours, raising), READING_CAUSES)
    )
)
def test_a_reading_pipe_behaves_as_on_asyncio(program):
    same_on_both(Reading, program)


writing_steps = steps_of(
    st.one_of(writing_ours, writing_peers), st.one_of(writing_ours, raising), WRITING_CAUSES
)


@programs(200)
@given(program_of(writing_steps))
def test_a_writing_pipe_behaves_as_on_asyncio(program):
    same_on_both(Writing, program)
