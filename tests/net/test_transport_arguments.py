"""Arguments of the transports' methods: keyword arguments, number types, buffer types."""

from __future__ import annotations

import array
import asyncio
import contextlib
import math
import os
import sys

import endpoints
import peers
import pytest
import tls

pytestmark = pytest.mark.filterwarnings("ignore:unclosed transport <asyncio.sslproto:ResourceWarning")


@contextlib.asynccontextmanager
async def connected(kind, request):
    """A protocol whose transport can write, and the reading end of its connection."""
    if kind == "stream":
        async with peers.connected_to_socket() as (protocol, peer):
            yield protocol, lambda count: peers.in_thread(peers.read_exactly, peer, count)
    elif kind == "tls":
        async with tls.secured(request.getfixturevalue("authority")) as (protocol, peer):
            yield protocol, peer.until_received
    else:
        read_end, write_end = os.pipe()
        pipe = os.fdopen(write_end, "wb", 0)
        _, protocol = await asyncio.get_running_loop().connect_write_pipe(peers.Recorder, pipe)
        with open(read_end, "rb", 0) as reader:
            yield protocol, lambda count: peers.in_thread(reader.read, count)
            protocol.transport.close()
            await protocol.until_lost()


each_kind = pytest.mark.parametrize("kind", ["stream", "pipe", "tls"])


@each_kind
def test_data_can_be_a_keyword_argument(run, kind, request):
    async def main():
        async with connected(kind, request) as (protocol, read):
            protocol.transport.write(data=b"by name")
            assert await read(7) == b"by name"
            protocol.transport.writelines(list_of_data=[b", ", b"again"])
            assert (await read(14 if kind == "tls" else 7))[-7:] == b", again"

    run(main())


@pytest.mark.parametrize("method", ["write", "writelines", "set_protocol"])
@each_kind
def test_wrong_argument_names_and_counts_are_refused(run, kind, request, method):
    async def main():
        async with connected(kind, request) as (protocol, _):
            call = getattr(protocol.transport, method)
            for args, named in [((), {}), ((b"", b""), {}), ((), {"colour": b""}), ((b"",), {"colour": b""})]:
                with pytest.raises(TypeError):
                    call(*args, **named)

    run(main())


@each_kind
def test_the_protocol_can_be_a_keyword_argument(run, kind, request):
    async def main():
        async with connected(kind, request) as (protocol, _):
            other = peers.Recorder()
            protocol.transport.set_protocol(protocol=other)
            assert protocol.transport.get_protocol() is other
            protocol.transport.set_protocol(protocol)

    run(main())


def test_the_protocol_of_a_datagram_transport_can_be_a_keyword_argument(run):
    async def main():
        async with endpoints.local() as protocol:
            other = endpoints.Datagrams()
            protocol.transport.set_protocol(protocol=other)
            assert protocol.transport.get_protocol() is other
            protocol.transport.set_protocol(protocol)

    run(main())


@each_kind
def test_lines_may_be_any_buffers(run, kind, request, loop_name):
    if loop_name == "asyncio" and (kind == "tls" or sys.version_info >= (3, 12)):
        pytest.skip("asyncio counts items instead of bytes")

    async def main():
        async with connected(kind, request) as (protocol, read):
            numbers = array.array("I", [1, 2, 3])
            protocol.transport.writelines(iter([b"<", numbers, memoryview(numbers), b">"]))
            numbers[0] = 0
            expected = array.array("I", [1, 2, 3]).tobytes()
            assert await read(2 * len(expected) + 2) == b"<" + expected + expected + b">"
            with pytest.raises(TypeError):
                protocol.transport.writelines([b"not sent", "text"])
            protocol.transport.write(b"the end")
            assert (await read(33 if kind == "tls" else 7))[-7:] == b"the end"

    run(main())


@each_kind
@pytest.mark.parametrize("loop_name", ["mainspring"])
def test_a_non_contiguous_buffer_is_refused_and_the_connection_stays(run, kind, request):
    async def main():
        async with connected(kind, request) as (protocol, read):
            gaps = memoryview(b"a-b-c-")[::2]
            with pytest.raises(BufferError):
                protocol.transport.write(gaps)
            protocol.transport.write(b"fine")
            assert await read(4) == b"fine"

    run(main())


@each_kind
def test_limits_may_be_any_number_type(run, kind, request):
    async def main():
        async with connected(kind, request) as (protocol, _):
            transport = protocol.transport
            for high, low, whole in [
                (4096 / 2, None, (512, 2048)),
                (10.75, 2.5, (2, 10)),
                (None, 1.5, (1, 6)),
                (True, None, (0, 1)),
            ]:
                transport.set_write_buffer_limits(high, low)
                assert tuple(map(int, transport.get_write_buffer_limits())) == whole
            for unlimited in (math.inf, 10**30, sys.maxsize):
                transport.set_write_buffer_limits(high=unlimited, low=0)
                assert transport.get_write_buffer_limits()[1] >= sys.maxsize
            for high, low in [(math.nan, None), (5, 10**30), (1.2, 1.7), (-0.5, None), (-(10**30), None)]:
                with pytest.raises(ValueError, match=r"high \(.*\) must be >= low \(.*\) must be >= 0"):
                    transport.set_write_buffer_limits(high, low)
            for wrong in ("1", [], b"1", object()):
                with pytest.raises(TypeError):
                    transport.set_write_buffer_limits(high=wrong)

    run(main())
