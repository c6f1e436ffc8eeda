"""Stalls: callbacks that block the loop are reported while they do."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import logging
import os
import socket
import sys
import threading
import weakref

import pytest

import mainspring
import mainspring.testing

pytestmark = pytest.mark.mainspring_only

LIMIT = 30


class Reports:
    """Collects reports.  A blocked callback waits until its report has come."""

    def __init__(self):
        self.stalls = []
        self.begun = threading.Event()
        self.ended = threading.Event()

    def __call__(self, stall):
        self.stalls.append(stall)
        (self.begun if stall.total is None else self.ended).set()

    def block(self):
        assert self.begun.wait(LIMIT)
        self.begun.clear()

    def await_end(self):
        assert self.ended.wait(LIMIT)
        self.ended.clear()


@pytest.fixture
def reports(loop):
    reports = Reports()
    loop.watch_stalls(0.01, reports)
    return reports


def thread_of(loop):
    return loop._stall_thread


def test_a_callback_is_reported_while_it_blocks_and_when_it_has_returned(loop, reports):
    loop.call_soon(reports.block)
    loop.call_soon(loop.stop)
    loop.run_forever()
    reports.await_end()
    begun, ended = reports.stalls
    assert begun.loop is loop
    assert "Reports.block" in begun.callback
    assert begun.task is None and begun.await_chain == ()
    assert [frame.name for frame in begun.stack][0] == "block"
    assert begun.elapsed >= 0.01 and begun.total is None
    assert ended.callback == begun.callback
    assert ended.total >= begun.elapsed


def test_a_task_is_reported_with_its_await_chain_and_stack(loop, reports):
    async def inner():
        reports.block()

    async def outer():
        await asyncio.sleep(0)
        await inner()

    loop.run_until_complete(loop.create_task(outer(), name="the task"))
    stall = reports.stalls[0]
    assert stall.task.get_name() == "the task" and "the task" in stall.callback
    assert ["outer" in stall.await_chain[0], "inner" in stall.await_chain[1]] == [True, True]
    assert [frame.name for frame in stall.stack][:3] == ["outer", "inner", "block"]
    text = str(stall)
    assert "the task" in text and "reports.block()" in text and " -> " in text


def test_every_stall_is_reported_once(loop, reports):
    for _ in range(3):
        loop.call_soon(reports.block)
        loop.call_soon(reports.await_end)
    loop.call_soon(loop.stop)
    loop.run_forever()
    blocks = [stall.total is None for stall in reports.stalls if "block" in stall.callback]
    assert blocks == [True, False] * 3


def test_the_callbacks_of_a_protocol_are_watched(loop, reports):
    class Blocking(asyncio.Protocol):
        def data_received(self, data):
            reports.block()
            loop.stop()

    near, far = socket.socketpair()
    with far:
        far.send(b"data")
        transport, _ = loop.run_until_complete(loop.create_connection(Blocking, sock=near))
        loop.run_forever()
        transport.close()
        loop.run_until_complete(asyncio.sleep(0))
    assert "StreamTransport" in reports.stalls[0].callback
    assert reports.stalls[0].stack[0].name == "data_received"


def test_a_loop_that_waits_does_not_stall(loop):
    reports = Reports()
    loop.watch_stalls(0.5, reports)

    async def main():
        await asyncio.sleep(1)
        for _ in range(1000):
            await asyncio.sleep(0)

    loop.run_until_complete(main())
    assert reports.stalls == []


def test_a_watch_sleeps_with_its_loop_and_wakes_up_with_it(loop, reports):
    # The watch has long been parked when the loop wakes up.
    loop.call_later(0.3, reports.block)
    loop.call_later(0.3, loop.stop)
    loop.run_forever()
    reports.await_end()
    # Nor does a loop stall that does not run.
    assert thread_of(loop).is_alive()
    loop.call_soon(reports.block)
    loop.call_soon(loop.stop)
    loop.run_forever()
    reports.await_end()
    assert len(reports.stalls) == 4


def test_the_default_is_a_warning_in_the_log(loop):
    records = []
    ended = threading.Event()
    begun = threading.Event()

    class Handler(logging.Handler):
        def emit(self, record):
            records.append(record)
            (ended if begun.is_set() else begun).set()

    def block():
        assert begun.wait(LIMIT)

    logger, handler = logging.getLogger("mainspring.stalls"), Handler()
    logger.addHandler(handler)
    try:
        loop.watch_stalls(0.01)
        loop.call_soon(block)
        loop.call_soon(loop.stop)
        loop.run_forever()
        assert ended.wait(LIMIT)
    finally:
        logger.removeHandler(handler)
    assert [record.levelno for record in records] == [logging.WARNING] * 2
    assert (
        "has been blocked for" in records[0].getMessage() and "begun.wait(LIMIT)" in records[0].getMessage()
    )
    assert "was blocked for" in records[1].getMessage()


@pytest.mark.parametrize("error", [ZeroDivisionError, SystemExit])
def test_an_exception_of_the_report_goes_to_the_exception_handler(loop, reported, error):
    reports = Reports()

    def fail(stall):
        reports(stall)
        raise error("out of luck")

    loop.watch_stalls(0.01, fail)
    loop.call_soon(reports.block)
    loop.call_soon(reports.await_end)
    # The handler runs in the loop.
    contexts = []

    def collect(loop, context):
        contexts.append(context)
        if len(contexts) == 2:
            loop.stop()

    loop.set_exception_handler(collect)
    loop.run_forever()
    assert [type(context["exception"]) for context in contexts] == [error] * 2
    assert "report of a stall" in contexts[0]["message"]


def test_an_exception_after_the_loop_is_closed_is_logged(caplog):
    is_closed = threading.Event()
    reports = Reports()

    def fail(stall):
        reports(stall)
        if stall.total is not None:
            assert is_closed.wait(LIMIT)
            raise ZeroDivisionError

    with contextlib.closing(mainspring.Loop()) as loop:
        loop.watch_stalls(0.01, fail)
        loop.call_soon(reports.block)
        loop.call_soon(reports.await_end)
        loop.call_soon(loop.stop)
        loop.run_forever()
        thread = thread_of(loop)
    is_closed.set()
    thread.join(LIMIT)
    assert [record.exc_info[0] for record in caplog.records] == [ZeroDivisionError]


def test_a_callback_that_holds_the_interpreter_lock_is_reported_when_it_lets_go(loop, reports):
    loop.watch_stalls(0.05, reports)
    usleep = ctypes.PyDLL(None).usleep
    loop.call_soon(usleep, 300_000)
    # Runs without the lock being released in between.
    loop.call_soon(reports.await_end)
    loop.call_soon(loop.stop)
    loop.run_forever()
    begun, ended = reports.stalls[:2]
    assert begun.callback == ended.callback
    assert ended.total >= 0.05


def test_the_watch_ends_with_the_loop():
    with contextlib.closing(mainspring.Loop(stalls=0.01)) as loop:
        assert thread_of(loop) is None, "not before the first run"
        loop.run_until_complete(asyncio.sleep(0))
        thread = thread_of(loop)
        loop.run_until_complete(asyncio.sleep(0))
        assert thread_of(loop) is thread
    thread.join(LIMIT)
    assert not thread.is_alive()


def test_the_watch_does_not_keep_the_loop_alive():
    loop = mainspring.Loop(stalls=0.01)
    loop.run_until_complete(asyncio.sleep(0))
    thread, reference = thread_of(loop), weakref.ref(loop)
    with pytest.warns(ResourceWarning):
        del loop
        gc.collect()
    thread.join(LIMIT)
    assert reference() is None and not thread.is_alive()


def test_none_ends_the_watch_and_another_limit_replaces_it(loop, reports):
    loop.run_until_complete(asyncio.sleep(0))
    former = thread_of(loop)
    loop.watch_stalls(0.02, reports)
    former.join(LIMIT)
    loop.call_soon(reports.block)
    loop.call_soon(reports.await_end)
    loop.call_soon(loop.stop)
    loop.run_forever()
    assert reports.stalls[0].elapsed >= 0.02
    latter = thread_of(loop)
    loop.watch_stalls(None)
    latter.join(LIMIT)
    assert not former.is_alive() and not latter.is_alive()


def test_a_report_may_end_the_watch(loop):
    reports = Reports()

    def end(stall):
        loop.watch_stalls(None)
        reports(stall)

    loop.watch_stalls(0.01, end)
    loop.call_soon(reports.block)
    loop.call_soon(loop.stop)
    loop.run_forever()
    assert len(reports.stalls) == 1


def test_watching_can_begin_in_a_callback(loop):
    reports = Reports()
    loop.call_soon(loop.watch_stalls, 0.01, reports)
    loop.call_soon(reports.block)
    loop.call_soon(loop.stop)
    loop.run_forever()
    assert "block" in reports.stalls[0].callback


def test_loops_in_several_threads_have_watches_of_their_own():
    def run(reports):
        with contextlib.closing(mainspring.Loop()) as loop:
            loop.watch_stalls(0.01, reports)
            loop.call_soon(reports.block)
            loop.call_soon(reports.await_end)
            loop.call_soon(loop.stop)
            loop.run_forever()
            reports.loop = loop

    everything = [Reports() for _ in range(3)]
    threads = [threading.Thread(target=run, args=(reports,)) for reports in everything]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT)
    for reports in everything:
        assert {stall.loop for stall in reports.stalls} == {reports.loop}
        assert reports.stalls[0].stack[0].name == "block"


def test_debug_mode_and_stalls_work_together(loop, reports, caplog):
    loop.set_debug(True)
    loop.slow_callback_duration = 0.001
    loop.call_soon(reports.block)
    loop.call_soon(loop.stop)
    loop.run_forever()
    assert "block" in reports.stalls[0].callback
    assert any("Executing" in record.getMessage() for record in caplog.records)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="eager tasks are new in Python 3.12")
def test_an_eager_task_is_named(loop, reports):
    async def block():
        reports.block()

    async def main():
        asyncio.current_task().set_name("main")
        loop.set_task_factory(asyncio.eager_task_factory)
        await loop.create_task(block(), name="eager")

    loop.run_until_complete(main())
    assert reports.stalls[0].task.get_name() == "eager"


def test_virtual_time_does_not_wait_for_the_watch():
    with contextlib.closing(mainspring.testing.new_event_loop()) as loop:
        loop.watch_stalls(0.5)
        loop.run_until_complete(asyncio.sleep(1_000_000))
        assert loop.time() >= 1_000_000


@pytest.mark.parametrize("limit", [0, -1, float("nan"), float("inf")])
def test_a_limit_must_be_positive(loop, limit):
    with pytest.raises(ValueError, match="positive"):
        loop.watch_stalls(limit)


def test_a_closed_loop_cannot_be_watched():
    loop = mainspring.Loop()
    loop.close()
    with pytest.raises(RuntimeError, match="closed"):
        loop.watch_stalls()


def test_a_report_must_be_callable(loop):
    with pytest.raises(TypeError, match="callable"):
        loop.watch_stalls(0.1, "stderr")


BLOCK = """
import logging, sys, threading
reported, ended = threading.Event(), threading.Event()

class Handler(logging.Handler):
    def emit(self, record):
        print(record.getMessage().split("\\n")[0], flush=True)
        (ended if reported.is_set() else reported).set()

logging.getLogger("mainspring.stalls").addHandler(Handler())

async def block():
    assert reported.wait(30)

"""


def test_run_takes_a_limit(run_python):
    run = run_python(BLOCK + "import mainspring\nmainspring.run(block(), stalls=0.01)")
    assert run.returncode == 0, run.stderr
    assert "has been blocked" in run.stdout


def test_an_environment_variable_sets_the_limit_of_all_loops(run_python):
    source = BLOCK + "import mainspring\nmainspring.run(block())"
    run = run_python(source, env={**os.environ, "MAINSPRING_STALLS": "0.01"})
    assert run.returncode == 0, run.stderr
    assert "has been blocked" in run.stdout


def test_an_environment_variable_that_is_no_number_is_an_error(monkeypatch):
    monkeypatch.setenv("MAINSPRING_STALLS", "soon")
    with pytest.raises(ValueError, match="MAINSPRING_STALLS"):
        mainspring.new_event_loop()
    monkeypatch.setenv("MAINSPRING_STALLS", "0")
    mainspring.new_event_loop().close()


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="a child cannot go on with a task of its parent")
def test_a_forked_child_watches_again(run_python):
    run = run_python(
        BLOCK
        + """
import asyncio, os, warnings
import mainspring
warnings.simplefilter("ignore")  # a fork with threads

async def main():
    if os.fork():
        _, status = os.wait()
        assert status == 0
        return
    print("child", flush=True)
    reported.clear()
    await asyncio.sleep(0)  # the child goes on with the run
    await block()

mainspring.run(main(), stalls=0.01)
"""
    )
    assert run.returncode == 0, run.stderr
    # block() has returned: the child has reported it. The parent reports os.wait().
    assert "child" in run.stdout


def test_a_forked_child_watches_a_new_run_of_the_loop(run_python):
    run = run_python(
        BLOCK
        + """
import asyncio, os, warnings
import mainspring
warnings.simplefilter("ignore")

loop = mainspring.Loop(stalls=0.01)
loop.run_until_complete(asyncio.sleep(0))
if os.fork() == 0:
    loop.run_until_complete(block())
    print("child is done", flush=True)
    os._exit(0)
_, status = os.wait()
assert status == 0
loop.run_until_complete(block())
loop.close()
"""
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.count("has been blocked") == 2


@pytest.mark.parametrize("moment", ["while it waits", "in a report"])
def test_the_interpreter_exits_with_a_watch(run_python, moment):
    source = """
import asyncio, threading, time
import mainspring

in_report = threading.Event()

def report(stall):
    in_report.set()
    while True:
        time.sleep(0)

def block():
    in_report.wait(30)

loop = mainspring.Loop()
loop.watch_stalls(0.01, report)
loop.run_until_complete(asyncio.sleep(0))
"""
    if moment == "in a report":
        source += "loop.call_soon(block)\nloop.run_until_complete(asyncio.sleep(0))\n"
    source += "print('done')"
    run = run_python(source)
    assert (run.returncode, run.stdout) == (0, "done\n"), run.stderr
