"""Name lookup gives the C library's results, and uses a thread only if the lookup may block."""

from __future__ import annotations

import asyncio
import itertools
import logging
import re
import socket
import threading
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
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


@pytest.fixture
def in_thread(loop, monkeypatch):
    """The hosts and addresses that the loop passes to its executor.  Nothing is looked up there."""
    asked = []

    def instead(executor, function, *args):
        asked.append(args[0])
        future = loop.create_future()
        future.set_result([])
        return future

    monkeypatch.setattr(loop, "run_in_executor", instead)
    return asked


def native_only(loop_name):
    if loop_name == "asyncio":
        pytest.skip("asyncio always uses a thread")


def test_an_address_needs_no_thread(run, loop, loop_name, in_thread):
    native_only(loop_name)

    async def main():
        for host in ("127.0.0.1", "::1", "fe80::1%1", b"10.0.0.1", None):
            for port in (80, "80", b"80"):
                assert await loop.getaddrinfo(host, port, flags=socket.AI_PASSIVE)
        for host in ("127.0.0.1", "::1"):
            assert await loop.getnameinfo((host, 80), 3)
        with pytest.raises(socket.gaierror):
            await loop.getaddrinfo("localhost", 80, flags=socket.AI_NUMERICHOST)
        with pytest.raises(socket.gaierror):
            await loop.getaddrinfo("127.0.0.1", "http", flags=socket.AI_NUMERICSERV)
        assert in_thread == []

    run(main())


def test_a_name_needs_a_thread(run, loop, in_thread):
    hosts = [
        "127.1",
        "127.0.0.1.example",
        "name.invalid",
        b"name.invalid",
        "ä.example",
        "\udcff",
        "",
        12,
        1.5,
    ]

    async def main():
        for host in hosts:
            await loop.getaddrinfo(host, 80)
        await loop.getaddrinfo("127.0.0.1", "http")
        await loop.getaddrinfo("127.0.0.1", 80, family=1 << 40)
        await loop.getaddrinfo("127.0.0.1", 80, flags=None)
        await loop.getnameinfo(("127.0.0.1", 80))
        assert in_thread == [*hosts, "127.0.0.1", "127.0.0.1", "127.0.0.1", ("127.0.0.1", 80)]

    run(main())


def names_of_hosts_file():
    """The names of the machine's hosts file, each with the families of its addresses.

    The tests do not change the configuration of the machine; those of the engine use files of their own.
    """
    names = {}
    path = Path("/etc/hosts")
    for line in path.read_text().splitlines() if path.exists() else []:
        address, *found = line.partition("#")[0].split() or [""]
        for name in found:
            names.setdefault(name, set()).add(socket.AF_INET6 if ":" in address else socket.AF_INET)
    return names


NAMES = names_of_hosts_file()
NSSWITCH = Path("/etc/nsswitch.conf")
needs_hosts_file = pytest.mark.skipif(
    socket.AF_INET not in NAMES.get("localhost", ())
    or not NSSWITCH.exists()
    or not re.search(r"(?m)^hosts:\s+files(?!\s*\[)\b", NSSWITCH.read_text())
    or Path("/var/run/nscd/socket").exists(),
    reason="the hosts file is not the first source of names",
)


@needs_hosts_file
def test_a_name_of_the_hosts_file_needs_no_thread(run, loop, loop_name, in_thread):
    native_only(loop_name)

    async def main():
        for name in NAMES:
            for host in (name, name.encode()):
                options = {"type": socket.SOCK_STREAM, "flags": socket.AI_PASSIVE}
                assert await loop.getaddrinfo(host, 80, **options) == socket.getaddrinfo(host, 80, **options)
        assert in_thread == []
        await loop.getaddrinfo("localhost", "http")
        await loop.getaddrinfo("localhost", 80, flags=socket.AI_CANONNAME)
        await loop.getaddrinfo("localhost", 80, family=socket.AF_UNIX)
        assert in_thread == ["localhost"] * 3

    run(main())


@needs_hosts_file
def test_connecting_to_a_name_of_the_hosts_file_starts_no_thread(run, loop, loop_name):
    native_only(loop_name)

    async def main():
        server = await loop.create_server(Recorder, "localhost", 0, family=socket.AF_INET)
        port = server.sockets[0].getsockname()[1]
        transport, protocol = await loop.create_connection(Recorder, "localhost", port, family=socket.AF_INET)
        transport.close()
        await end_of(protocol)
        server.close()
        await asyncio.sleep(0)
        assert loop._default_executor is None

    run(main())


def test_a_replaced_function_runs_in_a_thread(run, loop, monkeypatch):
    threads = []

    def getaddrinfo(*args, **options):
        threads.append(threading.current_thread())
        return original(*args, **options)

    original = socket.getaddrinfo
    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)

    async def main():
        assert await loop.getaddrinfo("127.0.0.1", 80) == original("127.0.0.1", 80)
        assert await loop.getaddrinfo("localhost", 80) == original("localhost", 80)
        assert len(threads) == 2 and threading.current_thread() not in threads

    run(main())


def test_debug_mode_logs_how_long_a_lookup_took(run, loop, caplog):
    loop.set_debug(True)
    caplog.set_level(logging.DEBUG, "asyncio")
    run(loop.getaddrinfo("localhost", 80, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE))
    kind = f"type={socket.SOCK_STREAM!r}, flags={socket.AI_PASSIVE!r}"
    messages = [record.getMessage() for record in caplog.records if "address info" in record.getMessage()]
    assert messages[0] == f"Get address info localhost:80, {kind}"
    assert messages[1].startswith(f"Getting address info localhost:80, {kind} took ")


def arguments():
    """Arguments of getaddrinfo() for which the C library asks no name server."""
    flags = st.sampled_from(FLAGS) | st.integers(0, 0x3F)
    numeric_flags = flags.map((socket.AI_NUMERICHOST | socket.AI_NUMERICSERV).__or__)
    # With AI_ADDRCONFIG a name is not looked up for every family.
    flags_for_names = flags.map((~socket.AI_ADDRCONFIG).__and__)
    families, kinds = st.sampled_from(FAMILIES), st.sampled_from(KINDS)
    ports = st.sampled_from([*PORTS, "0080", "65536", -1, 1 << 70, True]) | st.integers(0, 70000)
    hosts = (
        st.text(max_size=12) | st.binary(max_size=12) | st.ip_addresses().map(str) | st.sampled_from(OTHERS)
    )
    services = ports | st.text(max_size=5) | st.binary(max_size=5)
    known = [
        st.tuples(st.sampled_from([name, name.encode(), name.upper()]), ports, family, kinds, flags_for_names)
        for name, found in NAMES.items()
        for family in [st.sampled_from([socket.AF_UNSPEC, *found])]
    ]
    return st.one_of(
        st.tuples(st.sampled_from([*HOSTS, None]), ports, families, kinds, flags),
        st.tuples(hosts, services, families, kinds, numeric_flags),
        *known,
    )


@given(st.lists(arguments(), max_size=20))
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_all_lookups_have_the_results_of_the_c_library(run, loop, lookups):
    async def main():
        for host, port, family, (kind, proto), flags in lookups:
            options = {"family": family, "type": kind, "proto": proto, "flags": flags}
            expected = outcome(socket.getaddrinfo, host, port, **options)
            assert await outcome_of(loop.getaddrinfo(host, port, **options)) == expected, (
                host,
                port,
                options,
            )

    run(main())


@pytest.mark.parametrize("debug", [False, True])
def test_debug_mode_does_not_change_the_results(run, loop, debug):
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
