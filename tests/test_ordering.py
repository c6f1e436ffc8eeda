"""The order of calls: between threads, and between I/O, callbacks and timers.

A call that was scheduled earlier runs earlier, across threads.  Between I/O, callbacks and timers the order is
asyncio's: the same random program gives the same trace on both loops.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import threading

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import mainspring

FACTORIES = {"asyncio": asyncio.SelectorEventLoop, "mainspring": mainspring.new_event_loop}
LIMIT = 30

bounded = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)


# --- threads


class Caller(threading.Thread):
    """A thread that executes one call at a time and signals its completion."""

    def __init__(self):
        super().__init__(daemon=True)
        self.asked, self.answered = queue.SimpleQueue(), queue.SimpleQueue()
        self.start()

    def run(self):
        while (call := self.asked.get()) is not None:
            call()
            self.answered.put(None)

    def do(self, call):
        """Returns when the thread has executed the call, so later calls happen after it."""
        self.asked.put(call)
        self.answered.get(timeout=LIMIT)


@contextlib.contextmanager
def callers(count):
    threads = [Caller() for _ in range(count)]
    try:
        yield threads
    finally:
        for thread in threads:
            thread.asked.put(None)
            thread.join(LIMIT)


# Which thread schedules the next callback: the loop's own, with either method, or one of three others. None: the loop
# runs an iteration.
schedulers = st.lists(st.sampled_from(["soon", "threadsafe", 0, 1, 2, None]), min_size=2, max_size=30)


@pytest.mark.parametrize("busy", [False, True])
@pytest.mark.parametrize("loop_name", FACTORIES)
@given(program=schedulers)
@bounded
def test_calls_run_in_the_order_in_which_threads_scheduled_them(loop_name, busy, program):
    loop = FACTORIES[loop_name]()
    order = []

    async def main():
        stop = False

        def again():
            if not stop:
                loop.call_soon(again)

        if busy:
            again()
        for number, thread in enumerate(program):
            if thread is None:
                await asyncio.sleep(0)
            elif thread == "soon":
                loop.call_soon(order.append, number)
            elif thread == "threadsafe":
                loop.call_soon_threadsafe(order.append, number)
            else:
                threads[thread].do(lambda number=number: loop.call_soon_threadsafe(order.append, number))
        for _ in range(3):
            await asyncio.sleep(0)
        stop = True

    try:
        with callers(3) as threads:
            loop.run_until_complete(main())
    finally:
        loop.close()
    assert order == [number for number, thread in enumerate(program) if thread is not None]


@pytest.mark.parametrize("loop_name", FACTORIES)
@given(st.lists(st.sampled_from([0, 1, "soon"]), min_size=2, max_size=12))
@bounded
def test_callbacks_that_wait_for_other_threads_keep_the_order_of_calls(loop_name, program):
    """The same from inside callbacks: the other thread's call arrives in the middle of an iteration."""
    loop = FACTORIES[loop_name]()
    order = []

    def step(number):
        if number == len(program):
            loop.call_soon_threadsafe(loop.call_soon, loop.stop)
            return
        thread = program[number]
        note = (order.append, number)
        if thread == "soon":
            loop.call_soon(*note)
        else:
            threads[thread].do(lambda: loop.call_soon_threadsafe(*note))
        loop.call_soon(order.append, number + 0.5)
        loop.call_soon(step, number + 1)

    try:
        with callers(2) as threads:
            loop.call_soon(step, 0)
            loop.run_forever()
    finally:
        loop.close()
    assert order == sorted(order) and len(order) == 2 * len(program)


# --- I/O, callbacks and timers

PIPES = 2

# The actions of a callback: schedule callbacks with actions of their own, set due timers, write to pipes.
actions = st.recursive(
    st.just([]),
    lambda inner: st.lists(
        st.tuples(st.sampled_from(["soon", "timer", "threadsafe", *range(PIPES)]), inner), max_size=3
    ),
    max_leaves=12,
)


class Trace:
    """Runs a program on one loop, one iteration at a time."""

    def __init__(self, loop):
        self.loop = loop
        self.notes = []
        self.number = 0
        self.programs = [[] for _ in range(PIPES)]
        self.pipes = [os.pipe() for _ in range(PIPES)]

    def note(self, name, inner):
        self.notes.append(name)
        self.act(inner)

    def act(self, program):
        for what, inner in program:
            self.number += 1
            name = f"{what}-{self.number}"
            if what == "soon":
                self.loop.call_soon(self.note, name, inner)
            elif what == "threadsafe":
                self.loop.call_soon_threadsafe(self.note, name, inner)
            elif what == "timer":
                # Distinct deadlines in the past: asyncio does not define the order of equal ones.
                self.loop.call_at(self.number * 1e-6, self.note, name, inner)
            else:
                self.programs[what].append((name, inner))
                os.write(self.pipes[what][1], b"x")

    def readable(self, pipe):
        os.read(self.pipes[pipe][0], 1)
        self.note(*self.programs[pipe].pop(0))

    def run(self, program):
        for pipe, (reader, _) in enumerate(self.pipes):
            self.loop.add_reader(reader, self.readable, pipe)
        self.loop.call_soon(self.act, program)
        try:
            for _ in range(40):
                self.loop.stop()
                self.loop.run_forever()
                self.notes.append("iteration")
        finally:
            for reader, writer in self.pipes:
                self.loop.remove_reader(reader)
                os.close(reader)
                os.close(writer)
            self.loop.close()
        return self.notes


@given(program=actions)
@bounded
def test_io_callbacks_and_timers_run_in_asyncios_order(program):
    traces = {name: Trace(factory()).run(program) for name, factory in FACTORIES.items()}
    assert traces["mainspring"] == traces["asyncio"]


@given(program=actions, busy=st.integers(1, 3))
@bounded
def test_the_order_is_the_same_in_one_run_of_a_busy_loop(program, busy):
    """As above, but in one run instead of one run per iteration."""
    traces = {}
    for name, factory in FACTORIES.items():
        loop = factory()
        trace = Trace(loop)
        rounds = 0

        def again(first, trace=trace, loop=loop):
            nonlocal rounds
            if first:
                rounds += 1
                trace.notes.append("iteration")
            if rounds < 40:
                loop.call_soon(again, first)
            elif first:
                loop.stop()

        for pipe, (reader, _) in enumerate(trace.pipes):
            loop.add_reader(reader, trace.readable, pipe)
        for number in range(busy):
            loop.call_soon(again, number == 0)
        loop.call_soon(trace.act, program)
        loop.run_forever()
        for reader, writer in trace.pipes:
            loop.remove_reader(reader)
            os.close(reader)
            os.close(writer)
        loop.close()
        traces[name] = trace.notes
    assert traces["mainspring"] == traces["asyncio"]
