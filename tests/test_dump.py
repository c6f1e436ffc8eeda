"""Dumps: tasks with their await chains, transports and timers, also of a loop that is blocked."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import io
import os
import signal
import socket
import threading

import pytest

import mainspring

pytestmark = pytest.mark.mainspring_only

LIMIT = 30


def dump_of(loop):
    file = io.StringIO()
    mainspring.dump(file, loop=loop)
    return file.getvalue()


def test_tasks_are_shown_with_their_await_chains_and_what_they_wait_for(loop):
    class Gate:
        def __await__(self):
            yield from wanted.__await__()

    async def generate():
        await Gate()
        yield 1

    async def inner():
        async for _ in generate():
            pass

    async def outer():
        await inner()

    async def main():
        task = loop.create_task(outer(), name="waiter")
        other = loop.create_task(asyncio.wait([task]), name="other")
        loop.create_task(asyncio.sleep(0), name="new")
        shown = []
        loop.call_soon(lambda: shown.append(dump_of(loop)))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        shown.append(dump_of(loop))
        wanted.set_result(None)
        await other
        return shown

    wanted = loop.create_future()
    first, text = loop.run_until_complete(main())
    lines = [line.strip() for line in text.splitlines()]
    waiter = next(index for index, line in enumerate(lines) if line.startswith("waiter ("))
    # The frames of generate() and __await__() are shown on the Python versions that expose them.
    assert "in outer: await inner()" in lines[waiter + 1]
    assert "in inner: async for _ in generate()" in lines[waiter + 2]
    end = next(index for index in range(waiter, len(lines)) if lines[index].startswith("waits for"))
    assert "Future pending" in lines[end]
    assert any(line.startswith("other (") for line in lines)
    new = next(index for index, line in enumerate(first.splitlines()) if "new (" in line)
    assert "waits for its next step" in "".join(first.splitlines()[new : new + 4])
    running = next(index for index, line in enumerate(lines) if line.endswith(" runs"))
    assert "main (" in lines[running + 1]


def test_a_loop_that_does_not_run_is_shown(loop):
    task = loop.create_task(asyncio.sleep(1000), name="sleeper")
    loop.run_until_complete(asyncio.sleep(0))
    text = dump_of(loop)
    assert "sleeper (sleep)" in text and "waits for" in text and "running:" not in text
    task.cancel()
    loop.run_until_complete(asyncio.wait([task]))


def test_transports_and_timers_are_shown(loop):
    async def main():
        near, far = socket.socketpair()
        with far:
            transport, _ = await loop.create_connection(asyncio.Protocol, sock=near)
            transport.write(bytes(64 * 1024 * 1024))
            timer = loop.call_later(1000, print, "late")
            text = dump_of(loop)
            size = transport.get_write_buffer_size()
            timer.cancel()
            transport.abort()
            await asyncio.sleep(0)
        return text, size

    text, size = loop.run_until_complete(main())
    assert "transports: 1" in text and f"{size} bytes to send" in text
    # From Python 3.13 on the arguments are shown only in debug mode.
    assert "timers: 1" in text and "print(" in text


def test_an_object_whose_repr_fails_does_not_end_the_dump(loop):
    class Bad:
        def __repr__(self):
            raise ZeroDivisionError

        def __call__(self):
            pass

    timer = loop.call_later(1000, Bad())
    assert "timers: 1" in dump_of(loop)
    timer.cancel()


def test_all_open_loops_are_shown():
    with contextlib.closing(mainspring.Loop()) as first, contextlib.closing(mainspring.Loop()) as second:
        file = io.StringIO()
        mainspring.dump(file)
        # Other tests may have left loops.
        assert file.getvalue().count("  tasks: ") >= 2
        second.close()
        rest = io.StringIO()
        mainspring.dump(rest)
        assert rest.getvalue().count("  tasks: ") == file.getvalue().count("  tasks: ") - 1
        del first


def test_the_default_is_stderr(loop, capsys):
    mainspring.dump(loop=loop)
    assert "tasks: 0" in capsys.readouterr().err


class File(io.StringIO):
    """Tells when a dump was written."""

    def __init__(self):
        super().__init__()
        self.written = threading.Event()

    def flush(self):
        self.written.set()


def close(loop):
    """Closes the loop, and waits for the thread that has the file descriptors."""
    threads = [thread for _, thread in loop._dump_watches.values()]
    loop.close()
    for thread in threads:
        thread.join(LIMIT)
        assert not thread.is_alive()


def test_a_signal_dumps_a_loop_that_is_blocked():
    file = File()
    loop = mainspring.Loop()
    loop.dump_on_signal(signal.SIGUSR1, file)

    async def block():
        os.kill(os.getpid(), signal.SIGUSR1)
        assert file.written.wait(LIMIT)

    async def main():
        await asyncio.create_task(block(), name="culprit")

    loop.run_until_complete(main())
    text = file.getvalue()
    assert "culprit runs" in text and "file.written.wait(LIMIT)" in text
    close(loop)


def test_a_signal_dumps_a_loop_whose_thread_is_blocked_in_native_code():
    # A pipe that nobody writes to until the dump is there. Python's own handlers cannot run before it returns.
    file = File()
    loop = mainspring.Loop()
    loop.dump_on_signal(signal.SIGUSR1, file)
    inbound, outbound = os.pipe()

    def write():
        assert file.written.wait(LIMIT)
        os.write(outbound, b"x")

    thread = threading.Thread(target=write)
    thread.start()

    async def main():
        os.kill(os.getpid(), signal.SIGUSR1)
        os.read(inbound, 1)

    loop.run_until_complete(main())
    thread.join()
    assert "os.read(inbound, 1)" in file.getvalue()
    os.close(inbound)
    os.close(outbound)
    close(loop)


def test_the_end_of_the_loop_restores_the_handler_of_the_signal():
    seen = []
    former = signal.signal(signal.SIGUSR1, lambda *_: seen.append("handler"))
    try:
        loop = mainspring.Loop()
        loop.dump_on_signal(signal.SIGUSR1, io.StringIO())
        signal.raise_signal(signal.SIGUSR1)
        assert seen == []
        close(loop)
        signal.raise_signal(signal.SIGUSR1)
        assert seen == ["handler"]
    finally:
        signal.signal(signal.SIGUSR1, former)


def test_a_second_call_replaces_the_file():
    first, second = File(), File()
    loop = mainspring.Loop()
    loop.dump_on_signal(signal.SIGUSR1, first)
    _, thread = loop._dump_watches[signal.SIGUSR1]
    loop.dump_on_signal(signal.SIGUSR1, second)
    thread.join(LIMIT)
    signal.raise_signal(signal.SIGUSR1)
    assert second.written.wait(LIMIT)
    assert not first.written.is_set()
    close(loop)


def test_a_loop_that_is_garbage_collected_ends_its_thread():
    loop = mainspring.Loop()
    loop.dump_on_signal(signal.SIGUSR1)
    _, thread = loop._dump_watches[signal.SIGUSR1]
    with pytest.warns(ResourceWarning):
        del loop
        gc.collect()
    thread.join(LIMIT)
    assert not thread.is_alive()


def test_an_exception_of_the_file_goes_to_the_exception_handler():
    class Broken(io.StringIO):
        def write(self, text):
            raise OSError("disk full")

    loop = mainspring.Loop()
    contexts = []

    def handle(loop, context):
        contexts.append(context)
        loop.stop()

    loop.set_exception_handler(handle)
    loop.dump_on_signal(signal.SIGUSR1, Broken())
    signal.raise_signal(signal.SIGUSR1)
    loop.run_forever()
    assert [str(context["exception"]) for context in contexts] == ["disk full"]
    close(loop)


@pytest.mark.parametrize("sig", [signal.SIGKILL, 0, 1000])
def test_a_signal_that_cannot_be_caught_is_refused(loop, sig):
    with pytest.raises((OSError, ValueError)):
        loop.dump_on_signal(sig)
    assert loop._dump_watches == {}


def test_the_interpreter_exits_with_a_thread_that_waits_for_a_signal(run_python):
    run = run_python("""
import asyncio, mainspring
loop = mainspring.Loop()
loop.dump_on_signal()
loop.run_until_complete(asyncio.sleep(0))
print("done")
""")
    assert (run.returncode, run.stdout) == (0, "done\n"), run.stderr
