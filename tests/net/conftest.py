"""Fixtures of the networking tests.

As in the parent folder, a test that takes ``loop`` runs on asyncio's own loop and on mainspring, and no test may leak
an fd.  Here ``loop.reports`` holds the contexts passed to the exception handler.  A test must remove the expected ones,
and must leave nothing registered with the loop.
"""

from __future__ import annotations

import asyncio
import gc
import shutil
import sys
from pathlib import Path

import peers
import pytest
import tls


@pytest.fixture(scope="session", autouse=True)
def freeze_existing_objects():
    """Excludes existing objects from garbage collection: nearly every test runs a collection."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(params=peers.LOOPS)
def loop_name(request) -> str:
    return request.param


@pytest.fixture
def loop(loop_name):
    """A new loop; ``reports`` holds the contexts passed to its exception handler."""
    loop = peers.LOOPS[loop_name]()
    reports = []
    loop.set_exception_handler(lambda loop, context: reports.append(context))
    loop.reports = reports
    yield loop
    if not loop.is_closed():
        loop.run_until_complete(loop.shutdown_default_executor())
        # Runs the calls that the test's last step scheduled.
        for _ in range(3):
            loop.run_until_complete(asyncio.sleep(0))
        loop.close()
    loop.set_exception_handler(None)
    gc.collect()
    assert not reports, f"unexpected reports to the exception handler: {reports}"


@pytest.fixture
def run(loop):
    """Runs a coroutine on the loop, for a bounded time."""

    def run(coroutine):
        return loop.run_until_complete(asyncio.wait_for(coroutine, peers.TIMEOUT))

    return run


@pytest.fixture
def not_asyncio_3_13(loop_name):
    if loop_name == "asyncio" and sys.version_info[:2] == (3, 13):
        pytest.skip("asyncio 3.13 does not subtract the header of a datagram from its buffer size")


@pytest.fixture
def needs_new_asyncio_tls(loop_name):
    if loop_name == "asyncio" and sys.version_info < (3, 11):
        pytest.skip("asyncio 3.10 has an older TLS implementation")


@pytest.fixture(scope="session")
def authority(tmp_path_factory):
    """The certificate authority of the TLS tests."""
    if shutil.which("openssl") is None:
        pytest.skip("the openssl command, which creates the certificates, is missing")
    return tls.Authority(tmp_path_factory.mktemp("authority"))


def pytest_collection_modifyitems(items):
    # pytest passes all collected tests, not only those of this folder.
    for item in (item for item in items if Path(__file__).parent in item.path.parents):
        # Also ends a loop that hangs in native code. The plugin is optional.
        if item.config.pluginmanager.hasplugin("timeout") and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(4 * peers.TIMEOUT))
