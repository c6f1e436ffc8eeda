"""TLS: successful and failing handshakes."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import socket
import ssl
import sys
import warnings
import weakref

import pytest
from peers import TIMEOUT, Echo, Recorder, end_of, in_thread, read_to_end, run_script
from tls import mainspring_only, new_tls, secured, shutdown_timeout

pytestmark = [new_tls, pytest.mark.filterwarnings("ignore:unclosed transport <asyncio:ResourceWarning")]


@contextlib.contextmanager
def listening_socket():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(TIMEOUT)
        yield listening


@contextlib.asynccontextmanager
async def silent_peer(loop, authority, **options):
    """A connection attempt to a peer that sends nothing: (attempt, the peer's socket)."""
    with listening_socket() as listening:
        options.setdefault("server_hostname", "localhost")
        attempt = asyncio.ensure_future(
            loop.create_connection(
                Recorder, *listening.getsockname(), ssl=authority.client_context(), **options
            )
        )
        peer, _ = await in_thread(listening.accept)
        peer.settimeout(TIMEOUT)
        with peer:
            yield attempt, peer


def test_the_sni_callback_selects_the_certificate(run, authority):
    heard = []
    other = authority.server_context("other")

    def choose(ssl_object, name, context):
        heard.append(name)
        ssl_object.context = other

    async def main():
        context = authority.server_context()
        context.sni_callback = choose
        async with secured(authority, server_context=context) as (client, _):
            subject = client.transport.get_extra_info("peercert")["subject"]
            assert dict(subject[0])["commonName"] == "other"
        assert heard == ["localhost"]

    run(main())


def test_alpn_selects_a_protocol(run, authority):
    async def main():
        contexts = authority.server_context(), authority.client_context()
        contexts[0].set_alpn_protocols(["h2", "http/1.1"])
        contexts[1].set_alpn_protocols(["http/1.1"])
        async with secured(authority, server_context=contexts[0], client_context=contexts[1]) as ends:
            for end in ends:
                chosen = end.transport.get_extra_info("ssl_object").selected_alpn_protocol()
                assert chosen == "http/1.1"

    run(main())


def test_a_client_certificate_is_sent(run, authority):
    async def main():
        context = authority.server_context()
        context.verify_mode = ssl.CERT_REQUIRED
        with_certificate = authority.client_context_with_certificate()
        async with secured(authority, server_context=context, client_context=with_certificate) as (_, server):
            subject = server.transport.get_extra_info("peercert")["subject"]
            assert dict(subject[0])["commonName"] == "other"

    run(main())


def test_a_client_without_the_required_certificate_gets_an_error(run, authority):
    """With TLS 1.3 the client's handshake is complete when the server refuses it."""

    async def main():
        context = authority.server_context()
        context.verify_mode = ssl.CERT_REQUIRED
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        with pytest.raises((ssl.SSLError, ConnectionResetError)):
            async with secured(authority, server_context=context):
                pass

    run(main())


@mainspring_only
def test_the_peer_gets_an_alert_when_the_handshake_fails(run, loop, authority):
    async def main():
        with listening_socket() as listening:

            def serve():
                plain, _ = listening.accept()
                with plain, pytest.raises(ssl.SSLError, match="UNKNOWN_CA|unknown ca") as caught:
                    authority.server_context().wrap_socket(plain, server_side=True)
                return caught

            serving = asyncio.ensure_future(in_thread(serve))
            with pytest.raises(ssl.SSLCertVerificationError):
                await loop.create_connection(
                    Recorder,
                    *listening.getsockname(),
                    ssl=ssl.create_default_context(),
                    server_hostname="localhost",
                )
            await serving

    run(main())


def test_a_session_is_resumed(run, authority):
    class Remembers(ssl.SSLContext):
        remembered = None

        def wrap_bio(self, *args, **kwargs):
            return super().wrap_bio(*args, session=self.remembered, **kwargs)

    async def main():
        client_context = Remembers(ssl.PROTOCOL_TLS_CLIENT)
        client_context.load_verify_locations(authority.folder / "ca.pem")
        server_context = authority.server_context()
        reused = []
        for _ in range(2):
            async with secured(
                authority, Recorder, Echo, server_context=server_context, client_context=client_context
            ) as (client, _):
                client.transport.write(b"x")
                await client.until_received(1)
                ssl_object = client.transport.get_extra_info("ssl_object")
                reused.append(ssl_object.session_reused)
                client_context.remembered = ssl_object.session
        assert reused == [False, True]

    run(main())


def test_a_custom_ssl_object_class_sees_reads_and_writes(run, authority):
    seen = []

    class Watched(ssl.SSLObject):
        def read(self, *args):
            seen.append("read")
            return super().read(*args)

        def write(self, data):
            seen.append("write")
            return super().write(data)

    async def main():
        context = authority.client_context()
        context.sslobject_class = Watched
        async with secured(authority, Recorder, Echo, client_context=context) as (client, _):
            client.transport.write(b"x")
            await client.until_received(1)
            assert type(client.transport.get_extra_info("ssl_object")) is Watched
            assert {"read", "write"} <= set(seen)

    run(main())


def test_an_empty_server_hostname_means_none(run, loop, authority):
    async def main():
        context = authority.client_context()
        context.check_hostname = False
        async with secured(authority, client_context=context, server_hostname="") as (client, _):
            assert client.transport.get_extra_info("ssl_object").server_hostname is None

    run(main())


def test_a_slow_handshake_times_out(run, loop, authority):
    async def main():
        async with silent_peer(loop, authority, ssl_handshake_timeout=0.05) as (attempt, peer):
            with pytest.raises(
                ConnectionAbortedError,
                match=r"SSL handshake is taking longer than 0\.05 seconds: aborting the connection",
            ):
                await attempt
            await in_thread(read_to_end, peer)

    run(main())


@pytest.mark.parametrize(
    "name", ["ssl_handshake_timeout", pytest.param("ssl_shutdown_timeout", marks=shutdown_timeout)]
)
@pytest.mark.parametrize("value", [0, -1])
def test_a_timeout_must_be_positive(run, loop, authority, name, value):
    async def main():
        with listening_socket() as listening:
            with pytest.raises(ValueError, match=f"{name} should be a positive number, got {value}"):
                await loop.create_connection(
                    Recorder,
                    *listening.getsockname(),
                    ssl=authority.client_context(),
                    server_hostname="localhost",
                    **{name: value},
                )
        gc.collect()

    with warnings.catch_warnings():
        # asyncio should close the socket there, but does not before Python 3.14.
        warnings.simplefilter("ignore", ResourceWarning)
        run(main())


def test_eof_from_the_peer_fails_the_handshake_with_connection_reset(run, loop, authority):
    async def main():
        async with silent_peer(loop, authority) as (attempt, peer):
            await in_thread(peer.recv, 10_000)
            peer.shutdown(socket.SHUT_WR)
            with pytest.raises(ConnectionResetError):
                await attempt

    run(main())


def test_a_peer_with_another_protocol_raises_ssl_error(run, loop, authority):
    async def main():
        async with silent_peer(loop, authority) as (attempt, peer):
            peer.sendall(b"220 mail.example ESMTP\r\n")
            with pytest.raises(ssl.SSLError, match="WRONG_VERSION_NUMBER|wrong version number"):
                await attempt

    run(main())


def test_cancelling_a_connection_attempt_closes_it(run, loop, authority):
    async def main():
        async with silent_peer(loop, authority) as (attempt, peer):
            hello = await in_thread(peer.recv, 10_000)
            assert hello[:1] == b"\x16"
            attempt.cancel()
            with pytest.raises(asyncio.CancelledError):
                await attempt
            assert await in_thread(read_to_end, peer) == b""

    run(main())


@mainspring_only
def test_cancelling_before_the_handshake_starts_closes_the_connection(run, loop, authority):
    """asyncio's transport forgets that it was closed, and the handshake continues."""

    async def main():
        with listening_socket() as listening:
            sock = socket.create_connection(listening.getsockname())
            sock.setblocking(False)
            peer, _ = listening.accept()
            peer.settimeout(TIMEOUT)
            protocol = Recorder()
            waiter = loop.create_future()
            transport = loop._make_ssl_transport(
                sock, protocol, authority.client_context(), waiter, server_hostname="localhost"
            )
            transport.close()
            with peer:
                assert await in_thread(read_to_end, peer) == b""
            with pytest.raises(ConnectionResetError):
                await waiter
            assert protocol.log == []

    run(main())


@mainspring_only
def test_aborting_the_raw_transport_fails_the_handshake(run, loop, authority):
    """asyncio succeeds and returns a dead transport."""

    async def main():
        with listening_socket() as listening:
            plain, protocol = await loop.create_connection(Recorder, *listening.getsockname())
            peer, _ = listening.accept()
            with peer:
                upgrade = asyncio.ensure_future(
                    loop.start_tls(plain, protocol, authority.client_context(), server_hostname="localhost")
                )
                peer.settimeout(TIMEOUT)
                await in_thread(peer.recv, 10_000)
                plain.abort()
                with pytest.raises(ConnectionResetError):
                    await upgrade
            await protocol.until_lost()

    run(main())


def test_a_failed_handshake_is_reported_only_to_its_caller(run, loop, authority, caplog):
    async def main():
        loop.set_debug(False)
        async with silent_peer(loop, authority) as (attempt, peer):
            peer.sendall(b"not TLS")
            with pytest.raises(ssl.SSLError):
                await attempt

    with caplog.at_level(logging.DEBUG, logger="asyncio"):
        run(main())
    assert "handshake" not in caplog.text


def test_debug_mode_logs_the_handshake(run, loop, authority, caplog):
    async def main():
        loop.set_debug(True)
        async with secured(authority):
            pass

    with caplog.at_level(logging.DEBUG, logger="asyncio"):
        run(main())
    assert caplog.text.count("starts SSL handshake") == 2
    assert caplog.text.count("SSL handshake took") == 2


def test_a_failing_connection_made_fails_the_connection_attempt(run, loop, authority):
    class Fails(Recorder):
        def connection_made(self, transport):
            super().connection_made(transport)
            raise ZeroDivisionError

    async def main():
        accepted = []
        server = await loop.create_server(
            lambda: accepted.append(Recorder()) or accepted[-1],
            "127.0.0.1",
            0,
            ssl=authority.server_context(),
        )
        with pytest.raises(ZeroDivisionError):
            await loop.create_connection(
                Fails,
                *server.sockets[0].getsockname(),
                ssl=authority.client_context(),
                server_hostname="localhost",
            )
        (report,) = loop.reports
        assert isinstance(report["exception"], ZeroDivisionError)
        loop.reports.clear()
        for protocol in accepted:
            if protocol.transport is not None:
                await end_of(protocol)
        server.close()

    run(main())


@mainspring_only
@pytest.mark.skipif(sys.version_info < (3, 14), reason="asyncio's own coroutines leave a reference cycle")
def test_a_failed_handshake_leaves_nothing_for_the_garbage_collector(run, loop, authority, monkeypatch):
    made = []
    make = loop._make_socket_transport

    def remember(sock, protocol, **options):
        transport = make(sock, protocol, **options)
        made.extend([weakref.ref(transport), weakref.ref(protocol)])
        return transport

    async def main():
        monkeypatch.setattr(loop, "_make_socket_transport", remember)
        server = await loop.create_server(Recorder, "127.0.0.1", 0, ssl=authority.server_context())
        address = server.sockets[0].getsockname()
        try:
            await loop.create_connection(
                Recorder, *address, ssl=ssl.create_default_context(), server_hostname="localhost"
            )
        except ssl.SSLCertVerificationError:
            pass
        server.close()

    gc.collect()
    gc.disable()
    try:
        run(main())
        # Three iterations for the server's end.
        for _ in range(3):
            run(asyncio.sleep(0))
        assert [reference() for reference in made] == [None] * 4
    finally:
        gc.enable()


@mainspring_only
def test_thousands_of_half_finished_handshakes_leak_no_memory(authority):
    script = """
    import gc, resource, socket, ssl, weakref

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(sys.argv[1], sys.argv[2])
    protocols = weakref.WeakSet()

    class Protocol(asyncio.Protocol):
        pass

    def factory():
        protocol = Protocol()
        protocols.add(protocol)
        return protocol

    async def start_handshakes(address, count):
        for number in range(count):
            with socket.create_connection(address) as client:
                client.sendall(b"\\x16\\x03\\x01\\x02\\x00\\x01" + bytes(number % 300))
            await asyncio.sleep(0)
        while len(asyncio.all_tasks()) > 1:
            await asyncio.sleep(0.001)

    async def main():
        loop = asyncio.get_running_loop()
        server = await loop.create_server(factory, "127.0.0.1", 0, ssl=context, backlog=1000)
        address = server.sockets[0].getsockname()
        await start_handshakes(address, 300)
        gc.collect()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        await start_handshakes(address, 3000)
        gc.collect()
        after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        assert not protocols, len(protocols)
        # An SSLObject alone takes about 10 KiB: 3000 of them would take 30 MiB.
        assert after - before < 8000, (before, after)
        server.close()

    loop = new_loop()
    loop.run_until_complete(main())
    loop.close()
    """
    run_script(script, "mainspring", str(authority.folder / "leaf.pem"), str(authority.folder / "leaf.key"))
