"""Handles made while the loop runs: the garbage collector learns of them later, and arguments need no tuple."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import importlib
import sys
import threading
import weakref

import pytest


class Node:
    """Something that can be part of a cycle."""

    def __call__(self, *args):
        pass


def run_in(loop, body):
    """Calls ``body()`` while the loop runs."""

    async def main():
        return body()

    return loop.run_until_complete(main())


SCHEDULE = {
    "call_soon": lambda loop, *call: loop.call_soon(*call),
    "call_soon_threadsafe": lambda loop, *call: loop.call_soon_threadsafe(*call),
    "call_later": lambda loop, *call: loop.call_later(0.001, *call),
}

scheduled = pytest.mark.parametrize("schedule", SCHEDULE.values(), ids=SCHEDULE)


@scheduled
def test_a_cycle_through_a_handle_that_ran_is_collected_while_the_loop_runs(loop, schedule):
    async def main():
        node = Node()
        node.handle = schedule(loop, node, node)
        found = weakref.ref(node)
        del node
        await asyncio.sleep(0.01)
        gc.collect()
        return found

    assert loop.run_until_complete(main())() is None


@scheduled
def test_a_cycle_through_a_cancelled_handle_is_collected_while_the_loop_runs(loop, schedule):
    async def main():
        variable = contextvars.ContextVar("variable")

        def make():
            node = Node()
            variable.set(node)
            # A cancelled handle has no callback any more, but it still has a context.
            node.handle = schedule(loop, print)
            node.handle.cancel()
            return weakref.ref(node)

        found = contextvars.copy_context().run(make)
        await asyncio.sleep(0.01)
        gc.collect()
        return found

    assert loop.run_until_complete(main())() is None


@pytest.mark.parametrize("is_held", [False, True])
@pytest.mark.filterwarnings("ignore:unclosed event loop:ResourceWarning")
@scheduled
def test_an_unclosed_loop_is_collected_with_handles_that_were_made_in_a_run(loop_kind, schedule, is_held):
    def make():
        loop = importlib.import_module(loop_kind).new_event_loop()
        node = Node()

        def last():
            # It still waits when the run ends.
            handle = schedule(loop, node, loop)
            if is_held:
                node.handle = handle
            loop.stop()

        loop.call_soon(last)
        loop.run_forever()
        return weakref.ref(node)

    found = make()
    gc.collect()
    assert found() is None


@pytest.mark.mainspring_only
def test_the_collector_knows_handles_only_after_the_run(loop):
    made = []
    run_in(loop, lambda: made.append(loop.call_later(1000, print)) or made.append(gc.is_tracked(made[0])))
    handle, was_tracked = made
    assert not was_tracked
    assert gc.is_tracked(handle)
    assert gc.is_tracked(loop.call_later(1000, print))


@pytest.mark.parametrize("count", range(6))
def test_a_handle_shows_any_number_of_arguments(loop, count):
    args = tuple(object() for _ in range(count))
    received = []
    handle = loop.call_soon(lambda *args: received.append(args), *args)
    assert handle._args == args
    assert handle._args is handle._args
    loop.call_soon(lambda *args: received.append(args), *args)
    loop.call_soon(loop.stop)
    loop.run_forever()
    assert received == [args, args]
    assert handle._args == args


@pytest.mark.parametrize("count", range(6))
def test_a_callback_keeps_its_arguments_after_it_cancels_its_handle(loop, count):
    found = []

    def callback(*args):
        references = [weakref.ref(argument) for argument in args]
        handle.cancel()
        found.append([reference() is not None for reference in references])

    handle = loop.call_soon(callback, *[Node() for _ in range(count)])
    loop.call_soon(loop.stop)
    loop.run_forever()
    assert found == [[True] * count]
    assert handle._args is None


def test_arguments_can_be_replaced_and_deleted(loop):
    received = []
    loop.call_soon(received.append, "first")._args = ("second",)
    deleted = loop.call_soon(received.append, "third")
    del deleted._args
    with pytest.raises(AttributeError):
        deleted._args  # noqa: B018
    deleted._args = ("fourth",)
    loop.call_soon(loop.stop)
    loop.run_forever()
    assert received == ["second", "fourth"]


def test_a_cancelled_handle_drops_its_arguments_at_once(loop):
    arguments = [Node(), Node()]
    references = [weakref.ref(argument) for argument in arguments]
    handle = loop.call_soon(print, *arguments)
    arguments.clear()
    handle.cancel()
    assert [reference() for reference in references] == [None, None]


def test_an_argument_whose_finalizer_uses_the_handle(loop):
    seen = []

    class Finalized:
        def __del__(self):
            seen.append(handle._args)
            handle.cancel()

    handle = loop.call_soon(print, Finalized(), Finalized())
    handle.cancel()
    gc.collect()
    assert seen == [None, None]


@pytest.mark.parametrize("is_referenced", [False, True], ids=["plain", "weakly referenced"])
@scheduled
def test_what_ends_with_a_handle_that_ran_can_schedule_more(loop, schedule, is_referenced):
    """The handle is emptied before its memory is used for another one."""
    order = []

    async def main():
        class Finalized:
            def __init__(self, number):
                self.number = number

            def __call__(self, *args):
                order.append(("call", self.number, len(args)))

            def __del__(self):
                order.append(("end", self.number))
                if self.number < 3:
                    make(self.number + 1)

        def make(number):
            handle = schedule(loop, Finalized(number), *[object() for _ in range(number)])
            if is_referenced:
                weakref.finalize(handle, order.append, ("handle", number))

        make(0)
        while ("end", 3) not in order:
            await asyncio.sleep(0.001)

    loop.run_until_complete(main())
    expected = []
    for number in range(4):
        # asyncio's handle ends after the callback that it holds; its weak references are cleared first.
        handle = [("handle", number)] if is_referenced else []
        expected += [("call", number, number), *handle, ("end", number)]
    assert order == expected


@pytest.mark.skipif(sys.version_info < (3, 14), reason="handles have no lock before")
def test_cancelling_waits_for_a_callback_that_runs(loop):
    """As with asyncio's lock, a thread that cancels knows whether the callback has run."""
    order = []
    is_running, may_end = threading.Event(), threading.Event()

    def callback():
        is_running.set()
        assert may_end.wait(30)
        handle.cancel()  # the thread that runs it does not wait
        order.append("callback")

    def cancel():
        assert is_running.wait(30)
        threading.Timer(0.05, may_end.set).start()
        handle.cancel()
        order.append("cancel")
        assert handle.cancelled()
        loop.call_soon_threadsafe(loop.stop)

    handle = loop.call_soon_threadsafe(callback)
    thread = threading.Thread(target=cancel)
    thread.start()
    loop.run_forever()
    thread.join()
    assert order == ["callback", "cancel"]


@pytest.mark.mainspring_only
def test_a_loop_has_no_instance_dict_until_a_program_sets_an_attribute(loop):
    """The interpreter then looks up methods of the loop without a search in it."""

    async def main():
        await asyncio.to_thread(int)
        server = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
        server.close()
        await server.wait_closed()
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", "")
        await process.wait()

    loop.run_until_complete(main())
    assert vars(loop) == {}
    loop.custom = 1
    assert vars(loop) == {"custom": 1}
