"""Stream transports: a connection whose other end is a plain socket that the test controls."""

from __future__ import annotations

import array
import asyncio
import contextlib
import errno
import fcntl
import select
import socket
import struct
import termios
from asyncio.selector_events import _SelectorSocketTransport
from typing import Any

from compare import NO_MEASURE
from hypothesis import strategies as st
from stage import MOST_PASSES, Stage, World

# Our data fills the kernel's buffers quickly, the peer's data never does.
OUTBOUND = 8 << 10
INBOUND = 1 << 20
# More than the kernel accepts, however it counts.
FLOOD = 100_000
# In some versions asyncio's own writelines() does not call pause_writing().
WRITELINES_NEVER_PAUSES = "writelines" in vars(_SelectorSocketTransport) and (
    "_maybe_pause_protocol" not in _SelectorSocketTransport.writelines.__code__.co_names
)
# Milliseconds to wait for the kernel, which normally delivers at once.
PATIENCE = 500


def readable_bytes(fd: int) -> int:
    count = array.array("i", [0])
    fcntl.ioctl(fd, termios.FIONREAD, count)
    return count[0]


_PERIOD = 1 << 20
_PATTERN = b"".join(struct.pack(">I", number) for number in range(_PERIOD // 4)) * 2


def pattern(start: int, size: int) -> bytes:
    """Bytes that encode their position in the stream."""
    start %= _PERIOD
    return _PATTERN[start : start + size]


class RecordingProtocol(asyncio.Protocol):
    """A protocol that records its callbacks in the world's trace."""

    def __init__(self, world: Any, name: str) -> None:
        self.world, self.name = world, name

    def connection_made(self, transport: Any) -> None:
        if self.world.transport is None:
            self.world.transport = transport
        self.world.called("connection_made", self.name, transport is self.world.transport)

    def data_received(self, data: bytes) -> None:
        self.world.consumed += len(data)
        self.world.called("data_received", self.name, bytes(data))

    def eof_received(self) -> Any:
        self.world.called("eof_received", self.name)
        return self.world.keeps_open

    def connection_lost(self, exc: BaseException | None) -> None:
        self.world.called("connection_lost", self.name, describe_loss(exc))

    def pause_writing(self) -> None:
        self.world.called("pause_writing", self.name)

    def resume_writing(self) -> None:
        self.world.called("resume_writing", self.name)


class BufferedRecordingProtocol(RecordingProtocol, asyncio.BufferedProtocol):
    """The same as a BufferedProtocol."""

    def __init__(self, world: Any, name: str) -> None:
        super().__init__(world, name)
        self.buffer = bytearray(INBOUND)

    def get_buffer(self, sizehint: int) -> Any:
        self.world.called("get_buffer", self.name, sizehint)
        # Over TLS asyncio loses data beyond the first slice, unless the buffer is a memoryview.
        return memoryview(self.buffer)

    def buffer_updated(self, nbytes: int) -> None:
        data = bytes(self.buffer[:nbytes])
        self.world.consumed += nbytes
        self.world.called("buffer_updated", self.name, data)


def describe_loss(exc: BaseException | None) -> Any:
    if isinstance(exc, OSError):
        return (type(exc).__name__, exc.errno)
    return None if exc is None else (type(exc).__name__, str(exc))


class Connection(World):
    """A transport on a socket, and the socket at the other end."""

    transport: Any = None
    keeps_open: Any = None

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        self.consumed = 0  # by the peer
        self.peer_sent = 0
        self.written = 0  # by us
        self.peer_received = 0
        self.peer_is_gone = self.peer_shut_down = False
        self.successors = 0
        self.ours, self.peer = self.pair()
        self.peer.setblocking(False)
        self.ours.setblocking(False)

    def pair(self) -> tuple[socket.socket, socket.socket]:
        raise NotImplementedError

    def begin(self) -> None:
        self.stage.run(self.loop.create_connection(lambda: RecordingProtocol(self, "first"), sock=self.ours))

    # The kernel.

    def arrive(self) -> None:
        """Waits until data, EOF and resets from the peer have reached our socket or have been consumed."""
        if self.ours.fileno() < 0:
            return
        if self.peer_is_gone and self.peer_is_reset():
            self.poll(select.POLLHUP | select.POLLERR)
        elif self.peer_shut_down:
            self.poll(select.POLLRDHUP)
        else:
            for _ in range(PATIENCE):
                if self.consumed + readable_bytes(self.ours.fileno()) >= self.peer_sent:
                    return
                select.poll().poll(1)

    def peer_is_reset(self) -> bool:
        return self.was_reset or self.written > self.written_when_gone

    was_reset = False
    written_when_gone = 0

    def poll(self, events: int) -> None:
        if self.ours.fileno() < 0:
            return
        poller = select.poll()
        poller.register(self.ours.fileno(), events)
        poller.poll(PATIENCE)

    # Ours.

    @contextlib.contextmanager
    def writing(self, size: int):
        """The next bytes of our stream. The write may call back, and the callback may write."""
        data = pattern(self.written, size)
        self.written += size
        try:
            yield data
        except RuntimeError:
            self.written -= size  # refused after write_eof()
            raise

    def do_write(self, size: int, kind: str = "bytes") -> None:
        with self.writing(size) as data:
            self.transport.write(
                {"bytes": bytes, "bytearray": bytearray, "memoryview": memoryview}[kind](data)
            )

    def do_write_nonsense(self) -> None:
        self.transport.write("text")

    def do_writelines(self, *sizes: int) -> None:
        with self.writing(sum(sizes)) as data:
            parts, start = [], 0
            for size in sizes:
                parts.append(data[start : start + size])
                start += size
            self.transport.writelines(parts)
        if WRITELINES_NEVER_PAUSES and self.transport.get_write_buffer_size():
            self.note(NO_MEASURE)

    def do_write_eof(self) -> None:
        self.transport.write_eof()

    def do_close(self) -> None:
        self.transport.close()

    def do_abort(self) -> None:
        self.transport.abort()

    def do_pause_reading(self) -> None:
        self.transport.pause_reading()

    def do_resume_reading(self) -> None:
        self.transport.resume_reading()

    def do_ask(self, what: str) -> Any:
        if what == "waiting":
            return what, bool(self.transport.get_write_buffer_size())
        if what == "extra":
            sock = self.transport.get_extra_info("socket")
            return what, sock is None, sock is not None and sock.fileno() >= 0
        if what == "names":
            known = [self.transport.get_extra_info(name, "unknown") for name in ("sockname", "peername")]
            return what, [name is None or name == "unknown" for name in known]
        if what == "protocol":
            return what, getattr(self.transport.get_protocol(), "name", None)
        return what, getattr(self.transport, what)()

    def do_limits(self, high: int | None, low: int | None) -> None:
        self.transport.set_write_buffer_limits(high=high, low=low)

    def do_set_protocol(self, kind: str) -> None:
        self.successors += 1
        protocol_class = {"plain": RecordingProtocol, "buffered": BufferedRecordingProtocol}[kind]
        self.transport.set_protocol(protocol_class(self, f"successor {self.successors}"))

    def do_keep_open_at_eof(self, keeps: bool) -> None:
        self.keeps_open = keeps

    def fires(self, callback: str, operation: tuple[Any, ...]) -> None:
        if callback == "connection_lost" and operation[0].startswith("write"):
            if getattr(self.transport, "_conn_lost", 1) == 0:
                # asyncio does not notice that the last flush lost the connection.
                self.note(NO_MEASURE)

    def fired(self, callback: str) -> None:
        if callback == "resume_writing" and (self.transport is None or self.transport.is_closing()):
            # asyncio then calls connection_lost() twice or fails an assertion.
            self.note(NO_MEASURE)

    # The peer's.

    def do_peer_sends(self, size: int) -> None:
        if not self.peer_is_gone and not self.peer_shut_down:
            with contextlib.suppress(OSError):
                self.peer_sent += self.peer.send(pattern(self.peer_sent, size))

    def do_peer_ends(self) -> None:
        if not self.peer_is_gone and not self.peer_shut_down:
            with contextlib.suppress(OSError):
                self.peer.shutdown(socket.SHUT_WR)
                self.peer_shut_down = True

    def do_peer_closes(self) -> None:
        if not self.peer_is_gone:
            self.was_reset = readable_bytes(self.peer.fileno()) > 0
            self.gone()

    def do_peer_resets(self) -> None:
        if not self.peer_is_gone:
            self.was_reset = True
            self.peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.gone()

    def gone(self) -> None:
        self.peer_is_gone = self.peer_shut_down = True
        self.written_when_gone = self.written
        self.peer.close()

    def do_peer_reads(self) -> None:
        """The peer reads everything, including the data that is still queued in the transport."""
        if self.firing or self.peer_is_gone:
            return
        for _ in range(MOST_PASSES):
            self.read_once()
            if not self.transport.get_write_buffer_size():
                break
            self.poll(select.POLLOUT)
            self.one_iteration()
        self.note("the peer has read")

    def read_once(self) -> Any:
        try:
            while data := self.peer.recv(1 << 18):
                if data != pattern(self.peer_received, len(data)):
                    self.note("the peer was sent something else")
                self.peer_received += len(data)
        except BlockingIOError:
            return "open"
        except OSError as error:
            return errno.errorcode[error.errno]
        return "end"

    # The end.

    def finish(self) -> None:
        self.note("closing", self.transport.is_closing(), self.ours.fileno() < 0)
        orderly = self.transport.is_closing() and not self.was_reset
        if not self.peer_is_gone:
            self.do_peer_reads()
            self.settle()
            self.note("the peer sees", self.read_once(), self.peer_received if orderly else None)
        if not self.transport.is_closing():
            self.do(("abort",))
        self.settle()
        self.armed.clear()
        self.settle()
        if self.ours.fileno() >= 0:
            # Its last bytes have no receiver.
            self.do(("abort",))
            self.settle()
        self.note("the fd is closed", self.ours.fileno() < 0)

    def close_all(self) -> None:
        self.ours.close()
        self.peer.close()


class Tcp(Connection):
    def pair(self) -> tuple[socket.socket, socket.socket]:
        with socket.socket() as listening:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, OUTBOUND)
            listening.bind(("127.0.0.1", 0))
            listening.listen()
            ours = socket.socket()
            ours.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, INBOUND)
            ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, OUTBOUND)
            ours.connect(listening.getsockname())
            peer, _ = listening.accept()
        return ours, peer


class Unix(Connection):
    def pair(self) -> tuple[socket.socket, socket.socket]:
        ours, peer = socket.socketpair()
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, OUTBOUND)
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, INBOUND)
        return ours, peer


# The callbacks, and the operation that triggers each.
CAUSES = {
    "data_received": [("peer_sends", 10)],
    "eof_received": [("peer_ends",)],
    "connection_lost": [("close",)],
    "pause_writing": [("write", FLOOD)],
    "resume_writing": [("write", FLOOD), ("peer_reads",)],
    "get_buffer": [("set_protocol", "buffered"), ("peer_sends", 10)],
    "buffer_updated": [("set_protocol", "buffered"), ("peer_sends", 10)],
}

sizes = st.sampled_from([0, 1, 10, 1000, FLOOD])

# On any transport that can send.
sending = st.one_of(
    st.tuples(st.just("write"), sizes),
    st.tuples(st.just("write"), st.just(100), st.sampled_from(["bytearray", "memoryview"])),
    st.lists(sizes, max_size=3).map(lambda some: ("writelines", *some)),
    st.sampled_from([("write_nonsense",), ("write_eof",), ("close",), ("abort",)]),
    st.tuples(
        st.just("limits"),
        st.sampled_from([None, 0, 500, 1 << 24, -1]),
        st.sampled_from([None, 0, 100, 1 << 20]),
    ),
)
receiving = st.sampled_from([("pause_reading",), ("resume_reading",)])
asking = st.sampled_from(
    [
        ("ask", what)
        for what in (
            "is_closing", "is_reading", "waiting", "extra", "names", "protocol", "can_write_eof",
            "get_write_buffer_limits",
        )
    ]
)  # fmt: skip
setting = st.sampled_from(
    [
        ("set_protocol", "plain"),
        ("set_protocol", "buffered"),
        ("keep_open_at_eof", True),
        ("keep_open_at_eof", False),
    ]
)
ours = st.one_of(sending, receiving, asking, setting)
peers = st.one_of(
    st.tuples(st.just("peer_sends"), st.sampled_from([1, 10, 4000])),
    st.sampled_from([("peer_reads",), ("peer_ends",), ("peer_closes",), ("peer_resets",)]),
)
raising = st.sampled_from([("raise", "Boom"), ("raise", "SystemExit")])


def steps_of(
    operation: st.SearchStrategy[Any], inside: st.SearchStrategy[Any], causes: dict[str, list[Any]]
) -> st.SearchStrategy[list[Any]]:
    """Steps of a program: an operation; an operation armed for a callback; an armed operation and its trigger."""
    armed = st.tuples(st.just("arm"), st.sampled_from(list(causes)), inside)
    return st.one_of(
        operation.map(lambda one: [one]),
        armed.map(lambda one: [one]),
        armed.map(lambda one: [one, *causes[one[1]]]),
    )


steps = steps_of(st.one_of(ours, peers), st.one_of(ours, raising), CAUSES)
