"""The ``sock_*`` coroutines: errors for invalid arguments."""

from __future__ import annotations

import errno
import inspect
import io
import socket
import ssl
import sys

import pytest
from socks import pair, registered_fds

OPERATIONS = [
    ("sock_recv", (10,)),
    ("sock_recv_into", (bytearray(10),)),
    ("sock_sendall", (b"data",)),
    ("sock_accept", ()),
    ("sock_connect", (("127.0.0.1", 1),)),
]
if sys.version_info >= (3, 11):
    OPERATIONS += [
        ("sock_recvfrom", (10,)),
        ("sock_recvfrom_into", (bytearray(10),)),
        ("sock_sendto", (b"data", ("127.0.0.1", 1))),
    ]
each_operation = pytest.mark.parametrize("name, args", OPERATIONS, ids=[name for name, _ in OPERATIONS])


@each_operation
def test_they_are_coroutines_and_fail_when_awaited(run, loop, name, args):
    with socket.socket() as sock:
        sock.close()
        coroutine = getattr(loop, name)(sock, *args)
        assert inspect.iscoroutine(coroutine)
        with pytest.raises(OSError) as failure:
            run(coroutine)
        assert failure.value.errno == errno.EBADF
    assert registered_fds(loop) == 0


@each_operation
def test_debug_mode_requires_a_non_blocking_socket(run, loop, name, args):
    loop.set_debug(True)
    with socket.socket() as sock:
        with pytest.raises(ValueError, match="the socket must be non-blocking"):
            run(getattr(loop, name)(sock, *args))
        sock.settimeout(1)
        with pytest.raises(ValueError, match="the socket must be non-blocking"):
            run(getattr(loop, name)(sock, *args))


@each_operation
def test_a_socket_with_tls_is_refused(run, loop, name, args):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    with pair() as (ours, _):
        context.check_hostname = False
        with context.wrap_socket(ours, do_handshake_on_connect=False) as secure:
            with pytest.raises(TypeError, match="Socket cannot be of type SSLSocket"):
                run(getattr(loop, name)(secure, *args))


@each_operation
@pytest.mark.parametrize(
    "make", [io.BytesIO, object, lambda: None, lambda: 5], ids=["file", "object", "none", "int"]
)
def test_other_objects_than_sockets_are_refused_as_by_asyncio(run, loop, name, args, make):
    # The attribute that asyncio looks up first.
    first = {"sock_accept": "fileno", "sock_sendall": "send", "sock_connect": "family"}
    attribute = first.get(name, name.removeprefix("sock_"))
    with pytest.raises((AttributeError, io.UnsupportedOperation)) as failure:
        run(getattr(loop, name)(make(), *args))
    if make is io.BytesIO and attribute == "fileno":
        assert failure.type is io.UnsupportedOperation
    else:
        assert f"has no attribute '{attribute}'" in str(failure.value)


def test_sendall_looks_up_send_before_it_checks_the_data(run, loop):
    with pytest.raises(AttributeError, match="has no attribute 'send'"):
        run(loop.sock_sendall(io.BytesIO(), "text"))


def test_invalid_arguments_are_refused(run, loop):
    async def main():
        with pair() as (ours, theirs):
            theirs.sendall(b"data")
            with pytest.raises(ValueError, match="negative buffersize in recv"):
                await loop.sock_recv(ours, -1)
            for count in ("10", None, 1.5):
                with pytest.raises(TypeError):
                    await loop.sock_recv(ours, count)
            with pytest.raises(OverflowError):
                await loop.sock_recv(ours, 1 << 70)
            for buffer in (b"cannot be changed", "text", None):
                with pytest.raises(TypeError):
                    await loop.sock_recv_into(ours, buffer)
            for data in ("text", None, 1):
                with pytest.raises(TypeError):
                    await loop.sock_sendall(ours, data)
            assert await loop.sock_recv(ours, 0) == b""
            assert await loop.sock_recv_into(ours, bytearray()) == 0
            assert await loop.sock_sendall(ours, b"") is None
            assert await loop.sock_recv(ours, True) == b"d"
            assert await loop.sock_recv(ours, 100) == b"ata"

    run(main())


def test_a_closed_loop_raises(loop):
    loop.close()
    with pair() as (ours, _):
        for coroutine in (loop.sock_recv(ours, 10), loop.sock_recv_into(ours, bytearray(10))):
            with pytest.raises(RuntimeError, match="Event loop is closed"):
                coroutine.send(None)
