"""add_reader and add_writer: descriptors that the program reads and writes itself."""

import asyncio
import os
import socket
import tempfile

import pytest


@pytest.fixture
def pair():
    ours, theirs = socket.socketpair()
    for end in (ours, theirs):
        end.setblocking(False)
    with ours, theirs:
        yield ours, theirs


@pytest.fixture
def pipe():
    ends = list(os.pipe())
    yield ends
    for fd in ends:
        try:
            os.close(fd)
        except OSError:
            pass  # closed by the test


def test_a_reader_is_called_with_its_arguments_when_there_is_something_to_read(
    loop, run_forever, run_pass, pair
):
    ours, theirs = pair
    got = []
    loop.add_reader(ours, lambda *args: (got.append((args, ours.recv(10))), loop.stop()), 1, "two")
    run_pass()
    assert got == []
    theirs.send(b"hello")
    run_forever()
    assert got == [((1, "two"), b"hello")]
    assert loop.remove_reader(ours) is True


def test_a_writer_is_called_while_there_is_room(loop, run_forever, pair):
    ours, _ = pair
    count = []
    loop.add_writer(ours, lambda: (count.append(1), len(count) == 3 and loop.stop()))
    run_forever()
    assert len(count) == 3
    assert loop.remove_writer(ours) is True


@pytest.mark.parametrize("kind", ["number", "socket", "fileno"])
def test_descriptors_and_objects_with_a_fileno_are_the_same(loop, run_forever, pair, kind):
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


def test_add_reader_gives_nothing_back(loop, pair):
    assert loop.add_reader(pair[0], print) is None
    assert loop.add_writer(pair[0], print) is None
    loop.remove_reader(pair[0])
    loop.remove_writer(pair[0])


def test_what_is_not_read_is_announced_again(loop, run_forever, pair):
    ours, theirs = pair
    theirs.send(b"abc")
    got = []

    def read_one():
        got.append(ours.recv(1))
        if len(got) == 3:
            loop.stop()

    loop.add_reader(ours, read_one)
    run_forever()
    assert got == [b"a", b"b", b"c"]
    loop.remove_reader(ours)


def test_a_second_reader_replaces_the_first(loop, run_forever, pair):
    ours, theirs = pair
    called = []
    loop.add_reader(ours, called.append, "first")
    loop.add_reader(ours, lambda: (called.append("second"), loop.stop()))
    theirs.send(b"x")
    run_forever()
    assert called == ["second"]
    assert loop.remove_reader(ours) is True
    assert loop.remove_reader(ours) is False


def test_a_reader_replaced_in_the_pass_that_would_call_it_is_not_called(loop, run_forever, pair):
    ours, theirs = pair
    called = []
    other, peer = socket.socketpair()
    with other, peer:

        def replace_other(this, that):
            called.append("one")
            loop.add_reader(that, lambda: None)
            loop.remove_reader(this)
            loop.stop()

        loop.add_reader(ours, replace_other, ours, other)
        loop.add_reader(other, replace_other, other, ours)
        theirs.send(b"x")
        peer.send(b"x")
        run_forever()
        assert called == ["one"]
        loop.remove_reader(ours)
        loop.remove_reader(other)


def test_remove_says_whether_there_was_one(loop, pair):
    ours, _ = pair
    assert loop.remove_reader(ours) is False
    assert loop.remove_writer(ours) is False
    loop.add_reader(ours, print)
    assert loop.remove_writer(ours) is False
    assert loop.remove_reader(ours) is True
    assert loop.remove_reader(ours) is False


def test_a_reader_that_removes_itself_is_called_once(loop, run_pass, pair):
    ours, theirs = pair
    called = []
    loop.add_reader(ours, lambda: called.append(loop.remove_reader(ours)))
    theirs.send(b"x")
    while not called:
        run_pass()
    run_pass()
    run_pass()
    assert called == [True]


def test_a_removed_reader_can_be_added_again(loop, run_forever, pair):
    ours, theirs = pair
    theirs.send(b"x")
    for _ in range(3):
        loop.add_reader(ours, loop.stop)
        run_forever()
        assert loop.remove_reader(ours) is True


def test_both_directions_of_one_socket(loop, run_forever, pair):
    ours, theirs = pair
    called = []

    def call(name):
        called.append(name)
        if {"reader", "writer"} <= set(called):
            loop.stop()

    loop.add_reader(ours, call, "reader")
    loop.add_writer(ours, call, "writer")
    theirs.send(b"x")
    run_forever()
    called.clear()
    assert loop.remove_writer(ours) is True
    loop.add_reader(ours, lambda: (called.append("reader"), loop.stop()))
    run_forever()
    assert called == ["reader"]
    assert loop.remove_reader(ours) is True
    loop.add_writer(ours, lambda: (called.append("writer"), loop.stop()))
    run_forever()
    assert called == ["reader", "writer"]
    assert loop.remove_writer(ours) is True


def test_the_reader_comes_before_the_writer(loop, run_pass, pair):
    ours, theirs = pair
    called = []
    loop.add_writer(ours, called.append, "writer")
    loop.add_reader(ours, called.append, "reader")
    theirs.send(b"x")
    run_pass()
    run_pass()
    assert called[:2] == ["reader", "writer"]
    loop.remove_reader(ours)
    loop.remove_writer(ours)


def test_a_reader_may_remove_the_writer_of_the_same_event(loop, run_forever, pair):
    ours, theirs = pair
    called = []
    loop.add_writer(ours, called.append, "writer")
    loop.remove_writer(ours)

    def read():
        called.append("reader")
        loop.remove_writer(ours)
        loop.stop()

    loop.add_reader(ours, read)
    theirs.send(b"x")
    loop.add_writer(ours, called.append, "writer")
    run_forever()
    assert called == ["reader"]
    loop.remove_reader(ours)


def test_a_reader_removed_by_another_of_the_same_pass_does_not_run(loop, run_forever, pair):
    first, second = pair
    first.send(b"x")
    second.send(b"x")
    called = []

    def remove(this, other):
        called.append("one")
        assert loop.remove_reader(other) is True
        loop.stop()

    loop.add_reader(first, remove, first, second)
    loop.add_reader(second, remove, second, first)
    run_forever()
    assert called == ["one"]
    loop.remove_reader(first)
    loop.remove_reader(second)


def test_a_number_that_is_reused_belongs_to_the_new_owner(loop, run_forever):
    called = []
    ours, theirs = socket.socketpair()
    number = ours.fileno()
    loop.add_reader(number, called.append, "old")
    assert loop.remove_reader(number) is True
    ours.close(), theirs.close()
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


@pytest.mark.mainspring_only
def test_a_descriptor_closed_without_a_word_can_be_watched_again_under_the_same_number(loop, run_forever):
    # asyncio believes that it still watches the number, and never calls the new reader.
    called = []
    ours, theirs = socket.socketpair()
    number = ours.fileno()
    loop.add_reader(number, called.append, "old")
    ours.close(), theirs.close()
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


def test_removing_a_reader_after_its_socket_closed(loop, run_pass):
    ours, theirs = socket.socketpair()
    number = ours.fileno()
    loop.add_reader(number, print)
    ours.close(), theirs.close()
    assert loop.remove_reader(number) is True
    assert loop.remove_reader(number) is False
    run_pass()


@pytest.mark.parametrize("method", ["add_reader", "add_writer"])
@pytest.mark.parametrize(
    "wrong",
    [-1, -(2**31), 2**31, 2**63, 2**70, None, "0", 1.5, object(), b"", [], (1,)],
    ids=lambda value: type(value).__name__ + (repr(value)[:8] if isinstance(value, int) else ""),
)
def test_what_is_no_descriptor_is_refused_as_asyncio_refuses_it(loop_factory, method, wrong):
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
def test_removing_what_is_no_descriptor_is_a_value_error(loop, method, wrong):
    with pytest.raises(ValueError):
        getattr(loop, method)(wrong)


def test_removing_a_number_that_was_never_watched_is_no_error(loop):
    assert loop.remove_reader(12345) is False
    assert loop.remove_writer(12345) is False


def test_a_closed_descriptor_is_refused(loop):
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


def test_an_exception_of_fileno_comes_through(loop):
    class File:
        def fileno(self):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        loop.add_reader(File(), print)


def test_after_close_nothing_is_watched(loop, pair):
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
    assert got == [b"data", b""], "the end of the pipe is announced"
    loop.remove_reader(read_end)


def test_a_writer_hears_that_the_reading_end_is_gone(loop, run_forever, pipe):
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


def test_event_descriptors(loop, run_forever, run_pass):
    if not hasattr(os, "eventfd"):
        pytest.skip("os.eventfd is not there")
    fd = os.eventfd(0, os.EFD_NONBLOCK)
    try:
        got = []
        loop.add_reader(fd, lambda: (got.append(os.eventfd_read(fd)), loop.stop()))
        run_pass()
        assert got == []
        os.eventfd_write(fd, 3)
        run_forever()
        assert got == [3]
        loop.remove_reader(fd)
    finally:
        os.close(fd)


def test_a_reader_that_raises_is_reported_and_stays(loop, run_pass, reported, pair):
    ours, theirs = pair
    error = LookupError("reader")

    def fail():
        ours.recv(1)
        raise error

    loop.add_reader(ours, fail)
    theirs.send(b"ab")
    while len(reported) < 2:
        run_pass()
    assert [context["exception"] for context in reported] == [error, error]
    assert "fail" in reported[0]["message"]
    reported.clear()
    assert loop.remove_reader(ours) is True


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_in_a_reader_leaves_the_loop(loop, run_forever, pair, kind):
    ours, theirs = pair

    def leave():
        ours.recv(1)
        raise kind

    loop.add_reader(ours, leave)
    theirs.send(b"x")
    with pytest.raises(kind):
        run_forever()
    assert loop.remove_reader(ours) is True


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
        # The loop goes on without it.
        loop.call_soon(loop.stop)
        run_forever()


def test_a_reader_may_close_the_other_socket_of_the_pass_and_open_a_new_one(loop, run_forever):
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
            # Most likely with the number of the one that was closed; nothing waits to be read here.
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


def test_every_one_of_many_descriptors_is_announced(loop, run_forever):
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


def test_two_loops_may_watch_one_socket(loop_factory, pair):
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


def test_a_reader_does_not_starve_the_ready_calls(loop, run_forever, pair):
    ours, theirs = pair
    theirs.send(b"x")
    loop.add_reader(ours, lambda: None)
    left = [100]

    def step():
        left[0] -= 1
        if left[0]:
            loop.call_soon(step)
        else:
            loop.stop()

    loop.call_soon(step)
    run_forever()
    loop.remove_reader(ours)


def test_ready_calls_do_not_starve_a_reader(loop, run_forever, pair):
    ours, theirs = pair

    def spin():
        loop.call_soon(spin)

    loop.add_reader(ours, loop.stop)
    loop.call_soon(spin)
    loop.call_soon(theirs.send, b"x")
    run_forever()
    loop.remove_reader(ours)


@pytest.mark.parametrize("paused", [False, True])
def test_the_descriptor_of_a_transport_cannot_be_watched(loop, run, pair, paused):
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
