"""TLS: how a connection ends, and which callbacks each side gets."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import socket
import ssl
import warnings

import pytest
from peers import TIMEOUT, Recorder, in_thread, pattern, read_to_end, reset
from tls import mainspring_only, new_tls, secured, secured_with_socket, shutdown_timeout

pytestmark = [new_tls, pytest.mark.filterwarnings("ignore:unclosed transport <asyncio:ResourceWarning")]

MIB = 1 << 20


def test_an_orderly_close_reaches_both_sides(run, authority):
    async def main():
        async with secured(authority) as (client, server):
            client.transport.close()
            assert client.transport.is_closing()
            assert await client.until_lost() is None
            assert await server.until_lost() is None
            # The peer's close_notify is EOF, also for the side that closed first.
            assert client.names == ["connection_made", "eof_received", "connection_lost"]
            assert server.names == ["connection_made", "eof_received", "connection_lost"]
            client.transport.close()
            client.transport.abort()

    run(main())


def test_data_written_before_close_arrives(run, authority):
    async def main():
        data = pattern(3 * MIB)
        async with secured(authority) as (client, server):
            client.transport.write(data)
            client.transport.close()
            client.transport.write(b"too late")
            await server.until_lost()
            assert bytes(server.received) == data
            assert await client.until_lost() is None

    run(main())


@mainspring_only
def test_queued_data_is_sent_after_the_peer_closes(run, authority):
    """asyncio closes the underlying transport while data is still queued in the TLS layer."""

    async def main():
        data = pattern(8 * MIB)
        async with secured_with_socket(authority) as (client, peer):
            for start in range(0, len(data), MIB):
                client.transport.write(data[start : start + MIB])
            assert client.transport.get_write_buffer_size() > 0

            def say_goodbye_then_read():
                peer.setblocking(False)
                # It does not read the data in transit.
                with contextlib.suppress(ssl.SSLError):
                    peer.unwrap()
                peer.setblocking(True)
                with socket.socket(fileno=peer.detach()) as plain:
                    plain.settimeout(TIMEOUT)
                    return read_to_end(plain)

            ciphertext = await in_thread(say_goodbye_then_read)
            # Except for the one record that unwrap() consumed.
            assert len(ciphertext) > len(data) - (1 << 14)
            await client.until_lost()

    run(main())


def test_an_eof_without_close_notify_is_an_eof(run, authority):
    async def main():
        async with secured_with_socket(authority) as (client, peer):
            await in_thread(peer.sendall, b"last words")
            # Closes the socket without close_notify.
            socket.socket.shutdown(peer, socket.SHUT_WR)
            assert await client.until_lost() is None
            assert client.names == ["connection_made", "data_received", "eof_received", "connection_lost"]
            assert client.received == b"last words"

    run(main())


def test_a_reset_reaches_connection_lost(run, authority):
    async def main():
        async with secured_with_socket(authority) as (client, peer):
            plain = socket.socket(fileno=peer.detach())
            reset(plain)
            assert isinstance(await client.until_lost(), ConnectionResetError)
            assert client.names == ["connection_made", "connection_lost"]

    run(main())


def test_abort_sends_no_close_notify(run, authority):
    async def main():
        async with secured_with_socket(authority) as (client, peer):
            client.transport.abort()
            assert client.transport.is_closing()
            assert await client.until_lost() is None

            def read():
                with pytest.raises((ssl.SSLEOFError, ConnectionError)):
                    peer.recv(100)

            await in_thread(read)
            assert client.names == ["connection_made", "connection_lost"]

    run(main())


def test_an_answer_written_before_abort_is_sent(run, authority):
    class AnswersAndLeaves(Recorder):
        def data_received(self, data):
            super().data_received(data)
            self.transport.write(b"goodbye")
            self.transport.abort()

    async def main():
        async with secured_with_socket(authority, AnswersAndLeaves) as (client, peer):
            await in_thread(peer.sendall, b"hello")
            assert await in_thread(peer.recv, 100) == b"goodbye"
            await client.until_lost()

    run(main())


@mainspring_only
def test_a_forced_close_passes_its_reason_on(run, authority):
    async def main():
        async with secured(authority) as (client, _):
            error = OSError("enough")
            client.transport._force_close(error)
            assert await client.until_lost() is error

    run(main())


def test_closing_during_a_download_ends_it(run, authority):
    """A peer that keeps sending is ignored: no data is delivered after close(), and the connection ends soon."""

    class Closes(Recorder):
        after = 0

        def data_received(self, data):
            if self.transport.is_closing():
                self.after += len(data)
            super().data_received(data)
            if len(self.received) > 100_000:
                self.transport.close()

    async def main():
        async with secured_with_socket(authority, Closes) as (client, peer):

            def send_for_ever():
                sent = 0
                try:
                    while True:
                        peer.sendall(bytes(64 * 1024))
                        sent += 64 * 1024
                except OSError:
                    return sent

            sent = await in_thread(send_for_ever)
            await client.until_lost()
            assert client.after == 0
            # As much as the buffers hold, not 30 seconds of data.
            assert sent < 64 * MIB

    run(main())


@shutdown_timeout
def test_a_peer_that_sends_no_close_notify_is_waited_for_until_the_shutdown_timeout(run, authority):
    async def main():
        async with secured_with_socket(authority, ssl_shutdown_timeout=0.05) as (client, peer):
            client.transport.close()
            error = await client.until_lost()
            assert isinstance(error, asyncio.TimeoutError)
            assert str(error) == "SSL shutdown timed out"

    run(main())


@mainspring_only
@shutdown_timeout
def test_a_peer_that_sent_close_notify_and_does_not_read_is_not_waited_for(run, authority):
    async def main():
        async with secured_with_socket(authority, ssl_shutdown_timeout=0.2) as (client, peer):
            client.transport.write(bytes(16 * MIB))

            def say_goodbye():
                peer.setblocking(False)
                with contextlib.suppress(ssl.SSLError):
                    peer.unwrap()

            await in_thread(say_goodbye)
            assert isinstance(await client.until_lost(), asyncio.TimeoutError)

    run(main())


def test_the_loss_of_the_underlying_transport_reaches_the_protocol(run, authority, loop_name):
    """In asyncio the TLS transport does not notice the loss of the raw transport (fixed in later versions)."""

    async def main():
        async with secured(authority) as (client, _):
            underlying = client.transport._ssl_protocol._transport
            underlying.abort()
            if loop_name == "mainspring":
                assert client.transport.is_closing()
            assert await client.until_lost() is None
            assert client.transport.is_closing()

    run(main())


def test_a_shutdown_of_the_underlying_socket_reaches_the_protocol(run, authority):
    async def main():
        async with secured(authority) as (client, _):
            client.transport.get_extra_info("socket").shutdown(socket.SHUT_RDWR)
            await client.until_lost()
            assert client.names[-1] == "connection_lost"

    run(main())


def test_a_protocol_that_fails_in_data_received_loses_its_connection(run, loop, authority):
    class Fails(Recorder):
        def data_received(self, data):
            super().data_received(data)
            raise ZeroDivisionError

    async def main():
        async with secured_with_socket(authority, Fails) as (client, peer):
            await in_thread(peer.sendall, b"x")
            assert isinstance(await client.until_lost(), ZeroDivisionError)
            (report,) = loop.reports
            assert report["message"] == "Fatal error on SSL protocol"
            assert report["protocol"] is client.transport._ssl_protocol
            loop.reports.clear()

    run(main())


def test_a_protocol_that_fails_in_eof_received_is_reported(run, loop, authority):
    class Fails(Recorder):
        def eof_received(self):
            super().eof_received()
            raise ZeroDivisionError

    async def main():
        async with secured_with_socket(authority, Fails) as (client, peer):
            await in_thread(peer.close)
            assert isinstance(await client.until_lost(), ZeroDivisionError)
            assert [report["message"] for report in loop.reports] == ["Error calling eof_received()"]
            loop.reports.clear()

    run(main())


@pytest.mark.parametrize("method", ["pause_writing", "resume_writing"])
def test_a_protocol_that_fails_in_flow_control_keeps_its_connection(run, loop, authority, method):
    def fail(self):
        self.note(method)
        raise ZeroDivisionError

    factory = type("Fails", (Recorder,), {method: fail})

    async def main():
        async with secured(authority, factory) as (client, server):
            written = 0
            while not client.count("pause_writing"):
                client.transport.write(bytes(MIB))
                written += MIB
            await server.until_received(written)
            await client.until(lambda: client.count("resume_writing") > 0)
            assert [report["message"] for report in loop.reports] == [f"protocol.{method}() failed"]
            loop.reports.clear()

    run(main())


def test_returning_true_from_eof_received_has_no_effect(run, authority, caplog):
    class KeepsOpen(Recorder):
        keep_open_at_eof = True

    async def main():
        async with secured_with_socket(authority, KeepsOpen) as (client, peer):
            await in_thread(peer.close)
            assert await client.until_lost() is None

    run(main())
    assert "returning true from eof_received() has no effect when using ssl" in caplog.text


@mainspring_only
def test_a_client_may_pause_reading_when_it_is_connected(run, authority):
    """asyncio then does not send the last message of the handshake, and the server waits for it."""

    class Held(Recorder):
        def connection_made(self, transport):
            super().connection_made(transport)
            transport.pause_reading()

    async def main():
        async with secured_with_socket(authority, Held) as (client, peer):
            await in_thread(peer.sendall, b"x")
            client.transport.resume_reading()
            assert await client.until_received(1) == b"x"

    run(main())


def test_a_paused_protocol_gets_remaining_data_when_it_resumes(run, authority):
    """Also after EOF: data that arrived before it is delivered first."""

    async def main():
        async with secured_with_socket(authority) as (client, peer):
            client.transport.pause_reading()

            def send_and_leave():
                peer.sendall(b"the rest")
                socket.socket(fileno=peer.detach()).close()

            await in_thread(send_and_leave)
            for _ in range(5):
                await asyncio.sleep(0.001)
            assert client.names == ["connection_made"]
            client.transport.resume_reading()
            await client.until_lost()
            assert client.received == b"the rest"

    run(main())


def test_repeated_writes_to_a_lost_connection_log_a_warning(run, authority, caplog):
    async def main():
        async with secured(authority) as (client, _):
            client.transport.abort()
            await client.until_lost()
            for _ in range(4):
                client.transport.write(b"x")
            assert "SSL connection is closed" not in caplog.text
            for _ in range(3):
                client.transport.write(b"x")

    with caplog.at_level(logging.WARNING, logger="asyncio"):
        run(main())
    assert "SSL connection is closed" in caplog.text


@mainspring_only
def test_an_unclosed_dropped_transport_warns(run, loop, authority):
    async def main():
        with socket.create_server(("127.0.0.1", 0)) as listening:
            serving = asyncio.ensure_future(in_thread(_serve_once, authority, listening))
            transport, _ = await loop.create_connection(
                asyncio.Protocol,
                *listening.getsockname(),
                ssl=authority.client_context(),
                server_hostname="localhost",
            )
            peer = await serving
        # Now unreferenced: the loop does not hold a connection that is not registered.
        transport._ssl_protocol._transport.pause_reading()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            del transport
            gc.collect()
        peer.close()
        # The underlying transport warns too.
        assert any(str(warning.message).startswith("unclosed transport <SSLTransport") for warning in caught)

    run(main())


def _serve_once(authority, listening):
    plain, _ = listening.accept()
    plain.settimeout(TIMEOUT)
    return authority.server_context().wrap_socket(plain, server_side=True)
