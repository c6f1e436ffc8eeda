"""Handle and TimerHandle: type and repr, cancel() in every state, and when they are freed."""

import asyncio
import contextvars
import functools
import gc
import re
import sys
import threading
import warnings
import weakref

import pytest

import mainspring


def named(*args):
    pass


def test_handles_are_asyncios(loop):
    soon = loop.call_soon(named)
    threadsafe = loop.call_soon_threadsafe(named)
    later = loop.call_later(1000, named)
    at = loop.call_at(loop.time() + 1000, named)
    for handle in (soon, threadsafe, later, at):
        assert isinstance(handle, asyncio.Handle)
    assert isinstance(later, asyncio.TimerHandle) and isinstance(at, asyncio.TimerHandle)
    assert not isinstance(soon, asyncio.TimerHandle) and not isinstance(threadsafe, asyncio.TimerHandle)


def shape(handle):
    """A handle's repr without addresses and times."""
    text = re.sub(r"0x[0-9a-f]+", "0x", repr(handle))
    return re.sub(r"when=[0-9.]+", "when=T", text)


@pytest.mark.mainspring_only
@pytest.mark.parametrize("debug", [False, True])
@pytest.mark.parametrize(
    "callback, args",
    [(named, ()), (named, (1, "two")), (print, ()), (functools.partial(named, 1), (2,)), (lambda: None, ())],
    ids=["function", "arguments", "builtin", "partial", "lambda"],
)
def test_the_repr_has_asyncios_form_in_every_state(loop_factory, debug, callback, args):
    ours, theirs = loop_factory(), asyncio.SelectorEventLoop()
    try:
        seen = []
        for loop in (ours, theirs):
            loop.set_debug(debug)
            soon, later = loop.call_soon(callback, *args), loop.call_later(1000, callback, *args)
            forms = [shape(soon), shape(later)]
            soon.cancel(), later.cancel()
            seen.append([*forms, shape(soon), shape(later)])
        assert seen[0] == seen[1]
        assert seen[0][0].startswith("<Handle ")
        assert seen[0][1].startswith("<TimerHandle when=T ")
        assert "cancelled" in seen[0][2] and "cancelled" in seen[0][3]
    finally:
        theirs.close()


@pytest.mark.parametrize("kind", ["soon", "later"])
def test_cancel_and_cancelled_in_every_state(loop, run_iteration, kind):
    def schedule(callback):
        return loop.call_soon(callback) if kind == "soon" else loop.call_later(0, callback)

    ran = []
    waiting = schedule(lambda: ran.append("waiting"))
    assert waiting.cancelled() is False
    assert waiting.cancel() is None
    assert waiting.cancelled() is True
    assert waiting.cancel() is None
    assert waiting.cancelled() is True

    done = schedule(lambda: ran.append("done"))
    run_iteration()
    assert ran == ["done"]
    assert done.cancelled() is False
    done.cancel()
    assert done.cancelled() is True

    inside = schedule(lambda: (inside.cancel(), ran.append(inside.cancelled())))
    run_iteration()
    assert ran == ["done", True]
    assert inside.cancelled() is True

    kept = schedule(lambda: ran.append("never"))
    kept_cancelled = schedule(named)
    kept_cancelled.cancel()
    loop.close()
    assert kept.cancelled() is False
    kept.cancel()
    kept_cancelled.cancel()
    assert kept.cancelled() and kept_cancelled.cancelled()
    assert repr(kept) and repr(kept_cancelled) and repr(done)


def test_a_handle_cancelled_earlier_in_the_same_iteration_does_not_run(loop, run_iteration):
    ran = []
    loop.call_soon(lambda: second.cancel())
    second = loop.call_soon(ran.append, 2)
    loop.call_soon(ran.append, 3)
    run_iteration()
    assert ran == [3]


def test_a_threadsafe_handle_can_be_cancelled(loop, run_iteration):
    ran = []
    loop.call_soon_threadsafe(ran.append, 1).cancel()
    loop.call_soon_threadsafe(ran.append, 2)
    run_iteration()
    assert ran == [2]


def test_handles_support_weak_references(loop, run_iteration):
    for schedule in (loop.call_soon, lambda callback: loop.call_later(0, callback)):
        handle = schedule(named)
        reference = weakref.ref(handle)
        assert reference() is handle
        del handle
        gc.collect()
        assert reference() is not None, "the loop keeps scheduled handles alive"
        run_iteration()
        gc.collect()
        assert reference() is None


def test_a_handle_refuses_new_attributes(loop):
    handle = loop.call_soon(named)
    with pytest.raises(AttributeError):
        handle.colour = "red"


def test_a_handle_shows_its_callback_and_arguments(loop):
    handle = loop.call_soon(named, 1, 2)
    assert handle._callback is named
    assert handle._args == (1, 2)
    handle.cancel()
    assert handle._callback is None
    assert handle._args is None


@pytest.mark.skipif(sys.version_info < (3, 12), reason="asyncio.Handle.get_context is new in 3.12")
def test_get_context_returns_the_context_that_the_callback_runs_in(loop):
    context = contextvars.copy_context()
    assert loop.call_soon(named, context=context).get_context() is context
    assert loop.call_later(1000, named, context=context).get_context() is context
    copied = loop.call_soon(named).get_context()
    assert isinstance(copied, contextvars.Context) and copied is not context


def test_a_callback_that_drops_the_last_reference_to_its_handle(loop, run_iteration):
    handles = {}

    class Callback:
        def __call__(self):
            handles.clear()
            gc.collect()

    handles["one"] = loop.call_soon(Callback())
    handles["two"] = loop.call_later(0, Callback())
    run_iteration()
    assert handles == {}


def test_a_cycle_of_handle_and_callback_is_collected_after_the_call(loop, run_iteration):
    def make():
        def callback():
            assert handle

        handle = loop.call_soon(callback)
        return weakref.ref(callback)

    reference = make()
    run_iteration()
    gc.collect()
    assert reference() is None


def test_a_cycle_of_handle_and_callback_survives_while_scheduled(loop, run_iteration):
    ran = []

    def make():
        def callback():
            ran.append(handle is not None)

        handle = loop.call_soon(callback)

    make()
    gc.collect()
    run_iteration()
    assert ran == [True]


def test_an_unclosed_loop_is_collected_with_its_handles_and_warns(loop_kind):
    from_kind = {"asyncio": "asyncio", "mainspring": "mainspring"}[loop_kind]
    module = __import__(from_kind)
    loop = module.new_event_loop()
    if loop_kind == "asyncio" and type(loop).__module__.startswith("mainspring"):
        pytest.skip("mainspring is installed as the default")

    class Callback:
        def __call__(self):
            pass

    soon, later, reader = Callback(), Callback(), Callback()
    for callback in (soon, later, reader):
        callback.loop = loop
    soon.handle = loop.call_soon(soon)
    later.handle = loop.call_later(1000, later)
    import socket

    ours, theirs = socket.socketpair()
    loop.add_reader(ours, reader)
    references = [weakref.ref(thing) for thing in (loop, soon, later, reader, soon.handle, later.handle)]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ResourceWarning)
        del loop, soon, later, reader, callback
        gc.collect()
        gc.collect()
    ours.close(), theirs.close()
    messages = [str(warning.message) for warning in caught if warning.category is ResourceWarning]
    # A recorded warning references the loop.
    caught.clear()
    gc.collect()
    assert [reference() for reference in references] == [None] * 6
    assert len(messages) == 1
    assert messages[0].startswith("unclosed event loop <")


def test_a_closed_loop_is_freed(loop_kind):
    loop = __import__(loop_kind).new_event_loop()
    loop.call_soon(named)
    loop.call_later(1000, named)
    reference = weakref.ref(loop)
    loop.close()
    del loop
    gc.collect()
    assert reference() is None


def test_a_handle_outlives_its_loop(loop_kind):
    loop = __import__(loop_kind).new_event_loop()
    handles = [loop.call_soon(named), loop.call_later(1000, named)]
    loop.close()
    del loop
    gc.collect()
    for handle in handles:
        handle.cancel()
        assert handle.cancelled()
        assert repr(handle)


def leave_a_pending_threadsafe_call():
    """Returns a weak reference to a loop that stopped before it took a call from another thread."""
    loop = mainspring.new_event_loop()
    in_last_iteration, pushed = threading.Event(), threading.Event()

    def push():
        in_last_iteration.wait(30)
        loop.call_soon_threadsafe(print, loop)
        pushed.set()

    def last_iteration():
        in_last_iteration.set()
        pushed.wait(30)
        loop.stop()

    thread = threading.Thread(target=push)
    thread.start()
    loop.call_soon(last_iteration)
    loop.run_forever()
    thread.join()
    return weakref.ref(loop)


def test_a_pending_threadsafe_call_is_collected_with_its_loop():
    alive = leave_a_pending_threadsafe_call()
    with pytest.warns(ResourceWarning, match="unclosed event loop"):
        gc.collect()
    assert alive() is None
