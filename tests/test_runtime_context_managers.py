"""``Runtime.wrap_async_context_manager()``: asynchronous context managers in ``with`` blocks."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import threading
import traceback

import pytest

import mainspring

pytestmark = pytest.mark.mainspring_only

LIMIT = 30


@pytest.fixture
def runtime():
    with mainspring.Runtime(name="under test", shutdown_timeout=LIMIT) as runtime:
        yield runtime


@contextlib.asynccontextmanager
async def managed(log):
    task = asyncio.current_task()
    log.append("entered")
    try:
        yield threading.current_thread().name
    except ZeroDivisionError:
        log.append("suppressed")
    finally:
        assert asyncio.current_task() is task
        log.append("left")


def test_an_async_context_manager_in_a_with_block(runtime):
    log = []
    with runtime.wrap_async_context_manager(managed(log)) as name:
        assert name == "under test"
        assert log == ["entered"]
    assert log == ["entered", "left"]


def test_an_async_context_manager_sees_and_may_suppress_the_exception_of_the_block(runtime):
    log = []
    with runtime.wrap_async_context_manager(managed(log)):
        raise ZeroDivisionError
    assert log == ["entered", "suppressed", "left"]
    with pytest.raises(KeyError) as caught, runtime.wrap_async_context_manager(managed(log)):
        raise KeyError("not suppressed")
    assert log[3:] == ["entered", "left"]
    assert traceback.extract_tb(caught.value.__traceback__)[0].name.startswith("test_an_async")


def test_failures_to_enter_and_to_leave_reach_the_block(runtime):
    class Broken:
        def __init__(self, entering, leaving):
            self.entering, self.leaving = entering, leaving

        async def __aenter__(self):
            if self.entering:
                raise self.entering
            return self

        async def __aexit__(self, *error):
            raise self.leaving

    with pytest.raises(KeyError), runtime.wrap_async_context_manager(Broken(KeyError(), None)):
        pytest.fail("entered")
    with pytest.raises(IndexError), runtime.wrap_async_context_manager(Broken(None, IndexError())):
        pass


def test_the_end_of_the_runtime_leaves_an_async_context_manager():
    log = []
    runtime = mainspring.Runtime()
    block = runtime.wrap_async_context_manager(managed(log))
    block.__enter__()
    runtime.shutdown(0)
    assert log == ["entered", "left"]
    with pytest.raises(concurrent.futures.CancelledError):
        block.__exit__(None, None, None)


def test_only_asynchronous_context_managers_are_wrapped(runtime):
    with pytest.raises(TypeError, match="asynchronous context manager"):
        runtime.wrap_async_context_manager(threading.Lock())
