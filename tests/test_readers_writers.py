"""add_reader and add_writer: which callback is called for which readiness, and when."""

import socket

import pytest


def test_a_reader_is_called_with_its_arguments_when_data_is_readable(loop, run_forever, run_iteration, pair):
    ours, theirs = pair
    got = []
    loop.add_reader(ours, lambda *args: (got.append((args, ours.recv(10))), loop.stop()), 1, "two")
    run_iteration()
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


def test_add_reader_returns_none(loop, pair):
    assert loop.add_reader(pair[0], print) is None
    assert loop.add_writer(pair[0], print) is None
    loop.remove_reader(pair[0])
    loop.remove_writer(pair[0])


def test_unread_data_calls_the_reader_again(loop, run_forever, pair):
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


def test_a_reader_replaced_in_the_iteration_that_would_call_it_is_not_called(loop, run_forever, pair):
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


def test_remove_returns_whether_a_callback_was_registered(loop, pair):
    ours, _ = pair
    assert loop.remove_reader(ours) is False
    assert loop.remove_writer(ours) is False
    loop.add_reader(ours, print)
    assert loop.remove_writer(ours) is False
    assert loop.remove_reader(ours) is True
    assert loop.remove_reader(ours) is False


def test_a_reader_that_removes_itself_is_called_once(loop, run_iteration, pair):
    ours, theirs = pair
    called = []
    loop.add_reader(ours, lambda: called.append(loop.remove_reader(ours)))
    theirs.send(b"x")
    while not called:
        run_iteration()
    run_iteration()
    run_iteration()
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


def test_the_reader_runs_before_the_writer(loop, run_iteration, pair):
    ours, theirs = pair
    called = []
    loop.add_writer(ours, called.append, "writer")
    loop.add_reader(ours, called.append, "reader")
    theirs.send(b"x")
    run_iteration()
    run_iteration()
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


def test_a_reader_removed_by_another_in_the_same_iteration_does_not_run(loop, run_forever, pair):
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


def test_a_reader_that_raises_is_reported_and_stays_registered(loop, run_iteration, reported, pair):
    ours, theirs = pair
    error = LookupError("reader")

    def fail():
        ours.recv(1)
        raise error

    loop.add_reader(ours, fail)
    theirs.send(b"ab")
    while len(reported) < 2:
        run_iteration()
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
