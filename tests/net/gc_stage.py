"""Helpers of the garbage collection tests: nodes of reference cycles, and a stage that creates native objects."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import os
import socket
import ssl
import weakref

import mainspring
from mainspring import _mainspring
from mainspring._tls import SSLProtocol
from mainspring._transports import DatagramTransport, StreamTransport

variable = contextvars.ContextVar("variable")


class Node:
    """Accepts any attribute, is callable, and looks like a closed loop."""

    def __call__(self, *args):
        pass

    def is_closed(self):
        return True


class NodeSocket(socket.socket):
    pass


class NamedSocket(socket.socket):
    """Its address contains ``part``."""

    def getsockname(self):
        return ("127.0.0.1", self.part)


class FullSocket(socket.socket):
    """Its send buffer is always full."""

    def sendto(self, *args):
        raise BlockingIOError


class NodeFile:
    def __init__(self, fd):
        self.fd = fd

    def fileno(self):
        return self.fd

    def close(self):
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)


class NodeTransport(Node, asyncio.Transport):
    def write(self, data):
        pass


class NodeProtocol(asyncio.Protocol):
    pass


class NodeServer(Node):
    def _attach(self, *transport):
        pass

    _detach = _attach


class NodeBytes(bytearray):
    pass


class NodeSSLObject(ssl.SSLObject):
    pass


def context_with(node):
    context = contextvars.copy_context()
    context.run(variable.set, node)
    return context


class Stage:
    """The loop of a case, and the objects to close after it."""

    def __init__(self):
        self.loop = mainspring.new_event_loop()
        self.loop.set_exception_handler(lambda *_: None)
        self.others = []

    def run_iteration(self):
        self.loop.call_soon(self.loop.stop)
        self.loop.run_forever()

    def socket(self, kind=NodeSocket, sort=socket.SOCK_STREAM):
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
        """A pipe transport and its file object."""
        reading, writing = os.pipe()
        ours, theirs = (reading, writing) if direction == "read" else (writing, reading)
        self.others.append(NodeFile(theirs))
        file = NodeFile(ours)
        make = getattr(self.loop, f"_make_{direction}_pipe_transport")
        transport = make(file, protocol or asyncio.Protocol())
        del transport._extra["pipe"]
        return transport, file

    def secure(self, protocol=None, kind=NodeSSLObject):
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


def close_cycle(native, node):
    node.back = native
    return weakref.ref(node)


def is_collected(reference):
    gc.collect()
    gc.collect()
    return reference() is None
