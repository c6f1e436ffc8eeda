"""The two axes of the re-entrancy tests: callbacks of a connection and of the loop, and actions inside them."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import socket

from peers import BufferedRecorder, Recorder, fill


class Bench:
    """One case on one loop: two connections and a log of all callbacks."""

    def __init__(self, loop, action):
        self.loop = loop
        self.action = action
        self.log = []
        self.reports = []
        self.escaped = []
        self.outcome = None
        self.written = 0
        self.fired = None
        self.transport = None
        self.other = None
        self.own_reader = None
        loop.set_exception_handler(self.report)

    def report(self, loop, context):
        # The names of a loop's internal callbacks differ between loops.
        message = context["message"].partition(" in callback ")[0]
        self.reports.append((message, repr(context.get("exception"))))

    def fire(self):
        """Runs the action, the first time that the callback under test is called."""
        if self.outcome is not None:
            return
        self.outcome = "returned"
        self.loop.call_soon(self.fired.set_result, None)
        try:
            self.action(self)
        except (MyError, KeyboardInterrupt):
            self.outcome = "raised its own"
            raise
        except BaseException as error:
            self.outcome = repr(error)

    def write(self, data):
        # Counted first, because write() may call back.
        self.written += len(data)
        self.transport.write(data)

    def protocol(self, name, site=None, kind=Recorder):
        return type("Protocol", (Instrumented, kind), {"bench": self, "name": name, "site": site})()


class Instrumented:
    """Writes to the log of the bench, and fires in the callback under test."""

    bench = name = site = None

    def note(self, what, *rest):
        if what != "data_received" or self.bench.log[-1:] != [(self.name, "data_received")]:
            error = type(rest[0]).__name__ if what == "connection_lost" else None
            self.bench.log.append((self.name, what, error) if error else (self.name, what))
        super().note(what, *rest)
        if what == self.site:
            self.bench.fire()

    def get_buffer(self, sizehint):
        if self.site == "get_buffer":
            self.bench.fire()
        return super().get_buffer(sizehint)


class MyError(Exception):
    def __repr__(self):
        return "MyError()"


def nothing_more(bench, peer):
    pass


def peer_sends(bench, peer):
    peer.sendall(b"ping")


def peer_ends(bench, peer):
    peer.shutdown(socket.SHUT_WR)


def close_it(bench, peer):
    bench.transport.close()


def fill_write_buffer(bench, peer):
    bench.transport.set_write_buffer_limits(high=0)
    bench.write(bytes(1 << 20))


def fill_write_buffer_and_drain_it(bench, peer):
    fill_write_buffer(bench, peer)
    bench.start_reading()


def watch_for_reading(bench, peer):
    bench.own_reader = bench.side[0].fileno()
    bench.side[1].sendall(b"x")

    def readable():
        bench.side[0].recv(1)
        bench.log.append(("watch", "reader"))
        bench.fire()

    bench.loop.add_reader(bench.own_reader, readable)


def watch_for_writing(bench, peer):
    def writable():
        bench.log.append(("watch", "writer"))
        bench.loop.remove_writer(bench.side[0].fileno())
        bench.fire()

    bench.loop.add_writer(bench.side[0].fileno(), writable)


def set_timer(bench, peer):
    def due():
        bench.log.append(("timer", "due"))
        bench.fire()

    bench.loop.call_later(0.001, due)


def send_signal(bench, peer):
    def signalled():
        bench.log.append(("signal", "arrived"))
        bench.loop.remove_signal_handler(signal.SIGUSR1)
        bench.fire()

    bench.loop.add_signal_handler(signal.SIGUSR1, signalled)
    os.kill(os.getpid(), signal.SIGUSR1)


SITES = {
    "connection_made": nothing_more,
    "data_received": peer_sends,
    "get_buffer": peer_sends,
    "buffer_updated": peer_sends,
    "eof_received": peer_ends,
    "connection_lost": close_it,
    "pause_writing": fill_write_buffer,
    "resume_writing": fill_write_buffer_and_drain_it,
    "reader": watch_for_reading,
    "writer": watch_for_writing,
    "timer": set_timer,
    "signal": send_signal,
}


def close(bench):
    bench.transport.close()


def abort(bench):
    bench.transport.abort()


def close_then_abort(bench):
    bench.transport.close()
    bench.transport.abort()


def write_small(bench):
    bench.write(b"small")


def write_large(bench):
    for _ in range(3):
        bench.write(bytes(1 << 20))


def writelines(bench):
    bench.transport.writelines([b"several", b"parts"])
    bench.written += 12


def write_large_and_close(bench):
    write_large(bench)
    bench.transport.close()


def write_eof(bench):
    bench.transport.write_eof()


def pause_reading(bench):
    bench.transport.pause_reading()


def resume_reading(bench):
    bench.transport.resume_reading()


def pause_and_resume_reading(bench):
    bench.transport.pause_reading()
    bench.transport.resume_reading()


def set_protocol(bench):
    bench.transport.set_protocol(bench.protocol("successor"))


def set_buffered_protocol(bench):
    bench.transport.set_protocol(bench.protocol("successor", kind=BufferedRecorder))


def lower_the_marks(bench):
    bench.transport.set_write_buffer_limits(high=0)


def stop_the_loop(bench):
    bench.loop.stop()


def close_the_loop(bench):
    bench.loop.close()


def run_the_loop(bench):
    coroutine = asyncio.sleep(0)
    try:
        bench.loop.run_until_complete(coroutine)
    finally:
        coroutine.close()


def drop_and_collect(bench):
    bench.transport = None
    bench.first.transport = None
    gc.collect()


def raise_an_exception(bench):
    raise MyError


def raise_keyboard_interrupt(bench):
    raise KeyboardInterrupt


def write_to_another(bench):
    bench.other.write(b"hello, other")


def close_another(bench):
    bench.other.close()


def abort_another_with_queued_data(bench):
    fill(bench.other)
    bench.other.abort()


def remove_own_reader(bench):
    if bench.own_reader is not None:
        assert bench.loop.remove_reader(bench.own_reader)
        assert not bench.loop.remove_reader(bench.own_reader)


def call_soon(bench):
    bench.loop.call_soon(bench.log.append, ("call", "soon"))


ACTIONS = [
    close,
    abort,
    close_then_abort,
    write_small,
    write_large,
    writelines,
    write_large_and_close,
    write_eof,
    pause_reading,
    resume_reading,
    pause_and_resume_reading,
    set_protocol,
    set_buffered_protocol,
    lower_the_marks,
    stop_the_loop,
    close_the_loop,
    run_the_loop,
    drop_and_collect,
    raise_an_exception,
    raise_keyboard_interrupt,
    write_to_another,
    close_another,
    abort_another_with_queued_data,
    remove_own_reader,
    call_soon,
]

# After these, written data may never arrive.
DROPS = {abort, close_then_abort}
