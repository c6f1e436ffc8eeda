"""Wrong arguments and calls in the wrong state raise asyncio's exceptions and never expose internals."""

import asyncio
import contextvars
import math
import socket

import pytest

import mainspring


class Evil:
    """Raises from every special method."""

    def fail(self, *args, **kwargs):
        raise ZeroDivisionError("evil")

    __call__ = __float__ = __index__ = __int__ = __add__ = __radd__ = __bool__ = __len__ = fail
    __lt__ = __gt__ = __le__ = __ge__ = __iter__ = __eq__ = fail
    fileno = fail
    __hash__ = object.__hash__


VALUES = {
    "None": None,
    "True": True,
    "zero": 0,
    "minus one": -1,
    "large": 2**31,
    "larger": 2**64,
    "huge": 10**400,
    "float": 1.5,
    "nan": math.nan,
    "inf": math.inf,
    "minus inf": -math.inf,
    "str": "text",
    "lone surrogate": "\ud800",
    "bytes": b"bytes",
    "list": [],
    "dict": {},
    "object": object(),
    "class": int,
    "context": contextvars.copy_context(),
    "evil": Evil(),
}

# Each takes a loop and one odd value. Calls with distant deadlines do not run.
CALLS = {
    "call_soon context": lambda loop, value: loop.call_soon(print, context=value),
    "call_soon keyword": lambda loop, value: loop.call_soon(print, colour=value),
    "call_soon callback": lambda loop, value: loop.call_soon(value),
    "call_soon argument": lambda loop, value: loop.call_soon(id, value),
    "call_soon twice": lambda loop, value: loop.call_soon(print, callback=value),
    "call_soon_threadsafe callback": lambda loop, value: loop.call_soon_threadsafe(value),
    "call_soon_threadsafe keyword": lambda loop, value: loop.call_soon_threadsafe(print, colour=value),
    "call_later delay": lambda loop, value: loop.call_later(value, id, 1),
    "call_later callback": lambda loop, value: loop.call_later(1000, value),
    "call_later keyword": lambda loop, value: loop.call_later(1000, print, colour=value),
    "call_later only a delay": lambda loop, value: loop.call_later(value),
    "call_at callback": lambda loop, value: loop.call_at(loop.time() + 1000, value),
    "call_at only a time": lambda loop, value: loop.call_at(value),
    "add_reader": lambda loop, value: loop.add_reader(value, print),
    "add_writer": lambda loop, value: loop.add_writer(value, print),
    "add_reader alone": lambda loop, value: loop.add_reader(value),
    "remove_reader": lambda loop, value: loop.remove_reader(value),
    "remove_writer": lambda loop, value: loop.remove_writer(value),
    "add_signal_handler": lambda loop, value: loop.add_signal_handler(value, print),
    "remove_signal_handler": lambda loop, value: loop.remove_signal_handler(value),
    "run_until_complete": lambda loop, value: loop.run_until_complete(value),
    "run_forever": lambda loop, value: loop.run_forever(value),
    "stop": lambda loop, value: loop.stop(value),
    "close": lambda loop, value: loop.close(value),
    "time": lambda loop, value: loop.time(value),
    "is_running": lambda loop, value: loop.is_running(value),
    "get_debug": lambda loop, value: loop.get_debug(value),
    "create_future": lambda loop, value: loop.create_future(value),
    "create_task": lambda loop, value: loop.create_task(value),
    "set_task_factory": lambda loop, value: loop.set_task_factory(value),
    "set_exception_handler": lambda loop, value: loop.set_exception_handler(value),
    "set_default_executor": lambda loop, value: loop.set_default_executor(value),
    "Handle.cancel": lambda loop, value: loop.call_soon(print).cancel(value),
    "Handle.cancelled": lambda loop, value: loop.call_soon(print).cancelled(value),
    "TimerHandle.when": lambda loop, value: loop.call_later(1000, print).when(value),
    "TimerHandle.cancel": lambda loop, value: loop.call_later(1000, print).cancel(value),
    "Handle ==": lambda loop, value: loop.call_soon(print) == value,
    "TimerHandle <": lambda loop, value: loop.call_later(1000, print) < value,
    "Handle attribute": lambda loop, value: setattr(loop.call_soon(print), "colour", value),
    "Handle()": lambda loop, value: type(loop.call_soon(print))(print, value, loop),
    "loop attribute": lambda loop, value: setattr(loop, "colour", value),
    "loop()": lambda loop, value: loop(value),
}


def outcome(loop, call, value):
    """The type of the exception or of the result; handle and loop types of both loops compare equal."""
    try:
        result = call(loop, value)
    except Exception as error:
        assert not isinstance(error, SystemError), error
        return type(error)
    if isinstance(result, asyncio.TimerHandle):
        return asyncio.TimerHandle
    return asyncio.Handle if isinstance(result, asyncio.Handle) else type(result)


def raises_only_ordinary_exceptions(use):
    """Whether ``use()`` returns or raises an ordinary exception."""
    try:
        use()
    except Exception as error:
        return not isinstance(error, SystemError)
    return True


@pytest.fixture
def fresh():
    """Creates loops of either kind that ignore reported failures, and closes them."""
    loops = []

    def make(kind):
        loop = asyncio.SelectorEventLoop() if kind == "asyncio" else mainspring.new_event_loop()
        loop.set_exception_handler(lambda loop, context: None)
        loops.append(loop)
        return loop

    yield make
    while loops:
        loops.pop().close()


@pytest.mark.mainspring_only
@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("debug", [False, True], ids=["plain", "debug"])
def test_odd_arguments_have_the_same_outcome_as_on_asyncio(fresh, name, debug):
    differences = []
    for label, value in VALUES.items():
        if name in ("add_reader", "add_writer") and label in ("True", "zero"):
            continue  # fds of the test program itself
        if name == "call_soon context" and label == "None":
            continue  # equivalent to None
        got = []
        for kind in ("asyncio", "mainspring"):
            loop = fresh(kind)
            loop.set_debug(debug)
            got.append(outcome(loop, CALLS[name], value))
            # Scheduled calls run, and the loop still works.
            loop.call_soon(loop.stop)
            if not loop.is_closed():
                loop.run_forever()
        if got[0] is not got[1]:
            differences.append((label, *got))
    assert not differences


@pytest.mark.parametrize(
    "method, arguments",
    [
        ("call_soon", 0),
        ("call_soon_threadsafe", 0),
        ("call_later", 0),
        ("call_later", 1),
        ("call_at", 0),
        ("call_at", 1),
        ("add_reader", 0),
        ("add_reader", 1),
        ("add_writer", 1),
        ("remove_reader", 0),
        ("remove_writer", 0),
        ("add_signal_handler", 1),
        ("remove_signal_handler", 0),
        ("run_until_complete", 0),
        ("create_task", 0),
        ("set_debug", 0),
        ("set_exception_handler", 0),
        ("call_exception_handler", 0),
        ("run_in_executor", 0),
    ],
)
def test_missing_arguments_are_type_errors(loop, method, arguments):
    with pytest.raises(TypeError):
        getattr(loop, method)(*[1] * arguments)


def test_methods_called_with_another_self_raise_type_error(loop):
    kind = type(loop)
    for method in ("call_soon", "call_later", "call_at", "call_soon_threadsafe", "time", "create_future"):
        with pytest.raises((TypeError, AttributeError)):
            getattr(kind, method)(object(), 1, print)


CLOSED = {
    "call_soon": lambda loop: loop.call_soon(print),
    "call_soon_threadsafe": lambda loop: loop.call_soon_threadsafe(print),
    "call_later": lambda loop: loop.call_later(0, print),
    "call_at": lambda loop: loop.call_at(0, print),
    "run_forever": lambda loop: loop.run_forever(),
    "run_until_complete": lambda loop: loop.run_until_complete(loop.create_future()),
    "run_in_executor": lambda loop: loop.run_in_executor(None, print),
    "add_reader": lambda loop: loop.add_reader(0, print),
    "add_writer": lambda loop: loop.add_writer(1, print),
    "add_signal_handler": lambda loop: loop.add_signal_handler(10, print),
    "create_task": lambda loop: loop.create_task(None),
}

# These still work, or do nothing, after close().
STILL = {
    "close": lambda loop: loop.close(),
    "is_closed": lambda loop: loop.is_closed(),
    "is_running": lambda loop: loop.is_running(),
    "stop": lambda loop: loop.stop(),
    "time": lambda loop: loop.time(),
    "get_debug": lambda loop: loop.get_debug(),
    "set_debug": lambda loop: loop.set_debug(True),
    "create_future": lambda loop: loop.create_future(),
    "get_exception_handler": lambda loop: loop.get_exception_handler(),
    "set_exception_handler": lambda loop: loop.set_exception_handler(None),
    "get_task_factory": lambda loop: loop.get_task_factory(),
    "set_task_factory": lambda loop: loop.set_task_factory(None),
    "remove_signal_handler": lambda loop: loop.remove_signal_handler(10),
    "repr": lambda loop: repr(loop),
    "hash": lambda loop: hash(loop),
}


@pytest.mark.parametrize("name", CLOSED)
@pytest.mark.parametrize("debug", [False, True], ids=["plain", "debug"])
def test_a_closed_loop_refuses_work(loop, name, debug):
    loop.set_debug(debug)
    loop.close()
    with pytest.raises(RuntimeError, match="Event loop is closed"):
        CLOSED[name](loop)


@pytest.mark.parametrize("name", STILL)
def test_a_closed_loop_can_still_be_queried(loop, name):
    loop.close()
    STILL[name](loop)
    assert loop.is_closed()


@pytest.mark.parametrize("method", ["remove_reader", "remove_writer"])
def test_removing_from_a_closed_loop_returns_false(loop, method):
    ours, theirs = socket.socketpair()
    with ours, theirs:
        loop.add_reader(ours, print)
        loop.add_writer(ours, print)
        loop.close()
        assert getattr(loop, method)(ours) is False


@pytest.mark.mainspring_only
def test_native_types_used_directly_do_not_crash(loop):
    from mainspring import _mainspring

    native = _mainspring.NativeLoop()
    with pytest.raises(AttributeError, match="was not called"):
        native.call_soon(print)
    native._bind()
    handle = native.call_soon(print)
    timer = native.call_later(1000, print)
    assert repr(handle) and repr(timer)
    timer.cancel()
    handle.cancel()
    native.stop()
    with pytest.raises(Exception):  # noqa: B017
        native._run_native(1)
    native._close_native()
    with pytest.raises(RuntimeError, match="Event loop is closed"):
        native._run_native()
    with pytest.raises(RuntimeError, match="Event loop is closed"):
        native.call_soon(print)


@pytest.mark.mainspring_only
def test_handles_constructed_directly_do_not_crash(loop):
    from mainspring import _mainspring

    for kind in (_mainspring.Handle, _mainspring.TimerHandle):
        for arguments in ((), (1,), (print, (), loop), (loop.time(), print, (), loop), (0, print, (), None)):
            try:
                handle = kind(*arguments)
            except Exception as error:
                assert not isinstance(error, SystemError), error
                continue
            for use in (handle.cancel, handle.cancelled, handle.cancel, lambda handle=handle: repr(handle)):
                assert raises_only_ordinary_exceptions(use)
        raw = kind.__new__(kind)
        for use in (raw.cancel, raw.cancelled, lambda raw=raw: repr(raw), lambda raw=raw: raw._run()):
            assert raises_only_ordinary_exceptions(use)


@pytest.mark.mainspring_only
def test_handles_with_modified_attributes_do_not_crash(loop, run_iteration, reported):
    for attribute in ("_callback", "_args", "_context", "_cancelled", "_loop", "_repr", "_source_traceback"):
        for schedule in (loop.call_soon, lambda callback: loop.call_later(0, callback)):
            for value in (None, 1, "text", object(), []):
                handle = schedule(int)
                setattr(handle, attribute, value)
                # asyncio's own handles raise out of the loop if their arguments are not a sequence.
                assert raises_only_ordinary_exceptions(run_iteration)
                assert raises_only_ordinary_exceptions(handle.cancel)
            handle = schedule(int)
            delattr(handle, attribute)
            assert raises_only_ordinary_exceptions(run_iteration)
            assert raises_only_ordinary_exceptions(handle.cancel)
            assert raises_only_ordinary_exceptions(lambda handle=handle: repr(handle))
    for context in reported:
        assert not isinstance(context["exception"], SystemError)
    reported.clear()
    ran = []
    loop.call_soon(ran.append, 1)
    run_iteration()
    assert ran == [1]


def test_deep_recursion_in_a_callback_is_reported(loop, run_iteration, reported):
    def deeper():
        deeper()

    loop.call_soon(deeper)
    ran = []
    loop.call_soon(ran.append, 1)
    run_iteration()
    assert isinstance(reported.pop()["exception"], RecursionError)
    assert ran == [1]
