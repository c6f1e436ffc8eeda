"""Which fds add_reader and add_writer accept: kinds of files, closed fds, reused numbers, refused objects."""

import asyncio
import errno
import gc
import os
import socket
import tempfile
import warnings
import weakref

import pytest

import mainspring


@pytest.fixture
def pipe():
    ends = list(os.pipe())
    yield ends
    for fd in ends:
        try:
            os.close(fd)
        except OSError:
            pass  # closed by the test


@pytest.mark.parametrize("kind", ["number", "socket", "fileno"])
def test_an_fd_and_an_object_with_fileno_are_equivalent(loop, run_forever, pair, kind):
    ours, theirs = pair

    class File:
        def fileno(self):
            return ours.fileno()

    file = {"number": ours.fileno(), "socket": ours, "fileno": File()}[kind]
    loop.add_reader(file, loop.stop)
    theirs.send(b"x")
    run_forever()
    assert loop.remove_reader(ours.fileno()) is True
    assert loop.remove_reader(file) is False


def register_new_socket_with_fd(number, loop, run_forever, called):
    """Gives the fd number to another socket, and checks that only its reader is called."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        if ours.fileno() != number:
            os.dup2(ours.fileno(), number)
            ours.close()
            ours = socket.socket(fileno=number)
        with ours:
            loop.add_reader(number, lambda: (called.append("new"), loop.stop()))
            theirs.send(b"x")
            run_forever()
            assert called == ["new"]
            assert loop.remove_reader(number) is True


def test_a_reused_fd_belongs_to_its_new_owner(loop, run_forever):
    called = []
    ours, theirs = socket.socketpair()
    number = ours.fileno()
    loop.add_reader(number, called.append, "old")
    assert loop.remove_reader(number) is True
    ours.close(), theirs.close()
    register_new_socket_with_fd(number, loop, run_forever, called)


@pytest.mark.mainspring_only
def test_an_fd_closed_while_registered_can_be_registered_again(loop, run_forever):
    # asyncio assumes that the number is still registered, and never calls the new reader.
    called = []
    ours, theirs = socket.socketpair()
    number = ours.fileno()
    loop.add_reader(number, called.append, "old")
    ours.close(), theirs.close()
    register_new_socket_with_fd(number, loop, run_forever, called)


def test_removing_a_reader_after_its_socket_was_closed(loop, run_iteration):
    ours, theirs = socket.socketpair()
    number = ours.fileno()
    loop.add_reader(number, print)
    ours.close(), theirs.close()
    assert loop.remove_reader(number) is True
    assert loop.remove_reader(number) is False
    run_iteration()


@pytest.mark.parametrize("private", ["", "_"])
@pytest.mark.parametrize("kind", ["reader", "writer"])
def test_a_registration_is_found_by_its_closed_socket_object(loop, kind, private):
    ours, theirs = socket.socketpair()
    add = getattr(loop, f"{private}add_{kind}")
    remove = getattr(loop, f"{private}remove_{kind}")
    add(ours, print)
    ours.close()
    theirs.close()
    assert remove(ours) is True
    with pytest.raises(ValueError, match="Invalid file descriptor: -1"):
        remove(ours)


def test_a_registration_is_not_found_by_another_closed_object(loop):
    first, second = socket.socketpair()
    loop.add_reader(first, print)
    second.close()
    with pytest.raises(ValueError, match="Invalid file descriptor: -1"):
        loop.remove_reader(second)
    first.close()
    assert loop.remove_reader(first) is True


def test_a_registration_by_number_is_not_found_by_a_closed_object(loop):
    ours, theirs = socket.socketpair()
    number = ours.fileno()
    loop.add_reader(number, print)
    ours.close()
    theirs.close()
    with pytest.raises(ValueError, match="Invalid file descriptor: -1"):
        loop.remove_reader(ours)
    assert loop.remove_reader(number) is True


def test_a_closed_file_is_found_by_the_private_method_only(loop, pipe):
    # asyncio calls fileno() before the lookup, and that raises for a closed file.
    file = os.fdopen(pipe[0], "rb", 0)
    loop.add_reader(file, print)
    file.close()
    with pytest.raises(ValueError, match="Invalid file object"):
        loop.remove_reader(file)
    assert loop._remove_reader(file) is True


def test_a_registration_keeps_its_file_object_alive(loop, run_forever):
    ours, theirs = socket.socketpair()
    held = weakref.ref(ours)
    loop.add_reader(ours, loop.stop)
    del ours
    gc.collect()
    theirs.send(b"x")
    run_forever()
    held().close()
    theirs.close()
    assert loop.remove_reader(held()) is True
    gc.collect()
    assert held() is None


@pytest.mark.mainspring_only
def test_a_loop_is_collected_with_a_file_object_that_refers_to_it():
    class File:
        def fileno(self):
            return theirs.fileno()

    ours, theirs = socket.socketpair()
    loop = mainspring.Loop()
    file = File()
    file.loop = loop
    loop.add_reader(file, print)
    gone = weakref.ref(file)
    del file, loop
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # from the loop, which was never closed
        gc.collect()
    ours.close()
    theirs.close()
    assert gone() is None


OPERATIONS = {
    "sock_recv": lambda loop, sock: loop.sock_recv(sock, 1),
    "sock_recv_into": lambda loop, sock: loop.sock_recv_into(sock, bytearray(1)),
    "sock_sendall": lambda loop, sock: loop.sock_sendall(sock, b"x"),
    "sock_accept": lambda loop, sock: loop.sock_accept(sock),
    "sock_connect": lambda loop, sock: loop.sock_connect(sock, "/nowhere"),
    "sock_sendfile": lambda loop, sock: send_this_file(loop, sock),
}


async def send_this_file(loop, sock):
    with open(__file__, "rb") as file:
        await loop.sock_sendfile(sock, file)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_operation_on_a_closed_socket_fails_as_the_socket_does(loop, operation):
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    ours.close()
    theirs.close()
    with pytest.raises(OSError) as caught:
        loop.run_until_complete(OPERATIONS[operation](loop, ours))
    assert caught.value.errno == errno.EBADF


@pytest.mark.parametrize("method", ["add_reader", "add_writer"])
@pytest.mark.parametrize(
    "wrong",
    [-1, -(2**31), 2**31, 2**63, 2**70, None, "0", 1.5, object(), b"", [], (1,)],
    ids=lambda value: type(value).__name__ + (repr(value)[:8] if isinstance(value, int) else ""),
)
def test_an_invalid_fd_raises_the_same_exception_as_on_asyncio(loop_factory, method, wrong):
    theirs = asyncio.SelectorEventLoop()
    try:
        with pytest.raises(Exception) as expected:  # noqa: B017
            getattr(theirs, method)(wrong, print)
    finally:
        theirs.close()
    with pytest.raises(expected.type):
        getattr(loop_factory(), method)(wrong, print)


@pytest.mark.parametrize("method", ["remove_reader", "remove_writer"])
@pytest.mark.parametrize("wrong", [-1, None, "0", 1.5, object()], ids=lambda value: type(value).__name__)
def test_removing_an_invalid_fd_raises_value_error(loop, method, wrong):
    with pytest.raises(ValueError):
        getattr(loop, method)(wrong)


def test_removing_an_fd_that_was_never_registered_is_not_an_error(loop):
    assert loop.remove_reader(12345) is False
    assert loop.remove_writer(12345) is False


def test_a_closed_fd_is_refused(loop):
    fd = os.dup(0)
    os.close(fd)
    with pytest.raises(OSError) as caught:
        loop.add_reader(fd, print)
    assert caught.value.errno == 9
    assert loop.remove_reader(fd) is False


def test_a_closed_file_object_is_refused(loop):
    ours, theirs = socket.socketpair()
    ours.close(), theirs.close()
    with pytest.raises(ValueError):
        loop.add_reader(ours, print)
    with tempfile.TemporaryFile() as file:
        pass
    with pytest.raises(ValueError):
        loop.add_reader(file, print)


def test_a_regular_file_is_refused(loop):
    with tempfile.TemporaryFile() as file:
        for add in (loop.add_reader, loop.add_writer):
            with pytest.raises(PermissionError):
                add(file, print)
        assert loop.remove_reader(file) is False
        assert loop.remove_writer(file) is False


def test_an_exception_from_fileno_propagates(loop):
    class File:
        def fileno(self):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        loop.add_reader(File(), print)


def test_a_closed_loop_refuses_registrations(loop, pair):
    ours, _ = pair
    loop.add_reader(ours, print)
    loop.add_writer(ours, print)
    loop.close()
    for add in (loop.add_reader, loop.add_writer):
        with pytest.raises(RuntimeError, match="Event loop is closed"):
            add(ours, print)


def test_pipes(loop, run_forever, pipe):
    read_end, write_end = pipe
    os.set_blocking(read_end, False)
    got = []
    loop.add_reader(read_end, lambda: (got.append(os.read(read_end, 10)), loop.stop()))
    loop.add_writer(write_end, lambda: (os.write(write_end, b"data"), loop.remove_writer(write_end)))
    run_forever()
    assert got == [b"data"]
    os.close(write_end)
    run_forever()
    assert got == [b"data", b""], "EOF of the pipe is reported"
    loop.remove_reader(read_end)


def test_a_writer_is_called_when_the_reading_end_closes(loop, run_forever, pipe):
    read_end, write_end = pipe
    os.set_blocking(write_end, False)
    try:
        while True:
            os.write(write_end, bytes(65536))
    except BlockingIOError:
        pass
    loop.add_writer(write_end, loop.stop)
    os.close(read_end)
    run_forever()
    with pytest.raises(BrokenPipeError):
        os.write(write_end, b"x")
    loop.remove_writer(write_end)


def test_eventfd(loop, run_forever, run_iteration):
    if not hasattr(os, "eventfd"):
        pytest.skip("os.eventfd is missing")
    fd = os.eventfd(0, os.EFD_NONBLOCK)
    try:
        got = []
        loop.add_reader(fd, lambda: (got.append(os.eventfd_read(fd)), loop.stop()))
        run_iteration()
        assert got == []
        os.eventfd_write(fd, 3)
        run_forever()
        assert got == [3]
        loop.remove_reader(fd)
    finally:
        os.close(fd)


def test_a_reader_may_close_its_socket(loop, run_forever):
    ours, theirs = socket.socketpair()
    with theirs:

        def close():
            assert loop.remove_reader(ours) is True
            ours.close()
            loop.stop()

        loop.add_reader(ours, close)
        theirs.send(b"x")
        run_forever()
        # The loop continues without it.
        loop.call_soon(loop.stop)
        run_forever()


def test_a_reader_may_close_another_ready_socket_and_open_a_new_one(loop, run_forever):
    called = []
    first, first_peer = socket.socketpair()
    second, second_peer = socket.socketpair()
    made = []
    with first_peer, second_peer:

        def swap(this, other):
            called.append("swapped")
            loop.remove_reader(this)
            loop.remove_reader(other)
            other.close()
            # Most likely gets the fd number that was just closed; it has no data to read.
            made.extend(socket.socketpair())
            for end in made:
                loop.add_reader(end, called.append, "new")
            loop.stop()

        loop.add_reader(first, swap, first, second)
        loop.add_reader(second, swap, second, first)
        first_peer.send(b"x")
        second_peer.send(b"x")
        run_forever()
        loop.call_soon(loop.stop)
        run_forever()
        assert called == ["swapped"]
        for end in made:
            assert loop.remove_reader(end) is True
            end.close()
    first.close(), second.close()


def test_every_one_of_many_ready_fds_is_reported(loop, run_forever):
    pairs = [socket.socketpair() for _ in range(200)]
    called = set()

    def call(index):
        called.add(index)
        loop.remove_reader(pairs[index][0])
        if len(called) == len(pairs):
            loop.stop()

    try:
        for index, (ours, theirs) in enumerate(pairs):
            loop.add_reader(ours, call, index)
            theirs.send(b"x")
        run_forever()
        assert called == set(range(len(pairs)))
    finally:
        for ours, theirs in pairs:
            ours.close(), theirs.close()


def test_two_loops_may_register_one_socket(loop_factory, pair):
    ours, theirs = pair
    theirs.send(b"x")
    called = []
    for name in ("one", "two"):
        loop = loop_factory()
        loop.add_reader(ours, lambda name=name, loop=loop: (called.append(name), loop.stop()))
        loop.call_later(30, loop.stop)
        loop.run_forever()
        loop.remove_reader(ours)
    assert called == ["one", "two"]


@pytest.mark.parametrize("paused", [False, True])
def test_the_fd_of_a_transport_cannot_be_registered(loop, run, pair, paused):
    ours, _ = pair

    async def main():
        transport, _ = await loop.connect_accepted_socket(asyncio.Protocol, ours)
        fd = transport.get_extra_info("socket").fileno()
        if paused:
            transport.pause_reading()
        for method in (loop.add_reader, loop.add_writer):
            with pytest.raises(RuntimeError, match="is used by transport"):
                method(fd, print)
        for method in (loop.remove_reader, loop.remove_writer):
            with pytest.raises(RuntimeError, match="is used by transport"):
                method(fd)
        transport.close()
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    run(main())
