"""Cancelling the ``sock_*`` coroutines: no data is lost and nothing is leaked.

The tests run single iterations of the loop, so that an operation can be cancelled at every point.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import itertools
import os
import socket
import sys
import weakref

import pytest
from peers import pattern, read_exactly
from socks import pair, registered_fds, waiting

# More iterations than any operation needs.
PASSES = 6


@pytest.fixture
def run_iteration(loop):
    """Runs one iteration: polls, then runs the ready calls."""

    def one_iteration():
        loop.stop()
        loop.run_forever()

    return one_iteration


@pytest.fixture
def end(loop, run_iteration):
    """Lets a task end and returns its result, or None if it was cancelled."""

    def until_done(task):
        while not task.done():
            run_iteration()
        return None if task.cancelled() else task.result()

    return until_done


class Receiving:
    """An operation that receives data from the kernel."""

    kind = socket.SOCK_STREAM

    def __init__(self, loop):
        self.loop = loop

    def start(self, sock):
        return self.loop.sock_recv(sock, 100)

    def data(self, result):
        return result


class ReceivingInto(Receiving):
    def start(self, sock):
        self.buffer = bytearray(100)
        return self.loop.sock_recv_into(sock, self.buffer)

    def data(self, result):
        return bytes(self.buffer[:result])


class ReceivingFrom(Receiving):
    kind = socket.SOCK_DGRAM

    def start(self, sock):
        return self.loop.sock_recvfrom(sock, 100)

    def data(self, result):
        return result[0]


class ReceivingFromInto(ReceivingInto):
    kind = socket.SOCK_DGRAM

    def start(self, sock):
        self.buffer = bytearray(100)
        return self.loop.sock_recvfrom_into(sock, self.buffer)

    def data(self, result):
        return bytes(self.buffer[: result[0]])


TAKING = [Receiving, ReceivingInto]
if sys.version_info >= (3, 11):
    TAKING += [ReceivingFrom, ReceivingFromInto]


@pytest.mark.parametrize("how", TAKING)
def test_cancelling_a_receive_at_any_point_loses_no_data(loop, loop_name, run_iteration, end, how):
    if loop_name == "asyncio":
        pytest.skip("asyncio loses received data if the task is cancelled before it runs again")
    ways = set()
    for arrives, gives_up in itertools.product(range(PASSES), repeat=2):
        receiving = how(loop)
        with pair(how.kind) as (ours, theirs):
            task = loop.create_task(receiving.start(ours))
            for number in range(PASSES):
                if number == arrives:
                    theirs.send(b"precious")
                if number == gives_up:
                    task.cancel()
                run_iteration()
            result = end(task)
            ways.add(result is None)
            if result is None:
                # Still queued for the next receive.
                result = loop.run_until_complete(receiving.start(ours))
            assert receiving.data(result) == b"precious", (arrives, gives_up)
            assert registered_fds(loop) == 0
    assert ways == {True, False}, "the cancellation should come both in time and too late"


def test_cancelling_an_accept_at_any_point_loses_no_connection(loop, loop_name, run_iteration, end):
    if loop_name == "asyncio":
        pytest.skip("asyncio loses the connection if the task is cancelled before it runs again")
    for arrives, gives_up in itertools.product(range(PASSES), repeat=2):
        with contextlib.ExitStack() as stack:
            listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            listener.setblocking(False)
            task = loop.create_task(loop.sock_accept(listener))
            for number in range(PASSES):
                if number == arrives:
                    client = stack.enter_context(socket.create_connection(listener.getsockname()))
                if number == gives_up:
                    task.cancel()
                run_iteration()
            result = end(task) or loop.run_until_complete(loop.sock_accept(listener))
            conn = stack.enter_context(result[0])
            assert conn.getpeername() == client.getsockname()
            assert registered_fds(loop) == 0


def test_a_cancelled_send_has_sent_a_prefix_of_its_message(loop, run_iteration, end):
    data = pattern(3_000_000)
    for gives_up in range(3 * PASSES):
        with pair() as (ours, theirs):
            theirs.setblocking(False)
            task = loop.create_task(loop.sock_sendall(ours, data))
            received = b""
            for number in range(3 * PASSES):
                if number == gives_up:
                    task.cancel()
                run_iteration()
                with contextlib.suppress(BlockingIOError):
                    received += theirs.recv(100_000)
            assert end(task) is None
            theirs.setblocking(True)
            assert registered_fds(loop) == 0
            ours.shutdown(socket.SHUT_WR)
            while part := theirs.recv(1 << 20):
                received += part
            assert data.startswith(received)
            assert len(received) < len(data)


def test_a_cancelled_connection_attempt_leaks_nothing(loop, run_iteration, end):
    for gives_up in range(PASSES):
        with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket() as client:
            client.setblocking(False)
            task = loop.create_task(loop.sock_connect(client, listener.getsockname()))
            for number in range(PASSES):
                if number == gives_up:
                    task.cancel()
                run_iteration()
            end(task)
            run_iteration()
            assert registered_fds(loop) == 0


@pytest.mark.parametrize("count", [1, 3])
def test_a_receive_can_be_cancelled_and_started_again_at_once(run, loop, count):
    """The end of a cancelled receive does not affect the next one."""

    async def main():
        with pair() as (ours, theirs):
            task = await waiting(loop.sock_recv(ours, 100))
            for _ in range(count):
                former, task = task, asyncio.ensure_future(loop.sock_recv(ours, 100))
                # The new receive waits before the old one has processed its cancellation.
                await asyncio.sleep(0)
                former.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await former
            for _ in range(count):
                # And in the other order.
                task.cancel()
                task = asyncio.ensure_future(loop.sock_recv(ours, 100))
                await asyncio.sleep(0)
            theirs.sendall(b"data")
            assert await task == b"data"
            assert registered_fds(loop) == 0

    run(main())


def test_many_timeouts_and_then_the_data(run, loop):
    async def main():
        with pair() as (ours, theirs):
            for _ in range(50):
                with pytest.raises(asyncio.TimeoutError):
                    await asyncio.wait_for(loop.sock_recv(ours, 100), 0.0001)
            theirs.sendall(b"data")
            assert await asyncio.wait_for(loop.sock_recv(ours, 100), 30) == b"data"
            assert registered_fds(loop) == 0

    run(main())


def test_cancellation_and_data_in_the_same_iteration(run, loop, loop_name):
    if loop_name == "asyncio":
        pytest.skip("asyncio loses received data")

    async def main():
        with pair() as (ours, theirs), pair() as (other, other_far):
            task = await waiting(loop.sock_recv(ours, 100))
            # Both become ready in the same iteration, in either order.
            loop.add_reader(other, lambda: (task.cancel(), loop.remove_reader(other)))
            other_far.sendall(b"!")
            theirs.sendall(b"data")
            with contextlib.suppress(asyncio.CancelledError):
                pytest.fail(f"{await task} arrived although the task was cancelled")
            assert await loop.sock_recv(ours, 100) == b"data"
            assert registered_fds(loop) == 0

    run(main())


def test_the_next_owner_of_a_closed_sockets_fd_is_not_affected(run, loop, loop_name):
    if loop_name == "asyncio":
        pytest.skip("asyncio does not register the reused fd number, or fails to")

    async def main():
        with contextlib.ExitStack() as stack:
            ours, theirs = socket.socketpair()
            stack.enter_context(theirs)
            ours.setblocking(False)
            number = ours.fileno()
            former = await waiting(loop.sock_recv(ours, 100))
            ours.close()
            # The kernel reuses the lowest free fd number.
            newcomer, newcomer_far = socket.socketpair()
            stack.enter_context(newcomer)
            stack.enter_context(newcomer_far)
            assert newcomer.fileno() == number
            newcomer.setblocking(False)
            receiving = await waiting(loop.sock_recv(newcomer, 100))
            former.cancel()
            with pytest.raises(asyncio.CancelledError):
                await former
            await asyncio.sleep(0)
            newcomer_far.sendall(b"mine")
            assert await receiving == b"mine"
            assert registered_fds(loop) == 0

    run(main())


def test_a_closed_socket_does_not_send_to_the_next_owner_of_its_fd(run, loop, loop_name):
    if loop_name == "asyncio":
        pytest.skip("asyncio does not register the reused fd number, or fails to")

    async def main():
        with contextlib.ExitStack() as stack:
            ours, theirs = socket.socketpair()
            stack.enter_context(theirs)
            ours.setblocking(False)
            number = ours.fileno()
            former = await waiting(loop.sock_sendall(ours, pattern(3_000_000)))
            ours.close()
            newcomer, newcomer_far = socket.socketpair()
            stack.enter_context(newcomer)
            stack.enter_context(newcomer_far)
            assert newcomer.fileno() == number
            newcomer.setblocking(False)
            # Its reader registers the fd number again.
            receiving = await waiting(loop.sock_recv(newcomer, 100))
            newcomer_far.sendall(b"mine")
            assert await receiving == b"mine"
            for _ in range(5):
                await asyncio.sleep(0)
            with pytest.raises(BlockingIOError):
                newcomer_far.recv(100, socket.MSG_DONTWAIT)
            former.cancel()
            with pytest.raises((asyncio.CancelledError, OSError)):
                await former
            assert registered_fds(loop) == 0

    run(main())


def test_a_duplicated_fd_does_not_keep_the_loop_busy(run, loop):
    async def main():
        with pair() as (ours, theirs):
            with socket.socket(fileno=os.dup(ours.fileno())) as duplicate:
                task = await waiting(loop.sock_recv(ours, 100))
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                ours.close()
                theirs.sendall(b"for the duplicate")
                await asyncio.sleep(0)
                assert registered_fds(loop) == 0
                assert duplicate.recv(100) == b"for the duplicate"

    run(main())


def test_an_abandoned_operation_is_collected(run, loop, loop_name):
    if loop_name == "asyncio":
        pytest.skip("asyncio's reader stays until its future is done")

    async def main():
        with pair() as (ours, _):
            coroutine = loop.sock_recv(ours, 100)
            coroutine.send(None)
            assert registered_fds(loop) == 1
            coroutine.close()
            assert registered_fds(loop) == 0
            coroutine = loop.sock_recv(ours, 100)
            coroutine.send(None)
            with pytest.raises(ZeroDivisionError):
                coroutine.throw(ZeroDivisionError())
            assert registered_fds(loop) == 0

    run(main())


def test_closing_the_loop_releases_a_waiting_operation(loop):
    with pair() as (ours, _):
        coroutine = loop.sock_recv(ours, 100)
        coroutine.send(None)
        gone = weakref.ref(coroutine)
        loop.close()
        coroutine.close()
        del coroutine
        gc.collect()
        assert gone() is None


def test_the_result_of_a_task_that_was_done_before_it_was_cancelled_is_kept(run, loop):
    async def main():
        with pair() as (ours, theirs):
            theirs.sendall(b"data")
            task = asyncio.ensure_future(loop.sock_recv(ours, 100))
            await asyncio.sleep(0)
            assert not task.cancel()
            assert await task == b"data"
            data = pattern(1_000_000)
            reading = loop.run_in_executor(None, read_exactly, theirs, len(data))
            sending = asyncio.ensure_future(loop.sock_sendall(ours, data))
            assert await reading == data
            await sending

    run(main())
