"""Reference cycles through a loop: an unreferenced loop is collected with everything that is pending in it."""

from __future__ import annotations

import asyncio
import socket
import threading

import pytest
from gc_stage import Node, close_cycle, is_collected

import mainspring
from mainspring import _mainspring
from mainspring._transports import StreamTransport

pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

# Each leaves a pending call or registration in the loop.


def a_ready_call(loop, node):
    loop.call_soon(node)


def a_pending_timer(loop, node):
    loop.call_later(3600, node)


def a_reader(loop, node):
    ours, theirs = socket.socketpair()
    loop.ends = (ours, theirs)
    loop.add_reader(ours, node)


def a_writer(loop, node):
    ours, theirs = socket.socketpair()
    loop.ends = (ours, theirs)
    loop.add_writer(ours, node)


def a_registered_transport(loop, node):
    ours, loop.theirs = socket.socketpair()
    ours.setblocking(False)
    transport = StreamTransport()
    _mainspring.open_stream(transport, loop, ours, asyncio.Protocol(), None, None)
    transport.node = node
    loop.call_soon(loop.stop)
    loop.run_forever()


def a_threadsafe_call(loop, node):
    def push():
        thread = threading.Thread(target=loop.call_soon_threadsafe, args=(node,))
        loop.stop()
        thread.start()
        thread.join()

    loop.call_soon(push)
    loop.run_forever()


@pytest.mark.parametrize(
    "fill",
    [a_ready_call, a_pending_timer, a_reader, a_writer, a_registered_transport, a_threadsafe_call],
    ids=lambda fill: fill.__name__,
)
def test_a_loop_is_collected_with_its_pending_calls_and_registrations(fill):
    loop = mainspring.new_event_loop()
    node = Node()
    fill(loop, node)
    reference = close_cycle(loop, node)
    del loop, node
    assert is_collected(reference)
