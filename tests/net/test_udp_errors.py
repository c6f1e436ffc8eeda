"""Datagram endpoints: how errors are reported, and that the endpoint survives them."""

from __future__ import annotations

import asyncio
import socket

import pytest
from endpoints import Datagrams, blocked, drain, endpoint, local, unix_socket


async def refused_address():
    """An address without a listener."""
    async with local() as protocol:
        return protocol.address


def test_a_refused_datagram_is_reported_and_the_endpoint_survives(run):
    async def main():
        async with endpoint(remote_addr=await refused_address()) as client:
            client.transport.sendto(b"anybody?")
            await client.until(lambda: client.errors)
            assert isinstance(client.errors[0], ConnectionRefusedError)
            assert not client.transport.is_closing()
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
                server.bind(client.transport.get_extra_info("peername"))
                server.setblocking(False)
                client.transport.sendto(b"here")
                assert drain(server) == [b"here"]

    run(main())


def test_a_datagram_that_is_too_long_is_reported_and_the_next_one_is_sent(run):
    async def main():
        async with local() as server, local() as client:
            client.transport.sendto(bytes(70_000), server.address)
            assert [error.errno for error in client.errors] == [90]
            client.transport.sendto(b"short", server.address)
            assert await server.until_datagrams(1) == [b"short"]

    run(main())


def test_a_host_that_cannot_be_resolved_is_reported(run):
    async def main():
        async with local() as client:
            client.transport.sendto(b"data", ("host.invalid", 9))
            client.transport.sendto(b"data", ("::1", 9))
            assert [type(error) for error in client.errors] == [socket.gaierror] * 2

    run(main())


@pytest.mark.parametrize(
    ("address", "kind"),
    [
        (("127.0.0.1", 70000), OverflowError),
        (("127.0.0.1", "9"), TypeError),
        (("127.0.0.1",), TypeError),
        ("127.0.0.1", TypeError),
        (9, TypeError),
        (None, TypeError),
    ],
)
def test_an_invalid_address_ends_the_endpoint(run, loop, address, kind):
    async def main():
        async with local() as client:
            client.transport.sendto(b"data", address)
            assert client.transport.is_closing()
            assert isinstance(await client.until_lost(), kind)
            (report,) = loop.reports
            assert report["message"] == "Fatal write error on datagram transport"
            assert isinstance(report["exception"], kind)
            assert report["transport"] is client.transport
            assert report["protocol"] is client
            loop.reports.clear()

    run(main())


def test_an_exception_from_error_received_propagates_from_sendto(run):
    class Raising(Datagrams):
        def error_received(self, exc):
            super().error_received(exc)
            raise LookupError("of the protocol")

    async def main():
        async with local(Raising) as client:
            with pytest.raises(LookupError, match="of the protocol"):
                client.transport.sendto(bytes(70_000), ("127.0.0.1", 9))
            assert not client.transport.is_closing()

    run(main())


@pytest.mark.parametrize("callback", ["datagram_received", "error_received"])
def test_an_exception_in_a_protocol_is_reported_and_the_endpoint_survives(run, loop, callback):
    class Raising(Datagrams):
        armed = True

        def note(self, *entry):
            super().note(*entry)
            if self.armed and entry[0] == callback:
                self.armed = False
                raise LookupError("of the protocol")

    async def main():
        refused = await refused_address()
        async with endpoint(Raising, remote_addr=refused) as client:
            client.transport.sendto(b"anybody?")
            await client.until(lambda: client.errors)
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
                server.bind(refused)
                server.sendto(b"1", client.address)
                server.sendto(b"2", client.address)
                assert await client.until_datagrams(2) == [b"1", b"2"]
        (report,) = loop.reports
        assert isinstance(report["exception"], LookupError)
        loop.reports.clear()

    run(main())


def test_an_error_on_a_queued_datagram_is_reported_and_later_ones_are_sent(run, tmp_path):
    async def main():
        with unix_socket(tmp_path / "other") as other:
            async with blocked(tmp_path, connected=False) as (client, peer, path):
                client.transport.sendto(b"lost", str(tmp_path / "missing"))
                client.transport.sendto(b"last", str(tmp_path / "other"))
                assert [address for _, address in client.transport._buffer] == [
                    path,
                    str(tmp_path / "missing"),
                    str(tmp_path / "other"),
                ]
                drain(peer)
                await client.until(lambda: client.errors)
                assert isinstance(client.errors[0], FileNotFoundError)
                while not (received := drain(other)):
                    await asyncio.sleep(0)
                assert received == [b"last"]

    run(main())


@pytest.mark.usefixtures("not_asyncio_3_13")
def test_a_paused_protocol_is_resumed_when_the_queued_datagrams_fail(run, tmp_path):
    async def main():
        async with blocked(tmp_path) as (client, peer, _):
            client.transport.set_write_buffer_limits(high=3, low=1)
            assert client.names[-1] == "pause_writing"
            peer.close()
            await client.until(lambda: client.count("resume_writing"))
            assert client.errors
            assert all(
                isinstance(error, ConnectionRefusedError | ConnectionResetError) for error in client.errors
            )
            assert not client.transport.is_closing()

    run(main())
