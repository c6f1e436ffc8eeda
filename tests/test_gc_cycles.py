"""Reference cycles: the garbage collector sees every reference that a native object holds.

Each case creates a native object that references a node in one particular place.  Then the node references the object,
which closes the cycle.  Without other references, both are collected.
"""

from __future__ import annotations

import asyncio
import gc
import socket
import types
import weakref

import pytest
from gc_stage import (
    FullSocket,
    NamedSocket,
    Node,
    NodeBytes,
    NodeProtocol,
    NodeServer,
    NodeTransport,
    Stage,
    close_cycle,
    context_with,
    is_collected,
)

from mainspring._transports import StreamTransport

pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

# Each creates a native object.


def a_handle(stage):
    handle = stage.loop.call_soon(int)
    stage.run_iteration()
    return handle


def a_timer(stage):
    timer = stage.loop.call_at(0, int)
    stage.run_iteration()
    return timer


def a_threadsafe_handle(stage):
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
    a_threadsafe_handle,
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


# Each returns a native object and the node that it references.


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
    node = listening.part = Node()
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
    return transports.pop(), node


def the_protocol_of_a_stream(stage):
    protocol = NodeProtocol()
    return stage.stream(protocol=protocol), protocol


def the_server_of_a_stream(stage):
    server = NodeServer()
    return stage.stream(server=server), server


def the_context_of_a_stream(stage):
    node = Node()
    return stage.stream(context=context_with(node)), node


def the_context_in_which_a_stream_reads(stage):
    node = Node()
    transport = context_with(node).run(stage.stream)
    stage.run_iteration()
    return transport, node


def the_context_in_which_a_stream_writes(stage):
    node = Node()
    transport = stage.stream()

    def fill():
        while not transport.get_write_buffer_size():
            transport.write(bytes(1 << 20))

    context_with(node).run(fill)
    return transport, node


def the_error_of_a_lost_stream(stage):
    node = Node()
    error = ConnectionError("lost")
    error.node = node
    transport = stage.stream()
    transport._force_close(error)
    return transport, node


def the_traceback_of_the_error_of_a_lost_stream(stage):
    node = Node()

    class Fails(asyncio.Protocol):
        def data_received(self, data):
            self.held_by_the_frame = held = reference()  # noqa: F841
            raise ValueError

    transport = stage.stream(protocol=Fails())
    reference = weakref.ref(node)
    stage.run_iteration()
    stage.others[-1].send(b"data")
    # The iteration that reads the data also schedules connection_lost().
    while not transport.is_closing():
        stage.loop._run_once()
    return transport, node


def the_socket_of_a_datagram_transport(stage):
    sock = stage.socket(sort=socket.SOCK_DGRAM)
    transport = stage.datagram(sock)
    return transport, sock


def the_protocol_of_a_datagram_transport(stage):
    protocol = NodeProtocol()
    return stage.datagram(protocol=protocol), protocol


def the_address_of_a_datagram_transport(stage):
    address = Node()
    return stage.datagram(address=address), address


def the_address_of_a_queued_datagram(stage):
    address = Node()
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
    protocol = NodeProtocol()
    return stage.pipe("read", protocol)[0], protocol


def the_protocol_of_a_write_pipe(stage):
    protocol = NodeProtocol()
    return stage.pipe("write", protocol)[0], protocol


def the_protocol_of_tls(stage):
    protocol = NodeProtocol()
    return stage.secure(protocol), protocol


def the_protocol_of_a_tls_transport(stage):
    protocol = NodeProtocol()
    return stage.secure(protocol)._app_transport, protocol


def the_ssl_object(stage):
    protocol = stage.secure()
    return protocol, protocol._parts()[3]


def the_underlying_transport_of_tls(stage):
    below = NodeTransport()
    protocol = stage.secure()
    protocol.connection_made(below)
    return protocol, below


def the_socket_of_a_listener(stage):
    sock = stage.socket()
    return stage.listener(sock), sock


def the_address_of_a_listener(stage):
    sock = stage.socket(NamedSocket)
    stage.others.append(sock)
    node = sock.part = Node()
    listener = stage.listener(sock)
    del sock.part
    return listener, node


def the_factory_of_a_listener(stage):
    factory = Node()
    return stage.listener(factory=factory), factory


def the_class_of_a_listeners_transports(stage):
    class Kind(StreamTransport):
        pass

    return stage.listener(kind=Kind), Kind


def the_server_of_a_listener(stage):
    server = NodeServer()
    return stage.listener(server=server), server


def the_tls_callback_of_a_listener(stage):
    taker = Node()
    return stage.listener(secure=taker), taker


def the_context_of_a_listener(stage):
    node = Node()
    return stage.listener(context=context_with(node)), node


def the_socket_of_a_pending_wait(stage):
    sock = stage.socket()
    return stage.loop._until_ready(sock, False), sock


def the_data_of_a_pending_send(stage):
    sock = stage.socket(socket.socket)
    stage.others.append(sock)
    data = NodeBytes(1 << 22)
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
    the_error_of_a_lost_stream,
    the_traceback_of_the_error_of_a_lost_stream,
    the_socket_of_a_datagram_transport,
    the_protocol_of_a_datagram_transport,
    the_address_of_a_datagram_transport,
    the_address_of_a_queued_datagram,
    the_file_of_a_read_pipe,
    the_file_of_a_write_pipe,
    the_protocol_of_a_read_pipe,
    the_protocol_of_a_write_pipe,
    the_protocol_of_tls,
    the_protocol_of_a_tls_transport,
    the_ssl_object,
    the_underlying_transport_of_tls,
    the_socket_of_a_listener,
    the_address_of_a_listener,
    the_factory_of_a_listener,
    the_class_of_a_listeners_transports,
    the_server_of_a_listener,
    the_tls_callback_of_a_listener,
    the_context_of_a_listener,
    the_socket_of_a_pending_wait,
    the_data_of_a_pending_send,
]


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.__name__)
def test_a_cycle_through_a_native_object_is_collected(place):
    stage = Stage()
    reference = close_cycle(*place(stage))
    stage.close()
    assert is_collected(reference)


@pytest.mark.parametrize("make", WITH_SLOTS, ids=lambda make: make.__name__)
def test_a_cycle_through_any_slot_is_collected(make):
    stage = Stage()
    slots = list(slots_of(type(make(stage))))
    references = {}
    for name, slot in slots:
        native, node = make(stage), Node()
        try:
            slot.__set__(native, node)
        except (TypeError, AttributeError):
            continue  # numeric or read-only
        references[name] = close_cycle(native, node)
        del native, node
    stage.close()
    assert references or make is a_tls_protocol  # it has no slots
    gc.collect()
    gc.collect()
    assert [name for name, reference in references.items() if reference() is not None] == []
