"""Guest mode: another loop drives this one."""

from __future__ import annotations

import asyncio
import gc
import select
import signal
import socket
import sys
import threading

import pytest

import mainspring
import mainspring.testing

pytestmark = pytest.mark.mainspring_only

LIMIT = 30


def is_readable(loop, timeout=0):
    return bool(select.select([loop.fileno()], [], [], timeout)[0])


def turn(loop):
    loop.process_events(loop.poll_events(0))
    return loop.process_ready()


def drive(loop, until):
    """A host that only waits for the loop."""
    while not until():
        timeout = loop.next_timeout()
        assert is_readable(loop, LIMIT if timeout is None else timeout) or timeout is not None
        turn(loop)


def test_a_host_that_selects_runs_a_program(loop):
    async def main():
        await asyncio.sleep(0.001)
        ours, theirs = socket.socketpair()
        reader, writer = await asyncio.open_connection(sock=ours)
        peer_reader, peer_writer = await asyncio.open_connection(sock=theirs)
        writer.write(b"hello\n")
        line = await peer_reader.readline()
        result = await asyncio.to_thread(lambda: line.decode())
        for end in (writer, peer_writer):
            end.close()
            await end.wait_closed()
        return result

    task = loop.create_task(main())
    drive(loop, task.done)
    assert task.result() == "hello\n"
    loop.run_until_complete(loop.shutdown_default_executor())


def test_next_timeout(loop):
    assert loop.next_timeout() is None
    timer = loop.call_later(10, print)
    assert 9 < loop.next_timeout() <= 10
    loop.call_soon(print)
    assert loop.next_timeout() == 0
    timer.cancel()
    turn(loop)
    assert loop.next_timeout() is None


def test_what_the_host_s_own_callbacks_schedule_makes_the_fd_readable(loop):
    future = loop.create_future()
    future.add_done_callback(lambda _: None)
    actions = [
        lambda: loop.call_soon(lambda: None),
        lambda: loop.call_later(10, print),
        lambda: loop.call_soon_threadsafe(lambda: None),
        lambda: future.set_result(None),
        loop.stop,
    ]
    for action in actions:
        loop.next_timeout()
        assert not is_readable(loop)
        action()
        assert is_readable(loop), action
        turn(loop)


def test_call_soon_threadsafe_of_another_thread_makes_the_fd_readable(loop):
    called = []
    for number in range(3):
        assert loop.next_timeout() is None
        thread = threading.Thread(target=loop.call_soon_threadsafe, args=(called.append, number))
        thread.start()
        assert is_readable(loop, LIMIT)
        thread.join()
        turn(loop)
    assert called == [0, 1, 2]


def test_process_ready_returns_false_after_stop(loop):
    loop.call_soon(loop.stop)
    assert turn(loop) is False
    assert turn(loop) is True


def test_the_loop_runs_only_while_its_callbacks_run(loop):
    seen = []
    hooks = sys.get_asyncgen_hooks()
    loop.call_soon(lambda: seen.append((asyncio.get_running_loop(), loop.is_running())))
    turn(loop)
    assert seen == [(loop, True)]
    assert not loop.is_running()
    assert asyncio._get_running_loop() is None
    assert sys.get_asyncgen_hooks() == hooks


def test_the_exception_that_ends_a_run_reaches_the_host(loop):
    called = []

    def interrupt():
        raise KeyboardInterrupt

    loop.call_soon(interrupt)
    loop.call_soon(called.append, "next")
    with pytest.raises(KeyboardInterrupt):
        turn(loop)
    assert not loop.is_running()
    assert loop.next_timeout() == 0
    turn(loop)
    assert called == ["next"]


def test_poll_events_waits_at_most_for_the_timeout(loop, pair):
    ours, theirs = pair
    called = []
    assert loop.poll_events(0) == []
    assert loop.poll_events(-1) == []
    assert loop.poll_events(0.001) == []
    loop.add_reader(ours, lambda: called.append(ours.recv(1)))
    theirs.send(b"x")
    [(_, mask)] = loop.poll_events()
    assert mask & 1
    # Not processed, so it is reported again.
    events = loop.poll_events(LIMIT)
    loop.process_events(events)
    loop.process_ready()
    assert called == [b"x"]
    loop.remove_reader(ours)
    with pytest.raises(ValueError, match="NaN"):
        loop.poll_events(float("nan"))


def test_invented_events_are_ignored(loop):
    loop.process_events([(2**64 - 1, 3), (12345, 1), (0, 3), (1, 3)])
    assert loop.process_ready() is True
    for wrong in ([(1,)], [("a", "b")], 5):
        with pytest.raises((TypeError, ValueError)):
            loop.process_events(wrong)


def test_a_thread_can_poll_while_the_host_waits(loop):
    """The protocol of CPython's guest mode: poll_events() in a thread, the rest in the host's."""
    events = []
    polled = threading.Event()

    def poll():
        events.extend(loop.poll_events(LIMIT))
        polled.set()

    called = []
    thread = threading.Thread(target=poll)
    thread.start()
    loop.call_soon_threadsafe(called.append, "sent")
    assert polled.wait(LIMIT)
    thread.join()
    loop.process_events(events)
    loop.process_ready()
    assert called == ["sent"]


def test_a_signal_handler_runs_in_guest_mode(loop):
    called = []
    loop.add_signal_handler(signal.SIGUSR1, called.append, "caught")
    loop.next_timeout()
    signal.raise_signal(signal.SIGUSR1)
    assert is_readable(loop, LIMIT)
    turn(loop)
    assert called == ["caught"]
    loop.remove_signal_handler(signal.SIGUSR1)


def test_a_closed_loop_refuses(loop_factory, loop_kind):
    loop = loop_factory()
    loop.close()
    for method in (loop.fileno, loop.next_timeout, loop.poll_events, loop.process_ready):
        with pytest.raises(RuntimeError, match="closed"):
            method()
    with pytest.raises(RuntimeError, match="closed"):
        loop.process_events([])


def test_a_loop_that_another_thread_runs_refuses(loop):
    failures = []

    def process():
        try:
            loop.process_ready()
        except RuntimeError as error:
            failures.append(str(error))

    loop.run_until_complete(asyncio.to_thread(process))
    assert failures == ["This event loop is already running"]
    loop.run_until_complete(loop.shutdown_default_executor())


def test_process_ready_in_a_callback_is_a_nested_run(loop):
    """A modal dialog: a callback runs the host's loop, which drives the guest."""
    order = []

    async def dialog():
        task = asyncio.current_task()
        order.append("opened")
        loop.call_soon(order.append, "served")
        turn(loop)
        order.append("closed")
        assert asyncio.current_task() is task
        await asyncio.sleep(0)

    task = loop.create_task(dialog())
    drive(loop, task.done)
    task.result()
    assert order == ["opened", "served", "closed"]


def test_a_normal_run_is_possible_between_turns(loop):
    loop.next_timeout()
    assert loop.run_until_complete(asyncio.sleep(0.001, "ran")) == "ran"
    assert loop.next_timeout() is None


def test_hooks_surround_process_ready(loop):
    order = []
    loop.on_iteration_begin = lambda: order.append("begin")
    loop.on_iteration_end = lambda: order.append("end")
    loop.call_soon(order.append, "callback")
    turn(loop)
    assert order == ["begin", "callback", "end"]


def test_the_host_moves_a_virtual_clock():
    loop = mainspring.testing.new_event_loop()
    fired = []
    loop.call_later(10, fired.append, "timer")
    assert loop.next_timeout() == 10
    turn(loop)
    assert (loop.time(), fired) == (0, [])
    loop.advance(10)
    assert loop.next_timeout() == 0
    turn(loop)
    assert fired == ["timer"]
    loop.close()


def test_a_virtual_clock_moves_when_the_host_has_waited():
    host = asyncio.new_event_loop()
    loop = mainspring.testing.new_event_loop()
    times = []

    async def main():
        for delay in (0.01, 0.02):
            await asyncio.sleep(delay)
            times.append(loop.time())

    run = mainspring.start_guest_run(main(), host, loop=loop, done_callback=lambda run: host.stop())
    limit = host.call_later(LIMIT, host.stop)
    host.run_forever()
    limit.cancel()
    host.close()
    loop.close()
    assert run.done()
    assert times == [0.01, 0.03]


async def run_in_asyncio(main, **options):
    """Runs a coroutine as a guest of the running loop."""
    host = asyncio.get_running_loop()
    over = host.create_future()
    run = mainspring.start_guest_run(main, host, done_callback=over.set_result, **options)
    assert await asyncio.wait_for(over, LIMIT) is run
    assert run.done()
    return run


def test_asyncio_is_a_host(loop_kind):
    ticks = []

    async def guest(host):
        loop = asyncio.get_running_loop()
        assert loop is not host
        assert isinstance(loop, mainspring.Loop)
        for _ in range(10):
            await asyncio.sleep(0.001)
            ticks.append("guest")
        ours, theirs = socket.socketpair()
        reader, writer = await asyncio.open_connection(sock=ours)
        with theirs:
            theirs.send(b"hello\n")
            line = await reader.readline()
        writer.close()
        return line, await asyncio.to_thread(lambda: "thread")

    async def main():
        host = asyncio.get_running_loop()

        async def tick():
            while True:
                await asyncio.sleep(0.001)
                ticks.append("host")

        ticker = asyncio.create_task(tick())
        task = asyncio.current_task()
        run = await run_in_asyncio(guest(host))
        ticker.cancel()
        assert asyncio.current_task() is task
        assert run.loop.is_closed()
        return run.result()

    assert asyncio.run(main()) == (b"hello\n", "thread")
    assert {"guest", "host"} <= set(ticks)


def test_mainspring_is_a_host(loop_kind):
    async def guest():
        return await asyncio.sleep(0.001, "guest")

    async def main():
        return (await run_in_asyncio(guest())).result()

    assert mainspring.run(main()) == "guest"


def test_the_end_of_a_guest_run_cleans_up(loop_kind):
    ended = []

    async def forever():
        try:
            await asyncio.sleep(LIMIT)
        finally:
            await asyncio.sleep(0.001)
            ended.append("task")

    async def numbers():
        try:
            yield 1
        finally:
            ended.append("generator")

    async def guest():
        asyncio.get_running_loop().left = asyncio.create_task(forever())
        generator = numbers()
        await generator.__anext__()
        await asyncio.sleep(0)
        asyncio.get_running_loop().generator = generator

    run = asyncio.run(run_in_asyncio(guest()))
    run.result()
    assert ended == ["task", "generator"]


def test_an_exception_of_the_guest_is_its_result(loop_kind):
    async def guest():
        await asyncio.sleep(0)
        raise ValueError("guest")

    with pytest.raises(ValueError, match="guest"):
        asyncio.run(run_in_asyncio(guest())).result()


def test_a_guest_run_can_be_cancelled_by_its_host(loop_kind):
    async def main():
        host = asyncio.get_running_loop()
        over = host.create_future()
        run = mainspring.start_guest_run(asyncio.sleep(LIMIT), host, done_callback=over.set_result)
        await asyncio.sleep(0.001)
        assert run.cancel()
        await asyncio.wait_for(over, LIMIT)
        return run

    run = asyncio.run(main())
    assert run.task.cancelled()
    with pytest.raises(asyncio.CancelledError):
        run.result()


def test_a_guest_run_on_a_loop_of_the_program_leaves_it_open(loop):
    run = asyncio.run(run_in_asyncio(asyncio.sleep(0.001, "first"), loop=loop))
    assert run.result() == "first"
    assert not loop.is_closed()
    assert loop.run_until_complete(asyncio.sleep(0, "second")) == "second"


def test_stop_ends_a_guest_run(loop):
    async def guest():
        loop.stop()
        await future

    future = loop.create_future()
    run = asyncio.run(run_in_asyncio(guest(), loop=loop))
    with pytest.raises(RuntimeError, match="stopped before"):
        run.result()
    future.set_result(None)
    loop.run_until_complete(run.task)


def test_the_host_s_callbacks_can_schedule_on_the_guest(loop):
    async def main():
        over = asyncio.get_running_loop().create_future()
        received = loop.create_future()
        run = mainspring.start_guest_run(
            asyncio.wait_for(received, LIMIT),
            asyncio.get_running_loop(),
            loop=loop,
            done_callback=over.set_result,
        )
        await asyncio.sleep(0.001)
        received.set_result("from the host")
        await asyncio.wait_for(over, LIMIT)
        return run.result()

    assert asyncio.run(main()) == "from the host"


def test_a_guest_run_that_is_cancelled_before_it_starts(loop_kind):
    async def main():
        host = asyncio.get_running_loop()
        over = host.create_future()
        run = mainspring.start_guest_run(asyncio.sleep(LIMIT), host, done_callback=over.set_result)
        run.cancel()
        await asyncio.wait_for(over, LIMIT)
        return run

    run = asyncio.run(main())
    assert run.task.cancelled()
    assert run.loop.is_closed()
    gc.collect()


def test_an_interrupt_reaches_the_host_and_the_guest_is_cleaned_up(loop_kind):
    ended = []

    async def guest():
        raise KeyboardInterrupt

    def done(run):
        ended.append(run.loop.is_closed())
        host.stop()

    host = asyncio.new_event_loop()
    run = mainspring.start_guest_run(guest(), host, done_callback=done)
    with pytest.raises(KeyboardInterrupt):
        host.run_forever()
    host.run_forever()
    host.close()
    assert ended == [True]
    with pytest.raises(KeyboardInterrupt):
        run.result()
