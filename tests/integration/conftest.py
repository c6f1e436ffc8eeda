"""Fixtures of the integration tests: the loop and the servers.

The libraries are used as documented, and are not adapted to the loop.  Each test runs on asyncio's own loop and on
mainspring.  It fails if it leaves a task, leaks an fd, or if the exception handler was called.
"""

from __future__ import annotations

import asyncio
import gc
import os
import shutil

import pytest
import services
from tls import Authority

# Timeout of a test in seconds. Passing tests need a fraction of it.
LIMIT = 45


def pytest_collection_modifyitems(items):
    for item in items:
        # Ignores warnings of the libraries about this Python version.
        for category in ("DeprecationWarning", "PendingDeprecationWarning"):
            item.add_marker(pytest.mark.filterwarnings(f"ignore::{category}"), append=False)
        # asyncio of Python 3.10 warns about closed TLS transports as unclosed.
        unclosed = "ignore:unclosed transport <asyncio.sslproto:ResourceWarning"
        item.add_marker(pytest.mark.filterwarnings(unclosed), append=False)


@pytest.fixture(scope="session", autouse=True)
def freeze_existing_objects():
    """Excludes the loaded libraries from garbage collection, which nearly every test runs."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


def sockets_open():
    found = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{name}")
        except FileNotFoundError:
            continue
        if target.startswith(("socket:", "pipe:")):
            found[int(name)] = target
    return found


@pytest.fixture
def loop(loop_factory):
    """A new loop of the kind under test; shut down as ``asyncio.run()`` does it."""
    before = sockets_open()
    loop = loop_factory()
    yield loop
    # The server's end of a connection may need some iterations to finish. A task that never ends is a failure.
    if ending := asyncio.all_tasks(loop):
        _, left = loop.run_until_complete(asyncio.wait(ending, timeout=LIMIT / 3))
        assert not left, f"tasks left: {left}"
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.run_until_complete(loop.shutdown_default_executor())
    # Runs the calls that the test's last step scheduled.
    for _ in range(3):
        loop.run_until_complete(asyncio.sleep(0))
    loop.close()
    gc.collect()
    after = sockets_open()
    left = {fd: target for fd, target in after.items() if before.get(fd) != target}
    assert not left, f"left open: {left}"


@pytest.fixture
def run(loop):
    """Runs a coroutine on the loop, for a bounded time."""
    return lambda coroutine: loop.run_until_complete(asyncio.wait_for(coroutine, LIMIT))


@pytest.fixture(scope="session")
def authority(tmp_path_factory):
    if shutil.which("openssl") is None:
        pytest.skip("the openssl command, which creates the certificates, is missing")
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="session")
def postgres(authority):
    with services.postgres(authority.folder) as running:
        yield running


@pytest.fixture(scope="session")
def redis_server():
    with services.redis() as running:
        yield running
