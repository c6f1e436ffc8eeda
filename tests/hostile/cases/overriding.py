"""Subclasses of the loop: every method overridden, with and without a call of the original."""

from __future__ import annotations

import asyncio
import os
import signal
import socket

from hostile import Recorder, attempt, case, finish, iterations, loop_class, outcome, quiet, run, settle, show


def derived(**methods):
    return type("Derived", (loop_class(),), methods)()


def counting(names):
    """A loop whose methods ``names`` count their calls and call the original, and the counts."""
    counts = dict.fromkeys(names, 0)

    def wrap(name):
        def method(self, *arguments, **options):
            counts[name] += 1
            return getattr(loop_class(), name)(self, *arguments, **options)

        return method

    return derived(**{name: wrap(name) for name in names}), counts


@case
def every_method_calls_the_original():
    names = (
        "call_soon", "call_later", "call_at", "call_soon_threadsafe", "create_task", "create_future",
        "run_forever", "run_until_complete", "stop", "close", "is_running", "is_closed", "get_debug", "set_debug",
        "call_exception_handler", "default_exception_handler", "add_reader", "remove_reader", "run_in_executor",
        "shutdown_asyncgens", "sock_recv", "sock_sendall", "create_connection", "getaddrinfo", "add_signal_handler",
    )  # fmt: skip
    loop, counts = counting(names)

    async def main():
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        loop.add_reader(ours, lambda: loop.remove_reader(ours))
        theirs.setblocking(False)
        await loop.sock_sendall(theirs, b"x")
        show(await loop.sock_recv(ours, 1))
        await asyncio.sleep(0.001)
        await loop.run_in_executor(None, int)
        loop.add_signal_handler(signal.SIGUSR1, print)
        transport, protocol = await loop.create_connection(Recorder, sock=ours)
        theirs.close()
        show(await protocol.end())
        loop.call_exception_handler({"message": "quiet"})

    loop.set_exception_handler(lambda loop, context: show("reported", context["message"]))
    run(main(), loop)
    finish(loop)
    sure = ("create_task", "run_forever", "sock_recv", "sock_sendall", "create_connection", "add_signal_handler",
            "call_exception_handler", "close", "run_in_executor")  # fmt: skip
    show([name for name in sure if not counts[name]])


@case
def a_custom_clock():
    now = [1000.0]
    loop = derived(time=lambda self: now[0])
    seen = []
    loop.call_later(5, seen.append, 1)
    loop.call_at(1004, seen.append, 0)
    loop.call_soon(lambda: now.__setitem__(0, 1006.0))
    for _ in range(3):
        loop.stop()
        loop.run_forever()
    show(seen)
    loop.close()


@case
def a_clock_that_calls_the_original():
    base = loop_class()
    loop = derived(time=lambda self: base.time(self) + 1000)
    before = loop.time()
    run(asyncio.sleep(0.001), loop)
    show(loop.time() > before > 1000)
    finish(loop)


@case
def a_clock_that_fails():
    for result in ("text", None):
        loop = derived(time=lambda self, result=result: result)
        show(attempt(loop.call_later, 1, print))
        loop.close()

    def fails(self):
        raise ZeroDivisionError

    loop = derived(time=fails)
    show(attempt(loop.call_later, 1, print))
    loop.close()


@case
def call_soon_that_changes_the_callback():
    base = loop_class()
    seen = []

    def call_soon(self, callback, *arguments, context=None):
        seen.append(1)
        return base.call_soon(self, callback, *arguments, context=context)

    loop = derived(call_soon=call_soon)
    run(iterations(), loop)
    show(len(seen) > 0)
    finish(loop)


@case
def call_soon_that_fails():
    def fails(self, *arguments, **options):
        raise ZeroDivisionError

    loop = derived(call_soon=fails)
    quiet(loop)
    coroutine = iterations()
    show(attempt(loop.run_until_complete, coroutine))
    coroutine.close()
    loop.close()


@case
def an_exception_handler_that_is_overridden():
    def handler(self, context):
        show("own", context["message"].partition(" in callback ")[0])

    for name in ("call_exception_handler", "default_exception_handler"):
        loop = derived(**{name: handler})
        loop.call_soon(lambda: 1 / 0)
        run(iterations(), loop)
        finish(loop)


@case
def exception_handlers_that_are_set_and_fail():
    loop = derived()
    for nonsense in (5, "x", object()):
        show(attempt(loop.set_exception_handler, nonsense))
    loop.set_exception_handler(lambda: None)
    loop.call_soon(lambda: 1 / 0)
    loop.call_soon(lambda: show("next"))
    run(iterations(), loop)
    loop.set_exception_handler(None)
    show(loop.get_exception_handler())
    finish(loop)


@case
def attributes_and_weak_references():
    import weakref

    loop = derived()
    loop.attribute = 5
    reference = weakref.ref(loop)
    show(
        loop.attribute,
        reference() is loop,
        attempt(hash, loop),
        loop == loop,
        isinstance(loop, asyncio.AbstractEventLoop),
    )
    loop.close()
    del loop
    import gc

    gc.collect()
    show(reference())


@case
def a_constructor_that_does_not_call_the_original():
    class Bare(loop_class()):
        def __init__(self):
            pass

    loop = Bare()
    for name in ("call_soon", "call_later", "add_reader", "run_forever"):
        arguments = {
            "call_soon": (print,),
            "call_later": (1, print),
            "add_reader": (0, print),
            "run_forever": (),
        }[name]
        attempt(getattr(loop, name), *arguments)
    attempt(loop.close)
    show("alive")


@case
def a_constructor_that_is_called_twice():
    loop = derived()
    run(iterations(), loop)
    attempt(loop.__init__)
    run(iterations(), loop)
    show("runs")
    loop.close()


@case
def methods_of_another_type():
    base = loop_class()
    for thing in (None, 5, object()):
        results = (
            attempt(base.call_soon, thing, print),
            attempt(base.run_forever, thing),
            attempt(base.close, thing),
        )
        show("fine" in results)


@case
def debug_mode_is_switched_in_the_middle():
    loop = derived()

    async def main():
        for on in (True, False, True, False):
            loop.set_debug(on)
            await iterations()
            await asyncio.sleep(0.001)
            show(loop.get_debug())
        loop.slow_callback_duration = 0
        show(attempt(setattr, loop, "slow_callback_duration", "x"))
        loop.slow_callback_duration = 100

    run(main(), loop)
    finish(loop)


@case
def run_once_by_hand():
    loop = derived()
    seen = []
    loop.call_soon(seen.append, 1)
    loop._run_once()
    show(seen)
    reader, writer = os.pipe()
    loop.add_reader(reader, lambda: seen.append(os.read(reader, 1)))
    os.write(writer, b"x")
    loop._run_once()
    loop._run_once() if len(seen) < 2 else None
    show(seen)
    loop.remove_reader(reader)
    os.close(reader), os.close(writer)
    loop.close()


@case
def a_mock_in_place_of_every_scheduler():
    from unittest import mock

    loop = derived()
    with mock.patch.object(loop, "call_soon", wraps=loop.call_soon) as soon:
        run(iterations(), loop)
        show(soon.called)
    with mock.patch.object(loop, "call_later", wraps=loop.call_later) as later:
        run(asyncio.sleep(0.001), loop)
        show(later.called)
    with mock.patch.object(loop, "time", return_value=5.0):
        show(loop.call_later(1, print).when())
    show(run(outcome(settle()), loop))
    finish(loop)


@case
def an_init_that_does_not_call_the_original():
    def nothing(self):
        pass

    loop = derived(__init__=nothing, __del__=nothing)
    show(
        attempt(loop.call_soon, print), attempt(loop.call_soon_threadsafe, print),
        attempt(loop.call_later, 1, print), attempt(loop.call_at, 1, print), attempt(loop.get_debug),
        attempt(loop.create_future), attempt(loop.add_reader, 0, print), attempt(loop.remove_reader, 0),
        attempt(loop.add_writer, 0, print), attempt(loop.remove_writer, 0), attempt(loop.run_forever),
        attempt(loop.time), attempt(loop.stop), attempt(loop.close),
    )  # fmt: skip


@case
def methods_of_the_class_on_objects_of_other_classes():
    base = loop_class()
    names = [name for name in dir(base) if not name.startswith("_") and callable(getattr(base, name))]
    for receiver in (object(), None, 5, base, asyncio.AbstractEventLoop()):
        for name in names:
            for arguments in ((), (print,), (1, print)):
                # The exception types differ, but both processes survive.
                result = getattr(base, name)
                try:
                    result = result(receiver, *arguments)
                    if asyncio.iscoroutine(result):
                        result.send(None)
                except Exception:
                    pass
                finally:
                    if asyncio.iscoroutine(result):
                        result.close()
    show("survived")
