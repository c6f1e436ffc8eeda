"""TLS: data in both directions, buffered protocols, flow control, extra info."""

from __future__ import annotations

import asyncio
import ssl

import pytest
from peers import BufferedRecorder, Echo, Recorder, in_thread, pattern, read_exactly
from tls import mainspring_only, new_tls, secured, secured_with_socket

pytestmark = [new_tls, pytest.mark.filterwarnings("ignore:unclosed transport <asyncio:ResourceWarning")]

MIB = 1 << 20


@pytest.mark.parametrize("size", [1, 999, 1000, 1001, 16_384, 200_000])
def test_a_buffered_protocol_gets_every_byte(run, authority, size):
    async def main():
        data = pattern(size)
        async with secured(authority, BufferedRecorder, Echo) as (client, _):
            client.transport.write(data)
            assert await client.until_received(size) == data

    run(main())


def test_a_protocol_with_a_small_buffer_gets_all_data_before_eof(run, authority):
    async def main():
        data = pattern(50_000)
        async with secured_with_socket(authority, BufferedRecorder) as (client, peer):

            def send():
                peer.sendall(data)
                peer.unwrap()

            await in_thread(send)
            await client.until_lost()
            assert bytes(client.received) == data

    run(main())


def test_the_protocol_may_be_changed_while_data_is_pending(run, authority):
    class Changes(BufferedRecorder):
        size = 10

        def buffer_updated(self, nbytes):
            super().buffer_updated(nbytes)
            self.transport.set_protocol(self.successor)

    async def main():
        async with secured_with_socket(authority, Changes) as (first, peer):
            second = first.successor = Recorder()
            await in_thread(peer.sendall, b"0123456789abcdef")
            assert await second.until_received(6) == b"abcdef"
            assert first.received == b"0123456789"
            assert first.transport.get_protocol() is second
            first.transport.set_protocol(first)

    run(main())


def test_lines_are_sent_in_the_order_in_which_they_were_written(run, authority):
    async def main():
        async with secured(authority, Recorder, Echo) as (client, _):
            client.transport.write(b"a")
            client.transport.writelines([b"b", bytearray(b"c"), b"", memoryview(b"d")])
            client.transport.write(bytearray(b"e"))
            client.transport.write(b"")
            assert await client.until_received(5) == b"abcde"

    run(main())


@mainspring_only
def test_a_buffer_changed_after_the_write_does_not_change_the_sent_data(run, authority):
    async def main():
        async with secured(authority, Recorder, Echo) as (client, _):
            data = bytearray(b"before")
            client.transport.write(data)
            data[:] = b"after!"
            assert await client.until_received(6) == b"before"

    run(main())


def test_other_types_than_bytes_are_refused(run, authority):
    async def main():
        async with secured(authority) as (client, _):
            with pytest.raises(TypeError, match="expecting a bytes-like instance, got str"):
                client.transport.write("text")

    run(main())


def test_writes_from_every_callback_arrive_in_order(run, authority):
    """Many small writes: in data_received(), in resume_writing(), and in separate calls."""

    class Chatters(Echo):
        def connection_made(self, transport):
            super().connection_made(transport)
            transport.set_write_buffer_limits(high=1000)

        def data_received(self, data):
            self.received += data
            for byte in data:
                self.transport.write(bytes([byte]))
            self.changed()

        def resume_writing(self):
            self.note("resume_writing")

    async def main():
        data = pattern(3000)
        async with secured(authority, Recorder, Chatters) as (client, server):
            loop = asyncio.get_running_loop()
            for start in range(0, len(data), 7):
                loop.call_soon(client.transport.write, data[start : start + 7])
            assert await client.until_received(len(data)) == data
            assert server.received == data

    run(main())


def test_several_writes_in_one_callback_are_sent_together(run, authority, loop_name):
    """Each is a separate record; they are sent in one segment."""

    class Answers(Recorder):
        def data_received(self, data):
            super().data_received(data)
            for part in (b"status ", b"headers ", b"body"):
                self.transport.write(part)
            self.waiting = self.transport.get_write_buffer_size()

    async def main():
        async with secured(authority, Recorder, Answers) as (client, server):
            client.transport.write(b"?")
            assert await client.until_received(19) == b"status headers body"
            assert server.waiting == 0
            if loop_name == "mainspring":
                assert client.count("data_received") == 1

    run(main())


def test_a_protocol_is_paused_above_the_high_water_mark_and_resumed(run, authority):
    async def main():
        async with secured_with_socket(authority) as (client, peer):
            transport = client.transport
            assert transport.get_write_buffer_limits() == (128 * 1024, 512 * 1024)
            written = 0
            while not client.count("pause_writing"):
                transport.write(bytes(MIB))
                written += MIB
            assert transport.get_write_buffer_size() > 512 * 1024
            assert transport._protocol_paused
            assert len(await in_thread(read_exactly, peer, written)) == written
            await client.until(lambda: client.count("resume_writing") > 0)
            assert transport.get_write_buffer_size() == 0
            assert not transport._protocol_paused
            assert client.names == ["connection_made", "pause_writing", "resume_writing"]

    run(main())


def test_the_write_water_marks_can_be_set(run, authority):
    async def main():
        async with secured(authority) as (client, _):
            transport = client.transport
            transport.set_write_buffer_limits(high=1000)
            assert transport.get_write_buffer_limits() == (250, 1000)
            transport.set_write_buffer_limits(low=100)
            assert transport.get_write_buffer_limits() == (100, 400)
            with pytest.raises(ValueError, match="high .* must be >= low"):
                transport.set_write_buffer_limits(high=1, low=2)

    run(main())


def test_setting_the_write_water_marks_resumes_and_pauses_at_once(run, authority):
    class Held(Recorder):
        def connection_made(self, transport):
            super().connection_made(transport)
            transport.pause_reading()

    async def main():
        async with secured(authority, Recorder, Held) as (client, _):
            transport = client.transport
            while not client.count("pause_writing"):
                transport.write(bytes(65536))
            size = transport.get_write_buffer_size()
            transport.set_write_buffer_limits(size + 2, size + 1)
            assert client.names[-1] == "resume_writing"
            transport.set_write_buffer_limits(size - 1, 0)
            assert client.names[1:] == ["pause_writing", "resume_writing", "pause_writing"]

    run(main())


@mainspring_only
def test_a_water_mark_of_zero_pauses_only_when_data_is_queued(run, authority):
    async def main():
        async with secured(authority) as (client, _):
            client.transport.set_write_buffer_limits(0)
            client.transport.write(b"leaves at once")
            assert client.names == ["connection_made"]

    run(main())


def test_a_paused_protocol_gets_no_data_and_its_peer_is_blocked(run, authority):
    class Held(Recorder):
        def connection_made(self, transport):
            super().connection_made(transport)
            transport.pause_reading()

    async def main():
        async with secured(authority, Recorder, Held) as (client, server):
            assert not server.transport.is_reading()
            sent = 0
            while not client.count("pause_writing"):
                client.transport.write(bytes(MIB))
                sent += MIB
            await server.until(lambda: server.transport.get_read_buffer_size() >= 256 * 1024)
            assert not server.received
            server.transport.resume_reading()
            server.transport.resume_reading()
            assert server.transport.is_reading()
            assert not server.received
            assert len(await server.until_received(sent)) == sent

    async def never_waits_for_a_callback():
        # until() only checks after callbacks, and a paused protocol gets none.
        held = Held.until

        async def until(self, predicate):
            while not predicate():
                await asyncio.sleep(0)
                if self.received:
                    return await held(self, predicate)

        Held.until = until
        await main()

    run(never_waits_for_a_callback())


def test_pausing_during_delivery_takes_effect_at_once(run, authority):
    class OneAtATime(BufferedRecorder):
        size = 100

        def buffer_updated(self, nbytes):
            super().buffer_updated(nbytes)
            self.transport.pause_reading()

    async def main():
        async with secured_with_socket(authority, OneAtATime) as (client, peer):
            await in_thread(peer.sendall, pattern(250))
            for count in (100, 200, 250):
                assert len(await client.until_received(count)) == count
                for _ in range(3):
                    await asyncio.sleep(0)
                assert len(client.received) == count
                client.transport.resume_reading()

    run(main())


def test_the_read_water_marks_can_be_set(run, authority):
    async def main():
        async with secured(authority) as (client, _):
            transport = client.transport
            assert transport.get_read_buffer_limits() == (64 * 1024, 256 * 1024)
            transport.set_read_buffer_limits(high=100, low=10)
            assert transport.get_read_buffer_limits() == (10, 100)
            assert transport.get_read_buffer_size() == 0

    run(main())


def test_the_transport_exposes_extra_info_of_both_layers(run, authority):
    async def main():
        context = authority.client_context()
        async with secured(authority, client_context=context) as (client, server):
            info = client.transport.get_extra_info
            assert info("sslcontext") is context
            assert isinstance(info("ssl_object"), ssl.SSLObject)
            assert info("cipher") == info("ssl_object").cipher()
            assert info("compression") is None
            assert info("peercert") == info("ssl_object").getpeercert()
            assert info("sockname") == server.transport.get_extra_info("peername")
            assert info("peername") == server.transport.get_extra_info("sockname")
            assert info("socket").getpeername() == info("peername")
            assert info("nothing of the kind", "default") == "default"
            assert not server.transport.get_extra_info("peercert")

    run(main())


def test_the_transport_is_asyncios_and_has_no_write_eof(run, authority):
    async def main():
        async with secured(authority) as (client, _):
            transport = client.transport
            assert isinstance(transport, asyncio.Transport)
            assert isinstance(transport._ssl_protocol, asyncio.BufferedProtocol)
            assert transport._ssl_protocol._app_transport is transport
            assert transport._ssl_protocol._app_protocol is client
            assert transport._ssl_protocol._sslcontext is transport.get_extra_info("sslcontext")
            assert transport._ssl_protocol._transport.get_extra_info("sslcontext") is None
            assert not transport.can_write_eof()
            with pytest.raises(NotImplementedError):
                transport.write_eof()
            assert not transport.is_closing()

    run(main())


def test_a_file_is_sent_in_pieces(run, loop, authority, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(pattern(300_000))

    async def main():
        async with secured(authority) as (client, server):
            with path.open("rb") as file:
                with pytest.raises(RuntimeError, match="fallback is disabled"):
                    await loop.sendfile(client.transport, file, fallback=False)
                assert await loop.sendfile(client.transport, file) == 300_000
            assert await server.until_received(300_000) == pattern(300_000)

    run(main())


def test_a_cancelled_error_from_data_received_is_reported_and_ends_the_connection(loop, run, authority):
    class Cancels(Recorder):
        def data_received(self, data):
            raise asyncio.CancelledError("out of data_received()")

    async def main():
        async with secured_with_socket(authority, Cancels) as (client, peer):
            await in_thread(peer.sendall, b"data")
            lost_by = await client.until_lost()
            assert isinstance(lost_by, asyncio.CancelledError)
            [report] = loop.reports
            loop.reports.clear()
            assert report["message"] == "Fatal error: protocol.buffer_updated() call failed."
            assert report["exception"] is lost_by

    run(main())


class WatchedSSLObject(ssl.SSLObject):
    """Records the results of read()."""

    records: list[bytes]

    def read(self, *args):
        record = super().read(*args)
        self.records.append(record)
        return record


def watched_context(authority):
    context = authority.client_context()
    context.sslobject_class = WatchedSSLObject
    return context


def test_an_ssl_object_is_read_without_a_buffer(run, authority):
    async def main():
        WatchedSSLObject.records = []
        async with secured(authority, Recorder, Echo, client_context=watched_context(authority)) as (
            client,
            _,
        ):
            client.transport.write(b"data")
            assert await client.until_received(4) == b"data"
            assert WatchedSSLObject.records == [b"data"]

    run(main())


@mainspring_only
def test_records_that_arrive_together_are_delivered_together(run, authority):
    class Answers(Recorder):
        def data_received(self, data):
            # One send on the socket: the writes of one callback are sent together.
            for part in parts:
                self.transport.write(part)

    class Counts(Recorder):
        calls = 0

        def data_received(self, data):
            self.calls += 1
            super().data_received(data)

    parts = [b"a", pattern(16_384), b"bc", pattern(20_000)]

    async def main():
        WatchedSSLObject.records = []
        async with secured(authority, Counts, Answers, client_context=watched_context(authority)) as (
            client,
            _,
        ):
            client.transport.write(b"?")
            whole = b"".join(parts)
            assert await client.until_received(len(whole)) == whole
            assert client.calls == 1
            assert [len(record) for record in WatchedSSLObject.records] == [1, 16_384, 2, 16_384, 3_616]

    run(main())


@mainspring_only
def test_data_beyond_the_size_of_one_receive_is_delivered_in_several_calls(run, authority):
    class Counts(Recorder):
        longest = 0

        def data_received(self, data):
            self.longest = max(self.longest, len(data))
            super().data_received(data)

    async def main():
        async with secured_with_socket(authority, Counts) as (client, peer):
            data = pattern(2 * MIB)
            client.transport.set_read_buffer_limits(high=2 * MIB)
            client.transport.pause_reading()
            sending = asyncio.ensure_future(in_thread(peer.sendall, data))
            while client.transport.get_read_buffer_size() < MIB:
                await asyncio.sleep(0)
            client.transport.resume_reading()
            assert await client.until_received(len(data)) == data
            assert client.longest <= 256 * 1024 + 16_384
            await sending

    run(main())


@mainspring_only
def test_an_ssl_object_whose_read_returns_no_bytes_ends_the_connection(loop, run, authority):
    class Wrong(ssl.SSLObject):
        def read(self, *args):
            return bytearray(super().read(*args))

    async def main():
        context = authority.client_context()
        context.sslobject_class = Wrong
        async with secured(authority, Recorder, Echo, client_context=context) as (client, _):
            client.transport.write(b"data")
            lost_by = await client.until_lost()
            assert isinstance(lost_by, TypeError)
            assert str(lost_by) == "SSLObject.read() did not return bytes"
            assert loop.reports.pop()["exception"] is lost_by

    run(main())
