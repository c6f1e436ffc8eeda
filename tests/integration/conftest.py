"""What the integration tests share: the loop they run on, the servers they talk to.

The libraries are used as their documentation says and know nothing of the loop below them.  As everywhere here, a test
runs on asyncio's own loop and on mainspring.  At its end no task is left, no descriptor is open that was not before,
and nothing has gone to the exception handler.
"""

from __future__ import annotations

import asyncio
import gc
import os
import shutil

import pytest
import services
from tls import Authority

# Seconds for a whole test; none needs more than a fraction.
LIMIT = 45


def pytest_collection_modifyitems(items):
    for item in items:
        # What the libraries themselves think of this Python is not asked here.
        for category in ("DeprecationWarning", "PendingDeprecationWarning"):
            item.add_marker(pytest.mark.filterwarnings(f"ignore::{category}"), append=False)
        # asyncio of Python 3.10 calls TLS transports unclosed that are closed.
        unclosed = "ignore:unclosed transport <asyncio.sslproto:ResourceWarning"
        item.add_marker(pytest.mark.filterwarnings(unclosed), append=False)


@pytest.fixture(scope="session", autouse=True)
def freeze_existing_objects():
    """The libraries themselves, loaded by now, are not looked at again whenever a test collects garbage."""
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
    """A new loop of the kind under test, which ends as ``asyncio.run()`` would end it."""
    before = sockets_open()
    loop = loop_factory()
    yield loop
    # A server's end of a connection may have heard of its end and not yet acted on it; what never acts is a failure.
    if ending := asyncio.all_tasks(loop):
        _, left = loop.run_until_complete(asyncio.wait(ending, timeout=LIMIT / 3))
        assert not left, f"tasks left: {left}"
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.run_until_complete(loop.shutdown_default_executor())
    # What the test's last step scheduled still runs.
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
        pytest.skip("there is no openssl command to make certificates with")
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="session")
def postgres(authority):
    with services.postgres(authority.folder) as running:
        yield running


@pytest.fixture(scope="session")
def redis_server():
    with services.redis() as running:
        yield running
