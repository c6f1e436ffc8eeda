"""Stream transports over TCP: the contexts in which callbacks run."""

from __future__ import annotations

import asyncio
import contextvars
import socket
import sys

import pytest
from peers import (
    Echo,
    Recorder,
    connected,
    connected_to_socket,
    fill,
    in_thread,
    read_exactly,
)


def test_callbacks_see_the_context_their_connection_was_made_in(run):
    where = contextvars.ContextVar("where", default="nowhere")

    class Looks(Recorder):
        def note(self, name, *rest):
            super().note(name, where.get())

        async def until_lost(self):
            await self.until(lambda: self.count("connection_lost") > 0)

    async def main():
        async with connected_to_socket() as _:
            pass
        where.set("at connect")
        async with connected_to_socket(Looks) as (protocol, peer):
            where.set("after connect")
            peer.sendall(b"x")
            await protocol.until_received(1)
            peer.shutdown(socket.SHUT_WR)
            await protocol.until_lost()
        assert protocol.log == [
            ("connection_made", "at connect"),
            ("data_received", "at connect"),
            ("eof_received", "at connect"),
            ("connection_lost", "at connect"),
        ]

    run(main())


def test_a_variable_set_in_data_received_persists_across_reads_of_the_connection(run):
    seen = contextvars.ContextVar("seen", default=0)

    class Counts(Recorder):
        def data_received(self, data):
            seen.set(seen.get() + 1)
            self.seen = seen.get()
            super().data_received(data)

    async def main():
        async with connected_to_socket(Counts) as (protocol, peer):
            for expected in (1, 2, 3):
                peer.sendall(b"x")
                await protocol.until_received(expected)
                assert protocol.seen == expected
            assert seen.get() == 0
        async with connected_to_socket(Counts) as (protocol, peer):
            peer.sendall(b"x")
            await protocol.until_received(1)
            assert protocol.seen == 1

    run(main())


@pytest.mark.skipif(sys.version_info >= (3, 15), reason="from 3.15 on a transport has one context")
def test_resumed_reading_uses_the_context_of_resume_reading(run):
    where = contextvars.ContextVar("where", default="nowhere")

    class Looks(Recorder):
        def data_received(self, data):
            self.where = where.get()
            super().data_received(data)

    async def main():
        async with connected_to_socket(Looks) as (protocol, peer):
            protocol.transport.pause_reading()
            where.set("at resume")
            protocol.transport.resume_reading()
            where.set("later")
            peer.sendall(b"x")
            await protocol.until_received(1)
            assert protocol.where == "at resume"

    run(main())


def test_reading_resumed_in_connection_made_uses_its_own_context(run):
    where = contextvars.ContextVar("where", default="nowhere")

    class Looks(Recorder):
        def connection_made(self, transport):
            super().connection_made(transport)
            transport.pause_reading()
            where.set("in connection_made")
            transport.resume_reading()

        def data_received(self, data):
            self.where = where.get()
            where.set("in data_received")
            super().data_received(data)

    async def main():
        ours, theirs = socket.socketpair()
        theirs.sendall(b"x")
        loop = asyncio.get_running_loop()
        transport, protocol = await loop.create_connection(Looks, sock=ours)
        await protocol.until_received(1)
        # asyncio registers the reader again after connection_made(), in the creator's context.
        assert protocol.where in ("in connection_made", "nowhere")
        assert where.get() == "nowhere"
        transport.close()
        theirs.close()
        await protocol.until_lost()

    run(main())


@pytest.mark.skipif(sys.version_info >= (3, 15), reason="from 3.15 on a transport has one context")
def test_flow_control_callbacks_use_the_context_of_the_blocked_write(run):
    where = contextvars.ContextVar("where", default="nowhere")

    class Looks(Recorder):
        def pause_writing(self):
            self.at_pause = where.get()
            super().pause_writing()

        def resume_writing(self):
            self.at_resume = where.get()
            super().resume_writing()

    async def main():
        async with connected_to_socket(Looks) as (protocol, peer):
            where.set("at write")
            written = fill(protocol.transport)
            where.set("after write")
            await in_thread(read_exactly, peer, written)
            await protocol.until(lambda: protocol.count("resume_writing") == 1)
            assert (protocol.at_pause, protocol.at_resume) == ("at write", "at write")

    run(main())


def test_an_accepted_connection_has_its_own_context(run):
    where = contextvars.ContextVar("where", default="nowhere")

    class Looks(Echo):
        def connection_made(self, transport):
            self.at_made = where.get()
            where.set("mine")
            super().connection_made(transport)

    async def main():
        where.set("at serve")
        for _ in range(2):
            async with connected(server_factory=Looks) as (client, server):
                where.set("at serve")
                assert server.at_made == "at serve"
        assert where.get() == "at serve"

    run(main())


@pytest.mark.skipif(sys.version_info < (3, 15), reason="before 3.15 each direction has its own context")
def test_every_callback_of_a_transport_uses_the_same_context(run):
    seen = contextvars.ContextVar("seen", default=())

    class Notes(Recorder):
        def note(self, name, *rest):
            seen.set((*seen.get(), name))
            super().note(name, seen.get())

        async def until_lost(self):
            await self.until(lambda: self.count("connection_lost") > 0)

    async def main():
        async with connected_to_socket(Notes) as (protocol, peer):
            peer.sendall(b"x")
            await protocol.until_received(1)
            protocol.transport.pause_reading()
            protocol.transport.resume_reading()
            peer.shutdown(socket.SHUT_WR)
            await protocol.until_lost()
        assert protocol.log[-1] == (
            "connection_lost",
            ("connection_made", "data_received", "eof_received", "connection_lost"),
        )
        assert seen.get() == ()

    run(main())
