"""The differential tests must detect bugs: transports with planted faults have to be found."""

from __future__ import annotations

import asyncio
from asyncio import selector_events

import compare
import hypothesis
import pytest
from compare import program_of, run_on
from connections import Tcp, Unix, steps

Sound = selector_events._SelectorSocketTransport


class CallsConnectionLostAtOnce(Sound):
    """abort() calls connection_lost() instead of scheduling it."""

    def abort(self):
        if not self._conn_lost:
            self._conn_lost += 1
            self._closing = True
            self._loop._remove_reader(self._sock_fd)
            self._loop._remove_writer(self._sock_fd)
            self._buffer.clear()
            self._call_connection_lost(None)


class NeverResumes(Sound):
    """A protocol that was paused stays paused."""

    def _maybe_resume_protocol(self):
        pass


class SwallowsExceptions(Sound):
    """Exceptions in callbacks are not reported."""

    def _fatal_error(self, exc, message="Fatal error on transport"):
        self._force_close(exc)


class ClosesAtTheEndOfTheStream(Sound):
    """eof_received() returning True does not keep the transport open."""

    def _read_ready__on_eof(self):
        super()._read_ready__on_eof()
        self.close()


class DropsQueuedDataOnClose(Sound):
    """close() drops queued data."""

    def close(self):
        self.abort()


class PausesTooLate(Sound):
    """The high-water mark is 1,000,000 bytes too high."""

    def set_write_buffer_limits(self, high=None, low=None):
        super().set_write_buffer_limits(high, low)
        self._high_water += 1_000_000


class CallsTheOldProtocol(Sound):
    """set_protocol() has no effect after the first call."""

    def set_protocol(self, protocol):
        if getattr(self, "_protocol", None) is None:
            super().set_protocol(protocol)


class IsLateByOneIteration(Sound):
    """connection_lost() comes one iteration late."""

    def _force_close(self, exc):
        if not self._conn_lost:
            super()._force_close(None if exc is None else exc)

    def _call_connection_lost(self, exc, late=False):
        if late:
            super()._call_connection_lost(exc)
        else:
            self._loop.call_soon(self._call_connection_lost, exc, True)


FAULTS = [
    CallsConnectionLostAtOnce,
    NeverResumes,
    SwallowsExceptions,
    ClosesAtTheEndOfTheStream,
    DropsQueuedDataOnClose,
    PausesTooLate,
    CallsTheOldProtocol,
    IsLateByOneIteration,
]


@pytest.mark.parametrize("world", [Tcp, Unix])
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_planted_fault_is_found(fault, world, monkeypatch):
    class Faulty(asyncio.SelectorEventLoop):
        def _make_socket_transport(self, sock, protocol, waiter=None, **options):
            return fault(self, sock, protocol, waiter, **options)

    monkeypatch.setitem(compare.LOOPS, "mainspring", Faulty)

    def differs(program):
        try:
            compare.same_on_both(world, program)
        except AssertionError:
            return True
        return False

    settings = hypothesis.settings(
        max_examples=600,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[hypothesis.Phase.generate],
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    program = hypothesis.find(program_of(steps), differs, settings=settings)
    with pytest.raises(AssertionError, match="the loops differ after these operations"):
        compare.same_on_both(world, program)


def test_asyncio_agrees_with_itself(monkeypatch):
    """Differences are not caused by the kernel or the clock."""
    monkeypatch.setitem(compare.LOOPS, "mainspring", asyncio.SelectorEventLoop)

    @compare.programs(200)
    @hypothesis.given(program_of(steps))
    def agrees(program):
        assert run_on(asyncio.SelectorEventLoop, Tcp, program) == run_on(
            asyncio.SelectorEventLoop, Tcp, program
        )

    agrees()
