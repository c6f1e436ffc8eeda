"""Shared fixtures of the event loop tests.

asyncio is the specification: each test runs on asyncio's own loop and on mainspring's, so a test that is wrong about
asyncio fails there.  ``@pytest.mark.mainspring_only`` marks tests that only apply to mainspring.

A test fails if it leaks an fd, or if a loop's exception handler received a context that the test did not remove from
``reported``.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import pathlib
import socket
import subprocess
import sys
import textwrap

import pytest

import mainspring

HERE = pathlib.Path(__file__).parent

# A separate program, not tests.
collect_ignore = ["conformance"]

# Timeout in seconds. Generous: passing tests never reach it.
LIMIT = 30

FACTORIES = {"asyncio": asyncio.SelectorEventLoop, "mainspring": mainspring.new_event_loop}
FACTORY_SOURCE = {
    "asyncio": "from asyncio import SelectorEventLoop as new_loop",
    "mainspring": "from mainspring import new_event_loop as new_loop",
}


def pytest_configure(config):
    config.addinivalue_line("markers", "mainspring_only: about mainspring, not run on asyncio's own loop")


def pytest_collection_finish(session):
    # The fixtures collect garbage after each test. What pytest and its plugins have loaded is none, and takes 60 ms.
    gc.collect()
    gc.freeze()


def pytest_generate_tests(metafunc):
    if "loop_kind" in metafunc.fixturenames:
        alone = metafunc.definition.get_closest_marker("mainspring_only")
        metafunc.parametrize("loop_kind", ["mainspring"] if alone else ["asyncio", "mainspring"])


def open_fds():
    found = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            found[int(name)] = os.readlink(f"/proc/self/fd/{name}")
        except FileNotFoundError:
            pass  # the fd that lists the directory
    return found


@pytest.fixture(autouse=True)
def no_fd_leaks(request):
    before = open_fds()
    yield
    gc.collect()
    after = open_fds()
    left = {fd: target for fd, target in after.items() if before.get(fd) != target}
    if request.path.parent not in (HERE, HERE / "regressions"):
        return  # subfolders have their own fixtures
    assert not left, f"leaked fds: {left}"


@pytest.fixture
def reported():
    """Contexts passed to the exception handlers of this test's loops. The test must remove the expected ones."""
    contexts = []
    yield contexts
    if contexts:
        unexpected, contexts[:] = list(contexts), []
        pytest.fail(f"unexpectedly reported to the exception handler: {unexpected}")


@pytest.fixture
def loop_factory(loop_kind, reported):
    """Creates loops of the kind under test and closes them after the test. Their failures go to ``reported``."""
    made = []

    def new_loop():
        loop = FACTORIES[loop_kind]()
        loop.set_exception_handler(lambda _, context: reported.append(context))
        made.append(loop)
        return loop

    yield new_loop
    for loop in made:
        loop.close()
    made.clear()


@pytest.fixture
def loop(loop_factory):
    return loop_factory()


@pytest.fixture
def run(loop):
    """Runs an awaitable on the loop, for a bounded time."""
    return lambda awaitable: loop.run_until_complete(asyncio.wait_for(awaitable, LIMIT))


@pytest.fixture
def run_forever(loop):
    """Runs the loop until the test stops it, for a bounded time."""

    def run_until_stopped():
        late = []
        limit = loop.call_later(LIMIT, lambda: (late.append(True), loop.stop()))
        try:
            loop.run_forever()
        finally:
            limit.cancel()
        assert not late, "nothing stopped the loop"

    return run_until_stopped


@pytest.fixture
def run_iteration(loop):
    """Runs one loop iteration: the ready calls, but not the calls that these schedule."""

    def one_iteration():
        loop.stop()
        loop.run_forever()

    return one_iteration


@pytest.fixture
def pair():
    """Two connected non-blocking sockets."""
    ours, theirs = socket.socketpair()
    for end in (ours, theirs):
        end.setblocking(False)
    with ours, theirs:
        yield ours, theirs


@pytest.fixture
def write_program(loop_kind, tmp_path):
    """Writes a program to a file; ``new_loop()`` is defined in it."""

    def write(source):
        script = tmp_path / "program.py"
        script.write_text(f"{FACTORY_SOURCE[loop_kind]}\n{textwrap.dedent(source)}")
        return script

    return write


@pytest.fixture
def run_python(write_program):
    """Runs a program in a new interpreter; ``new_loop()`` is defined in it."""

    def run_source(source, *arguments, **options):
        script = write_program(source)
        options.setdefault("timeout", LIMIT)
        return subprocess.run(
            [sys.executable, *options.pop("flags", ()), str(script), *arguments],
            capture_output=True,
            text=True,
            check=False,
            **options,
        )

    return run_source


@pytest.fixture
def no_zombies():
    """Fails if the test leaves a child process, running or zombie."""
    yield
    gc.collect()
    with contextlib.suppress(ChildProcessError):
        pid, status = os.waitpid(-1, os.WNOHANG)
        pytest.fail(f"a child is left: {(pid, status)}")
