"""Log messages and reports about slow and failing protocol callbacks use asyncio's names for the steps."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import socket
import sys

import children
import peers
import pytest
from endpoints import Datagrams, endpoint

# Longer than any callback.
LONG = 1000.0


@pytest.fixture
def warnings(caplog):
    """The warnings of asyncio's logger."""
    caplog.set_level(logging.WARNING, logger="asyncio")
    yield lambda: [record.getMessage() for record in caplog.records if record.name == "asyncio"]
    caplog.clear()


@pytest.fixture
def debugged(loop):
    loop.set_debug(True)
    loop.slow_callback_duration = LONG
    return loop


def slow_in(callback, base=peers.Recorder):
    """A protocol factory. Once ``callback`` is called, every step that ends counts as slow."""

    class Slow(base):
        def note(self, name, *rest):
            if name == callback:
                asyncio.get_running_loop().slow_callback_duration = 0.0
            super().note(name, *rest)

    return Slow


def failing_in(callback, base=peers.Recorder):
    """A protocol factory whose ``callback`` raises."""

    class Fails(base):
        def note(self, name, *rest):
            super().note(name, *rest)
            if name == callback:
                raise LookupError(callback)

    return Fails


@pytest.mark.parametrize(
    ("callback", "step"),
    [
        ("connection_made", "Recorder.connection_made(<"),
        ("data_received", "Transport._read_ready()"),
        ("eof_received", "Transport._read_ready()"),
        # `_write_sendmsg` if a transport has several ways to write (asyncio from Python 3.12 on).
        ("resume_writing", "Transport._write_"),
        ("connection_lost", "Transport._call_connection_lost(None)"),
    ],
)
def test_a_slow_callback_of_a_stream_is_named_as_the_step_it_was_called_in(
    run, debugged, warnings, callback, step
):
    async def main():
        async with peers.connected_to_socket(slow_in(callback)) as (protocol, peer):
            peer.sendall(b"data")
            await protocol.until_received(4)
            written = peers.fill(protocol.transport)
            await peers.in_thread(peers.read_exactly, peer, written)
            await protocol.until(lambda: protocol.count("resume_writing") > 0)
            peer.close()
            await protocol.until_lost()

    run(main())
    first = warnings()[0]
    assert first.startswith("Executing <Handle ") and step in first
    assert " took 0." in first and first.endswith(" seconds")


@pytest.mark.parametrize(
    ("callback", "step"),
    [
        ("connection_made", "Recorder.connection_made(<"),
        ("datagram_received", "Transport._read_ready()"),
        ("connection_lost", "Transport._call_connection_lost(None)"),
    ],
)
def test_a_slow_callback_of_an_endpoint_is_named(run, debugged, warnings, callback, step):
    async def main():
        factory = slow_in(callback, Datagrams)
        async with endpoint(factory, local_addr=("127.0.0.1", 0)) as protocol:
            protocol.transport.sendto(b"to myself", protocol.address)
            await protocol.until_datagrams(1)

    run(main())
    assert step in warnings()[0]


@pytest.mark.parametrize(
    ("callback", "step"),
    [
        ("connection_made", "Recorder.connection_made(<"),
        ("data_received", "Transport._read_ready()"),
        ("eof_received", "Recorder.eof_received()"),
        ("connection_lost", "Transport._call_connection_lost(None)"),
    ],
)
def test_a_slow_callback_of_a_pipe_is_named(run, debugged, warnings, callback, step):
    async def main():
        read_end, write_end = os.pipe()
        pipe = os.fdopen(read_end, "rb", 0)
        _, protocol = await debugged.connect_read_pipe(slow_in(callback), pipe)
        os.write(write_end, b"data")
        await protocol.until_received(4)
        os.close(write_end)
        await protocol.until_lost()

    run(main())
    assert step in warnings()[0]


def test_a_slow_protocol_factory_of_a_server_is_named(run, debugged, warnings):
    def slow_factory():
        debugged.slow_callback_duration = 0.0
        return peers.Recorder()

    async def main():
        async with peers.connected(server_factory=slow_factory):
            pass

    run(main())
    # In asyncio the factory runs in a task.
    assert "_accept_connection" in warnings()[0]


def test_debug_mode_logs_the_life_of_a_connection(run, debugged, caplog):
    caplog.set_level(logging.DEBUG, logger="asyncio")

    async def main():
        async with peers.connected() as (client, server):
            await client.until(lambda: client.count("connection_made") > 0)
            client.transport.pause_reading()
            client.transport.pause_reading()
            client.transport.resume_reading()
            client.transport.resume_reading()
            client.transport.write_eof()
            await server.until_lost()

    run(main())
    logged = [record.getMessage() for record in caplog.records if record.name == "asyncio"]
    caplog.clear()
    for words in (" pauses reading", " resumes reading"):
        assert [text.endswith(words) for text in logged].count(True) == 1
    assert any(text.endswith(" received EOF") for text in logged)
    assert any(" got a new connection from ('127.0.0.1', " in text for text in logged)


@pytest.mark.parametrize("end", ["reader", "writer"])
def test_debug_mode_logs_which_end_of_a_pipe_was_closed(run, debugged, caplog, end):
    caplog.set_level(logging.INFO, logger="asyncio")

    async def main():
        read_end, write_end = os.pipe()
        _, reader = await debugged.connect_read_pipe(peers.Recorder, os.fdopen(read_end, "rb", 0))
        _, writer = await debugged.connect_write_pipe(peers.Recorder, os.fdopen(write_end, "wb", 0))
        # The writer starts to poll for the reader's end one iteration after connection_made().
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        leaves, stays = (reader, writer) if end == "reader" else (writer, reader)
        leaves.transport.close()
        await stays.until_lost()
        await leaves.until_lost()
        return type(stays.transport).__name__

    name = run(main())
    logged = [record.getMessage() for record in caplog.records if record.levelno == logging.INFO]
    caplog.clear()
    (text,) = [text for text in logged if text.endswith(" was closed by peer")]
    assert text.startswith(f"<{name} ")


# asyncio leaves the socket to the garbage collector.
@pytest.mark.filterwarnings("ignore:unclosed <socket.socket:ResourceWarning")
def test_debug_mode_logs_a_connection_whose_protocol_factory_fails(run, debugged, caplog):
    caplog.set_level(logging.DEBUG, logger="asyncio")

    def factory():
        raise LookupError("factory")

    async def main():
        server = await debugged.create_server(factory, "127.0.0.1", 0)
        with socket.create_connection(server.sockets[0].getsockname()) as peer:
            name = peer.getsockname()
            while not debugged.reports:
                await asyncio.sleep(0)
        server.close()
        return name

    name = run(main())
    logged = [record.getMessage() for record in caplog.records]
    caplog.clear()
    (text,) = [text for text in logged if " got a new connection from " in text]
    assert text.startswith("<Server ")
    assert f" from {name!r}: <socket.socket fd=" in text and text.endswith(f", raddr={name!r}>")
    assert isinstance(debugged.reports.pop()["exception"], LookupError)


@pytest.mark.usefixtures("no_zombies")
@pytest.mark.parametrize("way", ["exec", "shell"])
def test_debug_mode_logs_a_child_and_its_pipes(run, debugged, caplog, way):
    caplog.set_level(logging.DEBUG, logger="asyncio")

    async def main():
        start = debugged.subprocess_exec if way == "exec" else debugged.subprocess_shell
        transport, protocol = await start(children.Recorder, "cat", stderr=None)
        transport.get_pipe_transport(0).close()
        await protocol.ended
        transport.close()
        return transport.get_pid()

    pid = run(main())
    # The repr from the time of logging: the transports have changed since.
    logged = [(record.levelname, record.message) for record in caplog.records]
    caplog.clear()
    begun = "execute program 'cat'" if way == "exec" else "run shell command 'cat'"
    for (level, text), (expected, words) in zip(
        logged[logged.index(("DEBUG", f"{begun} stdin=<pipe> stdout=<pipe>")) + 1 :],
        [
            ("DEBUG", f"process 'cat' created: pid {pid}"),
            (
                "DEBUG",
                r"Write pipe (\d+) connected: \(<\w+ fd=\1 idle bufsize=0>, <WriteSubprocessPipeProto fd=0 ",
            ),
            ("DEBUG", r"Read pipe (\d+) connected: \(<\w+ fd=\1 polling>, <ReadSubprocessPipeProto fd=1 "),
            ("INFO", rf"{begun}: <\w+ pid={pid} running stdin=<\w+ fd=\d+ idle bufsize=0> stdout="),
        ],
        strict=False,
    ):
        assert level == expected and re.match(words, text), text
    assert any(text.endswith(" exited with return code 0") for level, text in logged if level == "INFO")
    waited_in_a_thread = sys.version_info < (3, 12)
    assert (("DEBUG", f"process {pid} exited with returncode 0") in logged) is waited_in_a_thread


def test_normal_mode_does_not_log_slow_io(loop, run, warnings):
    loop.set_debug(False)
    loop.slow_callback_duration = 0.0

    async def main():
        async with peers.connected() as (client, server):
            client.transport.write(b"data")
            await server.until_received(4)

    run(main())
    assert warnings() == []


@pytest.mark.parametrize("error", [None, OSError("torn")], ids=["close", "error"])
def test_a_failing_connection_lost_is_reported_with_its_argument(run, debugged, error):
    async def main():
        async with peers.connected_to_socket(failing_in("connection_lost")) as (protocol, _):
            protocol.transport._force_close(error)
            assert await protocol.until_lost() is error
            await asyncio.sleep(0)

    run(main())
    report = debugged.reports.pop()
    assert report["message"].startswith("Exception in callback ")
    assert report["message"].endswith(f"Transport._call_connection_lost({error!r})")
    assert f"Transport._call_connection_lost({error!r})" in repr(report["handle"])
    assert str(report["exception"]) == str(LookupError("connection_lost"))


def test_a_failing_eof_received_of_a_pipe_is_reported_with_the_protocols_name(run, loop):
    async def main():
        read_end, write_end = os.pipe()
        _, protocol = await loop.connect_read_pipe(failing_in("eof_received"), os.fdopen(read_end, "rb", 0))
        os.close(write_end)
        await protocol.until_lost()

    run(main())
    assert loop.reports.pop()["message"].endswith("Recorder.eof_received()")


def test_the_eof_of_a_pipe_goes_to_the_protocol_set_at_that_time(run, loop):
    async def main():
        read_end, write_end = os.pipe()
        _, protocol = await loop.connect_read_pipe(peers.Recorder, os.fdopen(read_end, "rb", 0))
        successor = peers.Recorder()
        loop.call_soon(os.close, write_end)
        while not protocol.transport.is_closing():
            await asyncio.sleep(0)
        if not protocol.count("eof_received"):
            protocol.transport.set_protocol(successor)
        await successor.until_lost()
        assert protocol.names == ["connection_made", "eof_received"]

    run(main())


def test_in_debug_mode_the_report_of_a_failing_connection_lost_shows_the_close_call(run, debugged):
    async def main():
        async with peers.connected_to_socket(failing_in("connection_lost")) as (protocol, _):
            line = sys._getframe().f_lineno + 1
            protocol.transport.close()
            await protocol.until_lost()
            await asyncio.sleep(0)
            return line

    line = run(main())
    report = debugged.reports.pop()
    assert (__file__, line) in [(frame.filename, frame.lineno) for frame in report["source_traceback"]]
    assert " created at " in repr(report["handle"])
