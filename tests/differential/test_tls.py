"""Random operations on a TLS transport, client and server; the peer is an ``ssl.SSLObject`` on a plain socket.

The handshake is part of the program: early operations happen during it.  The number of iterations of a TLS step is not
compared, so the loop settles after each step.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
from typing import Any

import pytest
from compare import NO_MEASURE, program_of, programs, same_on_both, without_handles
from connections import FLOOD, INBOUND, Connection, RecordingProtocol, pattern, raising, setting, steps_of
from hypothesis import given
from hypothesis import strategies as st
from stage import Stage
from tls import Authority

CONTEXTS: dict[str, ssl.SSLContext] = {}


@pytest.fixture(scope="module", autouse=True)
def contexts(tmp_path_factory):
    authority = Authority(tmp_path_factory.mktemp("authority"))
    CONTEXTS.update(server=authority.server_context(), client=authority.client_context())
    yield
    CONTEXTS.clear()


class Tls(Connection):
    is_client = True

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        self.arriving, self.leaving = ssl.MemoryBIO(), ssl.MemoryBIO()
        context = CONTEXTS["server" if self.is_client else "client"]
        hostname = None if self.is_client else "localhost"
        self.tls = context.wrap_bio(
            self.arriving, self.leaving, server_side=self.is_client, server_hostname=hostname
        )
        self.shaken = False
        self.peer_failed: Any = None
        self.waiting = b""

    def pair(self) -> tuple[socket.socket, socket.socket]:
        ours, peer = socket.socketpair()
        for end in (ours, peer):
            # The kernel buffers little, and no record waits for another, so the peer can always answer.
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, INBOUND if end is peer else 16 << 10)
        return ours, peer

    def begin(self) -> None:
        def factory() -> RecordingProtocol:
            return RecordingProtocol(self, "first")

        async def connect() -> None:
            try:
                if self.is_client:
                    await self.loop.create_connection(
                        factory, sock=self.ours, ssl=CONTEXTS["client"], server_hostname="localhost"
                    )
                else:
                    await self.loop.connect_accepted_socket(factory, self.ours, ssl=CONTEXTS["server"])
            except OSError as error:
                self.note("connecting", type(error).__name__)
            else:
                self.note("connecting", "done")

        self.connecting = self.loop.create_task(connect())

    # The peer's TLS state: processes and answers incoming records without reading their data.

    def arrive(self) -> None:
        if self.peer_is_gone or self.peer_failed is not None:
            return
        if not self.shaken:
            self.pump(1 << 16)
            try:
                self.tls.do_handshake()
                self.shaken = True
                self.note("the peer has shaken hands")
            except ssl.SSLWantReadError:
                pass
            except ssl.SSLError as error:
                self.fail(error)
            self.flush()

    def fail(self, error: ssl.SSLError) -> None:
        self.peer_failed = type(error).__name__
        self.note("the peer fails", self.peer_failed)

    def pump(self, most: int) -> bool:
        """Processes data at the peer's socket. Returns whether there was any."""
        try:
            data = self.peer.recv(most)
        except OSError:
            return False
        if not data:
            self.arriving.write_eof()
            return False
        self.arriving.write(data)
        return True

    def flush(self) -> None:
        self.waiting += self.leaving.read()
        with contextlib.suppress(OSError):
            while self.waiting:
                self.waiting = self.waiting[self.peer.send(self.waiting) :]

    # The peer's operations.

    def usable(self) -> bool:
        return self.shaken and not self.peer_is_gone and self.peer_failed is None

    def do_peer_sends(self, size: int) -> None:
        if self.usable() and not self.peer_shut_down:
            with contextlib.suppress(ssl.SSLError):
                self.peer_sent += self.tls.write(pattern(self.peer_sent, size))
            self.flush()

    def do_peer_sends_close_notify(self) -> None:
        """The peer sends close_notify and leaves its socket open."""
        if self.usable():
            with contextlib.suppress(ssl.SSLError):
                self.tls.unwrap()
            self.flush()

    def do_peer_sends_garbage(self) -> None:
        if not self.peer_is_gone:
            with contextlib.suppress(OSError):
                self.peer.send(b"this is no record of TLS at all, whatever one thinks of it")

    def do_peer_reads(self) -> None:
        if self.firing or not self.usable():
            return
        quiet = 0
        while quiet < 3:
            moved = False
            while self.usable():
                try:
                    data = self.tls.read(1 << 16)
                except ssl.SSLWantReadError:
                    if not self.pump(1 << 16):
                        break
                    moved = True
                    continue
                except ssl.SSLError as error:
                    self.fail(error)
                    break
                if not data:
                    self.fail(ssl.SSLZeroReturnError())
                    break
                if data != pattern(self.peer_received, len(data)):
                    self.note("the peer was sent something else")
                self.peer_received += len(data)
                moved = True
            self.flush()
            self.stage.settle()
            quiet = 0 if moved else quiet + 1
        self.note("the peer has read")

    @staticmethod
    def arranged(trace: list[tuple[Any, ...]]) -> list[list[tuple[Any, ...]]]:
        """The protocol's callbacks, the peer's view, and the result of the connection attempt, each in order.

        The order between them depends on the number of iterations per step. asyncio calls get_buffer() even if no data
        arrives.
        """
        ours, peers, connecting = [], [], []
        for entry in trace:
            if entry[0].startswith("the peer"):
                peers.append(entry)
            elif entry[0] == "connecting":
                connecting.append(entry)
            elif entry[:2] != ("callback", "get_buffer"):
                ours.append(entry)
        return [without_handles(ours), peers, connecting]

    def fires(self, callback: str, operation: tuple[Any, ...]) -> None:
        super().fires(callback, operation)
        if (callback, operation) == ("connection_made", ("pause_reading",)):
            # asyncio's client then does not send the last message of the handshake.
            self.note(NO_MEASURE)

    def do_ask(self, what: str) -> Any:
        underlying = getattr(getattr(self.transport, "_ssl_protocol", None), "_transport", None)
        if what in ("is_closing", "is_reading") and underlying is not None and underlying.is_closing():
            # Some versions of asyncio do not ask the underlying transport.
            self.note(NO_MEASURE)
        if what == "protocol" and self.is_lost:
            return what  # asyncio dropped it one iteration before connection_lost()
        return super().do_ask(what)

    def do_abort(self) -> None:
        if getattr(self.transport, "_ssl_protocol", self) is None:
            # After a second close() asyncio's transport has dropped the transport that it should abort.
            self.note(NO_MEASURE)
        super().do_abort()

    def do_cancel_connecting(self) -> None:
        if not self.connecting.done():
            self.connecting.cancel()

    def do_start(self) -> None:
        """Lets the handshake finish."""
        self.settle()

    def do(self, operation: tuple[Any, ...]) -> None:
        aimed_at_the_peer = operation[0].startswith(("peer", "arm", "settle", "iterate", "cancel", "start"))
        if self.transport is None and not aimed_at_the_peer:
            return  # not connected yet
        super().do(operation)

    def finish(self) -> None:
        transport = self.transport
        self.do_peer_reads()
        self.settle()
        self.note("received", self.peer_received if self.is_lost else None)
        self.armed.clear()
        if transport is not None:
            self.do(("abort",))
        self.connecting.cancel()
        self.settle()
        self.gone()
        self.settle()
        self.note("the fd is closed", self.ours.fileno() < 0)


class Client(Tls):
    pass


class Server(Tls):
    is_client = False


sizes = st.sampled_from([0, 1, 1000, FLOOD])
ours = st.one_of(
    st.tuples(st.just("write"), sizes),
    st.lists(sizes, max_size=3).map(lambda some: ("writelines", *some)),
    st.sampled_from(
        [
            ("close",),
            ("abort",),
            ("write_eof",),
            ("write_nonsense",),
            ("pause_reading",),
            ("resume_reading",),
            *(("ask", what) for what in ("is_closing", "is_reading", "protocol", "can_write_eof", "names")),
        ]
    ),
    setting,
)
peers = st.one_of(
    st.tuples(st.just("peer_sends"), st.sampled_from([1, 1000, 40_000])),
    st.sampled_from(
        [
            ("peer_reads",),
            ("peer_ends",),
            ("peer_closes",),
            ("peer_sends_close_notify",),
            ("peer_sends_garbage",),
            ("cancel_connecting",),
        ]
    ),
)
CAUSES = {
    "connection_made": [("start",)],
    "data_received": [("start",), ("peer_sends", 10)],
    "eof_received": [("start",), ("peer_sends_close_notify",)],
    "connection_lost": [("start",), ("close",)],
    "pause_writing": [("start",), ("write", FLOOD)],
    "resume_writing": [("start",), ("write", FLOOD), ("peer_reads",)],
    "buffer_updated": [("start",), ("set_protocol", "buffered"), ("peer_sends", 10)],
}
steps = steps_of(st.one_of(ours, peers, st.just(("start",))), st.one_of(ours, raising), CAUSES)


def settling(program: list[Any]) -> list[Any]:
    """Replaces single iterations by settling."""
    return [("settle",) if operation == ("iterate",) else operation for operation in program]


@programs(120)
@given(program_of(steps).map(settling))
def test_a_tls_client_behaves_as_on_asyncio(program):
    same_on_both(Client, program)


@programs(120)
@given(program_of(steps).map(settling))
def test_a_tls_server_behaves_as_on_asyncio(program):
    same_on_both(Server, program)
