"""What holds for this folder: collections are short, and no test runs for ever."""

from __future__ import annotations

import gc
import sys
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def freeze_existing_objects():
    if sys.version_info < (3, 11):
        pytest.skip("asyncio 3.10 is no measure: its TLS is another, its pipes know less")
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


HERE = Path(__file__).parent

# On Python 3.15 hypothesis takes its own generator of random numbers for one that is about to be collected.
OWN_GENERATOR = "ignore:It looks like `register_random`"


def pytest_collection_modifyitems(items):
    # pytest shows every test that was collected, wherever it is.
    for item in (item for item in items if HERE in item.path.parents):
        item.add_marker(pytest.mark.filterwarnings(OWN_GENERATOR))
        if item.config.pluginmanager.hasplugin("timeout") and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(1200))
