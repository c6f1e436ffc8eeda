"""The loop's exception handler: uncaught exceptions."""

import asyncio
import logging

import pytest

import mainspring


@pytest.fixture
def log(caplog):
    caplog.set_level(logging.ERROR, logger="asyncio")
    yield caplog
    # The records reference exceptions, their frames, and so the loop.
    caplog.clear()


def fail(error):
    raise error


def test_the_handler_can_be_set_read_and_removed(loop):
    def handler(loop, context):
        pass

    loop.set_exception_handler(handler)
    assert loop.get_exception_handler() is handler
    loop.set_exception_handler(None)
    assert loop.get_exception_handler() is None


@pytest.mark.parametrize("wrong", [1, "handler", object()])
def test_a_handler_must_be_callable(loop, wrong):
    with pytest.raises(TypeError):
        loop.set_exception_handler(wrong)


def test_the_handler_gets_the_loop_and_the_context(loop, run_iteration):
    calls = []
    loop.set_debug(False)
    loop.set_exception_handler(lambda *args: calls.append(args))
    error = LookupError("here")
    handle = loop.call_soon(fail, error)
    run_iteration()
    ((got_loop, context),) = calls
    assert got_loop is loop
    assert set(context) == {"message", "exception", "handle"}
    assert context["exception"] is error
    assert context["handle"] is handle
    assert context["message"].startswith("Exception in callback fail(")
    assert error.__traceback__ is not None


@pytest.mark.parametrize("kind", ["soon", "later", "reader", "signal"])
def test_in_debug_mode_the_context_says_where_the_call_was_scheduled(loop, run_iteration, reported, kind):
    import os
    import signal
    import socket

    loop.set_debug(True)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.send(b"x")
        if kind == "soon":
            loop.call_soon(fail, LookupError())
        elif kind == "later":
            loop.call_later(0, fail, LookupError())
        elif kind == "reader":
            loop.add_reader(ours, fail, LookupError())
        else:
            loop.add_signal_handler(signal.SIGUSR1, fail, LookupError())
            os.kill(os.getpid(), signal.SIGUSR1)
        while not reported:
            run_iteration()
        loop.remove_reader(ours)
        loop.remove_signal_handler(signal.SIGUSR1)
    context = reported.pop()
    # asyncio's selector loop schedules signal handlers through the loop, so the handle has a source traceback.
    assert context["source_traceback"]
    names = [frame.name for frame in context["source_traceback"]]
    assert "test_in_debug_mode_the_context_says_where_the_call_was_scheduled" in names
    reported.clear()


def test_call_exception_handler_passes_the_context_on(loop, reported):
    context = {"message": "mine", "colour": "red"}
    loop.call_exception_handler(context)
    assert reported.pop() is context


def test_without_a_handler_the_failure_is_logged(loop, run_iteration, log):
    loop.set_exception_handler(None)
    loop.call_soon(fail, LookupError("to the log"))
    run_iteration()
    (record,) = log.records
    assert record.name == "asyncio"
    assert record.levelno == logging.ERROR
    assert record.getMessage().startswith("Exception in callback fail(")
    assert record.exc_info[0] is LookupError


def test_the_default_handler_logs_the_context(loop, log):
    loop.set_exception_handler(None)
    loop.call_exception_handler({"message": "mine", "colour": "red"})
    (record,) = log.records
    assert record.getMessage() == "mine\ncolour: 'red'"


def test_a_handler_that_raises_is_logged_and_the_loop_continues(loop, run_iteration, log):
    def handler(loop, context):
        raise ZeroDivisionError

    loop.set_exception_handler(handler)
    ran = []
    loop.call_soon(fail, LookupError())
    loop.call_soon(ran.append, 1)
    run_iteration()
    assert ran == [1]
    (record,) = log.records
    assert record.getMessage().startswith("Unhandled error in exception handler")
    assert record.exc_info[0] is ZeroDivisionError


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt])
def test_a_handler_may_raise_out_of_the_loop(loop, run_iteration, kind):
    def handler(loop, context):
        raise kind("from the handler")

    loop.set_exception_handler(handler)
    ran = []
    loop.call_soon(fail, LookupError())
    loop.call_soon(ran.append, 1)
    with pytest.raises(kind, match="from the handler"):
        loop.run_forever()
    assert ran == []
    run_iteration()
    assert ran == [1]


def test_a_handler_may_stop_the_loop(loop, run_forever):
    seen = []
    loop.set_exception_handler(lambda loop, context: (seen.append(context), loop.stop()))
    loop.call_soon(fail, LookupError())
    run_forever()
    assert len(seen) == 1


def test_a_handler_may_change_the_handler(loop, run_iteration):
    first, second = [], []

    def handler(loop, context):
        first.append(context)
        loop.set_exception_handler(lambda loop, context: second.append(context))

    loop.set_exception_handler(handler)
    loop.call_soon(fail, LookupError(1))
    loop.call_soon(fail, LookupError(2))
    run_iteration()
    assert [str(context["exception"]) for context in first + second] == ["1", "2"]


def test_a_handler_runs_in_the_same_context_as_on_asyncio(loop, run_iteration):
    import contextvars
    import sys

    number = contextvars.ContextVar("number", default=0)
    seen = []
    loop.set_exception_handler(lambda loop, context: seen.append(number.get()))
    context = contextvars.copy_context()
    context.run(number.set, 7)
    loop.call_soon(fail, LookupError(), context=context)
    run_iteration()
    # From Python 3.12 on.
    assert seen == [7 if sys.version_info >= (3, 12) else 0]


def test_an_overridden_call_exception_handler_is_used(loop, run_iteration):
    seen = []
    loop.call_exception_handler = seen.append
    loop.call_soon(fail, LookupError())
    run_iteration()
    assert isinstance(seen[0]["exception"], LookupError)


def test_an_overridden_default_exception_handler_is_used(loop, run_iteration):
    seen = []
    loop.set_exception_handler(None)
    loop.default_exception_handler = seen.append
    loop.call_soon(fail, LookupError())
    run_iteration()
    assert isinstance(seen[0]["exception"], LookupError)


def test_a_panic_in_native_code_becomes_an_exception_and_the_loop_continues(capfd):
    loop = mainspring.new_event_loop()
    with pytest.raises(SystemError, match="internal error, please report it: asked for"):
        loop._panic()
    reports = []
    loop.set_exception_handler(lambda loop, context: reports.append(context["exception"]))
    loop.call_soon(loop._panic)
    loop.call_soon(loop.stop)
    loop.run_forever()
    assert [type(error) for error in reports] == [SystemError]
    assert loop.run_until_complete(asyncio.sleep(0, "alive")) == "alive"
    loop.close()
    assert "asked for" in capfd.readouterr().err
