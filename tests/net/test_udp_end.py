"""Datagram endpoints: flow control, and how they end."""

from __future__ import annotations

import asyncio
import logging
import socket
import sys

import pytest
from endpoints import Datagrams, blocked, drain, endpoint, local

HEADER = 8 if sys.version_info >= (3, 13) else 0


def test_datagrams_that_the_kernel_refuses_are_queued_and_counted(run, tmp_path):
    async def main():
        async with blocked(tmp_path) as (client, _, _):
            assert client.transport.get_write_buffer_size() == 4 + HEADER
            client.transport.sendto(b"1234567890")
            assert client.transport.get_write_buffer_size() == 14 + 2 * HEADER
            assert [data for data, _ in client.transport._buffer] == [b"fill", b"1234567890"]
            assert "write=<polling" in repr(client.transport)

    run(main())


@pytest.mark.usefixtures("not_asyncio_3_13")
def test_the_protocol_is_paused_above_the_high_water_mark_and_resumed_at_the_low_one(run, tmp_path):
    async def main():
        async with blocked(tmp_path) as (client, peer, _):
            client.transport.set_write_buffer_limits(high=100, low=50)
            while client.transport.get_write_buffer_size() <= 100:
                assert client.count("pause_writing") == 0
                client.transport.sendto(b"x" * 30)
            assert client.count("pause_writing") == 1
            client.transport.sendto(b"more")
            assert client.count("pause_writing") == 1
            while client.count("resume_writing") == 0:
                drain(peer)
                await asyncio.sleep(0)
            assert client.transport.get_write_buffer_size() <= 50
            assert client.names == ["connection_made", "pause_writing", "resume_writing"]

    run(main())


def test_queued_datagrams_are_copies(run, tmp_path):
    async def main():
        async with blocked(tmp_path) as (client, peer, _):
            data = bytearray(b"before")
            client.transport.sendto(data)
            data[:] = b"after!"
            received = []
            while b"before" not in received:
                received += drain(peer)
                await asyncio.sleep(0)
            assert b"after!" not in received

    run(main())


def test_close_sends_queued_data_first(run, tmp_path):
    async def main():
        async with blocked(tmp_path) as (client, peer, _):
            client.transport.sendto(b"last")
            client.transport.close()
            assert client.transport.is_closing()
            received = drain(peer)
            assert await client.until_lost() is None
            received += drain(peer)
            assert received[-2:] == [b"fill", b"last"]

    run(main())


def test_abort_drops_queued_data(run, tmp_path):
    async def main():
        async with blocked(tmp_path) as (client, peer, _):
            client.transport.sendto(b"dropped")
            client.transport.abort()
            assert await client.until_lost() is None
            assert set(drain(peer)) == {b"fill"}

    run(main())


def test_connection_lost_comes_once_and_the_fd_is_closed_after_it(run):
    class Looking(Datagrams):
        def connection_lost(self, exc):
            self.open_at_the_end = self.transport._sock.fileno() >= 0
            super().connection_lost(exc)

    async def main():
        loop = asyncio.get_running_loop()
        transport, protocol = await loop.create_datagram_endpoint(Looking, local_addr=("127.0.0.1", 0))
        for _ in range(3):
            transport.close()
            transport.abort()
        assert protocol.count("connection_lost") == 0
        await protocol.until_lost()
        assert protocol.open_at_the_end
        transport.close()
        transport.abort()
        await asyncio.sleep(0)
        assert protocol.count("connection_lost") == 1

    run(main())


def test_nothing_is_delivered_after_close(run):
    async def main():
        async with local() as server, local() as client:
            client.transport.sendto(b"late", server.address)
            server.transport.close()
            await server.until_lost()
            assert server.names == ["connection_made", "connection_lost"]

    run(main())


def test_a_closed_connected_endpoint_drops_datagrams_and_then_warns(run, caplog):
    async def main():
        async with local() as server, endpoint(remote_addr=server.address) as client:
            client.transport.close()
            with caplog.at_level(logging.WARNING, "asyncio"):
                for _ in range(4):
                    client.transport.sendto(b"dropped")
                assert not caplog.records
                client.transport.sendto(b"dropped")
            assert [record.getMessage() for record in caplog.records] == ["socket.send() raised exception."]
            await asyncio.sleep(0)
            assert server.data == []

    run(main())


def test_an_unconnected_endpoint_sends_until_connection_lost(run):
    async def main():
        async with local() as server, local() as client:
            client.transport.close()
            client.transport.sendto(b"still", server.address)
            assert await server.until_datagrams(1) == [b"still"]

    run(main())


@pytest.mark.parametrize("loop_name", ["mainspring"], indirect=True)
def test_a_finished_endpoint_drops_datagrams(run):
    async def main():
        async with local() as server:
            async with local() as client:
                pass
            client.transport.sendto(b"dropped", server.address)
            client.transport.sendto(b"dropped", ("localhost", 9))

    run(main())


def test_a_reused_fd_belongs_to_the_new_endpoint(run):
    async def main():
        loop = asyncio.get_running_loop()
        async with local() as sender:
            transport, old = await loop.create_datagram_endpoint(Datagrams, local_addr=("127.0.0.1", 0))
            number = transport.get_extra_info("socket").fileno()
            address = old.address
            transport.close()
            await old.until_lost()
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
                assert sock.fileno() == number
                sock.bind(address)
                sock.setblocking(False)
                async with endpoint(sock=sock) as new:
                    sender.transport.sendto(b"data", address)
                    assert await new.until_datagrams(1) == [b"data"]
                    assert old.data == []

    run(main())


@pytest.mark.parametrize("loop_name", ["mainspring"], indirect=True)
def test_closing_the_socket_under_the_transport_does_not_free_its_fd(run):
    async def main():
        async with local() as client:
            sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            sock.setblocking(False)
            sock.bind(("127.0.0.1", 0))
            address = sock.getsockname()
            async with endpoint(sock=sock) as server:
                sock.close()
                client.transport.sendto(b"data", address)
                assert await server.until_datagrams(1) == [b"data"]

    run(main())


# ---- Any callback doing anything ----


def act(action, protocol, where):
    transport = protocol.transport
    if action == "sendto":
        transport.sendto(b"from inside", where)
    else:
        getattr(transport, action)()


@pytest.mark.parametrize("action", ["close", "abort", "sendto"])
@pytest.mark.parametrize(
    "callback", ["connection_made", "datagram_received", "error_received", "connection_lost"]
)
def test_any_callback_may_do_anything(run, callback, action):
    class Acting(Datagrams):
        acted = False
        where = None

        def note(self, *entry):
            super().note(*entry)
            if entry[0] == callback and not self.acted:
                self.acted = True
                act(action, self, self.where)

    async def main():
        async with local() as server:

            def factory():
                protocol = Acting()
                protocol.where = server.address
                return protocol

            transport, client = await asyncio.get_running_loop().create_datagram_endpoint(
                factory, local_addr=("127.0.0.1", 0)
            )
            if not transport.is_closing():
                transport.sendto(bytes(70_000), server.address)
            if callback == "datagram_received":
                server.transport.sendto(b"data", client.address)
                await client.until_datagrams(1)
            if action == "sendto" and callback != "connection_lost":
                assert await server.until_datagrams(1) == [b"from inside"]
            transport.close()
            await client.until_lost()
            assert client.acted
            assert client.count("connection_lost") == 1
            assert client.names[-1] == "connection_lost"

    run(main())


@pytest.mark.usefixtures("not_asyncio_3_13")
@pytest.mark.parametrize("action", ["close", "abort", "sendto"])
@pytest.mark.parametrize("callback", ["pause_writing", "resume_writing"])
def test_flow_control_may_do_anything(run, loop_name, tmp_path, callback, action):
    if loop_name == "asyncio" and (callback, action) in {
        ("resume_writing", "close"),
        ("resume_writing", "abort"),
    }:
        pytest.skip("asyncio's own transport then calls connection_lost() twice")

    class Acting(Datagrams):
        acted = False

        def note(self, *entry):
            super().note(*entry)
            if entry[0] == callback and not self.acted:
                self.acted = True
                act(action, self, None)

    async def main():
        async with blocked(tmp_path, Acting) as (client, peer, _):
            received = []
            client.transport.set_write_buffer_limits(high=1)
            while not client.acted:
                received += drain(peer)
                await asyncio.sleep(0)
            client.transport.close()
            while not client.count("connection_lost"):
                received += drain(peer)
                await asyncio.sleep(0)
            received += drain(peer)
            assert client.count("connection_lost") == 1
            assert (b"from inside" in received) == (action == "sendto")

    run(main())
