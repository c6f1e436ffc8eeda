"""asyncssh: an SSH server and its clients in one loop."""

from __future__ import annotations

import asyncio
import contextlib

import pytest
from helpers import echo_server, needed

asyncssh = needed("asyncssh")


@pytest.fixture(scope="module")
def keys():
    return {name: asyncssh.generate_private_key("ssh-ed25519") for name in ("server", "client")}


class Server(asyncssh.SSHServer):
    """Accepts the client's key, and allows port forwarding."""

    def begin_auth(self, username):
        return True

    def connection_requested(self, *addresses):
        return True

    def server_requested(self, host, port):
        return True


async def answer(process):
    """Executes a command on this server."""
    command, _, argument = (process.command or "").partition(" ")
    if command == "say":
        process.stdout.write(argument + "\n")
        process.stderr.write("said it\n")
    elif command == "fail":
        process.exit(int(argument))
        return
    elif command == "sort":
        process.stdout.writelines(sorted([line async for line in process.stdin]))
    elif command == "run":
        # A real program with its pipes connected to the channel.
        running = await asyncio.create_subprocess_shell(
            argument, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
        )
        await process.redirect(stdin=running.stdin, stdout=running.stdout)
        await process.stdout.drain()
        process.exit(await running.wait())
        await process.wait_closed()
        return
    elif command == "wait":
        process.stdout.write("waiting\n")
        try:
            await process.stdin.read()
        except asyncssh.BreakReceived as signal:
            process.stdout.write(f"woken after {signal.msec}\n")
    process.exit(0)


@contextlib.asynccontextmanager
async def connected(keys, **options):
    server = await asyncssh.listen(
        "127.0.0.1", 0,
        server_factory=Server,
        server_host_keys=[keys["server"]],
        authorized_client_keys=asyncssh.import_authorized_keys(keys["client"].export_public_key().decode()),
        process_factory=answer,
        **options,
    )  # fmt: skip
    port = server.sockets[0].getsockname()[1]
    known = ([keys["server"].convert_to_public()], [], [])
    try:
        async with asyncssh.connect(
            "127.0.0.1", port, username="guest", client_keys=[keys["client"]], known_hosts=known, config=None
        ) as connection:
            yield connection
    finally:
        server.close()
        await server.wait_closed()


def test_commands_run_concurrently(run, keys):
    async def main():
        async with connected(keys) as connection:
            results = await asyncio.gather(*(connection.run(f"say number {n}") for n in range(20)))
            assert [result.stdout for result in results] == [f"number {n}\n" for n in range(20)]
            assert {result.stderr for result in results} == {"said it\n"}
            assert (await connection.run("fail 7")).exit_status == 7

    run(main())


def test_input_reaches_the_command(run, keys):
    lines = [f"line {n:05d}\n" for n in range(20_000, 0, -1)]

    async def main():
        async with connected(keys) as connection:
            result = await connection.run("sort", input="".join(lines), check=True)
            assert result.stdout == "".join(sorted(lines))

    run(main())


def test_a_command_may_be_a_real_program(run, keys):
    async def main():
        async with connected(keys) as connection:
            words = "word " * 100_000
            result = await connection.run("run tr a-z A-Z; exit 3", input=words)
            assert result.stdout == words.upper()
            assert result.exit_status == 3

    run(main())


def test_a_break_interrupts_the_command(run, keys):
    async def main():
        async with connected(keys) as connection, connection.create_process("wait") as process:
            assert await process.stdout.readline() == "waiting\n"
            process.send_break(1000)
            assert await process.stdout.readline() == "woken after 1000\n"
            await process.wait()

    run(main())


def test_files_are_copied_by_sftp(run, keys, tmp_path):
    content = bytes(range(256)) * 10_000
    (tmp_path / "here").write_bytes(content)
    (tmp_path / "there").mkdir()

    def rooted(channel):
        return asyncssh.SFTPServer(channel, chroot=bytes(tmp_path / "there"))

    async def main():
        async with connected(keys, sftp_factory=rooted) as connection, connection.start_sftp_client() as sftp:
            await sftp.put(str(tmp_path / "here"), "/copy")
            assert (await sftp.stat("/copy")).size == len(content)
            assert "copy" in await sftp.listdir("/")
            async with sftp.open("/copy", "rb") as file:
                assert await file.read(1000, offset=5000) == content[5000:6000]
            await sftp.get("/copy", str(tmp_path / "back"))
            with pytest.raises(asyncssh.SFTPNoSuchFile):
                await sftp.remove("/nothing")

    run(main())
    assert (tmp_path / "there" / "copy").read_bytes() == content
    assert (tmp_path / "back").read_bytes() == content


async def exchange(port, size):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    data = bytes([size % 251]) * size

    async def write():
        writer.write(data)
        await writer.drain()
        writer.write_eof()

    _, received = await asyncio.gather(write(), reader.read())
    writer.close()
    await writer.wait_closed()
    assert received == data


@pytest.mark.parametrize("direction", ["local", "remote"])
def test_ports_are_forwarded(run, keys, direction):
    async def main():
        async with echo_server() as port, connected(keys) as connection:
            if direction == "local":
                listener = await connection.forward_local_port("127.0.0.1", 0, "127.0.0.1", port)
            else:
                listener = await connection.forward_remote_port("127.0.0.1", 0, "127.0.0.1", port)
            async with listener:
                sizes = (1, 1000, 100_000, 3_000_000)
                await asyncio.gather(*(exchange(listener.get_port(), size) for size in sizes))

    run(main())


def test_a_wrong_key_is_refused(run, keys):
    async def main():
        stranger = dict(keys, client=asyncssh.generate_private_key("ssh-ed25519"))
        async with connected(keys) as connection:
            port = connection.get_extra_info("peername")[1]
            with pytest.raises(asyncssh.PermissionDenied):
                await asyncssh.connect(
                    "127.0.0.1", port, username="guest", client_keys=[stranger["client"]],
                    known_hosts=None, config=None,
                )  # fmt: skip

    run(main())
