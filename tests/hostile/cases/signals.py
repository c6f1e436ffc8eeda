"""Signals: in rapid succession, with handlers that raise, remove themselves or are not allowed."""

from __future__ import annotations

import asyncio
import os
import signal
import threading

from hostile import Boom, attempt, case, finish, iterations, new_loop, reporting, run, settle, show


@case
def many_signals_in_rapid_succession_reach_their_handler():
    loop = new_loop()
    seen = []
    loop.add_signal_handler(signal.SIGUSR1, seen.append, 1)

    async def main():
        for _ in range(500):
            os.kill(os.getpid(), signal.SIGUSR1)
        await settle()

    run(main(), loop)
    show(
        len(seen) >= 1, loop.remove_signal_handler(signal.SIGUSR1), loop.remove_signal_handler(signal.SIGUSR1)
    )
    finish(loop)


@case
def each_signal_of_a_slow_series_is_delivered():
    loop = new_loop()
    seen = []

    async def main():
        for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP):
            loop.add_signal_handler(number, seen.append, number.name)
        for number in (signal.SIGUSR2, signal.SIGHUP, signal.SIGUSR1) * 5:
            os.kill(os.getpid(), number)
            await settle()

    run(main(), loop)
    show(seen)
    finish(loop)
    show(signal.getsignal(signal.SIGUSR1), signal.getsignal(signal.SIGHUP))


@case
def handlers_that_raise():
    for error in (Boom, KeyboardInterrupt, SystemExit, asyncio.CancelledError):
        loop = new_loop()
        reporting(loop)

        def fail(error=error):
            raise error

        loop.add_signal_handler(signal.SIGUSR1, fail)

        async def main():
            os.kill(os.getpid(), signal.SIGUSR1)
            await settle()

        show(error.__name__, attempt(loop.run_until_complete, main()))
        finish(loop)


@case
def handlers_that_remove_and_replace_themselves():
    loop = new_loop()

    def second():
        show("second", loop.remove_signal_handler(signal.SIGUSR1))
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)

    def first():
        show("first")
        loop.add_signal_handler(signal.SIGUSR1, second)

    loop.add_signal_handler(signal.SIGUSR1, first)

    async def main():
        for _ in range(3):
            os.kill(os.getpid(), signal.SIGUSR1)
            await settle()

    run(main(), loop)
    finish(loop)


@case
def numbers_and_callbacks_that_are_not_allowed():
    loop = new_loop()

    async def coroutine_function():
        pass

    for number in (0, -1, 65, 10**9, 1.5, "SIGUSR1", None, signal.SIGKILL, signal.SIGSTOP):
        show(
            number,
            attempt(loop.add_signal_handler, number, print),
            attempt(loop.remove_signal_handler, number),
        )
    coroutine = coroutine_function()
    show(attempt(loop.add_signal_handler, signal.SIGUSR1, coroutine_function))
    show(attempt(loop.add_signal_handler, signal.SIGUSR1, coroutine), attempt(loop.add_signal_handler))
    coroutine.close()
    finish(loop)
    show(attempt(loop.add_signal_handler, signal.SIGUSR1, print))


@case
def handlers_from_another_thread():
    loop = new_loop()
    results = []
    thread = threading.Thread(
        target=lambda: results.append(attempt(loop.add_signal_handler, signal.SIGUSR1, print))
    )
    thread.start()
    thread.join()
    show(results)
    finish(loop)


@case
def a_plain_handler_that_raises_inside_a_callback():
    for error in (Boom, KeyboardInterrupt):
        loop = new_loop()
        reporting(loop)

        def fail(number, frame, error=error):
            raise error

        def kill():
            os.kill(os.getpid(), signal.SIGUSR1)
            for _ in range(100):  # the interpreter calls the handler somewhere here
                pass

        signal.signal(signal.SIGUSR1, fail)
        loop.call_soon(kill)
        loop.call_soon(loop.stop)
        show(attempt(loop.run_forever), loop.is_running())
        run(iterations(), loop) if error is Boom else attempt(loop.run_forever)
        finish(loop)


@case
def an_idle_loop_is_interrupted():
    loop = new_loop()
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, 0.02)
    timer = loop.call_later(5, loop.stop)
    show(attempt(loop.run_forever))
    timer.cancel()
    run(iterations(), loop)
    finish(loop)


@case
def a_wakeup_fd_set_by_the_program():
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    old = signal.set_wakeup_fd(writer)
    loop = new_loop()
    seen = []
    loop.add_signal_handler(signal.SIGUSR1, seen.append, 1)

    async def main():
        os.kill(os.getpid(), signal.SIGUSR1)
        await settle()

    run(main(), loop)
    show(seen)
    finish(loop)
    signal.set_wakeup_fd(old)
    os.close(reader), os.close(writer)


@case
def two_loops_want_the_same_signal():
    first, second = new_loop(), new_loop()
    seen = []
    first.add_signal_handler(signal.SIGUSR1, seen.append, "first")
    second.add_signal_handler(signal.SIGUSR1, seen.append, "second")

    async def main():
        os.kill(os.getpid(), signal.SIGUSR1)
        await settle()

    run(main(), second)
    show(seen)
    second.close()
    show(signal.getsignal(signal.SIGUSR1) is signal.SIG_DFL)
    first.close()


@case
def signals_while_subprocesses_end():
    loop = new_loop()
    seen = []

    async def main():
        loop.add_signal_handler(signal.SIGCHLD, seen.append, 1)
        children = [await asyncio.create_subprocess_exec("true") for _ in range(5)]
        for _ in range(50):
            os.kill(os.getpid(), signal.SIGCHLD)
        show([await child.wait() for child in children])
        await settle()

    run(main(), loop)
    show(len(seen) >= 1)
    finish(loop)


@case
def signals_that_interrupt_system_calls_lose_nothing():
    loop = new_loop()
    signal.signal(signal.SIGALRM, lambda number, frame: None)
    signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)

    async def main():
        reader, writer = os.pipe()
        count = 0
        future = loop.create_future()

        def ready():
            nonlocal count
            count += len(os.read(reader, 1))
            if count == 200:
                loop.remove_reader(reader)
                future.set_result(None)

        loop.add_reader(reader, ready)
        for _ in range(200):
            os.write(writer, b"x")
            await asyncio.sleep(0.0001)
        await future
        os.close(reader), os.close(writer)
        show(count)

    run(main(), loop)
    signal.setitimer(signal.ITIMER_REAL, 0)
    finish(loop)
