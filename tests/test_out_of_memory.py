"""Out of memory: calls raise ``MemoryError``; the loop, its transports and its queues keep working.

Each program runs in a separate process with a limited address space.
"""

from __future__ import annotations

import pytest

COMMON = """
import asyncio, gc, mmap, os, resource, socket, sys

def limit(room):
    '''Leaves room for so many bytes more.'''
    with open("/proc/self/statm") as file:
        size = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + room, resource.RLIM_INFINITY))

def no_limit():
    resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))

MIB = 1 << 20

def refused(call, *args):
    try:
        call(*args)
    except MemoryError:
        return True
    return False
"""


def output(done):
    assert done.returncode == 0, f"exit status {done.returncode}\n{done.stdout}\n{done.stderr}"
    assert not done.stderr, done.stderr
    return done.stdout.split()


WRITES = """
async def main():
    loop = asyncio.get_running_loop()
    kind = sys.argv[1]
    if kind == "pipe":
        reading, writing = os.pipe()
        theirs = open(reading, "rb", 0)
        transport, protocol = await loop.connect_write_pipe(asyncio.Protocol, open(writing, "wb", 0))
    else:
        ours, theirs = socket.socketpair()
        transport, protocol = await loop.create_connection(asyncio.Protocol, sock=ours)
    big = memoryview(mmap.mmap(-1, 300 * MIB))
    limit(200 * MIB)
    if kind == "lines":
        print(refused(transport.writelines, [b"a", big, b"b"]))
    elif kind == "many lines":
        print(refused(transport.writelines, (b"" for _ in iter(int, 1))))
    else:
        print(refused(transport.write, big))
    no_limit()
    # None of the data was sent, and the connection still works.
    print(transport.get_write_buffer_size(), transport.is_closing())
    transport.write(b"then")
    print((theirs.read(4) if kind == "pipe" else theirs.recv(4)).decode())
    transport.close()
    theirs.close()

loop = new_loop()
loop.run_until_complete(main())
loop.close()
"""


@pytest.mark.mainspring_only
@pytest.mark.parametrize("kind", ["stream", "lines", "many lines", "pipe"])
def test_a_write_that_cannot_be_buffered_raises_and_sends_nothing(run_python, kind):
    assert output(run_python(COMMON + WRITES, kind)) == ["True", "0", "False", "then"]


TLS = """
import ssl

class Sink:
    '''A transport that takes everything.'''

    sent = 0

    def write(self, data):
        self.sent += len(data)

    def is_closing(self):
        return False

    def __getattr__(self, name):
        return lambda *args: None

async def main():
    from mainspring._tls import SSLProtocol

    loop = asyncio.get_running_loop()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    below = SSLProtocol(loop, asyncio.Protocol(), context, None, False, "localhost")
    below.connection_made(Sink())
    transport = below._app_transport
    big = memoryview(mmap.mmap(-1, 300 * MIB))
    limit(200 * MIB)
    # Data written during the handshake is queued.
    print(refused(transport.write, big), refused(transport.writelines, [b"a", big]))
    no_limit()
    print(transport.get_write_buffer_size())
    transport.write(bytearray(b"then"))
    print(transport.get_write_buffer_size())
    transport.abort()

loop = new_loop()
loop.run_until_complete(main())
loop.close()
"""


@pytest.mark.mainspring_only
def test_a_tls_write_that_cannot_be_buffered_raises(run_python):
    assert output(run_python(COMMON + TLS)) == ["True", "True", "0", "4"]


QUEUES = """
loop = new_loop()
count = 0

def hit():
    global count
    count += 1

schedule = {
    "soon": lambda: loop.call_soon(hit),
    "threadsafe": lambda: loop.call_soon_threadsafe(hit),
    "at": lambda: loop.call_at(when, hit),
    "never": lambda: loop.call_at(float("inf"), hit),
}[sys.argv[1]]
# The interpreter has memory for many handles, but the queue has not.
other = new_loop()
fill = {
    "soon": lambda: other.call_soon(hit),
    "threadsafe": lambda: other.call_soon_threadsafe(hit),
    "at": lambda: other.call_at(0, hit),
    "never": lambda: other.call_at(0, hit),
}[sys.argv[1]]
pool = []
for _ in range(20):
    pool += [fill() for _ in range(10_000)]
    other.call_soon(other.stop)
    other.run_forever()
other.close()
count = 0
pool = pool[::100]
when = loop.time() + 0.5
scheduled = 0
limit(MIB)
try:
    while True:
        schedule()
        scheduled += 1
except MemoryError:
    pass
no_limit()
print(scheduled > 1_000)
if sys.argv[1] == "never":
    print(loop._counts()[1] == scheduled)
else:
    loop.call_at(when + 0.001, loop.stop)
    loop.run_forever()
    print(count == scheduled)
loop.close()
"""


@pytest.mark.mainspring_only
@pytest.mark.parametrize("kind", ["soon", "threadsafe", "at", "never"])
def test_a_call_that_cannot_be_queued_raises_and_the_others_run(run_python, kind):
    assert output(run_python(COMMON + QUEUES, kind)) == ["True", "True"]


RECEIVING = """
async def main():
    loop = asyncio.get_running_loop()
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    theirs.send(b"data")
    limit(100 * MIB)
    try:
        await loop.sock_recv(ours, 1 << 40)
    except MemoryError:
        print("refused")
    no_limit()
    print((await loop.sock_recv(ours, 100)).decode())
    ours.close()
    theirs.close()

loop = new_loop()
loop.run_until_complete(main())
loop.close()
"""


def test_a_receive_larger_than_the_memory_raises_and_consumes_nothing(run_python):
    assert output(run_python(COMMON + RECEIVING)) == ["refused", "data"]
