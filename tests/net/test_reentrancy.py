"""Any callback may call anything: every callback of the loop is combined with every action.

Each case runs on asyncio's loop and on mainspring.  On both, callbacks must come in order, connection_lost exactly once
and last, and all written data must arrive.  The two runs are also compared: the order of callbacks, the exceptions that
the action raised, the reports to the exception handler, and the exceptions that left run_forever().
"""

from __future__ import annotations

import asyncio
import gc
import socket
import sys
import threading
import weakref

import pytest
from peers import LOOPS, TIMEOUT, BufferedRecorder, Recorder, read_to_end
from reentrancy import (
    ACTIONS,
    DROPS,
    SITES,
    Bench,
    abort,
    close,
    close_the_loop,
    close_then_abort,
    raise_an_exception,
    raise_keyboard_interrupt,
    run_the_loop,
    set_protocol,
    stop_the_loop,
    write_large,
    write_large_and_close,
    writelines,
)

# An exception in one of these callbacks ends the connection.
GUARDED = {"data_received", "get_buffer", "buffer_updated", "eof_received"}


def asyncio_is_wrong(site, action):
    """Why asyncio's own behaviour is not compared in this case; None if it is."""
    # If the reader is fast enough, nothing of a large write is queued.
    if site == "resume_writing" and action in (close, abort, close_then_abort, write_large_and_close):
        return "calls connection_lost twice: now, and again from the loop"
    if (site, action) == ("connection_lost", writelines) and sys.version_info >= (3, 12):
        return "writelines() calls a method that close() removed"
    if (site, action) == ("resume_writing", raise_keyboard_interrupt):
        return "stays registered for writing, and fails each time because nothing is queued"
    return None


def run_case(loop_class, site, action):
    loop = loop_class()
    bench = Bench(loop, action)
    sockets = [end for _ in range(3) for end in socket.socketpair()]
    ours, peer, others, other_peer, *bench.side = sockets
    for end in (peer, other_peer):
        end.settimeout(TIMEOUT)
    received = []

    def read():
        try:
            received.append(read_to_end(peer))
        except ConnectionResetError:
            received.append(b"")  # closed with unread data from the peer

    reading = threading.Thread(target=read)
    bench.start_reading = reading.start

    async def main():
        bench.fired = loop.create_future()
        bench.other, second = await loop.create_connection(lambda: bench.protocol("other"), sock=others)
        kind = BufferedRecorder if site in ("get_buffer", "buffer_updated") else Recorder
        first = bench.protocol("first", site, kind)
        bench.first = first

        class Catches:
            """Stores the transport on the bench from connection_made on."""

            def __get__(self, instance, owner):
                return self.value

            def __set__(self, instance, value):
                self.value = bench.transport = value

        type(first).transport = Catches()
        transport, _ = await loop.create_connection(lambda: first, sock=ours)
        reference = weakref.ref(transport)
        del transport
        loop.call_soon(SITES[site], bench, peer)
        await asyncio.wait_for(asyncio.shield(bench.fired), TIMEOUT)
        # Lets the calls run that the callback scheduled. Then ends the connection from the peer's side, or from ours
        # if the peer cannot.
        protocols = [protocol for protocol in (first, bench.successor()) if protocol]
        if not reading.is_alive() and not received:
            reading.start()
        try:
            peer.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # already closed
        transport = reference()
        if transport is not None and not transport.is_closing():
            transport.resume_reading()
        del transport
        lost = [asyncio.ensure_future(protocol.until_lost()) for protocol in protocols]
        await asyncio.wait(lost, timeout=TIMEOUT, return_when=asyncio.FIRST_COMPLETED)
        for waiting in lost:
            waiting.cancel()
        if bench.other.is_closing():
            await second.until_lost()
        await asyncio.gather(*lost, return_exceptions=True)

    made = []
    make = bench.protocol

    def remember(*args, **kwargs):
        made.append(make(*args, **kwargs))
        return made[-1]

    bench.protocol = remember
    bench.successor = lambda: next((protocol for protocol in made if protocol.name == "successor"), None)

    task = loop.create_task(main())
    task.add_done_callback(lambda _: loop.stop())
    for _ in range(10):
        try:
            loop.run_forever()
        except BaseException as error:
            bench.escaped.append(repr(error))
        if task.done():
            break
        bench.escaped.append("stopped")
    assert task.done(), "the loop stopped too often"
    try:
        task.result()
        reading.join(TIMEOUT)
        other_peer.setblocking(False)
        try:
            to_other = other_peer.recv(100)
        except BlockingIOError:
            to_other = None
        # No callback may come after the end.
        for _ in range(3):
            loop.run_until_complete(asyncio.sleep(0))
        gc.collect()
    finally:
        bench.other.abort()
        if bench.own_reader is not None:
            loop.remove_reader(bench.own_reader)
        bench.log.append(("bench", "end"))
        for _ in range(3):
            loop.run_until_complete(asyncio.sleep(0))
        loop.close()
        for end in sockets:
            end.close()
    del bench.log[bench.log.index(("bench", "end")) :]
    return bench, {
        "first": [entry for entry in bench.log if entry[0] in ("first", "successor")],
        "other": [entry for entry in bench.log if entry[0] == "other"],
        "rest": [entry for entry in bench.log if entry[0] not in ("first", "successor", "other")],
        "outcome": bench.outcome,
        "reports": bench.reports,
        "escaped": bench.escaped,
        "arrived": len(received[0]) if action not in DROPS else None,
        "to the other": to_other and to_other[:12],
    }


def comparable(site, action, result):
    """Each direction of a connection is ordered. The order between them depends on the peer's timing, and so does
    whether a large write is queued while the peer reads."""
    outbound = [entry for entry in result["first"] if entry[1] in ("pause_writing", "resume_writing")]
    inbound = [entry for entry in result["first"] if entry not in outbound]
    if site == "resume_writing" and action is write_large:
        outbound = outbound[:2]
    return {**result, "first": inbound, "flow control": outbound}


def check(site, action, bench, result):
    """Checks that hold on every loop."""
    names = [entry[1] for entry in result["first"]]
    assert names[0] == "connection_made" and names.count("connection_made") == 1
    assert names[-1] == "connection_lost" and names.count("connection_lost") == 1
    # An exception that ends the loop leaves the transport unchanged, so EOF is reported again.
    assert names.count("eof_received") <= (2 if action is raise_keyboard_interrupt else 1)
    assert names.count("resume_writing") <= names.count("pause_writing") <= names.count("resume_writing") + 1
    assert bench.outcome is not None
    if action is raise_an_exception:
        assert [error for _, error in result["reports"]] == ["MyError()"]
        assert result["escaped"] == []
    elif action is raise_keyboard_interrupt:
        assert result["reports"] == []
        assert result["escaped"] == ["KeyboardInterrupt()", "stopped"]
    elif (site, action) == ("get_buffer", set_protocol):
        # The new protocol did not provide the buffer and has no buffer_updated().
        (report,) = result["reports"]
        assert report[0] == "Fatal error: protocol.buffer_updated() call failed."
    else:
        assert result["reports"] == []
        assert result["escaped"] == (["stopped"] if action is stop_the_loop else [])
    if action in (close_the_loop, run_the_loop):
        assert "RuntimeError" in result["outcome"] and "running" in result["outcome"]
    ends_early = action is raise_an_exception and site in GUARDED
    if action not in DROPS and site != "connection_lost" and not ends_early:
        assert result["arrived"] == bench.written


@pytest.mark.parametrize("action", ACTIONS, ids=lambda action: action.__name__)
@pytest.mark.parametrize("site", SITES)
def test_any_callback_may_do_anything(site, action):
    ours, our_result = run_case(LOOPS["mainspring"], site, action)
    check(site, action, ours, our_result)
    if asyncio_is_wrong(site, action) is None:
        theirs, their_result = run_case(LOOPS["asyncio"], site, action)
        assert comparable(site, action, our_result) == comparable(site, action, their_result)
        check(site, action, theirs, their_result)
