"""The private names of asyncio's loop and transports that libraries use; docs/private-names.md lists the libraries.

Each test uses a name as the libraries use it, on asyncio too.
"""

from __future__ import annotations

import asyncio
import selectors
import signal
import socket
import threading

import pytest


@pytest.fixture
def ends():
    """Two sockets that can be passed to a transport."""
    pair = socket.socketpair()
    for sock in pair:
        sock.setblocking(False)
    yield pair
    for sock in pair:
        sock.close()


class Recorder(asyncio.Protocol):
    def __init__(self):
        self.received = bytearray()

    def data_received(self, data):
        self.received += data


@pytest.fixture
def connection(loop, run, ends):
    """A transport, its protocol and the socket at the other end."""
    transport, protocol = run(loop.create_connection(Recorder, sock=ends[0]))
    yield transport, protocol, ends[1]
    transport.close()
    run(asyncio.sleep(0))


# --- handles


def test_scheduled_lists_the_pending_timers(loop):
    assert list(loop._scheduled) == []
    late = loop.call_later(2000, print)
    soon = loop.call_later(1000, print)
    assert len(loop._scheduled) == 2
    assert loop._scheduled[0] is soon
    assert set(loop._scheduled) == {soon, late}
    assert all(isinstance(handle, asyncio.TimerHandle) for handle in loop._scheduled)
    soon.cancel()
    assert [handle for handle in loop._scheduled if not handle.cancelled()] == [late]
    late.cancel()


def test_a_timer_may_be_run_early(loop, run_iteration):
    called = []
    loop.call_later(1000, called.append, "once")
    for handle in list(loop._scheduled):
        handle._run()
        handle.cancel()
    run_iteration()
    assert called == ["once"]
    assert [handle for handle in loop._scheduled if not handle.cancelled()] == []


def test_ready_lists_the_ready_handles(loop):
    assert not loop._ready
    first = loop.call_soon(print)
    second = loop.call_soon(print)
    assert len(loop._ready) == 2
    assert list(loop._ready) == [first, second]
    assert loop._ready[0] is first
    first.cancel()
    second.cancel()


def test_ready_lists_calls_from_other_threads(loop):
    thread = threading.Thread(target=loop.call_soon_threadsafe, args=(print,))
    thread.start()
    thread.join()
    (handle,) = loop._ready
    assert handle._callback is print
    handle.cancel()


def test_ready_is_empty_when_a_callback_is_the_only_one(loop, run_forever):
    seen = []

    def look():
        seen.append(bool(loop._ready))
        loop.stop()

    loop.call_soon(look)
    run_forever()
    loop.call_soon(look)
    loop.call_soon(lambda: None)
    run_forever()
    assert seen == [False, True]


def test_ready_and_scheduled_can_be_cleared(loop, run_iteration):
    called = []
    loop.call_soon(called.append, 1)
    loop.call_later(0, called.append, 2)
    loop._ready.clear()
    loop._scheduled.clear()
    run_iteration()
    assert called == []
    assert len(loop._ready) == len(loop._scheduled) == 0


@pytest.mark.mainspring_only
@pytest.mark.parametrize("name", ["_ready", "_scheduled"])
def test_the_views_cannot_be_replaced(loop, name):
    handle = loop.call_later(1000, print)
    with pytest.raises(AttributeError, match="cannot be replaced"):
        setattr(loop, name, [handle])
    with pytest.raises(AttributeError):
        getattr(loop, name).append(handle)
    assert repr(loop._scheduled).startswith("Handles([<TimerHandle")
    handle.cancel()


def test_the_views_of_a_closed_loop_are_empty(loop):
    loop.call_soon(print)
    loop.call_later(1000, print)
    loop.close()
    assert len(loop._ready) == len(loop._scheduled) == 0


def test_call_soon_by_its_private_name(loop, run_iteration):
    called = []
    handle = loop._call_soon(called.append, (1,), None)
    assert isinstance(handle, asyncio.Handle)
    run_iteration()
    assert called == [1]


def test_a_stop_can_be_revoked(loop):
    loop.stop()
    assert loop._stopping
    loop._stopping = False
    assert not loop._stopping
    loop.run_until_complete(asyncio.sleep(0.001))
    loop._stopping = True
    loop.run_forever()
    assert not loop._stopping


@pytest.mark.parametrize(
    "name", ["_callback", "_args", "_context", "_cancelled", "_source_traceback", "_loop"]
)
def test_a_handle_has_asyncios_attributes(loop, name):
    handle = loop.call_soon(print, 1)
    expected = {
        "_callback": print,
        "_args": (1,),
        "_cancelled": False,
        "_source_traceback": None,
        "_loop": loop,
    }
    assert name == "_context" or getattr(handle, name) == expected[name]
    assert hasattr(handle, name)
    handle.cancel()


# --- fds and signals


def test_the_selector_has_a_key_for_a_registered_fd(loop, ends):
    ours, theirs = ends
    loop.add_reader(ours, print, 1)
    loop.add_writer(ours, print, 2)
    key = loop._selector.get_key(ours)
    assert (key.fileobj, key.fd) == (ours, ours.fileno())
    assert key.events == selectors.EVENT_READ | selectors.EVENT_WRITE
    assert [handle._args for handle in key.data] == [(1,), (2,)]
    keys = loop._selector.get_map()
    assert keys[ours.fileno()] == keys[ours] == key
    assert ours.fileno() in keys
    assert list(keys).count(ours.fileno()) == 1
    with pytest.raises(KeyError):
        loop._selector.get_key(theirs)
    loop.remove_reader(ours)
    assert loop._selector.get_key(ours).events == selectors.EVENT_WRITE
    assert loop._selector.unregister(ours).fd == ours.fileno()
    assert loop.remove_writer(ours) is False
    with pytest.raises(KeyError):
        loop._selector.unregister(ours)


def test_the_selector_finds_a_closed_object(loop):
    ours, theirs = socket.socketpair()
    loop.add_reader(ours, print)
    number = ours.fileno()
    ours.close()
    theirs.close()
    assert loop._selector.get_key(ours).fd == number
    assert loop._selector.unregister(ours).fd == number
    with pytest.raises(ValueError):
        loop._selector.get_key(ours)


def test_the_selector_has_a_key_for_a_transport(loop, connection):
    transport, _, _ = connection
    key = loop._selector.get_map()[transport._sock_fd]
    assert key.events == selectors.EVENT_READ


@pytest.mark.mainspring_only
def test_replacing_select_of_the_selector_fails_at_once(loop):
    with pytest.raises(AttributeError):
        loop._selector.select = lambda timeout: []


def test_signal_handlers_can_be_read_and_restored(loop):
    called = []
    loop.add_signal_handler(signal.SIGUSR1, called.append, "former")
    former = loop._signal_handlers.get(signal.SIGUSR1)
    assert loop._signal_handlers.get(signal.SIGUSR2) is None
    loop.add_signal_handler(signal.SIGUSR1, called.append, "other")
    loop.remove_signal_handler(signal.SIGUSR1)
    assert signal.SIGUSR1 not in loop._signal_handlers
    loop.add_signal_handler(signal.SIGUSR1, former._callback, *former._args)

    async def main():
        signal.raise_signal(signal.SIGUSR1)
        while not called:
            await asyncio.sleep(0)

    loop.run_until_complete(main())
    assert called == ["former"]
    loop.remove_signal_handler(signal.SIGUSR1)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("_thread_id", None),
        ("_default_executor", None),
        ("_executor_shutdown_called", False),
        ("_closed", False),
        ("_debug", False),
        ("_task_factory", None),
        ("_exception_handler", ...),
        ("_asyncgens", ...),
        ("_current_handle", None),
        ("_clock_resolution", ...),
    ],
)
def test_a_loop_has_asyncios_attributes(loop, name, expected):
    assert expected is ... or getattr(loop, name) == expected
    assert hasattr(loop, name)


def test_the_thread_of_a_running_loop_is_known(loop, run):
    async def main():
        return loop._thread_id

    assert run(main()) == threading.get_ident()


# --- transports


@pytest.mark.parametrize(
    "name", ["_loop", "_sock", "_sock_fd", "_protocol", "_extra", "_closing", "_paused", "_protocol_paused"]
)
def test_a_transport_has_asyncios_attributes(loop, connection, name):
    transport, protocol, _ = connection
    expected = {
        "_loop": loop,
        "_sock": transport._sock,
        "_sock_fd": transport._sock.fileno(),
        "_protocol": protocol,
        "_extra": transport._extra,
        "_closing": False,
        "_paused": False,
        "_protocol_paused": False,
    }
    assert getattr(transport, name) == expected[name]


def test_a_transport_has_asyncios_state_flags(connection):
    transport, _, _ = connection
    assert transport._start_tls_compatible is True
    assert transport._sendfile_compatible is asyncio.constants._SendfileMode.TRY_NATIVE


def test_the_private_read_method_of_a_transport_receives(loop, connection, run):
    transport, protocol, other = connection
    run(asyncio.sleep(0))
    transport._read_ready()
    assert protocol.received == b""
    other.send(b"hello")
    transport._read_ready()
    assert protocol.received == b"hello"


def test_the_private_write_method_of_a_transport_sends(loop, connection, run):
    transport, _, other = connection
    data = bytes(4 << 20)
    transport.write(data)
    waiting = transport.get_write_buffer_size()
    assert waiting > 0
    received = 0
    while transport.get_write_buffer_size():
        received += len(other.recv(1 << 20))
        transport._write_ready()
    assert received > 0


def test_a_datagram_transport_takes_an_address(loop, run):
    async def main():
        with socket.socket(type=socket.SOCK_DGRAM) as peer, socket.socket(type=socket.SOCK_DGRAM) as own:
            peer.bind(("127.0.0.1", 0))
            peer.settimeout(10)
            own.connect(peer.getsockname())
            own.setblocking(False)
            transport, _ = await loop.create_datagram_endpoint(asyncio.DatagramProtocol, sock=own)
            transport._address = transport.get_extra_info("peername")
            transport.sendto(b"x")
            assert peer.recv(1) == b"x"
            transport.close()
            await asyncio.sleep(0)

    run(main())
