"""Two stream readers side by side: asyncio's own and one with the native class."""

from __future__ import annotations

import asyncio
import sys

from hypothesis import strategies as st

from mainspring import _streams

CLASSES = (asyncio.StreamReader, _streams.StreamReader)
# Separators that overlap each other and themselves; the empty ones and the text are errors.
SEPARATORS = [b"\n", b"ab", b"aab", b"abab", bytearray(b"\n"), b"", "x"]
if sys.version_info >= (3, 13):
    SEPARATORS += [(b"a", b"ab"), (b"aab", b"\n"), (), (b"",)]

CHUNKS = st.lists(st.sampled_from([b"a", b"b", b"ab", b"\n", b"aab", b"a" * 9]), min_size=0, max_size=4).map(
    b"".join
)
READS = st.one_of(
    st.tuples(st.just("readline")),
    st.tuples(st.just("__anext__")),
    st.tuples(st.just("readuntil"), st.sampled_from(SEPARATORS)),
    st.tuples(st.just("read"), st.sampled_from([-1, 0, 1, 3, 100, True, 2.5, None])),
    st.tuples(st.just("readexactly"), st.sampled_from([-1, 0, 1, 5, 40, True, "x"])),
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("feed"), CHUNKS),
        st.tuples(st.just("start"), READS),
        st.tuples(st.just("start"), READS),
        st.tuples(st.just("run")),
        st.tuples(st.just("run")),
        st.tuples(st.just("cancel")),
        st.tuples(st.just("eof")),
        st.tuples(st.just("fail")),
    ),
    max_size=24,
)


class RecordingTransport:
    """A transport that records how it is paused and resumed."""

    def __init__(self, *, can_pause=True):
        self.calls = []
        self.can_pause = can_pause

    def pause_reading(self):
        self.calls.append("pause")
        if not self.can_pause:
            raise NotImplementedError

    def resume_reading(self):
        self.calls.append("resume")


def outcome(task):
    """What a task returned or raised, with the attributes of asyncio's exceptions."""
    if not task.done():
        return "pending"
    if task.cancelled():
        return "cancelled"
    error = task.exception()
    if error is None:
        return task.result()
    attributes = [getattr(error, name, None) for name in ("partial", "expected", "consumed")]
    return type(error), str(error), attributes


class Side:
    """One reader with its tasks."""

    def __init__(self, cls, limit, can_pause):
        self.transport = RecordingTransport(can_pause=can_pause)
        self.reader = asyncio.StreamReader(limit=limit)
        self.reader.set_transport(self.transport)
        self.reader.__class__ = cls
        self.tasks = []

    def start(self, method, *args):
        async def call():
            # The coroutine is created in the task, since `readexactly(n=...)` and others check nothing before.
            return await getattr(self.reader, method)(*args)

        self.tasks.append(asyncio.ensure_future(call()))

    def feed(self, data):
        try:
            self.reader.feed_data(data)
        except AssertionError as error:
            return str(error)
        return None

    def state(self):
        reader = self.reader
        return {
            "buffer": bytes(reader._buffer),
            "eof": reader._eof,
            "waits": reader._waiter is not None,
            "exception": repr(reader._exception),
            "paused": reader._paused,
            "transport": reader._transport is self.transport,
            "calls": self.transport.calls,
            "at_eof": reader.at_eof(),
            "repr": repr(reader).split(" waiter=")[0].split(" transport=")[0],
            "tasks": [outcome(task) for task in self.tasks],
        }


async def compare(steps, limit, can_pause=True):
    """Performs the steps on both readers, and compares their states after each step."""
    sides = [Side(cls, limit, can_pause) for cls in CLASSES]
    for step, *args in steps:
        if step == "feed":
            first, second = (side.feed(*args) for side in sides)
            assert first == second
        elif step == "start":
            # A second read that takes data from under one that waits: see docs/differences.md.
            if sides[0].reader._buffer and not all(task.done() for task in sides[0].tasks):
                continue
            for side in sides:
                side.start(*args[0])
        elif step == "cancel":
            for side in sides:
                if side.tasks:
                    side.tasks[-1].cancel()
        elif step == "eof":
            for side in sides:
                side.reader.feed_eof()
        elif step == "fail":
            # Tasks that were woken read first: see docs/differences.md.
            await asyncio.sleep(0)
            for side in sides:
                side.reader.set_exception(ConnectionResetError("test"))
        await asyncio.sleep(0)
        assert sides[1].state() == sides[0].state()
    for side in sides:
        for task in side.tasks:
            task.cancel()
        await asyncio.gather(*side.tasks, return_exceptions=True)
    assert sides[1].state() == sides[0].state()
