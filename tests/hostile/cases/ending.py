"""The interpreter exits with active tasks, transports, threads and children."""

from __future__ import annotations

import asyncio
import atexit
import functools
import os
import signal
import sys
import threading

from hostile import Recorder, case, connected, contexts, iterations, new_loop, run, show, tcp_pair

ending = functools.partial(case, keeps=True)


@ending
def pending_tasks_and_timers():
    loop = new_loop()
    tasks = [loop.create_task(asyncio.sleep(100)) for _ in range(50)]
    loop.call_later(100, print, tasks)
    run(iterations(), loop)
    show("exits")
    sys.modules["kept"] = (loop, tasks)


@ending
def open_transports_and_servers():
    loop = new_loop()

    async def main():
        server = await loop.create_server(Recorder, "127.0.0.1", 0)
        address = server.sockets[0].getsockname()
        pairs = [await loop.create_connection(Recorder, *address) for _ in range(10)]
        for transport, _ in pairs:
            transport.write(b"x" * 100_000)
        await iterations()
        return server, pairs

    sys.modules["kept"] = (loop, run(main(), loop))
    show("exits")


@ending
def exit_inside_a_callback():
    loop = new_loop()
    loop.call_soon(sys.exit, 7)
    loop.call_soon(show, "not reached in this run")
    show("runs")
    loop.run_forever()


@ending
def exit_inside_a_protocol():
    loop = new_loop()

    async def main():
        _, _, peer = await connected({"data_received": lambda protocol: sys.exit(8)})
        peer.send(b"x")
        await asyncio.sleep(10)

    show("runs")
    loop.run_until_complete(main())


@ending
def immediate_exit_inside_a_callback():
    loop = new_loop()

    async def main():
        await connected()
        show("exits")
        os._exit(9)

    loop.run_until_complete(main())


@ending
def a_loop_in_a_daemon_thread_of_callbacks():
    loop = new_loop()
    running = threading.Event()

    def again():
        running.set()
        loop.call_soon(again)

    loop.call_soon(again)
    threading.Thread(target=loop.run_forever, daemon=True).start()
    running.wait()
    show("exits")


@ending
def a_loop_in_a_daemon_thread_of_tasks():
    loop = new_loop()
    running = threading.Event()

    async def busy():
        while True:
            await asyncio.gather(*(asyncio.sleep(0) for _ in range(10)))
            running.set()

    threading.Thread(target=loop.run_until_complete, args=(busy(),), daemon=True).start()
    running.wait()
    show("exits")


@ending
def a_loop_in_a_daemon_thread_of_connections():
    loop = new_loop()
    running = threading.Event()

    class Echo(asyncio.Protocol):
        def connection_made(self, transport):
            self.transport = transport

        def data_received(self, data):
            running.set()
            self.transport.write(data)

    async def serve():
        for sock in tcp_pair():
            sock.setblocking(False)
            transport, _ = await loop.create_connection(Echo, sock=sock)
        transport.write(b"x" * 1000)

    def runs():
        loop.run_until_complete(serve())
        loop.run_forever()

    threading.Thread(target=runs, daemon=True).start()
    running.wait()
    show("exits")


@ending
def a_loop_in_a_daemon_thread_that_accepts():
    loop = new_loop()
    running = threading.Event()
    address = []

    async def serve():
        server = await loop.create_server(Recorder, "127.0.0.1", 0)
        address.extend(server.sockets[0].getsockname())
        while True:
            _, protocol = await loop.create_connection(Recorder, *address)
            protocol.transport.close()
            running.set()

    threading.Thread(target=loop.run_until_complete, args=(serve(),), daemon=True).start()
    running.wait()
    show("exits")


@ending
def a_loop_in_a_daemon_thread_whose_callbacks_fail():
    loop = new_loop()
    running = threading.Event()

    def handler(loop, context):
        running.set()

    def again():
        loop.call_soon(again)
        raise ValueError

    loop.set_exception_handler(handler)
    loop.call_soon(again)
    threading.Thread(target=loop.run_forever, daemon=True).start()
    running.wait()
    show("exits")


@ending
def a_loop_in_a_daemon_thread_that_sleeps():
    loop = new_loop()
    running = threading.Event()
    loop.call_soon(running.set)
    threading.Thread(target=loop.run_forever, daemon=True).start()
    running.wait()
    show("exits")


@ending
def daemon_threads_that_call_a_loop():
    loop = new_loop()
    running = threading.Event()

    def calls():
        while True:
            loop.call_soon_threadsafe(running.set)

    for _ in range(3):
        threading.Thread(target=calls, daemon=True).start()
    loop.call_later(0.01, loop.stop)
    loop.run_forever()
    running.wait()
    show("exits")
    sys.modules["kept"] = loop


@ending
def subprocesses_that_still_run():
    loop = new_loop()

    async def main():
        return [
            await asyncio.create_subprocess_exec("sleep", "20", stdin=asyncio.subprocess.PIPE)
            for _ in range(3)
        ]

    children = run(main(), loop)
    for child in children:
        os.kill(child.pid, signal.SIGKILL)
    sys.modules["kept"] = (loop, children)
    show("exits")


@ending
def tls_connections_that_are_open():
    loop = new_loop()
    server_context, client_context = contexts()

    async def main():
        server = await loop.create_server(Recorder, "127.0.0.1", 0, ssl=server_context)
        address = server.sockets[0].getsockname()
        made = await loop.create_connection(
            Recorder, *address, ssl=client_context, server_hostname="localhost"
        )
        made[0].write(b"x" * 100_000)
        return server, made

    sys.modules["kept"] = (loop, run(main(), loop))
    show("exits")


@ending
def a_loop_that_runs_at_exit():
    loop = new_loop()
    kept = run(connected(), loop)

    @atexit.register
    def at_exit():
        kept[0].write(b"late")
        run(iterations(), loop)
        show("at exit", kept[2].recv(10))
        loop.close()

    show("exits")


@ending
def finalisers_that_use_the_loop_at_exit():
    loop = new_loop()

    class Late:
        def __del__(self):
            try:
                loop.call_soon(print)
                loop.close()
            except BaseException as error:
                show("refused", error)

    loop.call_later(100, print, Late())
    sys.modules["kept"] = loop
    show("exits")


@ending
def an_executor_that_still_works():
    loop = new_loop()
    started, release = threading.Event(), threading.Event()

    def work():
        started.set()
        release.wait(0.05)

    loop.run_in_executor(None, work)
    started.wait()
    sys.modules["kept"] = loop
    show("exits")


@ending
def async_generators_that_were_not_finished():
    loop = new_loop()

    async def numbers():
        try:
            yield 1
        finally:
            await asyncio.sleep(0)

    async def main():
        generator = numbers()
        await generator.__anext__()
        return generator

    sys.modules["kept"] = (run(main(), loop), loop)
    show("exits")


@ending
def killed_by_a_signal_in_the_middle():
    loop = new_loop()
    loop.call_soon(os.kill, os.getpid(), signal.SIGTERM)
    show("runs")
    loop.run_forever()


@ending
def interrupted_in_asyncio_run():
    async def main():
        show("runs")
        os.kill(os.getpid(), signal.SIGINT)
        try:
            await asyncio.sleep(10)
        finally:
            show("cleaned up")

    loop = new_loop()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if sys.version_info >= (3, 11):
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(main())
    else:
        loop.run_until_complete(main())


@ending
def exceptions_in_threads_that_run_loops():
    def runs():
        loop = new_loop()
        loop.call_soon(sys.exit, 3)
        try:
            loop.run_forever()
        finally:
            loop.close()

    threads = [threading.Thread(target=runs) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    show("exits")
