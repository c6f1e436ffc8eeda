"""Chains of objects that reference each other are freed without recursion, whatever their length."""

from __future__ import annotations

import pytest

LENGTH = 200_000

# `link(held)` creates an object that references `held` and may use the loop. A chain of them is freed.
LINKS = {
    "handles as callbacks": "link = lambda held: loop.call_soon(held)",
    "handles as arguments": "link = lambda held: loop.call_soon(print, held)",
    "handles from other threads": "link = lambda held: loop.call_soon_threadsafe(held)",
    "timers as callbacks": "link = lambda held: loop.call_later(1000, held)",
    "timers as arguments": "link = lambda held: loop.call_later(1000, print, held)",
    "handles and timers": """
methods = itertools.cycle([loop.call_soon, functools.partial(loop.call_at, 1e9)])
link = lambda held: next(methods)(held)
""",
    "handles and futures": """
def link(held):
    future = loop.create_future()
    future.set_result(held)
    return loop.call_soon(future)
""",
    "handles and bound methods": """
class Held:
    def __init__(self, held):
        self.held = held
    def call(self):
        pass
link = lambda held: loop.call_soon(Held(held).call)
""",
}

NATIVE = {
    **{
        f"{name} in slots": f"""
def link(held):
    kind = mainspring._mainspring.{name}
    made = kind.__new__(kind)
    made._extra = held
    return made
"""
        for name in [
            "StreamTransport",
            "DatagramTransport",
            "ReadPipeTransport",
            "WritePipeTransport",
            "SSLTransport",
        ]
    },
    "transports as attributes": """
def link(held):
    made = mainspring._transports.StreamTransport()
    made.held = held
    return made
""",
    "TLS protocols as attributes": """
class Protocol(mainspring._mainspring.SSLProtocol):
    pass
def link(held):
    made = Protocol()
    made.held = held
    return made
""",
    "listeners as factories": """
sock = socket.socket()
sock.bind(("127.0.0.1", 0))
sock.listen()
def link(held):
    return mainspring._mainspring.Listener(loop, sock, held, object, None, 1)
""",
    "waits for a socket": """
class Held(bytes):
    pass
near, far = socket.socketpair()
near.setblocking(False)
while True:
    try:
        near.send(bytes(100_000))
    except BlockingIOError:
        break
def link(held):
    data = Held(b"data")
    data.held = held
    wait = loop._try_sendall(near, data)
    wait.leave()
    return wait
""",
}

PROGRAM = """
import asyncio, functools, itertools, socket, sys, threading
loop = new_loop()
{link}
def free():
    held = print
    for _ in range({length}):
        held = link(held)
    loop.close()
# Unlimited recursion would overflow the stack; the limited nesting of CPython's trashcan does not.
threading.stack_size(8 << 20)
thread = threading.Thread(target=free)
thread.start()
thread.join()
print("survived")
"""


def check(run_python, link):
    done = run_python(PROGRAM.format(link=link, length=LENGTH), env={"PYTHONWARNINGS": "ignore"}, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, "survived\n", "")


@pytest.mark.parametrize("link", LINKS.values(), ids=LINKS)
def test_a_long_chain_of_objects_that_asyncio_also_has_is_freed(run_python, link):
    check(run_python, link)


@pytest.mark.mainspring_only
@pytest.mark.parametrize("link", NATIVE.values(), ids=NATIVE)
def test_a_long_chain_of_native_objects_is_freed(run_python, link):
    check(run_python, "import mainspring, mainspring._transports\n" + link)


@pytest.mark.mainspring_only
def test_a_chain_is_freed_in_order_and_completely(loop_kind, run_python):
    done = run_python(
        """
import weakref
class Held:
    pass
loop = new_loop()
chain, alive = None, weakref.WeakSet()
for _ in range(1000):
    held = Held()
    held.chain = chain
    alive.add(held)
    chain = loop.call_soon(print, held)
del chain, held
loop.close()
print(len(alive))
""",
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "0\n", "")
