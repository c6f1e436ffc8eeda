"""Write coalescing: several writes of one callback may share a packet, but none is delayed or lost."""

from __future__ import annotations

import asyncio
import socket
import struct
import subprocess
import sys
import textwrap

import pytest
from peers import TIMEOUT, connected_to_socket, read_exactly, read_to_end


async def write_in_pieces(protocol, peer, rounds=3):
    """Writes twice in each of several callbacks, so that the connection expects two writes per callback."""
    for _ in range(rounds):
        protocol.transport.write(b"head")
        protocol.transport.write(b"body")
        await asyncio.sleep(0)
        assert read_exactly(peer, 8) == b"headbody"


def test_a_single_write_arrives_although_two_were_expected(run):
    async def main():
        async with connected_to_socket() as (protocol, peer):
            await write_in_pieces(protocol, peer)
            protocol.transport.write(b"head")
            await asyncio.sleep(0)
            assert read_exactly(peer, 4) == b"head"

    run(main())


def unsent(transport):
    """The bytes that the kernel holds back because of MSG_MORE: `tcpi_notsent_bytes`."""
    info = transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 148)
    return struct.unpack_from("=I", info, 144)[0]


@pytest.mark.parametrize("debug", [False, True])
def test_the_end_of_the_callback_flushes_data_held_by_the_kernel(loop, debug):
    async def main():
        async with connected_to_socket() as (protocol, peer):
            await write_in_pieces(protocol, peer)
            protocol.transport.write(b"head")
            await asyncio.sleep(0)
            assert unsent(protocol.transport) == 0
            assert read_exactly(peer, 4) == b"head"

    loop.set_debug(debug)
    loop.run_until_complete(main())


def test_a_write_arrives_while_its_callback_blocks(run):
    async def main():
        async with connected_to_socket() as (protocol, peer):
            await write_in_pieces(protocol, peer)
            protocol.transport.write(b"head")
            assert protocol.transport.get_write_buffer_size() == 0
            # In the same callback, so the loop cannot flush it.
            assert read_exactly(peer, 4) == b"head"

    run(main())


def test_a_write_arrives_although_its_transport_is_paused_or_closed_at_once(run):
    async def main(end):
        async with connected_to_socket() as (protocol, peer):
            await write_in_pieces(protocol, peer)
            protocol.transport.write(b"head")
            getattr(protocol.transport, end)()
            await asyncio.sleep(0)
            assert read_exactly(peer, 4) == b"head"
            if end != "pause_reading":
                assert read_to_end(peer) == b""

    for end in ("pause_reading", "close", "abort", "write_eof"):
        run(main(end))


def test_an_exception_that_ends_the_loop_loses_no_write(loop):
    async def main():
        async with connected_to_socket() as (protocol, peer):
            await write_in_pieces(protocol, peer)

            def leave():
                protocol.transport.write(b"head")
                raise SystemExit

            loop.call_soon(leave)
            try:
                await asyncio.sleep(0)
                await asyncio.sleep(0)
            finally:
                assert read_exactly(peer, 4) == b"head"

    task = loop.create_task(main())
    try:
        loop.run_until_complete(task)
    except SystemExit:
        loop.run_until_complete(task)
    else:
        raise AssertionError("nothing ended the loop")


def test_a_process_that_exits_between_writes_has_sent_the_earlier_ones():
    program = """
        import asyncio, os, socket, sys, mainspring

        async def main():
            reader, writer = await asyncio.open_connection(sock=socket.socket(fileno=int(sys.argv[1])))
            for _ in range(3):
                await reader.readexactly(1)
                writer.write(b"head")
                writer.write(b"body")
            await reader.readexactly(1)
            writer.write(b"head")
            os._exit(0)

        mainspring.run(main())
        """
    with socket.create_server(("127.0.0.1", 0)) as listening:
        near = socket.create_connection(listening.getsockname())
        far, _ = listening.accept()
    with near, far:
        near.settimeout(TIMEOUT)
        child = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(program), str(far.fileno())],
            pass_fds=[far.fileno()],
        )
        far.close()
        for _ in range(3):
            near.sendall(b"?")
            assert read_exactly(near, 8) == b"headbody"
        near.sendall(b"?")
        assert read_to_end(near) == b"head"
        assert child.wait(TIMEOUT) == 0
