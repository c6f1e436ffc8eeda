"""Datagram endpoints: each datagram arrives once and complete, with its sender's address."""

from __future__ import annotations

import asyncio
import gc
import socket
import sys

import pytest
from endpoints import Datagrams, EchoDatagrams, drain, endpoint, local, unix_socket


def test_a_datagram_reaches_the_given_address_and_carries_its_senders(run):
    async def main():
        async with local(EchoDatagrams) as server, local() as client:
            client.transport.sendto(b"ping", server.address)
            assert await client.until_datagrams(1) == [b"ping"]
            assert server.datagrams == [(b"ping", client.address)]
            assert client.datagrams == [(b"ping", server.address)]

    run(main())


def test_a_connected_endpoint_needs_no_address_and_refuses_another(run):
    async def main():
        async with local(EchoDatagrams) as server, endpoint(remote_addr=server.address) as client:
            client.transport.sendto(b"1")
            client.transport.sendto(b"2", None)
            client.transport.sendto(b"3", server.address)
            client.transport.sendto(b"4", tuple(server.address))
            client.transport.sendto(data=b"5", addr=server.address)
            assert await client.until_datagrams(5) == [b"1", b"2", b"3", b"4", b"5"]
            with pytest.raises(ValueError, match="Invalid address: must be None or .*127.0.0.1"):
                client.transport.sendto(b"6", ("127.0.0.1", 9))
            assert client.transport.get_extra_info("peername") == server.address
            assert client.transport._address == server.address

    run(main())


def test_many_peers_are_distinguished(run):
    async def main():
        async with local(EchoDatagrams) as server:
            clients = []
            for _ in range(100):
                transport, client = await asyncio.get_running_loop().create_datagram_endpoint(
                    Datagrams, local_addr=("127.0.0.1", 0)
                )
                clients.append((transport, client))
            for round_number in range(3):
                for transport, client in clients:
                    transport.sendto(b"%d" % client.address[1], server.address)
                for _, client in clients:
                    assert await client.until_datagrams(round_number + 1) == [b"%d" % client.address[1]] * (
                        round_number + 1
                    )
            assert all(address[1] == int(data) for data, address in server.datagrams)
            for transport, client in clients:
                transport.close()
                await client.until_lost()

    run(main())


@pytest.mark.parametrize("size", [1, 1000, 1472, 9000, 65507])
def test_a_datagram_arrives_complete(run, size):
    async def main():
        async with local() as server, local() as client:
            data = bytes(range(256)) * 256
            client.transport.sendto(data[:size], server.address)
            assert await server.until_datagrams(1) == [data[:size]]

    run(main())


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_every_bytes_like_type_can_be_sent(run, kind):
    async def main():
        async with local() as server, local() as client:
            client.transport.sendto(kind(b"data"), server.address)
            assert await server.until_datagrams(1) == [b"data"]

    run(main())


@pytest.mark.parametrize("wrong", ["text", None, 1, [b"x"]])
def test_other_types_raise_type_error(run, wrong):
    async def main():
        async with local() as client:
            kind = type(wrong).__name__
            with pytest.raises(TypeError, match=f"data argument must be a bytes-like object, not '{kind}'"):
                client.transport.sendto(wrong, ("127.0.0.1", 9))
            with pytest.raises(TypeError):
                client.transport.sendto()

    run(main())


def test_an_empty_datagram_is_sent_from_python_3_13_on(run):
    async def main():
        async with local() as server, local() as client:
            client.transport.sendto(b"", server.address)
            client.transport.sendto(b"end", server.address)
            expected = [b"", b"end"] if sys.version_info >= (3, 13) else [b"end"]
            assert await server.until_datagrams(len(expected)) == expected

    run(main())


def test_an_empty_datagram_is_received(run):
    async def main():
        async with local() as server:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as bare:
                bare.sendto(b"", server.address)
                assert await server.until_datagrams(1) == [b""]

    run(main())


def test_host_names_are_resolved(run):
    async def main():
        async with local() as server, local() as client:
            client.transport.sendto(b"data", ("localhost", server.address[1]))
            assert await server.until_datagrams(1) == [b"data"]

    run(main())


def test_ipv6_addresses_have_four_parts_and_may_be_given_with_fewer(run):
    async def main():
        async with local(EchoDatagrams, host="::1") as server, local(host="::1") as client:
            host, port, flowinfo, scope = server.address
            assert (host, flowinfo, scope) == ("::1", 0, 0)
            for address in [(host, port), (host, port, 0), (host, port, 0, 0)]:
                client.transport.sendto(b"data", address)
            assert await client.until_datagrams(3) == [b"data"] * 3
            assert {address for _, address in client.datagrams} == {server.address}

    run(main())


def test_the_address_of_a_link_local_peer_has_its_scope(run):
    async def main():
        async with local(host="::1") as server:
            index = socket.if_nametoindex("lo")
            async with local(host="::1") as client:
                client.transport.sendto(b"scoped", (*server.address[:3], index))
                assert await server.until_datagrams(1) == [b"scoped"]

    run(main())


def test_addresses_of_unix_endpoints_are_paths(run, tmp_path):
    async def main():
        here, there = str(tmp_path / "here"), str(tmp_path / "there-ü")
        async with (
            endpoint(EchoDatagrams, family=socket.AF_UNIX, local_addr=there) as server,
            endpoint(family=socket.AF_UNIX, local_addr=here) as client,
        ):
            client.transport.sendto(b"1", there)
            client.transport.sendto(b"2", there.encode())
            assert await client.until_datagrams(2) == [b"1", b"2"]
            assert server.datagrams == [(b"1", here), (b"2", here)]
            assert client.datagrams == [(b"1", there), (b"2", there)]

    run(main())


def test_abstract_unix_names_are_bytes(run, tmp_path):
    async def main():
        name = b"\0mainspring-test-" + str(tmp_path).encode()[-60:]
        with unix_socket() as far, unix_socket() as near:
            far.bind(name)
            near.bind("")  # the kernel chooses an abstract name
            async with endpoint(EchoDatagrams, sock=far) as server, endpoint(sock=near) as client:
                client.transport.sendto(b"data", name)
                assert await client.until_datagrams(1) == [b"data"]
                assert client.datagrams == [(b"data", name)]
                assert server.datagrams == [(b"data", near.getsockname())]

    run(main())


def test_a_unix_sender_without_a_name_is_none(run, tmp_path):
    async def main():
        path = str(tmp_path / "server")
        async with endpoint(family=socket.AF_UNIX, local_addr=path) as server:
            with unix_socket(connect_to=path) as bare:
                bare.send(b"data")
                await server.until_datagrams(1)
                assert server.datagrams == [(b"data", None)]

    run(main())


def test_a_large_unix_datagram_arrives_complete(run, tmp_path):
    async def main():
        path = str(tmp_path / "server")
        async with endpoint(family=socket.AF_UNIX, local_addr=path) as server:
            with unix_socket(connect_to=path) as bare:
                bare.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 400_000)
                size = 150_000
                bare.send(b"x" * size)
                assert [len(data) for data in await server.until_datagrams(1)] == [size]

    run(main())


def test_an_endpoint_on_a_connected_socket_sends_to_its_peer(run):
    async def main():
        async with local() as server:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
                sock.setblocking(False)
                sock.connect(server.address)
                async with endpoint(sock=sock) as client:
                    client.transport.sendto(b"1")
                    # asyncio ignores the address in this case.
                    client.transport.sendto(b"2", ("127.0.0.1", 1))
                    assert await server.until_datagrams(2) == [b"1", b"2"]

    run(main())


@pytest.mark.parametrize("loop_name", ["mainspring"], indirect=True)
def test_one_end_of_an_unnamed_pair_sends_to_the_other(run):
    async def main():
        near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        with near, far:
            near.setblocking(False)
            far.setblocking(False)
            async with endpoint(sock=near) as client:
                client.transport.sendto(b"data")
                assert drain(far) == [b"data"]

    run(main())


def test_a_socket_family_without_native_addresses_works(run):
    family = getattr(socket, "AF_NETLINK", None)
    if family is None:
        pytest.skip("no netlink")

    async def main():
        with socket.socket(family, socket.SOCK_DGRAM, 0) as sock:
            sock.setblocking(False)
            sock.bind((0, 0))
            async with endpoint(sock=sock) as client:
                # RTM_GETLINK for all links; the kernel (port 0) answers.
                request = (20).to_bytes(4, sys.byteorder) + (18).to_bytes(2, sys.byteorder)
                request += (0x301).to_bytes(2, sys.byteorder) + bytes(12)
                client.transport.sendto(request, (0, 0))
                await client.until_datagrams(1)
                assert client.datagrams[0][1] == (0, 0)

    run(main())


def test_allow_broadcast_controls_broadcasting(run):
    async def main():
        async with local() as client:
            client.transport.sendto(b"data", ("<broadcast>", 9))
            client.transport.sendto(b"data", ("255.255.255.255", 9))
            assert [type(error) for error in client.errors] == [PermissionError] * 2
        async with local(allow_broadcast=True) as client:
            sock = client.transport.get_extra_info("socket")
            assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST) == 1

    run(main())


def test_an_endpoint_with_a_remote_address_that_broadcasts_is_not_connected(run):
    async def main():
        async with (
            local() as server,
            endpoint(remote_addr=server.address, local_addr=("127.0.0.1", 0), allow_broadcast=True) as client,
        ):
            assert client.transport.get_extra_info("peername") is None
            client.transport.sendto(b"1")
            client.transport.sendto(b"2", server.address)
            assert await server.until_datagrams(2) == [b"1", b"2"]
            with pytest.raises(ValueError, match="Invalid address"):
                client.transport.sendto(b"3", ("127.0.0.1", 9))

    run(main())


def test_reuse_port_lets_endpoints_share_a_port(run):
    async def main():
        async with local(reuse_port=True) as one, endpoint(local_addr=one.address, reuse_port=True) as two:
            assert one.address == two.address

    run(main())


def test_the_transport_has_asyncios_type_and_extra_info(run, loop):
    async def main():
        async with local() as client:
            transport = client.transport
            assert isinstance(transport, asyncio.Transport)
            if sys.version_info >= (3, 12):
                assert isinstance(transport, asyncio.DatagramTransport)
            sock = transport.get_extra_info("socket")
            assert sock.type == socket.SOCK_DGRAM
            assert sock.getsockname() == client.address == transport.get_extra_info("sockname")
            assert transport.get_extra_info("peername", "unknown") is None
            assert transport.get_extra_info("nothing", "default") == "default"
            assert transport._sock.fileno() == sock.fileno()
            assert transport._loop is loop
            assert transport.get_protocol() is client
            assert transport._address is None
            assert not transport._buffer
            assert f"fd={sock.fileno()} read=polling write=<idle, bufsize=0>" in repr(transport)
            transport.close()
            assert "closing" in repr(transport)
            await client.until_lost()
            assert "closed" in repr(transport)
            assert transport._sock is None

    run(main())


def test_an_unclosed_collected_transport_warns(run):
    async def main():
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.setblocking(False)
            loop = asyncio.get_running_loop()
            transport, _ = await loop.create_datagram_endpoint(asyncio.DatagramProtocol, sock=sock)
            await asyncio.sleep(0)
            # The loop holds no reference while the endpoint neither reads nor writes.
            getattr(transport, "pause_reading", lambda: loop._remove_reader(sock.fileno()))()
            if hasattr(loop, "_transports"):
                gc.collect()
            with pytest.warns(ResourceWarning, match="unclosed transport"):
                del transport
                gc.collect()

    if sys.version_info < (3, 11):
        pytest.skip("asyncio's datagram transports cannot pause reading before 3.11")
    run(main())


def test_reading_can_be_paused(run):
    if sys.version_info < (3, 11):
        pytest.skip("asyncio's datagram transports cannot pause reading before 3.11")

    async def main():
        async with local() as server, local() as client:
            server.transport.pause_reading()
            assert not server.transport.is_reading()
            client.transport.sendto(b"data", server.address)
            for _ in range(5):
                await asyncio.sleep(0)
            assert server.data == []
            server.transport.resume_reading()
            assert await server.until_datagrams(1) == [b"data"]

    run(main())


def test_callbacks_scheduled_by_a_datagram_run_before_the_next_datagram(run):
    async def main():
        class Scheduling(Datagrams):
            def datagram_received(self, data, addr):
                super().datagram_received(data, addr)
                asyncio.get_running_loop().call_soon(self.note, "scheduled", data)

        async with local(Scheduling) as server, local() as client:
            for number in range(5):
                client.transport.sendto(b"%d" % number, server.address)
            await server.until(lambda: server.count("scheduled") == 5)
            expected = [(kind, b"%d" % n) for n in range(5) for kind in ("datagram_received", "scheduled")]
            assert [entry for entry in server.log if entry[0] != "connection_made"] == expected

    run(main())


def test_a_protocol_may_be_replaced(run):
    async def main():
        async with local() as server, local() as client:
            other = Datagrams()
            server.transport.set_protocol(other)
            client.transport.sendto(b"data", server.address)
            assert await other.until_datagrams(1) == [b"data"]
            server.transport.set_protocol(server)

    run(main())
