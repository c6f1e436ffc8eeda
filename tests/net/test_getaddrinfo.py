"""Name lookup gives the C library's results, and uses a thread only if the lookup may block."""

from __future__ import annotations

import asyncio
import itertools
import socket

import pytest
from peers import Recorder, end_of

HOSTS = [
    "127.0.0.1",
    "0.0.0.0",
    "255.255.255.255",
    "10.1.2.3",
    "::1",
    "::",
    "2001:db8::1",
    "2001:DB8:0:0::1",
    "::ffff:127.0.0.1",
    "fe80::1",
    "fe80::1%1",
    "fe80::1%lo",
    "fe80::1%nosuchinterface",
    "::1%lo",
    b"127.0.0.1",
    b"::1",
]
# Not all of these are addresses, and some addresses need a thread.
OTHERS = [
    "127.1",
    "0x7f.1",
    "127.0.0.1.",
    "127.0.0.256",
    "1.2.3",
    "::1::",
    "[::1]",
    "fe80::1%",
    "%lo",
    "",
    None,
    "name.invalid",
    "ä",
    "1" * 300,
    "127.0.0.1\0",
    12,
]
PORTS = [0, 80, 65535, "80", b"80", None]
FAMILIES = [socket.AF_UNSPEC, socket.AF_INET, socket.AF_INET6, socket.AF_UNIX]
KINDS = [
    (0, 0),
    (socket.SOCK_STREAM, 0),
    (socket.SOCK_STREAM, socket.IPPROTO_TCP),
    (socket.SOCK_DGRAM, socket.IPPROTO_UDP),
    (socket.SOCK_STREAM, socket.IPPROTO_UDP),
    (socket.SOCK_RAW, 0),
    (0, socket.IPPROTO_TCP),
    (12345, 0),
]
FLAGS = [
    0,
    socket.AI_PASSIVE,
    socket.AI_NUMERICHOST,
    socket.AI_CANONNAME,
    socket.AI_ADDRCONFIG,
    socket.AI_V4MAPPED,
    socket.AI_V4MAPPED | socket.AI_ALL,
    socket.AI_NUMERICSERV,
    1 << 30,
]


def outcome(function, *args, **options):
    try:
        return function(*args, **options)
    except (OSError, OverflowError, UnicodeError, ValueError, TypeError) as error:
        return type(error), error.args


async def outcome_of(coroutine):
    try:
        return await coroutine
    except (OSError, OverflowError, UnicodeError, ValueError, TypeError) as error:
        return type(error), error.args


async def compare(loop, host, ports, families, kinds, flags):
    for port, family, (kind, proto), flag in itertools.product(ports, families, kinds, flags):
        options = {"family": family, "type": kind, "proto": proto, "flags": flag}
        expected = outcome(socket.getaddrinfo, host, port, **options)
        assert await outcome_of(loop.getaddrinfo(host, port, **options)) == expected, (port, options)


@pytest.mark.parametrize("host", HOSTS, ids=repr)
def test_an_address_is_looked_up_as_the_c_library_does(run, loop, host):
    if host in ("127.0.0.1", "::1", "fe80::1%lo"):
        run(compare(loop, host, PORTS, FAMILIES, KINDS, FLAGS))
    else:
        run(compare(loop, host, PORTS[:1], FAMILIES, KINDS[:4], FLAGS[:4]))


@pytest.mark.parametrize("host", OTHERS, ids=repr)
def test_almost_valid_addresses_are_handled_as_by_the_c_library(run, loop, host):
    # Uses no name server, which may be slow or unreachable.
    run(compare(loop, host, PORTS[:2], FAMILIES, KINDS[:2], [socket.AI_NUMERICHOST]))


@pytest.mark.parametrize("port", [*PORTS, -1, 65536, 1 << 40, 1 << 70, "-1", "٣", "", 1.5, True], ids=repr)
@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_a_port_is_looked_up_as_the_c_library_does(run, loop, host, port):
    async def main():
        expected = outcome(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
        assert await outcome_of(loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)) == expected

    run(main())


def test_an_address_needs_no_thread_and_a_name_does(run, loop, loop_name, monkeypatch):
    if loop_name == "asyncio":
        pytest.skip("asyncio always uses a thread")
    asked = []

    def instead(executor, function, *args):
        asked.append(args[0])
        future = loop.create_future()
        future.set_result([])
        return future

    monkeypatch.setattr(loop, "run_in_executor", instead)

    async def main():
        for host in ("127.0.0.1", "::1", "fe80::1%1", b"10.0.0.1"):
            assert await loop.getaddrinfo(host, 80)
            assert await loop.getnameinfo((host if isinstance(host, str) else "::1", 80), 3)
        assert asked == []
        for host in ("localhost", "127.1", "127.0.0.1.example", None, ""):
            await loop.getaddrinfo(host, 80)
        await loop.getaddrinfo("127.0.0.1", "http")
        await loop.getnameinfo(("127.0.0.1", 80))
        assert asked == ["localhost", "127.1", "127.0.0.1.example", None, "", "127.0.0.1", ("127.0.0.1", 80)]

    run(main())


@pytest.mark.parametrize("debug", [False, True])
def test_names_are_looked_up_in_a_thread(run, loop, debug):
    loop.set_debug(debug)

    async def main():
        found = await loop.getaddrinfo("localhost", 80, type=socket.SOCK_STREAM)
        assert sorted(found) == sorted(socket.getaddrinfo("localhost", 80, type=socket.SOCK_STREAM))
        assert await loop.getaddrinfo("127.0.0.1", 80) == socket.getaddrinfo("127.0.0.1", 80)
        for flags in (0, socket.NI_NUMERICHOST, socket.NI_NUMERICHOST | socket.NI_NUMERICSERV):
            address = ("127.0.0.1", 80)
            assert await loop.getnameinfo(address, flags) == socket.getnameinfo(address, flags)

    run(main())


def test_invalid_arguments_fail_when_awaited(run, loop):
    async def main():
        for sockaddr in ("127.0.0.1", ("127.0.0.1",), ("not an address", 80), None):
            flags = socket.NI_NUMERICHOST | socket.NI_NUMERICSERV
            expected = outcome(socket.getnameinfo, sockaddr, flags)
            assert await outcome_of(loop.getnameinfo(sockaddr, flags)) == expected

    run(main())


def test_a_closed_loop_refuses_lookups(loop):
    loop.close()
    for coroutine in (loop.getaddrinfo("127.0.0.1", 80), loop.getnameinfo(("127.0.0.1", 80), 3)):
        with pytest.raises(RuntimeError, match="Event loop is closed"):
            coroutine.send(None)


def test_a_replaced_lookup_is_used(run, loop):
    """Programs and tests often monkeypatch the method of the loop."""
    asked = []

    async def getaddrinfo(host, port, **options):
        asked.append(host)
        return socket.getaddrinfo("127.0.0.1", port, **options)

    loop.getaddrinfo = getaddrinfo

    async def main():
        server = await loop.create_server(Recorder, "here.invalid", 0)
        port = server.sockets[0].getsockname()[1]
        transport, protocol = await loop.create_connection(Recorder, "there.invalid", port)
        with socket.socket() as sock:
            sock.setblocking(False)
            await loop.sock_connect(sock, ("elsewhere.invalid", port))
        assert asked == ["here.invalid", "there.invalid", "elsewhere.invalid"]
        await end_of(protocol)
        server.close()
        for _ in range(5):
            await asyncio.sleep(0)

    run(main())
    del loop.getaddrinfo
