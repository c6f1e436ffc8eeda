"""Virtual time: when the clock jumps, and what it waits for in real time."""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import socket
import subprocess
import sys
import threading
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mainspring
from mainspring import testing

pytestmark = pytest.mark.mainspring_only

HOUR = 3600.0


def now():
    return asyncio.get_running_loop().time()


async def pair():
    """Two connected streams of the same loop."""
    first, second = socket.socketpair()
    return [await asyncio.open_connection(sock=sock) for sock in (first, second)]


async def close(*streams):
    for _, writer in streams:
        writer.close()
        await writer.wait_closed()


def test_an_hour_of_sleep_takes_no_time():
    async def main():
        await asyncio.sleep(HOUR)
        return now()

    assert testing.run(main()) == HOUR


def test_the_clock_begins_at_start():
    async def main():
        before = now()
        await asyncio.sleep(1)
        return before, now()

    assert testing.run(main(), start=100.5) == (100.5, 101.5)


@settings(deadline=None, max_examples=50)
@given(st.lists(st.integers(min_value=0, max_value=10**12), min_size=1, max_size=20))
def test_timers_run_in_order_at_their_deadlines(microseconds):
    delays = [each / 1e6 for each in microseconds]

    async def main():
        loop = asyncio.get_running_loop()
        ran = []
        for delay in delays:
            loop.call_later(delay, lambda delay=delay: ran.append((delay, loop.time())))
        await asyncio.sleep(max(delays) + 1)
        return ran

    ran = testing.run(main())
    assert [delay for delay, _ in ran] == sorted(delays)
    for delay, time_of_call in ran:
        assert delay <= time_of_call <= delay + 2e-9


def test_advance_makes_timers_due():
    async def main():
        loop = asyncio.get_running_loop()
        ran = []
        loop.call_later(10, ran.append, "ten")
        loop.call_later(30, ran.append, "thirty")
        loop.advance(20)
        assert loop.time() == 20
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return ran

    assert testing.run(main()) == ["ten"]


@pytest.mark.parametrize("seconds", [-1.0, float("nan"), float("inf")])
def test_a_clock_is_not_advanced_by_nonsense(seconds):
    loop = testing.new_event_loop()
    with pytest.raises(ValueError, match="finite"):
        loop.advance(seconds)
    loop.close()
    with pytest.raises(ValueError, match="finite"):
        testing.new_event_loop(start=seconds)


def test_timeouts_expire_in_virtual_time():
    async def main():
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(asyncio.Event().wait(), HOUR)
        return now()

    assert testing.run(main()) == HOUR


def test_a_job_in_a_thread_is_waited_for():
    async def main():
        release = threading.Event()
        loop = asyncio.get_running_loop()
        job = loop.run_in_executor(None, release.wait)
        threading.Timer(0.05, release.set).start()
        await asyncio.wait_for(job, HOUR)
        return now()

    assert testing.run(main()) == 0


def test_a_timeout_around_a_long_job_expires():
    release = threading.Event()

    async def main():
        job = asyncio.get_running_loop().run_in_executor(None, release.wait)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(job, 0.05)
        release.set()
        return now()

    assert testing.run(main()) == 0.05


def test_a_job_may_wait_for_a_later_timer():
    async def main():
        release = threading.Event()
        loop = asyncio.get_running_loop()
        loop.call_later(0.05, release.set)
        await loop.run_in_executor(None, release.wait)
        return now()

    assert testing.run(main()) == 0.05


def test_a_failed_job_does_not_hold_the_clock():
    def fail():
        raise ValueError

    async def main():
        loop = asyncio.get_running_loop()
        with pytest.raises(ValueError):
            await loop.run_in_executor(None, fail)
        await asyncio.sleep(HOUR)
        return now()

    assert testing.run(main()) == HOUR


def test_idle_workers_of_pools_do_not_hold_the_clock():
    async def main():
        loop = asyncio.get_running_loop()
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            await loop.run_in_executor(pool, int)
            await loop.run_in_executor(None, int)
            await asyncio.sleep(HOUR)
        return now()

    assert testing.run(main()) == HOUR


def test_a_job_that_was_given_to_a_pool_directly_is_waited_for():
    async def main():
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            job = pool.submit(time.sleep, 0.05)
            await asyncio.wait_for(asyncio.wrap_future(job), HOUR)
        return now()

    assert testing.run(main()) == 0


@pytest.mark.parametrize("daemon", [False, True])
def test_a_thread_that_calls_the_loop_is_waited_for(daemon):
    async def main():
        loop = asyncio.get_running_loop()
        called = loop.create_future()

        def work():
            time.sleep(0.05)
            loop.call_soon_threadsafe(called.set_result, "called")

        threading.Thread(target=work, daemon=daemon).start()
        assert await asyncio.wait_for(called, HOUR) == "called"
        return now()

    assert testing.run(main()) == 0


def test_a_thread_that_ends_silently_does_not_hold_the_clock():
    async def main():
        thread = threading.Thread(target=time.sleep, args=(0.02,))
        thread.start()
        await asyncio.sleep(HOUR)
        assert not thread.is_alive()
        return now()

    assert testing.run(main()) == HOUR


def test_a_thread_at_the_other_end_of_a_socket_is_waited_for():
    ours, theirs = socket.socketpair()

    def answer():
        theirs.recv(100)
        time.sleep(0.05)
        theirs.sendall(b"answer")
        theirs.close()

    # Started before the loop: the loop knows it only as the peer of the socket.
    thread = threading.Thread(target=answer)
    thread.start()

    async def main():
        reader, writer = await asyncio.open_connection(sock=ours)
        writer.write(b"question")
        answer = await asyncio.wait_for(reader.read(), HOUR)
        await close((reader, writer))
        return answer, now()

    assert testing.run(main()) == (b"answer", 0)
    thread.join()


def test_a_child_process_is_waited_for():
    async def main():
        program = "import time; time.sleep(0.05); print('done')"
        child = await asyncio.create_subprocess_exec(sys.executable, "-c", program, stdout=subprocess.PIPE)
        output, _ = await asyncio.wait_for(child.communicate(), HOUR)
        return output, now()

    assert testing.run(main()) == (b"done\n", 0)


@pytest.mark.parametrize("family", ["tcp", "unix"])
def test_a_server_and_its_client_in_one_loop_do_not_hold_the_clock(family, tmp_path):
    async def handle(reader, writer):
        line = await reader.readline()
        await asyncio.sleep(HOUR)
        writer.write(line)
        await close((reader, writer))

    async def main():
        if family == "unix":
            server = await asyncio.start_unix_server(handle, tmp_path / "server")
            stream = await asyncio.open_unix_connection(tmp_path / "server")
        else:
            server = await asyncio.start_server(handle, "127.0.0.1", 0)
            stream = await asyncio.open_connection(*server.sockets[0].getsockname())
        stream[1].write(b"hello\n")
        answer = await asyncio.wait_for(stream[0].read(), 2 * HOUR)
        await close(stream)
        server.close()
        await server.wait_closed()
        return answer, now()

    assert testing.run(main()) == (b"hello\n", HOUR)


def test_datagrams_within_one_loop_do_not_hold_the_clock():
    class Server(asyncio.DatagramProtocol):
        def connection_made(self, transport):
            self.transport = transport

        def datagram_received(self, data, address):
            asyncio.get_running_loop().call_later(HOUR, self.transport.sendto, data, address)

    class Client(asyncio.DatagramProtocol):
        def __init__(self, answer):
            self.answer = answer

        def datagram_received(self, data, address):
            self.answer.set_result(data)

    async def main():
        loop = asyncio.get_running_loop()
        server, _ = await loop.create_datagram_endpoint(Server, local_addr=("127.0.0.1", 0))
        answer = loop.create_future()
        client, _ = await loop.create_datagram_endpoint(
            lambda: Client(answer), remote_addr=server.get_extra_info("sockname")
        )
        client.sendto(b"hello")
        received = await asyncio.wait_for(answer, 2 * HOUR)
        client.close()
        server.close()
        await asyncio.sleep(0)
        return received, now()

    assert testing.run(main()) == (b"hello", HOUR)


def test_a_pipe_within_one_loop_does_not_hold_the_clock():
    async def main():
        loop = asyncio.get_running_loop()
        read_fd, write_fd = os.pipe()
        reader = asyncio.StreamReader()
        read_end, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(read_fd, "rb")
        )
        write_end, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, os.fdopen(write_fd, "wb"))
        loop.call_later(HOUR, write_end.write, b"late\n")
        line = await asyncio.wait_for(reader.readline(), 2 * HOUR)
        write_end.close()
        await reader.read()
        read_end.close()
        await asyncio.sleep(0)
        return line, now()

    assert testing.run(main()) == (b"late\n", HOUR)


def test_an_open_pair_of_sockets_does_not_hold_the_clock():
    async def main():
        streams = await pair()
        await asyncio.sleep(HOUR)
        await close(*streams)
        return now()

    assert testing.run(main()) == HOUR


@pytest.mark.skipif(sys.version_info < (3, 11), reason="asyncio.Runner, TaskGroup and timeout()")
def test_it_works_with_a_runner_a_task_group_and_timeouts():
    async def main():
        async def work():
            async with asyncio.timeout(HOUR):
                await asyncio.sleep(60)

        async with asyncio.TaskGroup() as group:
            for _ in range(3):
                group.create_task(work())
        return now()

    with asyncio.Runner(loop_factory=testing.new_event_loop, debug=True) as runner:
        assert runner.run(main()) == 60


@pytest.mark.skipif(sys.version_info < (3, 12), reason="eager tasks")
def test_it_works_with_eager_tasks():
    async def main():
        asyncio.get_running_loop().set_task_factory(asyncio.eager_task_factory)
        await asyncio.gather(*(asyncio.create_task(asyncio.sleep(delay)) for delay in (1, 2, 3)))
        return now()

    assert testing.run(main(), seed=1) == 3


def test_it_works_with_priorities():
    async def main():
        order = []

        async def work(name):
            await asyncio.sleep(1)
            order.append(name)

        with mainspring.background():
            low = asyncio.create_task(work("background"))
        await asyncio.gather(low, work("normal"))
        return order

    assert testing.run(main(), seed=1) == ["normal", "background"]


def test_a_loop_with_a_virtual_clock_is_not_run_inside_another():
    async def main():
        inner = asyncio.sleep(0)
        with pytest.raises(RuntimeError, match="running event loop"):
            testing.run(inner)
        inner.close()

    testing.run(main())


REFUSED = {
    "add_reader": lambda loop: loop.add_reader(0, print),
    "connection": lambda loop: asyncio.open_connection("127.0.0.1", 1),
    "unix connection": lambda loop: asyncio.open_unix_connection("/nowhere"),
    "server": lambda loop: asyncio.start_server(print, "127.0.0.1", 0),
    "datagram": lambda loop: loop.create_datagram_endpoint(
        asyncio.DatagramProtocol, local_addr=("127.0.0.1", 0)
    ),
    "sock_recv": lambda loop: loop.sock_recv(None, 1),
    "name": lambda loop: loop.getaddrinfo("localhost", 80),
    "process": lambda loop: asyncio.create_subprocess_exec("true"),
    "pipe": lambda loop: loop.connect_read_pipe(asyncio.Protocol, sys.stdin),
}


@pytest.mark.parametrize("wait", REFUSED)
def test_real_io_is_refused_and_the_error_names_the_place(wait):
    async def main():
        awaitable = REFUSED[wait](asyncio.get_running_loop())
        await awaitable  # the place

    with pytest.raises(testing.RealIOError) as caught:
        testing.run(main(), real_io="refuse")
    message = str(caught.value)
    assert os.path.basename(__file__) in message
    assert "Task-" in message
    assert "real_io='allow'" in message


def test_refusing_io_allows_threads():
    async def main():
        await asyncio.get_running_loop().run_in_executor(None, time.sleep, 0.01)
        await asyncio.sleep(HOUR)
        return now()

    assert testing.run(main(), real_io="refuse") == HOUR


def test_unknown_options_are_rejected():
    with pytest.raises(ValueError, match="real_io"):
        testing.new_event_loop(real_io="perhaps")
    with pytest.raises(ValueError, match="seed"):
        testing.new_event_loop(shuffle_ready=True)
