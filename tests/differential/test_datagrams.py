"""Random operations on a datagram transport: UDP, connected or not, and Unix datagrams, whose queue can fill."""

from __future__ import annotations

import asyncio
import contextlib
import select
import socket
from typing import Any

from compare import NO_MEASURE, program_of, programs, same_on_both, without_handles
from connections import PATIENCE, describe_loss, raising, steps_of
from hypothesis import given
from hypothesis import strategies as st
from stage import MOST_PASSES, Stage, World


class RecordingProtocol(asyncio.DatagramProtocol):
    def __init__(self, world: Any, name: str) -> None:
        self.world, self.name = world, name

    def connection_made(self, transport: Any) -> None:
        self.world.transport = transport
        self.world.called("connection_made", self.name)

    def datagram_received(self, data: bytes, addr: Any) -> None:
        self.world.called("datagram_received", self.name, data, self.world.name_of(addr))

    def error_received(self, exc: Exception) -> None:
        self.world.called("error_received", self.name, describe_loss(exc))

    def connection_lost(self, exc: Exception | None) -> None:
        self.world.called("connection_lost", self.name, describe_loss(exc))

    def pause_writing(self) -> None:
        self.world.called("pause_writing", self.name)

    def resume_writing(self) -> None:
        self.world.called("resume_writing", self.name)


class Endpoint(World):
    """A datagram transport, its peer, and a third socket. Everything is delivered before send() returns."""

    transport: Any = None
    is_connected = False

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        self.open_sockets()
        for sock in (self.ours, self.peer, self.stranger):
            sock.setblocking(False)
        self.peer_address = self.peer.getsockname()
        self.peer_is_gone = False
        self.sent = 0
        self.successors = 0

    @staticmethod
    def arranged(trace: Any) -> Any:
        return [without_handles(trace)]

    def begin(self) -> None:
        self.stage.run(
            self.loop.create_datagram_endpoint(lambda: RecordingProtocol(self, "first"), sock=self.ours)
        )

    def open_sockets(self) -> None:
        self.ours, self.peer, self.stranger = (
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(3)
        )
        for sock in (self.ours, self.peer, self.stranger):
            sock.bind(("127.0.0.1", 0))
        if self.is_connected:
            self.ours.connect(self.peer.getsockname())

    def name_of(self, address: Any) -> str:
        known = {self.peer_address: "the peer"}
        if self.stranger.fileno() >= 0:
            known[self.stranger.getsockname()] = "the stranger"
        return known.get(address, repr(address))

    def called(self, *entry: Any) -> None:
        super().called(*entry)
        if entry[0] in ("pause_writing", "resume_writing"):
            self.is_paused = entry[0] == "pause_writing"
        if entry[0] == "error_received" and self.is_paused:
            # After an error on a queued datagram asyncio stays registered for writing, and the protocol stays paused.
            self.note(NO_MEASURE)

    is_paused = False

    def fired(self, callback: str) -> None:
        if callback == "resume_writing" and self.transport.is_closing():
            self.note(NO_MEASURE)  # as on a connection

    # Ours.

    def do_sendto(self, size: int, target: str) -> None:
        addresses = {
            "none": None,
            "the peer": self.peer_address,
            "the stranger": self.stranger.getsockname(),
            "nonsense": ("127.0.0.1", "port"),
            "an unreachable port": ("127.0.0.1", 1),
        }
        if self.is_lost:
            # asyncio silently queues it if the queue is not empty; otherwise it fails on the socket that it dropped.
            self.note(NO_MEASURE)
        self.sent += 1
        self.transport.sendto((b"%d " % self.sent).ljust(size, b".")[:size], addresses[target])

    def do_sendto_nonsense(self) -> None:
        self.transport.sendto("text", self.peer_address)

    def do_close(self) -> None:
        self.transport.close()

    was_aborted = False

    def do_abort(self) -> None:
        self.was_aborted = True
        self.transport.abort()

    def do_limits(self, high: int | None, low: int | None) -> None:
        if self.transport.is_closing():
            self.note(NO_MEASURE)  # likewise
        self.transport.set_write_buffer_limits(high=high, low=low)

    def do_set_protocol(self) -> None:
        self.successors += 1
        self.transport.set_protocol(RecordingProtocol(self, f"successor {self.successors}"))

    def do_ask(self, what: str) -> Any:
        if what == "size":
            if self.transport.is_closing():
                return what  # after abort() asyncio still counts the dropped datagrams
            return what, self.transport.get_write_buffer_size()
        if what == "names":
            known = [self.transport.get_extra_info(name, "unknown") for name in ("sockname", "peername")]
            return what, [name is None or name == "unknown" for name in known]
        if what == "protocol":
            return what, getattr(self.transport.get_protocol(), "name", None)
        return what, getattr(self.transport, what)()

    # The others'.

    def do_peer_sends(self, size: int, origin: str = "the peer") -> None:
        sender = self.peer if origin == "the peer" else self.stranger
        if sender.fileno() >= 0 and self.ours.fileno() >= 0:
            with contextlib.suppress(OSError):
                sender.sendto(bytes(size), self.ours.getsockname())

    def do_peer_reads(self) -> None:
        """The peer reads everything, including the data that is still queued in the transport."""
        if self.firing or self.peer_is_gone:
            return
        for _ in range(MOST_PASSES):
            for name, sock in (("the peer", self.peer), ("the stranger", self.stranger)):
                with contextlib.suppress(OSError):
                    while True:
                        self.note(name, "got", sock.recv(1 << 16)[:10])
            # asyncio still counts the datagrams that abort() dropped.
            if self.was_aborted or self.ours.fileno() < 0 or not self.transport.get_write_buffer_size():
                break
            poller = select.poll()
            poller.register(self.ours.fileno(), select.POLLOUT)
            poller.poll(PATIENCE)
            self.one_iteration()
        self.note("the peer has read")

    def do_peer_closes(self) -> None:
        self.peer_is_gone = True
        self.peer.close()

    def finish(self) -> None:
        self.note("closing", self.transport.is_closing(), self.ours.fileno() < 0)
        self.do_peer_reads()
        self.settle()
        self.armed.clear()
        if self.ours.fileno() >= 0:
            self.do(("abort",))
            self.settle()
        self.note("the fd is closed", self.ours.fileno() < 0)

    def close_all(self) -> None:
        for sock in (self.ours, self.peer, self.stranger):
            sock.close()


class Unconnected(Endpoint):
    pass


class Connected(Endpoint):
    is_connected = True


class UnixDatagrams(Endpoint):
    """A pair: if the peer does not read, a few datagrams fill the kernel's queue."""

    is_connected = True

    def open_sockets(self) -> None:
        self.ours, self.peer = (socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) for _ in range(2))
        # With names chosen by the kernel: asyncio takes a socket with an unnamed peer for unconnected.
        self.ours.bind("")
        self.peer.bind("")
        self.ours.connect(self.peer.getsockname())
        self.peer.connect(self.ours.getsockname())
        self.stranger = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.stranger.bind(("127.0.0.1", 0))
        self.ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8 << 10)

    def do_sendto(self, size: int, target: str) -> None:
        if self.transport.is_closing():
            # asyncio keeps a datagram that the kernel refuses in its queue forever, and pauses the protocol.
            self.note(NO_MEASURE)
        super().do_sendto(size, "none")

    def do_sendto_many(self, count: int) -> None:
        for _ in range(count):
            self.do_sendto(1000, "none")

    def do_peer_sends(self, size: int, origin: str = "the peer") -> None:
        if not self.peer_is_gone and self.ours.fileno() >= 0:
            with contextlib.suppress(OSError):
                self.peer.send(bytes(size))


target = st.sampled_from(["none", "the peer", "the stranger", "nonsense", "an unreachable port"])
sending = st.one_of(
    st.tuples(st.just("sendto"), st.sampled_from([0, 1, 100, 2000, 70_000]), target),
    st.sampled_from([("sendto_nonsense",), ("close",), ("abort",), ("set_protocol",)]),
    st.tuples(
        st.just("limits"),
        st.sampled_from([None, 0, 500, 1 << 24, -1]),
        st.sampled_from([None, 0, 100, 1 << 20]),
    ),
)
asking = st.sampled_from(
    [("ask", what) for what in ("is_closing", "size", "names", "protocol", "get_write_buffer_limits")]
)
ours = st.one_of(sending, asking)
peers = st.one_of(
    st.tuples(
        st.just("peer_sends"), st.sampled_from([0, 1, 1000]), st.sampled_from(["the peer", "the stranger"])
    ),
    st.sampled_from([("peer_reads",), ("peer_closes",)]),
)
CAUSES = {
    "datagram_received": [("peer_sends", 10)],
    "error_received": [("peer_closes",), ("sendto", 10, "none")],
    "connection_lost": [("close",)],
}
PAIR_CAUSES = {
    **CAUSES,
    "pause_writing": [("limits", 0, 0), ("sendto_many", 20)],
    "resume_writing": [("limits", 0, 0), ("sendto_many", 20), ("peer_reads",)],
}
inside = st.one_of(ours, raising)
steps = steps_of(st.one_of(ours, peers), inside, CAUSES)
pair_steps = steps_of(st.one_of(ours, peers, st.just(("sendto_many", 20))), inside, PAIR_CAUSES)


@programs(150)
@given(program_of(steps))
def test_an_unconnected_udp_endpoint_behaves_as_on_asyncio(program):
    same_on_both(Unconnected, program)


@programs(150)
@given(program_of(steps))
def test_a_connected_udp_endpoint_behaves_as_on_asyncio(program):
    same_on_both(Connected, program)


@programs(150)
@given(program_of(pair_steps))
def test_a_pair_of_unix_datagram_sockets_behaves_as_on_asyncio(program):
    same_on_both(UnixDatagrams, program)
