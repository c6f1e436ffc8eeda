"""The interpreter exits while a daemon thread is inside the loop.

Before Python 3.14 such a thread ends by ``pthread_exit()`` when it next takes the GIL.  Any call into Python may do
that, so each is tested: first with an explicit ``pthread_exit()`` at a known place, then with a real program exit at
a random place.
"""

from __future__ import annotations

import pathlib
import re
import textwrap
from textwrap import dedent

import pytest

SOURCES = pathlib.Path(__file__).parent.parent / "crates" / "mainspring-python" / "src"

# `work(strike)` runs in a daemon thread and calls `strike()` from the place inside the loop that the key names.
PRELUDE = """
import asyncio, os, socket, sys, threading, time

def run(*calls):
    loop = new_loop()
    for call in calls:
        loop.call_soon(call, loop)
    loop.run_forever()

class Falls:
    def __init__(self, strike):
        self.strike = strike
    def __del__(self):
        self.strike()

class Calls(asyncio.Protocol):
    def __init__(self, **methods):
        for name, method in methods.items():
            setattr(self, name, method)

def serve(loop, factory, **patches):
    async def main():
        server = await loop.create_server(factory, "127.0.0.1", 0)
        for name, patch in patches.items():
            setattr(server, name, patch)
        loop.peer = socket.create_connection(server.sockets[0].getsockname())
        loop.peer.send(b"data")
        loop.peer.shutdown(socket.SHUT_WR)
    loop.keep = loop.create_task(main())

def connect(loop, protocol, sock=None):
    async def main():
        near, far = socket.socketpair()
        sock_class = sock or socket.socket
        near = sock_class(fileno=near.detach())
        near.setblocking(False)
        loop.peer = far
        far.send(b"data")
        loop.made, _ = await loop.create_connection(lambda: protocol, sock=near)
    loop.keep = loop.create_task(main())
"""

WORK = {
    "callback": """
        def work(strike):
            run(lambda loop: strike())
    """,
    "callback in debug mode": """
        def work(strike):
            run(lambda loop: loop.set_debug(True), lambda loop: strike())
    """,
    "timer": """
        def work(strike):
            run(lambda loop: loop.call_later(0, strike))
    """,
    "nested run": """
        def work(strike):
            import mainspring
            async def nested():
                strike()
            async def main(loop):
                loop.run_until_complete(nested())
            loop = mainspring.Loop(nested=True)
            loop.run_until_complete(main(loop))
    """,
    "guest turn": """
        def work(strike):
            import mainspring
            loop = mainspring.Loop()
            loop.call_soon(strike)
            loop.process_events(loop.poll_events(0))
            loop.process_ready()
    """,
    "guest run": """
        def work(strike):
            import mainspring
            async def main():
                strike()
            run(lambda loop: setattr(loop, "keep", mainspring.start_guest_run(main(), loop)))
    """,
    "iteration hook": """
        def work(strike):
            import mainspring
            loop = mainspring.Loop()
            loop.on_iteration_begin = strike
            loop.run_forever()
    """,
    "handle": """
        def work(strike):
            run(lambda loop: loop.call_soon(print, Falls(strike)).cancel())
    """,
    "handle made in another thread": """
        def work(strike):
            loop = new_loop()
            def other():
                handle = loop.call_soon(print, Falls(strike))
                loop._close_native() if hasattr(loop, "_close_native") else loop._ready.clear()
                del handle
            threading.Thread(target=other, daemon=True).start()
    """,
    "loop freed": """
        def work(strike):
            loop = new_loop()
            loop.call_later(1000, print, Falls(strike))
            loop.close()
            del loop
    """,
    "exception handler": """
        def work(strike):
            run(lambda loop: loop.set_exception_handler(lambda loop, context: strike()), lambda loop: 1 / 0)
    """,
    "task": """
        def work(strike):
            async def main():
                await asyncio.sleep(0)
                strike()
            run(lambda loop: setattr(loop, "keep", loop.create_task(main())))
    """,
    "task factory": """
        def work(strike):
            async def main():
                pass
            def factory(loop, coro, **options):
                strike()
                return asyncio.Task(coro, loop=loop, **options)
            run(lambda loop: loop.set_task_factory(factory), lambda loop: loop.create_task(main()))
    """,
    "time": """
        def work(strike):
            base = type(new_loop())
            class Loop(base):
                def time(self):
                    if self.is_running():
                        strike()
                    return time.monotonic()
            loop = Loop()
            loop.call_later(0, print)
            loop.run_forever()
    """,
    "reader": """
        def work(strike):
            near, far = socket.socketpair()
            far.send(b"data")
            run(lambda loop: loop.add_reader(near, strike))
    """,
    "sock_recv": """
        def work(strike):
            class Socket(socket.socket):
                def recv(self, size):
                    strike()
                    return super().recv(size)
            near, far = socket.socketpair()
            near = Socket(fileno=near.detach())
            near.setblocking(False)
            far.send(b"data")
            async def main(loop):
                await loop.sock_recv(near, 10)
            run(lambda loop: setattr(loop, "keep", loop.create_task(main(loop))))
    """,
    "protocol factory": """
        def work(strike):
            def factory():
                strike()
                return asyncio.Protocol()
            run(lambda loop: serve(loop, factory))
    """,
    "connection_made": """
        def work(strike):
            run(lambda loop: serve(loop, lambda: Calls(connection_made=lambda transport: strike())))
    """,
    "data_received": """
        def work(strike):
            run(lambda loop: serve(loop, lambda: Calls(data_received=lambda data: strike())))
    """,
    "eof_received": """
        def work(strike):
            run(lambda loop: serve(loop, lambda: Calls(eof_received=strike)))
    """,
    "connection_lost": """
        def work(strike):
            run(lambda loop: serve(loop, lambda: Calls(connection_lost=lambda error: strike())))
    """,
    "server detaches": """
        def work(strike):
            run(lambda loop: serve(loop, asyncio.Protocol, _detach=lambda *transport: strike()))
    """,
    "get_buffer": """
        def work(strike):
            class Buffered(asyncio.BufferedProtocol):
                def get_buffer(self, hint):
                    strike()
                    return bytearray(100)
            run(lambda loop: connect(loop, Buffered()))
    """,
    "socket closes": """
        def work(strike):
            class Socket(socket.socket):
                def close(self):
                    strike()
                    super().close()
            run(lambda loop: connect(loop, Calls(data_received=lambda data: loop.made.close()), Socket))
    """,
    "datagram_received": """
        def work(strike):
            class Datagrams(asyncio.DatagramProtocol):
                def datagram_received(self, data, address):
                    strike()
            async def main(loop):
                transport, _ = await loop.create_datagram_endpoint(Datagrams, local_addr=("127.0.0.1", 0))
                transport.sendto(b"data", transport.get_extra_info("sockname"))
                loop.made = transport
            run(lambda loop: setattr(loop, "keep", loop.create_task(main(loop))))
    """,
    "pipe": """
        def work(strike):
            async def main(loop):
                near, far = os.pipe()
                os.write(far, b"data")
                protocol = Calls(data_received=lambda data: strike())
                loop.made = await loop.connect_read_pipe(lambda: protocol, os.fdopen(near, "rb"))
            run(lambda loop: setattr(loop, "keep", loop.create_task(main(loop))))
    """,
}


@pytest.mark.parametrize("work", WORK.values(), ids=WORK)
def test_a_thread_that_exits_inside_a_loop_call_does_not_crash_the_process(run_python, work):
    done = run_python(
        PRELUDE
        + dedent(work)
        + dedent("""
            import ctypes
            libc, reached = ctypes.CDLL(None), threading.Event()
            def strike():
                if not reached.is_set():
                    reached.set()
                    libc.pthread_exit(None)  # ctypes releases the GIL first
            threading.Thread(target=work, args=(strike,), daemon=True).start()
            assert reached.wait(20)
            print("the end")
            sys.stdout.flush()
            os._exit(0)  # loops, transports and servers that are not closed would warn
        """),
        env={},
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "the end\n", "")


@pytest.mark.parametrize("work", WORK.values(), ids=WORK)
def test_the_interpreter_exits_while_a_daemon_thread_is_inside_the_loop(run_python, work):
    done = run_python(
        PRELUDE
        + dedent(work)
        + dedent("""
            reached = threading.Event()
            def strike():
                reached.set()
                while True:
                    time.sleep(0)  # takes the GIL again and again
            threading.Thread(target=work, args=(strike,), daemon=True).start()
            assert reached.wait(20)
            print("the end")
        """),
        env={"PYTHONWARNINGS": "ignore"},
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "the end\n", "")


def test_a_thread_outside_the_loop_exits_by_pthread_exit(run_python):
    done = run_python("""
import ctypes, os, threading
libc, loop, left = ctypes.CDLL(None), new_loop(), threading.Event()
def use_the_loop_and_end():
    loop.call_soon_threadsafe(print)
    loop.run_until_complete(asyncio.sleep(0))
    left.set()
    libc.pthread_exit(None)
import asyncio
threading.Thread(target=use_the_loop_and_end, daemon=True).start()
assert left.wait(20)
while len(os.listdir("/proc/self/task")) > 1:
    os.sched_yield()
print("the end", flush=True)
os._exit(0)
""")
    assert (done.returncode, done.stdout, done.stderr) == (0, "\nthe end\n", "")


def functions_called_by_the_interpreter(text):
    """The (name, body) of each function that PyO3 exports or that has the C calling convention."""
    body = r"(?P<name>\w+)[^{;]*\{\n(?P<body>.*?)^(?P=indent)\}\n"
    c_function = r'^(?P<indent> *)(?:pub(?:\(\w+\))? )?(?:unsafe )?extern "C" fn ' + body
    py_function = r"^(?P<indent>)#\[pyfunction\](?:\n#\[.*\])*\npub fn " + body
    py_method = r"^(?P<indent>    )(?:pub )?fn " + body
    # The methods in the macro of `coroutine.rs` are indented.
    methods = re.findall(r"^(?:#\[pymethods\]|coroutine_class! \{)\n(.*?^)\}\n", text, re.M | re.S)
    methods += [
        textwrap.indent(dedent(block), "    ")
        for block in re.findall(
            r"^        #\[pymethods\]\n        impl \$class \{\n(.*?)^        \}\n", text, re.M | re.S
        )
    ]
    for pattern, part in [
        (c_function, text),
        (py_function, text),
        *((py_method, block) for block in methods),
    ]:
        for found in re.finditer(pattern, part, re.M | re.S):
            yield found["name"], found["body"]


@pytest.mark.skipif(not SOURCES.is_dir(), reason="the sources are missing")
def test_every_function_called_by_the_interpreter_guards_its_thread():
    # `enter`, `attach`, `catch_unwind` and `catch_unraisable` (`python/guard.rs`) begin with the guard; `bounded` and
    # `dealloc` call one of them.
    guards = re.compile(
        r"thread_exit::guard\(\)|\b(enter|attach|catch_unwind|catch_unraisable|dealloc|bounded)\("
    )
    without = re.compile(r"traverse$|__traverse__$")
    found, unguarded = 0, []
    for path in sorted(SOURCES.rglob("*.rs")):
        if path.name == "thread_exit.rs":
            continue  # called by the C library
        text = path.read_text()
        for name, body in functions_called_by_the_interpreter(text):
            found += 1
            if not guards.search(body) and not without.search(name):
                unguarded.append(f"{path.relative_to(SOURCES)}: {name}")
        for name, fields in re.findall(
            r"^#\[pyclass.*\]\npub struct (\w+) \{\n(.*?)^\}\n", text, re.M | re.S
        ):
            plain = re.compile(
                r"^ *(?:pub )?\w+: (?!i32|Lane,|Option<Duration>,|ClassData<)", re.M
            )  # no Python object
            if plain.search(fields):
                unguarded.append(f"{path.relative_to(SOURCES)}: {name}")
    assert found > 60 and not unguarded
