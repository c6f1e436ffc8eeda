"""Reference cycles: the garbage collector is shown every reference that a native object holds.

Each case makes a native object that holds a knot in one particular place; then the knot is tied: it refers back to the
object.  When nobody else refers to either, both are collected.
"""

from __future__ import annotations

import asyncio
import contextvars
import gc
import os
import socket
import ssl
import threading
import types
import weakref

import pytest

import mainspring
from mainspring import _mainspring
from mainspring._tls import SSLProtocol
from mainspring._transports import DatagramTransport, StreamTransport

pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

variable = contextvars.ContextVar("variable")


class Knot:
    """Holds anything, can be called, and passes for a loop that is closed."""

    def __call__(self, *args):
        pass

    def is_closed(self):
        return True


class KnotSocket(socket.socket):
    pass


class NamedSocket(socket.socket):
    """Its name holds something."""

    def getsockname(self):
        return ("127.0.0.1", self.part)


class FullSocket(socket.socket):
    """Takes nothing that is sent."""

    def sendto(self, *args):
        raise BlockingIOError


class KnotFile:
    def __init__(self, descriptor):
        self.descriptor = descriptor

    def fileno(self):
        return self.descriptor

    def close(self):
        descriptor, self.descriptor = self.descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


class KnotTransport(Knot, asyncio.Transport):
    def write(self, data):
        pass


class KnotProtocol(asyncio.Protocol):
    pass


class KnotServer(Knot):
    def _attach(self, *transport):
        pass

    _detach = _attach


class KnotBytes(bytearray):
    pass


class KnotSSLObject(ssl.SSLObject):
    pass


def context_with(knot):
    context = contextvars.copy_context()
    context.run(variable.set, knot)
    return context


class Stage:
    """The loop of a case, and what has to be closed after it."""

    def __init__(self):
        self.loop = mainspring.new_event_loop()
        self.loop.set_exception_handler(lambda *_: None)
        self.others = []

    def run_iteration(self):
        self.loop.call_soon(self.loop.stop)
        self.loop.run_forever()

    def socket(self, kind=KnotSocket, sort=socket.SOCK_STREAM):
        ours, theirs = socket.socketpair(type=sort)
        self.others.append(theirs)
        sock = kind(fileno=ours.detach())
        sock.setblocking(False)
        return sock

    def stream(self, sock=None, protocol=None, server=None, context=None):
        transport = StreamTransport()
        parts = (sock or self.socket(), protocol or asyncio.Protocol(), server, context)
        _mainspring.open_stream(transport, self.loop, *parts)
        return transport

    def datagram(self, sock=None, protocol=None, address=None):
        sock = sock or self.socket(sort=socket.SOCK_DGRAM)
        transport = DatagramTransport(sock, None)
        parts = (sock, protocol or asyncio.DatagramProtocol(), address, None, 0)
        _mainspring.open_datagram(transport, self.loop, *parts)
        return transport

    def pipe(self, direction, protocol=None):
        """The transport of a pipe, and the file object in it."""
        reading, writing = os.pipe()
        ours, theirs = (reading, writing) if direction == "read" else (writing, reading)
        self.others.append(KnotFile(theirs))
        file = KnotFile(ours)
        make = getattr(self.loop, f"_make_{direction}_pipe_transport")
        transport = make(file, protocol or asyncio.Protocol())
        del transport._extra["pipe"]
        return transport, file

    def secure(self, protocol=None, kind=KnotSSLObject):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.sslobject_class = kind
        return SSLProtocol(self.loop, protocol or asyncio.Protocol(), context, None, False, "localhost")

    def listener(
        self,
        sock=None,
        factory=asyncio.Protocol,
        kind=StreamTransport,
        server=None,
        secure=None,
        context=None,
    ):
        sock = sock or self.socket()
        return _mainspring.Listener(self.loop, sock, factory, kind, server, 1, secure, context)

    def close(self):
        self.loop.close()
        for other in self.others:
            other.close()


# Each gives a native object, and the knot that it holds. The loop is closed afterwards.


def a_handle(stage):
    handle = stage.loop.call_soon(int)
    stage.run_iteration()
    return handle


def a_timer(stage):
    timer = stage.loop.call_at(0, int)
    stage.run_iteration()
    return timer


def a_handle_of_another_thread(stage):
    handle = stage.loop.call_soon_threadsafe(int)
    stage.run_iteration()
    return handle


def a_stream(stage):
    return stage.stream()


def a_datagram_transport(stage):
    return stage.datagram()


def a_read_pipe(stage):
    return stage.pipe("read")[0]


def a_write_pipe(stage):
    return stage.pipe("write")[0]


def a_tls_transport(stage):
    return stage.secure()._app_transport


def a_tls_protocol(stage):
    return stage.secure()


WITH_SLOTS = [
    a_handle,
    a_timer,
    a_handle_of_another_thread,
    a_stream,
    a_datagram_transport,
    a_read_pipe,
    a_write_pipe,
    a_tls_transport,
    a_tls_protocol,
]


def slots_of(kind):
    """The slots of a class and its bases."""
    for base in kind.__mro__:
        for name, member in vars(base).items():
            if isinstance(member, types.MemberDescriptorType):
                yield name, member


def the_deadline_of_a_timer(stage):
    class Deadline(float):
        pass

    deadline = Deadline(stage.loop.time())
    timer = stage.loop.call_at(deadline, int)
    stage.run_iteration()
    return timer, deadline


def the_socket_of_a_stream(stage):
    sock = stage.socket()
    return stage.stream(sock), sock


def the_socket_of_an_accepted_stream(stage):
    transports = []

    class Accepted(asyncio.Protocol):
        def connection_made(self, transport):
            transports.append(transport)

    listening = NamedSocket(socket.AF_INET)
    knot = listening.part = Knot()
    listening.bind(("127.0.0.1", 0))
    listening.listen()
    listening.setblocking(False)
    stage.others.append(listening)
    listener = stage.listener(listening, Accepted)
    listener.start()
    stage.others += [socket.create_connection(socket.socket.getsockname(listening))]
    while not transports:
        stage.run_iteration()
    listener.close()
    del listening.part
    return transports.pop(), knot


def the_protocol_of_a_stream(stage):
    protocol = KnotProtocol()
    return stage.stream(protocol=protocol), protocol


def the_server_of_a_stream(stage):
    server = KnotServer()
    return stage.stream(server=server), server


def the_context_of_a_stream(stage):
    knot = Knot()
    return stage.stream(context=context_with(knot)), knot


def the_context_in_which_a_stream_reads(stage):
    knot = Knot()
    transport = context_with(knot).run(stage.stream)
    stage.run_iteration()
    return transport, knot


def the_context_in_which_a_stream_writes(stage):
    knot = Knot()
    transport = stage.stream()

    def fill():
        while not transport.get_write_buffer_size():
            transport.write(bytes(1 << 20))

    context_with(knot).run(fill)
    return transport, knot


def what_a_stream_was_lost_by(stage):
    knot = Knot()
    error = ConnectionError("lost")
    error.knot = knot
    transport = stage.stream()
    transport._force_close(error)
    return transport, knot


def the_traceback_of_what_a_stream_was_lost_by(stage):
    knot = Knot()

    class Fails(asyncio.Protocol):
        def data_received(self, data):
            self.held_by_the_frame = held = reference()  # noqa: F841
            raise ValueError

    transport = stage.stream(protocol=Fails())
    reference = weakref.ref(knot)
    stage.run_iteration()
    stage.others[-1].send(b"data")
    # The pass in which it is read is the one in which the end is scheduled.
    while not transport.is_closing():
        stage.loop._run_once()
    return transport, knot


def the_socket_of_a_datagram_transport(stage):
    sock = stage.socket(sort=socket.SOCK_DGRAM)
    transport = stage.datagram(sock)
    return transport, sock


def the_protocol_of_a_datagram_transport(stage):
    protocol = KnotProtocol()
    return stage.datagram(protocol=protocol), protocol


def the_address_of_a_datagram_transport(stage):
    address = Knot()
    return stage.datagram(address=address), address


def the_address_of_a_datagram_that_waits(stage):
    address = Knot()
    sock = FullSocket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.setblocking(False)
    transport = stage.datagram(sock)
    transport.sendto(b"datagram", address)
    assert transport.get_write_buffer_size() > 0
    return transport, address


def the_file_of_a_read_pipe(stage):
    return stage.pipe("read")


def the_file_of_a_write_pipe(stage):
    return stage.pipe("write")


def the_protocol_of_a_read_pipe(stage):
    protocol = KnotProtocol()
    return stage.pipe("read", protocol)[0], protocol


def the_protocol_of_a_write_pipe(stage):
    protocol = KnotProtocol()
    return stage.pipe("write", protocol)[0], protocol


def the_protocol_above_tls(stage):
    protocol = KnotProtocol()
    return stage.secure(protocol), protocol


def the_protocol_above_a_tls_transport(stage):
    protocol = KnotProtocol()
    return stage.secure(protocol)._app_transport, protocol


def the_ssl_object(stage):
    protocol = stage.secure()
    return protocol, protocol._parts()[3]


def the_transport_below_tls(stage):
    below = KnotTransport()
    protocol = stage.secure()
    protocol.connection_made(below)
    return protocol, below


def the_socket_of_a_listener(stage):
    sock = stage.socket()
    return stage.listener(sock), sock


def the_name_of_a_listener(stage):
    sock = stage.socket(NamedSocket)
    stage.others.append(sock)
    knot = sock.part = Knot()
    listener = stage.listener(sock)
    del sock.part
    return listener, knot


def the_factory_of_a_listener(stage):
    factory = Knot()
    return stage.listener(factory=factory), factory


def the_class_of_a_listeners_transports(stage):
    class Kind(StreamTransport):
        pass

    return stage.listener(kind=Kind), Kind


def the_server_of_a_listener(stage):
    server = KnotServer()
    return stage.listener(server=server), server


def what_takes_the_secure_connections_of_a_listener(stage):
    taker = Knot()
    return stage.listener(secure=taker), taker


def the_context_of_a_listener(stage):
    knot = Knot()
    return stage.listener(context=context_with(knot)), knot


def the_socket_of_a_wait(stage):
    sock = stage.socket()
    return stage.loop._until_ready(sock, False), sock


def the_bytes_of_a_wait(stage):
    sock = stage.socket(socket.socket)
    stage.others.append(sock)
    data = KnotBytes(1 << 22)
    wait = stage.loop._try_sendall(sock, data)
    assert wait is not None
    return wait, data


PLACES = [
    the_deadline_of_a_timer,
    the_socket_of_a_stream,
    the_socket_of_an_accepted_stream,
    the_protocol_of_a_stream,
    the_server_of_a_stream,
    the_context_of_a_stream,
    the_context_in_which_a_stream_reads,
    the_context_in_which_a_stream_writes,
    what_a_stream_was_lost_by,
    the_traceback_of_what_a_stream_was_lost_by,
    the_socket_of_a_datagram_transport,
    the_protocol_of_a_datagram_transport,
    the_address_of_a_datagram_transport,
    the_address_of_a_datagram_that_waits,
    the_file_of_a_read_pipe,
    the_file_of_a_write_pipe,
    the_protocol_of_a_read_pipe,
    the_protocol_of_a_write_pipe,
    the_protocol_above_tls,
    the_protocol_above_a_tls_transport,
    the_ssl_object,
    the_transport_below_tls,
    the_socket_of_a_listener,
    the_name_of_a_listener,
    the_factory_of_a_listener,
    the_class_of_a_listeners_transports,
    the_server_of_a_listener,
    what_takes_the_secure_connections_of_a_listener,
    the_context_of_a_listener,
    the_socket_of_a_wait,
    the_bytes_of_a_wait,
]


def tied(native, knot):
    knot.back = native
    return weakref.ref(knot)


def collected(reference):
    gc.collect()
    gc.collect()
    return reference() is None


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.__name__)
def test_a_cycle_through_a_native_object_is_collected(place):
    stage = Stage()
    reference = tied(*place(stage))
    stage.close()
    assert collected(reference)


@pytest.mark.parametrize("make", WITH_SLOTS, ids=lambda make: make.__name__)
def test_a_cycle_through_any_slot_is_collected(make):
    stage = Stage()
    slots = list(slots_of(type(make(stage))))
    references = {}
    for name, slot in slots:
        native, knot = make(stage), Knot()
        try:
            slot.__set__(native, knot)
        except (TypeError, AttributeError):
            continue  # a number, or read-only
        references[name] = tied(native, knot)
        del native, knot
    stage.close()
    assert references or make is a_tls_protocol  # which has none
    gc.collect()
    gc.collect()
    assert [name for name, reference in references.items() if reference() is not None] == []


# A loop that nobody refers to, with whatever waits in it.


def a_ready_call(loop, knot):
    loop.call_soon(knot)


def a_timer_of_the_loop(loop, knot):
    loop.call_later(3600, knot)


def a_reader(loop, knot):
    ours, theirs = socket.socketpair()
    loop.ends = (ours, theirs)
    loop.add_reader(ours, knot)


def a_writer(loop, knot):
    ours, theirs = socket.socketpair()
    loop.ends = (ours, theirs)
    loop.add_writer(ours, knot)


def a_registered_transport(loop, knot):
    ours, loop.theirs = socket.socketpair()
    ours.setblocking(False)
    transport = StreamTransport()
    _mainspring.open_stream(transport, loop, ours, asyncio.Protocol(), None, None)
    transport.knot = knot
    loop.call_soon(loop.stop)
    loop.run_forever()


def a_call_of_another_thread(loop, knot):
    def push():
        thread = threading.Thread(target=loop.call_soon_threadsafe, args=(knot,))
        loop.stop()
        thread.start()
        thread.join()

    loop.call_soon(push)
    loop.run_forever()


@pytest.mark.parametrize(
    "fill",
    [a_ready_call, a_timer_of_the_loop, a_reader, a_writer, a_registered_transport, a_call_of_another_thread],
    ids=lambda fill: fill.__name__,
)
def test_a_loop_is_collected_with_what_waits_in_it(fill):
    loop = mainspring.new_event_loop()
    knot = Knot()
    fill(loop, knot)
    reference = tied(loop, knot)
    del loop, knot
    assert collected(reference)
