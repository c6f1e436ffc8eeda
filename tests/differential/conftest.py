"""Settings of this folder: short garbage collections, and a timeout for each test."""

from __future__ import annotations

import gc
import sys
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def freeze_existing_objects():
    if sys.version_info < (3, 11):
        pytest.skip("asyncio 3.10 is not comparable: its TLS is older and its pipes lack methods")
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


HERE = Path(__file__).parent

# On Python 3.15 hypothesis takes its own random generator for one that is about to be collected.
OWN_GENERATOR = "ignore:It looks like `register_random`"


def pytest_collection_modifyitems(items):
    # pytest passes all collected tests, not only those of this folder.
    for item in (item for item in items if HERE in item.path.parents):
        item.add_marker(pytest.mark.filterwarnings(OWN_GENERATOR))
        if item.config.pluginmanager.hasplugin("timeout") and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(1200))
