"""Unix stream sockets: connecting, serving, and socket files."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import pathlib
import socket
import stat
import sys
from unittest import mock

import pytest
from peers import TIMEOUT, Echo, Recorder, end_of, in_thread, read_exactly
from tls import Authority, uses_tls

cleans_up = pytest.mark.skipif(sys.version_info < (3, 13), reason="new in Python 3.13")


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "socket")


class Serving:
    def __init__(self):
        self.accepted = []

    def __call__(self):
        protocol = Echo()
        self.accepted.append(protocol)
        return protocol


@contextlib.asynccontextmanager
async def serving(path=None, **options):
    """An echo server; closed at the end, with its connections."""
    loop = asyncio.get_running_loop()
    factory = Serving()
    server = await loop.create_unix_server(factory, path, **options)
    try:
        yield server
    finally:
        server.close()
        for protocol in factory.accepted:
            await protocol.until(lambda protocol=protocol: protocol.transport is not None)
            await end_of(protocol)
        await asyncio.wait_for(server.wait_closed(), TIMEOUT)


def ask(path, question=b"anybody there?"):
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(TIMEOUT)
        sock.connect(path)
        sock.sendall(question)
        assert read_exactly(sock, len(question)) == question


async def converse(path=None, **options):
    """One request, from a transport of the loop."""
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.create_unix_connection(Recorder, path, **options)
    transport.write(b"anybody there?")
    assert await protocol.until_received(14) == b"anybody there?"
    transport.close()
    await protocol.until_lost()
    return transport


@pytest.mark.parametrize("kind", [str, pathlib.Path, os.fsencode])
def test_str_bytes_and_path_objects_are_accepted(run, loop, path, kind):
    async def main():
        async with serving(kind(path)) as server:
            assert stat.S_ISSOCK(os.stat(path).st_mode)
            assert [sock.getsockname() for sock in server.sockets] == [path]
            await in_thread(ask, path)
            await converse(kind(path))

    run(main())


@pytest.mark.parametrize("kind", [str, str.encode])
def test_abstract_names_are_accepted(run, loop, kind):
    async def main():
        name = kind(f"\0mainspring-test-{os.getpid()}-{id(loop)}")
        async with serving(name):
            await in_thread(ask, name)
            await converse(name)

    run(main())


def test_existing_sockets_are_accepted(run, loop, path):
    async def main():
        listener, client = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
        listener.bind(path)
        async with serving(sock=listener):
            client.connect(path)
            transport = await converse(sock=client)
            assert client.fileno() == -1
            assert transport.get_extra_info("peername") == path

    run(main())


def test_both_ends_expose_their_names(run, loop, path):
    async def main():
        accepted = []

        class Remembers(Recorder):
            def connection_made(self, transport):
                accepted.append((transport.get_extra_info("peername"), transport.get_extra_info("sockname")))
                super().connection_made(transport)
                transport.close()

        server = await loop.create_unix_server(Remembers, path)
        transport, protocol = await loop.create_unix_connection(Recorder, path)
        assert transport.get_extra_info("peername") == path
        assert transport.get_extra_info("sockname") == ""
        assert transport.get_extra_info("socket").family == socket.AF_UNIX
        await protocol.until_lost()
        assert accepted == [("", path)]
        server.close()
        await server.wait_closed()

    run(main())


def test_a_server_with_start_serving_false_starts_later(run, loop, path):
    async def main():
        async with serving(path, start_serving=False) as server:
            assert not server.is_serving()
            with pytest.raises(ConnectionRefusedError):
                await in_thread(ask, path)
            await server.start_serving()
            await in_thread(ask, path)

    run(main())


def test_streams(run, loop, path):
    async def main():
        async def answer(reader, writer):
            writer.write(await reader.readline())
            writer.close()

        server = await asyncio.start_unix_server(answer, path)
        reader, writer = await asyncio.open_unix_connection(path)
        writer.write(b"a line\n")
        assert await reader.read() == b"a line\n"
        writer.close()
        await writer.wait_closed()
        server.close()
        await server.wait_closed()

    run(main())


@uses_tls
def test_tls(run, loop, path, authority):
    async def main():
        async with serving(path, ssl=authority.server_context()):
            await converse(path, ssl=authority.client_context(), server_hostname="localhost")

    run(main())


def test_a_stale_socket_file_is_replaced(run, loop, path):
    with socket.socket(socket.AF_UNIX) as former:
        former.bind(path)

    async def main():
        async with serving(path):
            await in_thread(ask, path)

    run(main())


def test_other_kinds_of_files_are_not_replaced(run, loop, path):
    pathlib.Path(path).write_text("precious")

    async def main():
        with pytest.raises(OSError, match="already in use") as failure:
            await loop.create_unix_server(Recorder, path)
        assert failure.value.errno == errno.EADDRINUSE
        assert repr(path) in str(failure.value)

    run(main())
    assert pathlib.Path(path).read_text() == "precious"


def test_impossible_paths_raise(run, loop, tmp_path):
    async def main():
        missing = str(tmp_path / "missing" / "socket")
        with pytest.raises(FileNotFoundError):
            await loop.create_unix_server(Recorder, missing)
        with pytest.raises(FileNotFoundError):
            await loop.create_unix_connection(Recorder, missing)
        with pytest.raises(OSError, match="AF_UNIX path too long"):
            await loop.create_unix_server(Recorder, "x" * 200)
        with pytest.raises(OSError, match="AF_UNIX path too long"):
            await loop.create_unix_connection(Recorder, "x" * 200)
        stale = str(tmp_path / "stale")
        with socket.socket(socket.AF_UNIX) as former:
            former.bind(stale)
        with pytest.raises(ConnectionRefusedError):
            await loop.create_unix_connection(Recorder, stale)

    run(main())


def test_contradictory_arguments_are_refused(run, loop, path):
    async def main():
        with socket.socket(socket.AF_UNIX) as sock, socket.socket() as inet:
            for make in (loop.create_unix_connection, loop.create_unix_server):
                with pytest.raises(ValueError, match="path and sock can not be specified at the same time"):
                    await make(Recorder, path, sock=sock)
                with pytest.raises(ValueError, match="specified"):
                    await make(Recorder)
                with pytest.raises(ValueError, match="A UNIX Domain Stream Socket was expected"):
                    await make(Recorder, sock=inet)
                with pytest.raises(ValueError, match="ssl_handshake_timeout is only meaningful with ssl"):
                    await make(Recorder, path, ssl_handshake_timeout=1)
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as datagram:
                with pytest.raises(ValueError, match="A UNIX Domain Stream Socket was expected"):
                    await loop.create_unix_server(Recorder, sock=datagram)
            with pytest.raises(ValueError, match="server_hostname is only meaningful with ssl"):
                await loop.create_unix_connection(Recorder, path, server_hostname="localhost")
            with pytest.raises(ValueError, match="you have to pass server_hostname when using ssl"):
                await loop.create_unix_connection(Recorder, path, ssl=True)
            with pytest.raises(TypeError, match="ssl argument must be an SSLContext or None"):
                await loop.create_unix_server(Recorder, path, ssl=True)

    run(main())
    assert not os.path.exists(path)


def test_a_cancelled_connection_attempt_closes_its_socket(run, loop, path):
    async def main():
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(path)
            listener.listen()
            connecting = asyncio.ensure_future(loop.create_unix_connection(Recorder, path))
            connecting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await connecting

    run(main())


@cleans_up
def test_closing_the_server_removes_its_socket_file(run, loop, path):
    async def main():
        async with serving(path):
            assert os.path.exists(path)
        assert not os.path.exists(path)
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(path)
        async with serving(sock=listener):
            pass
        assert not os.path.exists(path)

    run(main())


@cleans_up
def test_cleanup_socket_false_keeps_the_socket_file(run, loop, path):
    async def main():
        async with serving(path, cleanup_socket=False):
            pass
        assert os.path.exists(path)

    run(main())


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="the file is removed since Python 3.13")
def test_the_socket_file_stays_in_older_python_versions(run, loop, path):
    async def main():
        async with serving(path):
            pass
        assert os.path.exists(path)

    run(main())


@cleans_up
def test_the_socket_file_of_a_later_server_is_not_removed(run, loop, path):
    async def main():
        async with contextlib.AsyncExitStack() as stack:
            former = await loop.create_unix_server(Recorder, path)
            await stack.enter_async_context(serving(path))
            former.close()
            await in_thread(ask, path)
        assert not os.path.exists(path)

    run(main())


@cleans_up
def test_a_missing_socket_file_is_not_an_error(run, loop, path):
    async def main():
        async with serving(path):
            os.unlink(path)
        name = f"\0mainspring-test-{os.getpid()}-{id(loop)}"
        async with serving(name):
            pass

    run(main())


@cleans_up
def test_a_socket_file_that_cannot_be_removed_is_logged(run, loop, tmp_path, caplog):
    folder = tmp_path / "folder"
    folder.mkdir()
    path = str(folder / "socket")

    async def main():
        async with serving(path):
            folder.rename(tmp_path / "elsewhere")
            folder.write_text("no folder any more")

    with caplog.at_level(logging.ERROR, "asyncio"):
        run(main())
    assert f"Unable to clean up listening UNIX socket {path!r}" in caplog.text


@cleans_up
def test_closing_a_server_does_not_trip_blocking_call_detectors(run, loop, path):
    # Such tools allow asyncio's own calls, by file name.
    blocking = []

    def checked(function):
        def call(*args, **keywords):
            caller = sys._getframe(1).f_code.co_filename
            if os.path.dirname(caller) != os.path.dirname(asyncio.__file__):
                blocking.append((function, caller))
            return function(*args, **keywords)

        return call

    async def main():
        async with serving(path):
            for name in ("stat", "lstat", "unlink", "remove"):
                stack.enter_context(mock.patch.object(os, name, checked(getattr(os, name))))

    with contextlib.ExitStack() as stack:
        run(main())
    assert blocking == []
    assert not os.path.exists(path)


def test_a_closed_loop_refuses_to_serve(loop):
    loop.close()
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("")
        with pytest.raises(RuntimeError, match="Event loop is closed"):
            loop.create_unix_server(Recorder, sock=listening).send(None)
